// Data movement: results carry their input's type, quantization included. A per-channel axis follows its dim; where it
// cannot (a reshape that cuts through it), the result is f32.
#include <algorithm>

#include "ops/infer.h"
#include "ops/ref.h"
#include "ops/rows.h"

namespace swoop {

namespace {

// The type of x with a new shape. `axis`: where the per-channel dim of x ends up, -1 if it does not survive whole.
Result<Types> moved(const Node& node, const Type& x, Shape shape, int64_t axis) {
  TRY(check_shape(node, shape));
  Type type{x.dtype, std::move(shape), x.quant};
  if (x.quantized() && x.quant->per_channel()) {
    if (axis < 0) {
      type.dtype = DType::F32;
      type.quant.reset();
    } else {
      type.quant->axis = static_cast<int>(axis);
    }
  }
  return Types{std::move(type)};
}

int64_t channel_of(const Type& x) { return x.quantized() && x.quant->per_channel() ? x.quant->axis : -1; }

// Scales of the elements that `pick` chooses along the per-channel axis itself.
template <typename Pick>
void pick_channels(Type& type, int64_t count, Pick pick) {
  Quant quant = *type.quant;
  quant.scale.clear();
  quant.zero_point.clear();
  for (int64_t i = 0; i < count; ++i) {
    quant.scale.push_back(type.quant->scale[pick(i)]);
    quant.zero_point.push_back(type.quant->zero_point[pick(i)]);
  }
  type.quant = std::move(quant);
}

Result<Types> infer_reshape(const Graph& graph, const Node& node) {
  const Type& x = in_type(graph, node, 0);
  TRY_ASSIGN(const Ints* given, ints_attr(node, Key::Shape));
  Shape shape = *given;
  TRY(check_shape(node, shape));
  if (element_count(shape) != element_count(x.shape))
    return error("reshape of {} to {}: the numbers of elements differ", to_text(x.shape), to_text(shape));
  int64_t axis = -1;
  if (int64_t from = channel_of(x);
      from >= 0) {  // the dim survives if it has the same size and the same number of elements before it
    int64_t before = element_count(Shape(x.shape.begin(), x.shape.begin() + from));
    int64_t lead = 1;
    for (size_t i = 0; i < shape.size() && axis < 0; ++i) {
      if (lead == before && shape[i] == x.shape[static_cast<size_t>(from)]) axis = static_cast<int64_t>(i);
      lead *= shape[i];
    }
  }
  return moved(node, x, std::move(shape), axis);
}

Result<Types> infer_transpose(const Graph& graph, const Node& node) {
  const Type& x = in_type(graph, node, 0);
  TRY_ASSIGN(const Ints* perm, ints_attr(node, Key::Perm, x.rank()));
  Shape shape(x.shape.size());
  std::vector<bool> seen(x.shape.size(), false);
  int64_t axis = -1;
  for (size_t i = 0; i < shape.size(); ++i) {
    int64_t from = (*perm)[i];
    if (from < 0 || from >= x.rank() || seen[static_cast<size_t>(from)])
      return error("transpose has perm {}, which is not a permutation of {} dims", to_text(*perm), x.rank());
    seen[static_cast<size_t>(from)] = true;
    shape[i] = x.shape[static_cast<size_t>(from)];
    if (from == channel_of(x)) axis = static_cast<int64_t>(i);
  }
  return moved(node, x, std::move(shape), axis);
}

Result<Types> infer_concat(const Graph& graph, const Node& node) {
  const Type& x = in_type(graph, node, 0);
  TRY_ASSIGN(int64_t axis, axis_attr(node, x.rank()));
  auto at = static_cast<size_t>(axis);
  Type type = x;
  DType dtype = real_dtype(x);
  bool one_type = true;
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    const Type& next = in_type(graph, node, i);
    Shape like = next.shape;
    if (like.size() == x.shape.size()) like[at] = x.shape[at];
    if (like != x.shape)
      return error("concat over axis {} of {} and {}: the other sizes must agree", axis, to_text(x.shape),
                   to_text(next.shape));
    type.shape[at] = std::min(type.shape[at] + std::min(next.shape[at], kMaxElements), 2 * kMaxElements);
    dtype = promote(Type{dtype, x.shape, std::nullopt}, next);
    bool joins = next.dtype == x.dtype && next.quantized() == x.quantized();
    if (joins && x.quantized()) {
      Quant mine = *x.quant;
      Quant its = *next.quant;
      if (mine.axis == axis && its.axis == axis) {  // channels are laid side by side, and so are their scales
        type.quant->scale.insert(type.quant->scale.end(), its.scale.begin(), its.scale.end());
        type.quant->zero_point.insert(type.quant->zero_point.end(), its.zero_point.begin(), its.zero_point.end());
        mine.scale = its.scale = {};
        mine.zero_point = its.zero_point = {};
      }
      joins = mine == its;
    }
    one_type = one_type && joins;
  }
  if (!one_type) type = Type{dtype, type.shape, std::nullopt};
  TRY(check_shape(node, type.shape));
  return Types{std::move(type)};
}

Result<Types> infer_slice(const Graph& graph, const Node& node) {
  const Type& x = in_type(graph, node, 0);
  TRY_ASSIGN(int64_t axis, axis_attr(node, x.rank()));
  TRY_ASSIGN(int64_t start, integer_attr(node, Key::Start));
  TRY_ASSIGN(int64_t end, integer_attr(node, Key::End));
  TRY_ASSIGN(int64_t step, integer_attr(node, Key::Step));
  int64_t size = x.shape[static_cast<size_t>(axis)];
  if (step < 1 || start < 0 || start > end || end > size)
    return error("slice {}:{}:{} of a dim of size {}", start, end, step, size);
  Type type = x;
  int64_t count = (end - start) / step + ((end - start) % step != 0);
  type.shape[static_cast<size_t>(axis)] = count;
  if (channel_of(x) == axis)
    pick_channels(type, count, [&](int64_t i) { return static_cast<size_t>(start + i * step); });
  return Types{std::move(type)};
}

Result<Types> infer_pad(const Graph& graph, const Node& node) {
  const Type& x = in_type(graph, node, 0);
  TRY_ASSIGN(const Ints* padding, ints_attr(node, Key::Padding, 2 * x.rank()));
  TRY_ASSIGN(std::string_view mode, text_attr(node, Key::Mode));
  TRY(real_attr(node, Key::Value));
  if (mode != "constant" && mode != "reflect" && mode != "replicate" && mode != "circular")
    return error("pad has no mode {}", mode);
  Shape shape = x.shape;
  for (size_t i = 0; i < shape.size(); ++i) {
    int64_t before = (*padding)[2 * i];
    int64_t after = (*padding)[2 * i + 1];
    // Negative padding crops. reflect needs the mirrored elements, circular at most one turn, replicate something to
    // repeat.
    int64_t most = mode == "reflect" ? x.shape[i] - 1 : mode == "circular" ? x.shape[i] : kMaxElements;
    bool nothing = mode == "replicate" && x.shape[i] == 0 && (before > 0 || after > 0);
    if (std::max(before, after) > std::max<int64_t>(most, 0) || std::min(before, after) < -x.shape[i] || nothing)
      return error("pad with mode {} cannot add {} and {} to a dim of size {}", mode, before, after, x.shape[i]);
    shape[i] += before + after;
  }
  int64_t axis = channel_of(x);
  if (axis >= 0 &&
      ((*padding)[2 * static_cast<size_t>(axis)] != 0 || (*padding)[2 * static_cast<size_t>(axis) + 1] != 0))
    axis = -1;
  return moved(node, x, std::move(shape), axis);
}

Result<Types> infer_expand(const Graph& graph, const Node& node) {
  const Type& x = in_type(graph, node, 0);
  TRY_ASSIGN(const Ints* shape, ints_attr(node, Key::Shape, x.rank()));
  int64_t axis = channel_of(x);
  for (size_t i = 0; i < shape->size(); ++i) {
    if ((*shape)[i] == x.shape[i]) continue;
    if (x.shape[i] != 1) return error("expand of {} to {}: only sizes of 1 repeat", to_text(x.shape), to_text(*shape));
    if (axis == static_cast<int64_t>(i)) axis = -1;
  }
  return moved(node, x, *shape, axis);
}

Result<Types> infer_repeat(const Graph& graph, const Node& node) {
  const Type& x = in_type(graph, node, 0);
  TRY_ASSIGN(const Ints* multiples, ints_attr(node, Key::Multiples, x.rank()));
  Shape shape = x.shape;
  int64_t axis = channel_of(x);
  for (size_t i = 0; i < shape.size(); ++i) {
    int64_t times = (*multiples)[i];
    if (times < 0 || (times > 0 && shape[i] > kMaxElements / times))
      return error("repeat of {} by {} is not possible", to_text(x.shape), to_text(*multiples));
    shape[i] *= times;
    if (axis == static_cast<int64_t>(i) && times != 1) axis = -1;
  }
  return moved(node, x, std::move(shape), axis);
}

Result<Types> infer_flip(const Graph& graph, const Node& node) {
  Type type = in_type(graph, node, 0);
  TRY_ASSIGN(const Ints* axes, ints_attr(node, Key::Axes));
  for (int64_t axis : *axes) {
    if (axis < 0 || axis >= type.rank())
      return error("flip over axis {} of an operand with {} dims", axis, type.rank());
    int64_t count = type.shape[static_cast<size_t>(axis)];
    if (channel_of(type) == axis)
      pick_channels(type, count, [&](int64_t i) { return static_cast<size_t>(count - 1 - i); });
  }
  return Types{std::move(type)};
}

Result<void> check_index(const Node& node, const Type& index) {
  if (index.quantized() || !is_integer(index.dtype))
    return error("{} needs integer indices, not {}", name_of(node.op), to_text(index));
  return {};
}

Result<Types> infer_gather(const Graph& graph, const Node& node) {
  const Type& x = in_type(graph, node, 0);
  const Type& index = in_type(graph, node, 1);
  TRY(check_index(node, index));
  TRY_ASSIGN(int64_t axis, axis_attr(node, x.rank()));
  Shape shape(x.shape.begin(), x.shape.begin() + axis);
  shape.insert(shape.end(), index.shape.begin(), index.shape.end());
  shape.insert(shape.end(), x.shape.begin() + axis + 1, x.shape.end());
  int64_t channel = channel_of(x);
  if (channel == axis) channel = -1;
  if (channel > axis) channel += index.rank() - 1;
  return moved(node, x, std::move(shape), channel);
}

// torch.gather: along the other dims, index may be smaller than x.
Result<Types> infer_gather_elements(const Graph& graph, const Node& node) {
  const Type& x = in_type(graph, node, 0);
  const Type& index = in_type(graph, node, 1);
  TRY(check_index(node, index));
  if (x.rank() == 0 && index.rank() == 0) return moved(node, x, index.shape, -1);
  TRY_ASSIGN(int64_t axis, axis_attr(node, x.rank()));
  bool fits = index.rank() == x.rank();
  for (size_t i = 0; fits && i < x.shape.size(); ++i)
    fits = static_cast<int64_t>(i) == axis || index.shape[i] <= x.shape[i];
  if (!fits)
    return error("gather_elements over axis {} of {} with indices {}", axis, to_text(x.shape), to_text(index.shape));
  int64_t channel = channel_of(x);
  if (channel >= 0 &&
      (channel == axis || index.shape[static_cast<size_t>(channel)] != x.shape[static_cast<size_t>(channel)]))
    channel = -1;
  return moved(node, x, index.shape, channel);
}

Result<Types> infer_scatter_elements(const Graph& graph, const Node& node) {
  const Type& x = in_type(graph, node, 0);
  const Type& index = in_type(graph, node, 1);
  const Type& src = in_type(graph, node, 2);
  TRY(check_index(node, index));
  int64_t axis = 0;
  if (x.rank() > 0) {
    TRY_ASSIGN(axis, axis_attr(node, x.rank()));
  }
  bool fits = index.rank() == x.rank() && src.rank() == x.rank();
  for (size_t i = 0; fits && i < x.shape.size(); ++i)
    fits = index.shape[i] <= src.shape[i] && (static_cast<int64_t>(i) == axis || index.shape[i] <= x.shape[i]);
  if (!fits)
    return error("scatter_elements over axis {} of {} with indices {} and values {}", axis, to_text(x.shape),
                 to_text(index.shape), to_text(src.shape));
  if (real_dtype(x) != real_dtype(src)) return error("scatter_elements puts {} into {}", to_text(src), to_text(x));
  if (x.quant != src.quant || x.dtype != src.dtype || channel_of(x) >= 0) return one(node, real_dtype(x), x.shape);
  return moved(node, x, x.shape, -1);
}

constexpr Traits kMove = {.movement = true};
constexpr Traits kIndexed = {.movement = true, .selector = 1};

}  // namespace

