// The cores know four dims. regor takes more apart by itself, and in long chains of 16 and 32 bits it goes wrong there:
// constants of one element are read beyond their end, tables are looked up in the wrong one.
#include <algorithm>

#include "legalize/common.h"

namespace swoop {

namespace {

constexpr size_t kDimsOfCores = 4;

// Neighbouring dims that every operand and the result either have whole or do not have at all, and so may be one.
struct DimGroup {
  int64_t size;
  std::vector<bool> whole;  // of each operand, then of the result
};

// The last `kept` dims join nothing.
std::vector<DimGroup> groups_of(const std::vector<Shape>& shapes, size_t kept, int64_t max_axis) {
  std::vector<DimGroup> groups;
  const size_t rank = shapes[0].size();
  for (size_t dim = 0; dim < rank; ++dim) {
    DimGroup next{1, {}};
    for (const Shape& shape : shapes) next.size = std::max(next.size, shape[dim]);
    if (next.size == 1) continue;
    for (const Shape& shape : shapes) next.whole.push_back(shape[dim] != 1);
    if (dim + kept < rank && !groups.empty() && groups.back().whole == next.whole &&
        groups.back().size * next.size <= max_axis)
      groups.back().size *= next.size;
    else
      groups.push_back(std::move(next));
  }
  return groups;
}

Shape shape_in(const std::vector<DimGroup>& groups, size_t which) {
  Shape shape;
  for (const DimGroup& group : groups) shape.push_back(group.whole[which] ? group.size : 1);
  return shape;
}

// an elementwise operation or a reduction of more than four dims  ->  reshape, the same on four or fewer, reshape
bool join_dims(Rewriter& rw, const Node& n) {
  const Type out = rw.type(n.outputs[0]);
  if (!on_integers(rw.graph(), n) || n.outputs.size() != 1 || out.shape.size() <= kDimsOfCores) return false;
  std::vector<ValueId> values = n.inputs;
  values.push_back(n.outputs[0]);
  std::vector<Shape> shapes;
  for (ValueId id : values) {
    if (id == kNone) return false;
    const Type& type = rw.type(id);
    if (type.shape.size() != out.shape.size() || (type.quantized() && type.quant->per_channel())) return false;
    if (type.dtype == DType::Bool) return false;  // booleans.cpp moves them
    shapes.push_back(type.shape);
  }
  // Width and channels stay where that is possible. On 4 x 6 x 7 x 6 x 32, gelu and rsqrt over one row cost 1.4 times
  // as much (U55-128), and a sum over 1,008 x 32, with its result in DRAM, 7 times as much (U85-256).
  const int64_t max_axis = facts_of(rw).max_axis;
  std::vector<DimGroup> groups = groups_of(shapes, 2, max_axis);
  if (groups.size() > kDimsOfCores) groups = groups_of(shapes, 0, max_axis);
  if (groups.empty() || groups.size() > kDimsOfCores) return false;
  Attrs attrs = n.attrs;
  if (info(n.op).traits.reduction) {
    Ints axes;
    for (size_t i = 0; i < groups.size(); ++i)
      if (!groups[i].whole.back()) axes.push_back(static_cast<int64_t>(i));
    if (axes.empty() || !n.has(Key::Axes)) return false;
    attrs.set(Key::Axes, axes);
  }
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    const bool again = i > 0 && n.inputs[i] == n.inputs[0];  // x * x reads one value
    inputs.push_back(again ? inputs[0] : reshape(rw, n.inputs[i], shape_in(groups, i)));
  }
  ValueId joined = rw.make(n.op, inputs, attrs, with_shape(out, shape_in(groups, n.inputs.size())));
  rw.replace(n, reshape(rw, joined, out.shape));
  return true;
}

// a op b, [..., n, 1] and [..., 1, m] say, of which others read one too  ->  with one of them repeated beforehand. For
// the core it is best to keep the channels.
bool repeat_one_operand(Rewriter& rw, const Node& n) {
  const Shape out = rw.type(n.outputs[0]).shape;
  if (!facts_of(rw).loses_repeated_operands || !on_integers(rw.graph(), n) || n.inputs.size() != 2) return false;
  bool shared = false;
  for (ValueId input : n.inputs) {
    const Shape& shape = rw.type(input).shape;
    if (shape == out || shape.size() != out.size()) return false;
    shared |= is_shared(rw, input);
  }
  if (!shared) return false;
  const size_t which = rw.type(n.inputs[1]).shape.back() == out.back() ? 1 : 0;
  const Shape& from = rw.type(n.inputs[which]).shape;
  Ints multiples;
  for (size_t i = 0; i < out.size(); ++i) multiples.push_back(out[i] / from[i]);
  rw.set_input(n, which, rw.make(Op::Repeat, {n.inputs[which]}, {{Key::Multiples, multiples}}));
  return true;
}

// concat of products that were given leading dims of 1  ->  of the products as they are. On U55 and U65 regor writes a
// reshaped product to other places of the result.
bool concat_products(Rewriter& rw, const Node& n) {
  constexpr size_t kDims = 3;  // of a product
  const Type out = rw.type(n.outputs[0]);
  const size_t ones = out.shape.size() > kDims ? out.shape.size() - kDims : 0;
  if (ones == 0 || !on_integers(rw.graph(), n) || n.integer(Key::Axis) < static_cast<int64_t>(ones)) return false;
  auto without_ones = [&](const Shape& shape) {
    return Shape(shape.begin() + static_cast<std::ptrdiff_t>(ones), shape.end());
  };
  if (element_count(without_ones(out.shape)) != element_count(out.shape)) return false;
  auto is_product = [&](ValueId input) {
    const Node* view = rw.graph().producer(input);
    return view && view->op == Op::Reshape && rw.producer(*view, 0, Op::MatMul) &&
           rw.type(view->inputs[0]).shape == without_ones(rw.type(input).shape);
  };
  if (std::none_of(n.inputs.begin(), n.inputs.end(), is_product)) return false;
  std::vector<ValueId> parts;
  for (ValueId input : n.inputs) parts.push_back(reshape(rw, input, without_ones(rw.type(input).shape)));
  const int64_t axis = n.integer(Key::Axis) - static_cast<int64_t>(ones);
  ValueId joined = rw.make(Op::Concat, parts, {{Key::Axis, axis}}, with_shape(out, without_ones(out.shape)));
  rw.replace(n, reshape(rw, joined, out.shape));
  return true;
}

}  // namespace

std::span<const Rule> dims_rules() {
  static const Rule kRules[] = {
      {"concat-products", {Op::Concat}, concat_products},
      {"repeat-one-operand", ops_where([](const OpInfo& op) { return op.traits.elementwise && op.max_inputs == 2; }),
       repeat_one_operand},
      {"join-dims", ops_where([](const OpInfo& op) { return op.traits.elementwise || op.traits.reduction; }),
       join_dims}};
  return kRules;
}

}  // namespace swoop
