// Reading by indices.
#include <algorithm>
#include <limits>
#include <numeric>

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

// An index in 32 bits. One that the model adds known numbers to, as to find the part of a table, is added in 32 bits
// too: it is from low to high where it is used, which bounds what it was before.
ValueId in_32_bits(Call& c, ValueId index, int64_t low, int64_t high) {
  const Node* sum = c.graph.producer(index);
  if (!sum || sum->op != Op::Add || c.dtype(index) != DType::I64) return as_32_bits(c, index);
  const std::vector<ValueId> terms = sum->inputs;
  const size_t known = c.graph.value(terms[0]).constant ? 0 : 1;
  const Value& number = c.graph.value(terms[known]);
  const int64_t count = number.constant && !number.type.quantized() ? element_count(number.type.shape) : 0;
  if (count == 0 || c.dtype(terms[1 - known]) != DType::I64) return as_32_bits(c, index);
  int64_t least = std::numeric_limits<int32_t>::max(), most = std::numeric_limits<int32_t>::min();
  for (int64_t i = 0; i < count; ++i) {
    const size_t at = static_cast<size_t>(i) * byte_size(number.type.dtype);
    const auto one = static_cast<int64_t>(load_element(number.data.data() + at, number.type.dtype));
    least = std::min(least, one);
    most = std::max(most, one);
  }
  low -= most;
  high -= least;
  if (low < std::numeric_limits<int32_t>::min() || high > std::numeric_limits<int32_t>::max())
    return as_32_bits(c, index);
  ValueId before = in_32_bits(c, terms[1 - known], low, high);
  before = c.clamp(before, static_cast<double>(low), static_cast<double>(high));
  return c.add(before, c.cast(terms[known], DType::I32));
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
  index = in_32_bits(c, index, -size, size - 1);
  if (is_found(c.graph, index)) return index;
  const auto count = static_cast<double>(size);
  ValueId given = c.clamp(index, -count, count - 1);  // no other exists, and sums with it have bounds
  return c.sub(given, c.scaled(c.clamp(given, -1.0, 0.0), count));
}

