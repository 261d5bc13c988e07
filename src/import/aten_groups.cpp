// Rows in groups: histograms, and products in which each group of rows meets a matrix of its own, as mixtures of
// experts compute them.
#include <cmath>

#include "import/aten.h"

namespace swoop {

namespace {

// The integers that a float value was cast from; the value itself if it was not
ValueId whole_numbers(Call& c, ValueId x) {
  const Node* cast = c.graph.producer(x);
  return cast && cast->op == Op::Cast && !is_float(c.dtype(cast->inputs[0])) ? cast->inputs[0] : x;
}

// How many elements each of `bins` equal parts of [min, max] holds. Of what was cast from integers, integers are
// compared, because floats would be rounded to 8 bits first.
Results histc(Call& c) {
  const int64_t bins = c.integer(1);
  const double min = c.real(2), max = c.real(3);
  if (bins < 1) malformed("it asks for {} bins", bins);
  if (min >= max) unsupported("a histogram of a range that the values decide");
  ValueId x = c.tensor(0);
  const DType result = c.dtype(x);
  x = whole_numbers(c, x);
  if (c.dtype(x) == DType::Bool) x = c.cast(x, DType::I32);
  const DType dtype = c.dtype(x);
  auto edge = [&](int64_t i) {
    double at = min + static_cast<double>(i) * (max - min) / static_cast<double>(bins);
    return is_float(dtype) ? at : std::ceil(at);
  };
  x = c.reshape(x, {1, element_count(c.shape(x))});
  ValueId lower = c.filled(dtype, {bins, 1}, edge);
  ValueId upper = c.filled(dtype, {bins, 1}, [&](int64_t i) { return edge(i + 1); });
  ValueId last = c.filled(DType::Bool, {bins, 1}, [&](int64_t i) { return int64_t{i == bins - 1}; });
  ValueId top = c.compare("le", x, c.scalar(is_float(dtype) ? max : std::floor(max), dtype));
  auto logical = [&](std::string fn, ValueId a, ValueId b) {
    return c.make(Op::Logical, {a, b}, {{Key::Fn, std::move(fn)}});
  };
  // The last part holds its upper edge, too.
  ValueId below = logical("or", c.compare("lt", x, upper), logical("and", last, top));
  ValueId held = logical("and", c.compare("ge", x, lower), below);
  return c.cast(c.reduce(Op::Sum, c.cast(held, DType::I64), {1}, false), result);
}

// x [rows, k] times matrices [groups, k, n]: group g has the rows from ends[g - 1] to ends[g]. All rows meet all
// matrices in one product, and each row keeps the part of its group, because where groups end depends on the data.
ValueId grouped_product(Call& c, ValueId x, ValueId matrices, ValueId ends) {
  if (c.rank(x) != 2 || c.rank(matrices) != 3 || c.rank(ends) != 1)
    unsupported("groups of operands with {} and {} dims", c.rank(x), c.rank(matrices));
  const int64_t rows = c.dim(x, 0), groups = c.dim(matrices, 0), depth = c.dim(matrices, 1), n = c.dim(matrices, 2);
  if (groups == 0 || c.dim(ends, 0) != groups) malformed("it has {} groups and {} ends", groups, c.dim(ends, 0));
  ValueId joined = c.reshape(c.swap(matrices, 1, 2), {groups * n, depth});
  ValueId all = c.linear(x, joined);
  ValueId row = c.reshape(c.counted(rows, c.dtype(ends)), {rows, 1});
  ValueId y = c.slice(all, 1, 0, n);
  for (int64_t g = 1; g < groups; ++g)
    y = c.where(c.compare("ge", row, c.slice(ends, 0, g - 1, g)), c.slice(all, 1, g * n, (g + 1) * n), y);
  return c.where(c.compare("lt", row, c.slice(ends, 0, groups - 1, groups)), y, c.scalar(0, c.dtype(y)));
}

Results grouped_mm(Call& c) {
  if (c.none(2)) return c.matmul(c.tensor(0), c.tensor(1));
  ValueId y = grouped_product(c, c.tensor(0), c.tensor(1), c.tensor(2));
  return c.cast(c.none(3) ? y : c.add(y, c.tensor(3)), c.result().dtype);
}

Results grouped_mm_fallback(Call& c) { return grouped_product(c, c.tensor(0), c.tensor(1), c.tensor(2)); }

constexpr Row kGroupRows[] = {
    {"aten.histc.default", "self, bins=100, min=0, max=0", histc},
    {"aten._grouped_mm.default", "self, mat2, offs=None, bias=None, out_dtype=None", grouped_mm},
    {"transformers.grouped_mm_fallback.default", "input, weight, offs", grouped_mm_fallback},
};

}  // namespace

std::span<const Row> group_rows() { return kGroupRows; }

}  // namespace swoop