const OpInfo kMovementOps[] = {
    {Op::Reshape, Policy::SameAsInput, kMove, 1, 1, infer_reshape, ref_reshape},
    {Op::Transpose, Policy::SameAsInput, kMove, 1, 1, infer_transpose, ref_transpose},
    {Op::Concat, Policy::Joins, kMove, 1, -1, infer_concat, ref_concat},
    {Op::Slice, Policy::SameAsInput, kMove, 1, 1, infer_slice, ref_slice},
    {Op::Pad, Policy::SameAsInput, kMove, 1, 1, infer_pad, ref_pad},
    {Op::Expand, Policy::SameAsInput, kMove, 1, 1, infer_expand, ref_expand},
    {Op::Repeat, Policy::SameAsInput, kMove, 1, 1, infer_repeat, ref_repeat},
    {Op::Flip, Policy::SameAsInput, kMove, 1, 1, infer_flip, ref_flip},
    {Op::Gather, Policy::SameAsInput, kIndexed, 2, 2, infer_gather, ref_gather},
    {Op::GatherElements, Policy::SameAsInput, kIndexed, 2, 2, infer_gather_elements, ref_gather_elements},
    {Op::ScatterElements, Policy::Joins, kIndexed, 3, 3, infer_scatter_elements, ref_scatter_elements},
};

}  // namespace swoop