namespace {

ValueId gather(Call& c, ValueId x, ValueId index, int64_t axis) {
  return c.make(Op::Gather, {x, index}, {{Key::Axis, axis}});
}

Results embedding(Call& c) {
  ValueId table = c.tensor(0), index = c.tensor(1);
  const Node* made_by = c.graph.producer(index);
  if (made_by && made_by->op == Op::Add) index = in_32_bits(c, index, 0, c.dim(table, 0) - 1);
  return gather(c, table, index, 0);
}

Results index_select(Call& c) {
  ValueId x = c.tensor(0);
  ValueId index = c.tensor(2);
  if (c.rank(x) == 0) return c.expand(x, c.result().shape);
  if (c.rank(index) == 0) index = c.reshape(index, {1});
  return c.reshape(gather(c, x, index, c.axis(1, c.rank(x))), c.result().shape);
}

// x[:, i, j]: neighbouring axes are joined into one, and their indices with them. Axes that are not neighbours come
// first, where PyTorch puts what they give.
ValueId index_axes(Call& c, ValueId x, std::vector<ValueId> indices) {
  if (static_cast<int>(indices.size()) > c.rank(x))
    malformed("it has {} indices for {} dimensions", indices.size(), c.rank(x));
  auto given = [](ValueId index) { return index != kNone; };
  auto first = std::find_if(indices.begin(), indices.end(), given);
  auto last = std::find_if_not(first, indices.end(), given);
  if (first == indices.end()) return x;
  if (std::any_of(last, indices.end(), given)) {
    Ints order;
    for (bool wanted : {true, false})
      for (int64_t d = 0; d < c.rank(x); ++d)
        if ((d < static_cast<int64_t>(indices.size()) && given(indices[static_cast<size_t>(d)])) == wanted)
          order.push_back(d);
    std::erase(indices, kNone);
    return index_axes(c, c.transpose(x, std::move(order)), std::move(indices));
  }
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

Results index_tensor(Call& c) { return index_axes(c, c.tensor(0), c.tensors(1)); }

// x[indices] where the mask holds, which is broadcast against it, else a number. Where it does not, an index may be
// anything.
Results masked_index(Call& c) {
  ValueId x = c.tensor(0), mask = c.tensor(1);
  std::vector<ValueId> indices = c.tensors(2);
  for (size_t axis = 0; axis < indices.size(); ++axis)
    if (indices[axis] != kNone) indices[axis] = inside(c, indices[axis], c.dim(x, static_cast<int64_t>(axis)));
  return c.where(mask, index_axes(c, x, std::move(indices)), c.operand(3, c.dtype(x)));
}

// -- strides: what stands where is known, so elements are chosen by constants

// Where the elements of a view of these sizes and strides stand among all elements in a row
std::vector<int64_t> places_of(Call& c, size_t size_arg, int64_t elements) {
  if (!c.contiguous(0)) unsupported("strides of a tensor that is not row-major");
  Ints size = c.ints(size_arg), stride = c.ints(size_arg + 1);
  if (size.size() != stride.size()) malformed("it has {} sizes and {} strides", size.size(), stride.size());
  std::vector<int64_t> places = {c.integer(size_arg + 2, 0)};
  if (places[0] < 0 || places[0] >= elements) malformed("it begins at element {} of {}", places[0], elements);
  for (size_t d = 0; d < size.size(); ++d) {
    checked_count({static_cast<int64_t>(places.size()), size[d]}, c.name);
    if (size[d] > 1 && (stride[d] < 0 || stride[d] >= elements))
      malformed("its stride {} leaves the tensor", stride[d]);
    std::vector<int64_t> more;
    for (int64_t place : places)
      for (int64_t i = 0; i < size[d]; ++i, place += stride[d]) {
        if (place >= elements) malformed("it reads element {} of {}", place, elements);
        more.push_back(place);
      }
    places = std::move(more);
  }
  return places;
}

ValueId in_a_row(Call& c, ValueId x) { return c.reshape(x, {element_count(c.shape(x))}); }

ValueId chosen_elements(Call& c, ValueId row, const std::vector<int64_t>& places, Shape shape) {
  ValueId index = c.filled(DType::I32, {static_cast<int64_t>(places.size())},
                           [&](int64_t i) { return places[static_cast<size_t>(i)]; });
  return c.reshape(gather(c, row, index, 0), std::move(shape));
}

Results as_strided(Call& c) {
  ValueId x = in_a_row(c, c.tensor(0));
  return chosen_elements(c, x, places_of(c, 1, c.dim(x, 0)), c.result().shape);
}

Results as_strided_scatter(Call& c) {
  ValueId x = in_a_row(c, c.tensor(0)), src = in_a_row(c, c.tensor(1));
  int64_t count = c.dim(x, 0);
  std::vector<int64_t> written = places_of(c, 2, count), from(static_cast<size_t>(count));
  if (static_cast<int64_t>(written.size()) != c.dim(src, 0)) malformed("its source has {} elements", c.dim(src, 0));
  std::iota(from.begin(), from.end(), int64_t{0});
  for (size_t i = 0; i < written.size(); ++i) from[static_cast<size_t>(written[i])] = count + static_cast<int64_t>(i);
  return chosen_elements(c, c.concat({x, src}, 0), from, c.result().shape);
}

// The numbers of whole rows of x, where an index only repeats them for each element of a row; kNone otherwise
ValueId rows_named_by(Call& c, ValueId x, ValueId index, int64_t axis) {
  const Node* made_by = c.graph.producer(index);
  const bool repeated = made_by && (made_by->op == Op::Expand || made_by->op == Op::Repeat);
  const ValueId once = repeated ? made_by->inputs[0] : index;
  Shape own = c.shape(once);
  if (own.size() > c.shape(index).size()) return kNone;
  own.insert(own.begin(), c.shape(index).size() - own.size(), 1);
  for (int64_t d = 0; d < c.rank(x); ++d) {
    const int64_t size = own[static_cast<size_t>(d)];
    if (d == axis ? size != c.dim(index, d) : size != 1 || c.dim(index, d) != c.dim(x, d)) return kNone;
  }
  return c.reshape(once, {c.dim(index, axis)});
}

// gather(x, i.expand(...)) chooses rows: one read for each, not one for each element
ValueId gather_along(Call& c, ValueId x, ValueId index, int64_t axis) {
  const ValueId rows = c.rank(x) == c.rank(index) ? rows_named_by(c, x, index, axis) : kNone;
  return rows == kNone ? c.make(Op::GatherElements, {x, index}, {{Key::Axis, axis}}) : gather(c, x, rows, axis);
}

Results gather_elements(Call& c) {
  ValueId x = c.tensor(0);
  if (c.rank(x) == 0) return c.expand(x, c.result().shape);
  return gather_along(c, x, c.tensor(2), c.axis(1, c.rank(x)));
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
  return gather_along(c, c.expand(x, mine), index, axis);
}

constexpr Row kIndexRows[] = {
    {"aten.embedding.default", "weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False", embedding},
    {"aten.index_select.default", "self, dim, index", index_select},
    {"aten.index.Tensor", "self, indices", index_tensor},
    {"aten._unsafe_index.Tensor", "self, indices", index_tensor},
    {"aten._unsafe_masked_index.default", "self, mask, indices, fill", masked_index},
    {"aten.as_strided.default", "self, size, stride, storage_offset=None", as_strided, "", RowKind::View},
    {"aten.as_strided_scatter.default", "self, src, size, stride, storage_offset=None", as_strided_scatter},
    {"aten.gather.default", "self, dim, index, *, sparse_grad=False", gather_elements},
    {"aten.take.default", "self, index", take},
    {"aten.take_along_dim.default", "self, indices, dim=None", take_along_dim},
};

}  // namespace

std::span<const Row> index_rows() { return kIndexRows; }

}  // namespace swoop
