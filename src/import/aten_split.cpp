// Taking tensors apart and putting them together.
#include <algorithm>
#include <limits>

#include "import/aten.h"
#include "import/indices.h"

namespace swoop {

namespace {

// `length` elements from a start that depends on the data
ValueId from_counted(Call& c, ValueId x, int64_t axis, ValueId start, int64_t length) {
  if (length < 0 || length > c.dim(x, axis)) malformed("it takes {} elements of {}", length, c.dim(x, axis));
  ValueId index = from_start(c, c.reshape(start, {1}), c.dim(x, axis));
  if (length != 1) index = c.add(index, c.counted(length, c.dtype(index)));
  return c.make(Op::Gather, {x, index}, {{Key::Axis, axis}});
}

Results select(Call& c) {
  ValueId x = c.tensor(0);
  int64_t axis = c.axis(1, c.rank(x));
  if (c.is_number(2)) return c.select(x, axis, c.integer(2));
  return c.reshape(from_counted(c, x, axis, c.tensor(2), 1), c.result().shape);
}

Results slice(Call& c) {
  ValueId x = c.tensor(0);
  if (!c.none(2) && !c.is_number(2)) {
    int64_t axis = c.axis(1, c.rank(x));
    if (c.integer(4) != 1 || c.result().rank() != c.rank(x))
      unsupported("a step from a start that depends on the data");
    return from_counted(c, x, axis, c.tensor(2), c.result().shape[static_cast<size_t>(axis)]);
  }
  return c.slice(x, c.axis(1, c.rank(x)), c.integer(2, 0), c.integer(3, std::numeric_limits<int64_t>::max()),
                 c.integer(4));
}

Results narrow(Call& c) {
  ValueId x = c.tensor(0);
  int64_t axis = c.axis(1, c.rank(x));
  int64_t size = c.dim(x, axis);
  int64_t length = c.integer(3);
  if (!c.is_number(2)) return from_counted(c, x, axis, c.tensor(2), length);
  int64_t start = c.integer(2);
  if (start < 0) start += size;
  if (start < 0 || length < 0 || start > size || length > size - start)
    malformed("it takes {} elements from {} of {}", length, start, size);
  return c.slice(x, axis, start, start + length);
}

// split, chunk, tensor_split: pieces in a row, of the sizes that the exporter has worked out.
std::vector<ValueId> pieces(Call& c, ValueId x, int64_t axis) {
  std::vector<ValueId> parts;
  int64_t start = 0;
  for (const Type& piece : c.results) {
    if (piece.rank() != c.rank(x)) malformed("one of its results has another rank than its input");
    int64_t end = start + piece.shape[static_cast<size_t>(axis)];
    parts.push_back(c.slice(x, axis, start, end));
    start = end;
  }
  if (start != c.dim(x, axis)) malformed("its pieces do not make up the whole");
  return parts;
}

Results split(Call& c) {
  ValueId x = c.tensor(0);
  return pieces(c, x, c.axis(2, c.rank(x)));
}

Results unbind(Call& c) {
  ValueId x = c.tensor(0);
  int64_t axis = c.axis(1, c.rank(x));
  if (static_cast<int64_t>(c.results.size()) != c.dim(x, axis))
    malformed("it has {} results for {} elements", c.results.size(), c.dim(x, axis));
  std::vector<ValueId> parts;
  for (int64_t i = 0; i < c.dim(x, axis); ++i) parts.push_back(c.select(x, axis, i));
  return parts;
}

// Along the axis that the name of the operator means
template <int64_t axis>
Results split_axis(Call& c) {
  ValueId x = c.tensor(0);
  return pieces(c, x, axis == 1 && c.rank(x) == 1 ? 0 : axis);
}

std::vector<ValueId> operands(Call& c) {
  std::vector<ValueId> list = c.tensors(0);
  if (list.empty()) malformed("it joins no tensors");
  for (ValueId& x : list) {
    if (x == kNone) malformed("it joins a tensor that is None");
    if (c.dtype(x) != c.result().dtype) x = c.cast(x, c.result().dtype);
  }
  return list;
}

Results cat(Call& c) {
  std::vector<ValueId> list = operands(c);
  int rank = c.result().rank();
  // PyTorch lets empty one-dimensional tensors join anything.
  std::erase_if(list, [&](ValueId x) { return rank != 1 && c.shape(x) == Shape{0}; });
  if (list.empty()) malformed("it joins no tensors");
  return c.concat(std::move(list), c.axis(1, rank));
}

ValueId stacked(Call& c, std::vector<ValueId> list, int64_t axis) {
  for (ValueId& x : list) x = c.unsqueeze(x, axis);
  return c.concat(std::move(list), axis);
}

Results stack(Call& c) { return stacked(c, operands(c), c.axis(1, c.result().rank())); }

Results hstack(Call& c) {
  std::vector<ValueId> list = operands(c);
  for (ValueId& x : list)
    if (c.rank(x) == 0) x = c.reshape(x, {1});
  return c.concat(list, c.rank(list[0]) == 1 ? 0 : 1);
}

Results vstack(Call& c) {
  std::vector<ValueId> list = operands(c);
  for (ValueId& x : list)
    if (c.rank(x) < 2) x = c.reshape(x, {1, element_count(c.shape(x))});
  return c.concat(std::move(list), 0);
}

Results dstack(Call& c) {
  std::vector<ValueId> list = operands(c);
  for (ValueId& x : list) {
    if (c.rank(x) < 2) x = c.reshape(x, {1, element_count(c.shape(x))});
    if (c.rank(x) == 2) x = c.unsqueeze(x, 2);
  }
  return c.concat(std::move(list), 2);
}

Results column_stack(Call& c) {
  std::vector<ValueId> list = operands(c);
  for (ValueId& x : list)
    if (c.rank(x) < 2) x = c.reshape(x, {element_count(c.shape(x)), 1});
  return c.concat(std::move(list), 1);
}

// Each tensor in chunks of equal size (the last filled up with zeros), side by side
Results chunk_cat(Call& c) {
  std::vector<ValueId> list = operands(c);
  int64_t axis = c.integer(1), count = c.integer(2);
  if (count < 1) malformed("it makes {} chunks", count);
  for (ValueId& x : list) {
    int64_t at = normalised_axis(axis, c.rank(x)), size = (c.dim(x, at) + count - 1) / count;
    x = c.pad(x, at, 0, size * count - c.dim(x, at), 0);
    Shape shape(c.shape(x).begin(), c.shape(x).begin() + at);
    shape.insert(shape.end(), {count, element_count(c.shape(x)) / std::max<int64_t>(1, element_count(shape) * count)});
    x = c.reshape(x, std::move(shape));
  }
  return c.concat(list, c.rank(list[0]) - 1);
}

Results select_scatter(Call& c) {
  ValueId x = c.tensor(0);
  int64_t axis = c.axis(2, c.rank(x));
  int64_t size = c.dim(x, axis);
  int64_t index = c.integer(3);
  if (index < -size || index >= size) malformed("index {} of an axis with {} elements does not exist", index, size);
  if (index < 0) index += size;
  return write_slice(c, x, axis, index, 1, c.unsqueeze(c.cast(c.tensor(1), c.dtype(x)), axis));
}

Results slice_scatter(Call& c) {
  ValueId x = c.tensor(0);
  int64_t axis = c.axis(2, c.rank(x));
  int64_t size = c.dim(x, axis);
  auto inside = [size](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size); };
  int64_t start = inside(c.integer(3, 0));
  int64_t end = std::max(inside(c.integer(4, size)), start);
  int64_t step = c.integer(5);
  if (step < 1) malformed("a slice has step {}, which must be positive", step);
  Shape part = c.shape(x);
  int64_t count = (end - start) / step + ((end - start) % step != 0 ? 1 : 0);
  part[static_cast<size_t>(axis)] = count;
  ValueId src = c.expand(c.cast(c.tensor(1), c.dtype(x)), part);
  return write_slice(c, x, axis, start, step, src);
}

constexpr std::string_view kTensors = "tensors";

constexpr Row kSplitRows[] = {
    {"aten.select.int", "self, dim, index", select, "", RowKind::View},
    {"aten.slice.Tensor", "self, dim=0, start=None, end=None, step=1", slice, "", RowKind::View},
    {"aten.narrow.default", "self, dim, start, length", narrow, "", RowKind::View},
    {"aten.narrow.Tensor", "self, dim, start, length", narrow, "", RowKind::View},
    {"aten.split.Tensor", "self, split_size, dim=0", split, "", RowKind::View},
    {"aten.split.sizes", "self, split_size, dim=0", split, "", RowKind::View},
    {"aten.split_with_sizes.default", "self, split_sizes, dim=0", split, "", RowKind::View},
    {"aten.unsafe_split.Tensor", "self, split_size, dim=0", split},
    {"aten.unsafe_split_with_sizes.default", "self, split_sizes, dim=0", split},
    {"aten.chunk.default", "self, chunks, dim=0", split, "", RowKind::View},
    {"aten.unsafe_chunk.default", "self, chunks, dim=0", split},
    {"aten.tensor_split.sections", "self, sections, dim=0", split, "", RowKind::View},
    {"aten.tensor_split.indices", "self, indices, dim=0", split, "", RowKind::View},
    {"aten.unbind.int", "self, dim=0", unbind, "", RowKind::View},
    {"aten.cat.default", "tensors, dim=0", cat},
    {"aten.concat.default", "tensors, dim=0", cat},
    {"aten.concatenate.default", "tensors, dim=0", cat},
    {"aten.stack.default", "tensors, dim=0", stack},
    {"aten.hstack.default", kTensors, hstack},
    {"aten.vstack.default", kTensors, vstack},
    {"aten.row_stack.default", kTensors, vstack},
    {"aten.hsplit.int", "self, sections", split_axis<1>, "", RowKind::View},
    {"aten.hsplit.array", "self, indices", split_axis<1>, "", RowKind::View},
    {"aten.vsplit.int", "self, sections", split_axis<0>, "", RowKind::View},
    {"aten.vsplit.array", "self, indices", split_axis<0>, "", RowKind::View},
    {"aten.dsplit.int", "self, sections", split_axis<2>, "", RowKind::View},
    {"aten.dsplit.array", "self, indices", split_axis<2>, "", RowKind::View},
    {"aten.dstack.default", kTensors, dstack},
    {"aten.column_stack.default", kTensors, column_stack},
    {"aten._chunk_cat.default", "tensors, dim, num_chunks", chunk_cat},
    {"aten.select_scatter.default", "self, src, dim, index", select_scatter},
    {"aten.slice_scatter.default", "self, src, dim=0, start=None, end=None, step=1", slice_scatter},
};

}  // namespace

std::span<const Row> split_rows() { return kSplitRows; }

}  // namespace swoop
