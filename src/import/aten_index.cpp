// Indexing by tensors.
#include <algorithm>

#include "import/aten.h"

namespace swoop {

namespace {

ValueId gather(Call& c, ValueId x, ValueId index, int64_t axis) {
  return c.make(Op::Gather, {x, index}, {{Key::Axis, axis}});
}

Results embedding(Call& c) { return gather(c, c.tensor(0), c.tensor(1), 0); }

Results index_select(Call& c) {
  ValueId x = c.tensor(0);
  ValueId index = c.tensor(2);
  if (c.rank(index) == 0) index = c.reshape(index, {1});
  return c.reshape(gather(c, x, index, c.axis(1, c.rank(x))), c.result().shape);
}

// Indices from the end count backwards. Known ones are turned round here, computed ones by the model.
ValueId from_start(Call& c, ValueId index, int64_t size) {
  if (c.dtype(index) == DType::Bool || c.dtype(index) == DType::U8) unsupported("indexing by a mask");
  const Value& value = c.graph.value(index);
  DType dtype = value.type.dtype;
  if (value.constant && !value.type.quantized()) {
    auto at = [&](int64_t i) {
      return static_cast<int64_t>(load_element(value.data.data() + static_cast<size_t>(i) * byte_size(dtype), dtype));
    };
    int64_t count = element_count(value.type.shape);
    bool negative = false;
    for (int64_t i = 0; i < count; ++i) {
      if (at(i) < -size || at(i) >= size) malformed("index {} of an axis with {} elements does not exist", at(i), size);
      negative |= at(i) < 0;
    }
    if (!negative) return index;
    return c.filled(dtype, value.type.shape, [&](int64_t i) { return at(i) < 0 ? at(i) + size : at(i); });
  }
  ValueId below = c.make(Op::Compare, {index, c.scalar(0, dtype)}, {{Key::Fn, std::string("lt")}});
  return c.make(Op::Where, {below, c.add(index, c.scalar(static_cast<double>(size), dtype)), index});
}

// x[:, i, j]: neighbouring axes are joined into one, and their indices with them.
Results index_tensor(Call& c) {
  ValueId x = c.tensor(0);
  std::vector<ValueId> indices = c.tensors(1);
  if (static_cast<int>(indices.size()) > c.rank(x))
    malformed("it has {} indices for {} dimensions", indices.size(), c.rank(x));
  auto given = [](ValueId index) { return index != kNone; };
  auto first = std::find_if(indices.begin(), indices.end(), given);
  auto last = std::find_if_not(first, indices.end(), given);
  if (first == indices.end()) return x;
  if (std::any_of(last, indices.end(), given)) unsupported("indexing of axes that are not neighbours");
  int64_t axis = first - indices.begin();
  ValueId joined = kNone;
  int64_t size = 1;
  for (auto at = first; at != last; ++at) {
    int64_t here = c.dim(x, at - indices.begin());
    ValueId index = from_start(c, *at, here);
    joined = joined == kNone ? index : c.add(c.scaled(joined, static_cast<double>(here)), index);
    size *= here;
  }
  Shape shape = c.shape(x);
  shape.erase(shape.begin() + axis, shape.begin() + (last - indices.begin()));
  shape.insert(shape.begin() + axis, size);
  return gather(c, c.reshape(x, std::move(shape)), joined, axis);
}

Results gather_elements(Call& c) {
  ValueId x = c.tensor(0);
  if (c.rank(x) == 0) unsupported("gather from a scalar");
  return c.make(Op::GatherElements, {x, c.tensor(2)}, {{Key::Axis, c.axis(1, c.rank(x))}});
}

ValueId scatter(Call& c, ValueId x, ValueId index, ValueId src, int64_t axis) {
  return c.make(Op::ScatterElements, {x, index, c.cast(src, c.dtype(x))}, {{Key::Axis, axis}});
}

Results scatter_src(Call& c) {
  ValueId x = c.tensor(0);
  ValueId index = c.tensor(2);
  ValueId src = c.tensor(3);
  if (c.rank(x) == 0 || c.shape(index) != c.shape(src)) unsupported("scatter of a part of its source");
  return scatter(c, x, index, src, c.axis(1, c.rank(x)));
}

Results scatter_value(Call& c) {
  ValueId x = c.tensor(0);
  ValueId index = c.tensor(2);
  if (c.rank(x) == 0) unsupported("scatter into a scalar");
  return scatter(c, x, index, c.expand(c.operand(3, c.dtype(x)), c.shape(index)), c.axis(1, c.rank(x)));
}

// x with x[..., index, ...] replaced by source, the index running along one axis.
ValueId write_rows(Call& c, ValueId x, int64_t axis, ValueId index, ValueId source) {
  if (c.rank(index) != 1) unsupported("writing by an index with {} dimensions", c.rank(index));
  Shape rows = c.shape(x);
  rows[static_cast<size_t>(axis)] = c.dim(index, 0);
  Shape along(rows.size(), 1);
  along[static_cast<size_t>(axis)] = c.dim(index, 0);
  ValueId wide = c.expand(c.reshape(from_start(c, index, c.dim(x, axis)), std::move(along)), rows);
  return scatter(c, x, wide, c.expand(source, rows), axis);
}

Results index_put(Call& c) {
  ValueId x = c.tensor(0);
  std::vector<ValueId> indices = c.tensors(1);
  if (c.flag(3)) unsupported("index_put that accumulates");
  if (std::count_if(indices.begin(), indices.end(), [](ValueId i) { return i != kNone; }) != 1)
    unsupported("index_put of several axes");
  int64_t axis = 0;
  while (indices[static_cast<size_t>(axis)] == kNone) ++axis;
  c.dim(x, axis);
  return write_rows(c, x, axis, indices[static_cast<size_t>(axis)], c.tensor(2));
}

Results index_copy(Call& c) {
  ValueId x = c.tensor(0);
  if (c.rank(x) == 0) unsupported("index_copy into a scalar");
  return write_rows(c, x, c.axis(1, c.rank(x)), c.tensor(2), c.tensor(3));
}

constexpr Row kIndexRows[] = {
    {"aten.embedding.default", "weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False", embedding},
    {"aten.index_select.default", "self, dim, index", index_select},
    {"aten.index.Tensor", "self, indices", index_tensor},
    {"aten._unsafe_index.Tensor", "self, indices", index_tensor},
    {"aten.gather.default", "self, dim, index, *, sparse_grad=False", gather_elements},
    {"aten.scatter.src", "self, dim, index, src", scatter_src},
    {"aten.scatter.value", "self, dim, index, value", scatter_value},
    {"aten.index_put.default", "self, indices, values, accumulate=False", index_put},
    {"aten.index_copy.default", "self, dim, index, source", index_copy},
};

}  // namespace

std::span<const Row> index_rows() { return kIndexRows; }

}  // namespace swoop
