// Reading by indices.
#include <algorithm>

#include "import/aten.h"
#include "import/indices.h"

namespace swoop {

namespace {

// Places that the model found itself count from the start.
bool is_found(const Graph& graph, ValueId index) {
  const Node* node = graph.producer(index);
  auto keeps = [](Op op) { return op == Op::Cast || op == Op::Reshape || op == Op::Slice || op == Op::Expand; };
  while (node && keeps(node->op)) node = graph.producer(node->inputs[0]);
  return node && (node->op == Op::ArgMax || node->op == Op::ArgMin);
}

}  // namespace

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
  if (is_found(c.graph, index)) return index;
  ValueId below = c.make(Op::Compare, {index, c.scalar(0, dtype)}, {{Key::Fn, std::string("lt")}});
  return c.make(Op::Where, {below, c.add(index, c.scalar(static_cast<double>(size), dtype)), index});
}

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

// numpy.take over all elements
Results take(Call& c) {
  ValueId x = c.tensor(0);
  int64_t size = element_count(c.shape(x));
  return gather(c, c.reshape(x, {size}), from_start(c, c.tensor(1), size), 0);
}

// gather with an index that is broadcast against x on the other axes
Results take_along_dim(Call& c) {
  ValueId x = c.tensor(0);
  ValueId index = c.tensor(1);
  if (c.none(2) || c.rank(x) == 0) {
    x = c.reshape(x, {element_count(c.shape(x))});
    index = c.reshape(index, {element_count(c.shape(index))});
  }
  int64_t axis = c.none(2) ? 0 : c.axis(2, c.rank(x));
  if (c.rank(index) != c.rank(x)) malformed("its index has {} dimensions", c.rank(index));
  Shape mine = c.shape(x), theirs = c.shape(index);
  for (int64_t d = 0; d < c.rank(x); ++d) {
    auto i = static_cast<size_t>(d);
    if (d != axis) mine[i] = theirs[i] = std::max(mine[i], theirs[i]);
  }
  index = c.expand(from_start(c, index, c.dim(x, axis)), theirs);
  return c.make(Op::GatherElements, {c.expand(x, mine), index}, {{Key::Axis, axis}});
}

constexpr Row kIndexRows[] = {
    {"aten.embedding.default", "weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False", embedding},
    {"aten.index_select.default", "self, dim, index", index_select},
    {"aten.index.Tensor", "self, indices", index_tensor},
    {"aten._unsafe_index.Tensor", "self, indices", index_tensor},
    {"aten.gather.default", "self, dim, index, *, sparse_grad=False", gather_elements},
    {"aten.take.default", "self, index", take},
    {"aten.take_along_dim.default", "self, indices, dim=None", take_along_dim},
};

}  // namespace

std::span<const Row> index_rows() { return kIndexRows; }

}  // namespace swoop
