// Diagonals: read as strided slices of flattened matrices, written as choices by a constant mask.
#include <algorithm>

#include "import/aten.h"

namespace swoop {

namespace {

// x with axes a and b moved to the end, in that order
ValueId pair_last(Call& c, ValueId x, int64_t a, int64_t b) {
  if (a == b) malformed("a diagonal of axis {} with itself does not exist", a);
  Ints perm;
  for (int64_t d = 0; d < c.rank(x); ++d)
    if (d != a && d != b) perm.push_back(d);
  perm.insert(perm.end(), {a, b});
  return c.transpose(x, std::move(perm));
}

// The inverse: the last two axes become a and b.
ValueId pair_back(Call& c, ValueId x, int64_t a, int64_t b) {
  Ints perm(static_cast<size_t>(c.rank(x)));
  int64_t next = 0;
  for (int64_t d = 0; d < c.rank(x); ++d)
    perm[static_cast<size_t>(d)] = d == a ? c.rank(x) - 2 : d == b ? c.rank(x) - 1 : next++;
  return c.transpose(x, std::move(perm));
}

int64_t sane_offset(int64_t offset) {
  if (offset < -(int64_t{1} << 31) || offset > (int64_t{1} << 31)) malformed("its diagonal {} does not exist", offset);
  return offset;
}

// [..., rows, columns] -> [..., n]
ValueId diagonal_of(Call& c, ValueId x, int64_t offset) {
  int64_t rows = c.dim(x, c.rank(x) - 2), columns = c.dim(x, c.rank(x) - 1);
  int64_t count =
      std::max<int64_t>(0, offset >= 0 ? std::min(rows, columns - offset) : std::min(rows + offset, columns));
  Shape flat(c.shape(x).begin(), c.shape(x).end() - 2);
  flat.push_back(rows * columns);
  int64_t start = count == 0 ? 0 : offset >= 0 ? offset : -offset * columns;
  int64_t end = count == 0 ? 0 : start + (count - 1) * (columns + 1) + 1;
  return c.slice(c.reshape(x, std::move(flat)), c.rank(x) - 2, start, end, columns + 1);
}

Results diagonal(Call& c) {
  ValueId x = c.tensor(0);
  int64_t a = c.axis(2, c.rank(x));
  return diagonal_of(c, pair_last(c, x, a, c.axis(3, c.rank(x))), sane_offset(c.integer(1)));
}

// The values on a diagonal of `onto` [..., rows, columns], which keeps its other elements
ValueId on_diagonal(Call& c, ValueId values, ValueId onto, int64_t rows, int64_t columns, int64_t offset) {
  int64_t last = c.rank(values) - 1, count = c.dim(values, last);
  bool above = offset >= 0;  // then the values are told apart by their row, else by their column
  values = c.pad(values, last, 0, (above ? rows : columns) - count, 0);
  values = c.unsqueeze(values, above ? last + 1 : last);
  ValueId here =
      c.filled(DType::Bool, {rows, columns}, [&](int64_t i) { return int64_t{i % columns - i / columns == offset}; });
  return c.where(here, values, onto);
}

ValueId embedded(Call& c, ValueId values, int64_t offset) {
  int64_t size = c.dim(values, c.rank(values) - 1) + std::abs(offset);
  return on_diagonal(c, values, c.scalar(0, c.dtype(values)), size, size, offset);
}

Results diag_embed(Call& c) {
  ValueId x = embedded(c, c.tensor(0), sane_offset(c.integer(1)));
  int64_t a = c.axis(2, c.rank(x));
  return pair_back(c, x, a, c.axis(3, c.rank(x)));
}

Results diag(Call& c) {
  ValueId x = c.tensor(0);
  int64_t offset = sane_offset(c.integer(1));
  if (c.rank(x) == 2) return diagonal_of(c, x, offset);
  if (c.rank(x) != 1) malformed("it needs a vector or a matrix");
  return embedded(c, x, offset);
}

Results diagflat(Call& c) {
  ValueId x = c.tensor(0);
  return embedded(c, c.reshape(x, {element_count(c.shape(x))}), sane_offset(c.integer(1)));
}

Results diagonal_scatter(Call& c) {
  ValueId x = c.tensor(0);
  int64_t a = c.axis(3, c.rank(x)), b = c.axis(4, c.rank(x));
  ValueId onto = pair_last(c, x, a, b);
  ValueId values = c.cast(c.tensor(1), c.dtype(x));
  return pair_back(c, on_diagonal(c, values, onto, c.dim(x, a), c.dim(x, b), sane_offset(c.integer(2))), a, b);
}

Results trace(Call& c) {
  ValueId x = c.tensor(0);
  if (c.rank(x) != 2) malformed("it needs a matrix");
  return c.reduce(Op::Sum, c.cast(diagonal_of(c, x, 0), c.result().dtype), {0}, false);
}

// Matrices along the diagonal of a larger one
Results block_diag(Call& c) {
  std::vector<ValueId> blocks = c.tensors(0), rows;
  int64_t before = 0;
  if (c.result().rank() != 2) malformed("its result is not a matrix");
  for (ValueId block : blocks) {
    if (block == kNone || c.rank(block) > 2) malformed("it joins what is not a matrix");
    Shape shape = c.shape(block);
    shape.insert(shape.begin(), 2 - shape.size(), 1);
    block = c.cast(c.reshape(block, shape), c.result().dtype);
    rows.push_back(c.pad(block, 1, before, c.result().shape[1] - before - shape[1], 0));
    before += shape[1];
  }
  return c.concat(std::move(rows), 0);
}

constexpr Row kDiagonalRows[] = {
    {"aten.diagonal.default", "self, offset=0, dim1=0, dim2=1", diagonal, "", RowKind::View},
    {"aten.linalg_diagonal.default", "A, *, offset=0, dim1=-2, dim2=-1", diagonal, "", RowKind::View},
    {"aten.diag_embed.default", "self, offset=0, dim1=-2, dim2=-1", diag_embed},
    {"aten.diag.default", "self, diagonal=0", diag},
    {"aten.diagflat.default", "self, offset=0", diagflat},
    {"aten.diagonal_scatter.default", "self, src, offset=0, dim1=0, dim2=1", diagonal_scatter},
    {"aten.trace.default", "self", trace},
    {"aten.block_diag.default", "tensors", block_diag},
};

}  // namespace

std::span<const Row> diagonal_rows() { return kDiagonalRows; }

}  // namespace swoop
