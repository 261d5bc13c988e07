#include <algorithm>

#include "legalize/common.h"

namespace swoop {

namespace {

bool pure(const Rewriter& rw, const Node& n) { return rw.type(n.inputs[0]).quant == rw.type(n.outputs[0]).quant; }

// The transpose (or reshape) that makes input i, if it only moves.
const Node* mover(Rewriter& rw, const Node& n, size_t i, Op op) {
  const Node* found = rw.producer(n, i, op);
  return found && pure(rw, *found) ? found : nullptr;
}

// A constant, or a value with a single element: it can be brought into any layout for nothing.
bool movable(const Rewriter& rw, ValueId id) {
  const Value& value = rw.value(id);
  bool per_channel = value.type.quantized() && value.type.quant->per_channel();
  return !per_channel && (value.constant || element_count(value.type.shape) == 1);
}

// op(transpose(x, p)) along axes  ->  transpose(op(x) along the axes where they came from, p)
bool sink_transpose_past_axis_op(Rewriter& rw, const Node& n) {
  if (!on_integers(rw.graph(), n)) return false;
  bool reduces = info(n.op).traits.reduction;
  if (reduces && !n.flag(Key::Keepdim)) return false;
  const Type out = rw.type(n.outputs[0]);
  const Ints* perm = nullptr;
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    const Node* t = mover(rw, n, i, Op::Transpose);
    if (!t || (perm && *perm != t->ints(Key::Perm))) return false;
    perm = &t->ints(Key::Perm);
  }
  if (!perm || static_cast<int>(perm->size()) != out.rank()) return false;
  const Ints forward = *perm;
  if (wants_width(n.op))
    for (int64_t axis : n.ints(Key::Axes))
      if (forward[static_cast<size_t>(axis)] == out.rank() - 1) return false;
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < n.inputs.size(); ++i) inputs.push_back(rw.graph().producer(n.inputs[i])->inputs[0]);
  Attrs attrs = n.attrs;
  if (n.has(Key::Axis)) attrs.set(Key::Axis, forward[static_cast<size_t>(n.integer(Key::Axis))]);
  if (n.has(Key::Axes)) {
    Ints axes;
    for (int64_t axis : n.ints(Key::Axes)) axes.push_back(forward[static_cast<size_t>(axis)]);
    std::sort(axes.begin(), axes.end());
    attrs.set(Key::Axes, axes);
  }
  if (n.op == Op::Pad) {
    Ints padding(2 * forward.size());
    for (size_t i = 0; i < forward.size(); ++i) {
      padding[static_cast<size_t>(2 * forward[i])] = n.ints(Key::Padding)[2 * i];
      padding[static_cast<size_t>(2 * forward[i] + 1)] = n.ints(Key::Padding)[2 * i + 1];
    }
    attrs.set(Key::Padding, padding);
  }
  ValueId moved = rw.make(n.op, inputs, attrs, with_shape(out, permuted(out.shape, inverse(forward))));
  rw.replace(n, transpose(rw, moved, forward));
  return true;
}

// Where two shapes differ only by dims of size 1: the same element order and the same dims otherwise.
bool same_but_ones(const Shape& a, const Shape& b) {
  Shape x, y;
  std::copy_if(a.begin(), a.end(), std::back_inserter(x), [](int64_t d) { return d != 1; });
  std::copy_if(b.begin(), b.end(), std::back_inserter(y), [](int64_t d) { return d != 1; });
  return x == y;
}

// The shape of `small` (broadcast against `full`) when full's dims of size 1 are rearranged into `target`. Empty:
// there is none.
std::optional<Shape> follow_ones(const Shape& small, const Shape& full, const Shape& target) {
  Shape padded(full.size() - small.size(), 1);
  padded.insert(padded.end(), small.begin(), small.end());
  Shape kept;
  for (size_t i = 0; i < full.size(); ++i) {
    if (full[i] != 1)
      kept.push_back(padded[i]);
    else if (padded[i] != 1)
      return std::nullopt;
  }
  Shape result;
  size_t next = 0;
  for (int64_t d : target) result.push_back(d == 1 ? 1 : kept[next++]);
  return result;
}

// elementwise(reshape(x), reshape(y))  ->  reshape(elementwise(x, y)), when both come from one shape
bool sink_reshape_past_elementwise(Rewriter& rw, const Node& n) {
  if (!on_integers(rw.graph(), n)) return false;
  const Type out = rw.type(n.outputs[0]);
  if (out.quantized() && out.quant->per_channel()) return false;
  std::optional<Shape> from;
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    const Node* r = mover(rw, n, i, Op::Reshape);
    if (r && rw.type(n.inputs[i]).shape == out.shape) {
      const Shape& source = rw.type(r->inputs[0]).shape;
      if (from && *from != source) return false;
      from = source;
    } else if (!movable(rw, n.inputs[i])) {
      return false;
    } else if (element_count(out.shape) == 1 && !rw.value(n.inputs[i]).constant) {
      return false;  // its new reshape would sink next, and so on for ever
    }
  }
  if (!from) return false;
  std::vector<std::optional<Shape>> shapes(
      n.inputs.size());  // of the operands that are reshaped; the others lose their reshape
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    const Shape& shape = rw.type(n.inputs[i]).shape;
    if (mover(rw, n, i, Op::Reshape) && shape == out.shape) continue;
    if (element_count(shape) == 1)
      shapes[i] = Shape(from->size(), 1);
    else if (shape.size() <= out.shape.size() && same_but_ones(*from, out.shape))
      shapes[i] = follow_ones(shape, out.shape, *from);
    if (!shapes[i]) return false;
  }
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < n.inputs.size(); ++i)
    inputs.push_back(shapes[i] ? reshape(rw, n.inputs[i], *shapes[i]) : rw.graph().producer(n.inputs[i])->inputs[0]);
  rw.replace(n, reshape(rw, rw.make(n.op, inputs, n.attrs, with_shape(out, *from)), out.shape));
  return true;
}

// slice(reshape(x)) whose axis and all after it are one dim of x and all after that  ->  reshape(slice(x)). After a
// linear layer that makes q, k and v at once, the slice is then one of channels, which costs nothing; at rank 5 it is a
// copy per row.
bool slice_before_reshape(Rewriter& rw, const Node& n) {
  const Node* r = mover(rw, n, 0, Op::Reshape);
  if (!r || n.integer(Key::Step) != 1 || !pure(rw, n)) return false;
  const Shape &split = rw.type(n.inputs[0]).shape, &whole = rw.type(r->inputs[0]).shape;
  if (whole.size() >= split.size()) return false;
  auto axis = static_cast<size_t>(n.integer(Key::Axis));
  int64_t inner = element_count(Shape(split.begin() + static_cast<std::ptrdiff_t>(axis) + 1, split.end()));
  int64_t block = inner * split[axis], after = 1;
  for (size_t j = whole.size(); j-- > 0; after *= whole[j]) {
    if (after * whole[j] != block || inner % after != 0) continue;
    int64_t unit = inner / after;
    Attrs attrs{{Key::Axis, static_cast<int64_t>(j)},
                {Key::Start, n.integer(Key::Start) * unit},
                {Key::End, n.integer(Key::End) * unit},
                {Key::Step, int64_t{1}}};
    rw.replace(n, reshape(rw, rw.make(Op::Slice, {r->inputs[0]}, attrs), rw.type(n.outputs[0]).shape));
    return true;
  }
  return false;
}

// conv1x1(reshape(transpose(x))), the flatten in front of a fully connected layer  ->  conv1x1(reshape(x)) with the
// weights' inputs permuted
bool fold_transpose_into_weights(Rewriter& rw, const Node& n) {
  if (!n.flag(Key::ChannelsLast) || !on_integers(rw.graph(), n)) return false;
  const Node* r = mover(rw, n, 0, Op::Reshape);
  if (!r) return false;
  const Node* t = mover(rw, *r, 0, Op::Transpose);
  const Type& weight = rw.type(n.inputs[1]);
  if (!t || !rw.value(n.inputs[1]).constant || weight.rank() != 4 || weight.shape[1] * weight.shape[2] != 1)
    return false;
  const Shape& turned = rw.type(r->inputs[0]).shape;
  const Shape& flat = rw.type(n.inputs[0]).shape;
  const Ints& perm = t->ints(Key::Perm);
  // The batch must stay first, and everything after it must become the channels.
  if (perm.empty() || perm[0] != 0 || flat.back() != element_count(turned) / turned[0] ||
      flat.back() != weight.shape[3])
    return false;
  if (weight.quantized() && weight.quant->per_channel() && weight.quant->axis != 0) return false;
  Shape spread = {weight.shape[0]};
  spread.insert(spread.end(), turned.begin() + 1, turned.end());
  Ints back = {0};
  Ints backward = inverse(perm);
  for (size_t i = 1; i < backward.size(); ++i) back.push_back(backward[i]);
  ValueId w = rw.make(Op::Reshape, {n.inputs[1]}, {{Key::Shape, Ints(spread)}}, with_shape(weight, spread));
  w = rw.make(Op::Transpose, {w}, {{Key::Perm, back}}, with_shape(weight, permuted(spread, back)));
  w = rw.make(Op::Reshape, {w}, {{Key::Shape, Ints(weight.shape)}}, weight);
  std::vector<ValueId> inputs = n.inputs;
  inputs[0] = reshape(rw, t->inputs[0], flat);
  inputs[1] = w;
  rw.replace(n, rw.make(Op::Conv, inputs, n.attrs, rw.type(n.outputs[0])));
  return true;
}

// conv of a batch, pixel by pixel  ->  of one image, which is one operation instead of several. With a clamp or a table
// after the batch, regor 5.1.0 computes other numbers (docs/regor-defects.md).
bool pixels_to_image(Rewriter& rw, const Node& n) {
  if (!n.flag(Key::ChannelsLast) || !on_integers(rw.graph(), n)) return false;
  const Shape in = rw.type(n.inputs[0]).shape, kernel = rw.type(n.inputs[1]).shape;
  const Type out = rw.type(n.outputs[0]);
  if (in.size() != 4 || in[0] == 1 || in[0] * in[1] > facts_of(rw).max_axis) return false;
  if (kernel[1] * kernel[2] != 1 || out.shape[1] != in[1] || out.shape[2] != in[2]) return false;
  Shape image = {1, in[0] * in[1], in[2], in[3]};
  if (in[1] * in[2] == 1) std::swap(image[1], image[2]);  // single pixels are one row
  std::vector<ValueId> inputs = n.inputs;
  inputs[0] = reshape(rw, inputs[0], image);
  image[3] = out.shape[3];
  rw.replace(n, reshape(rw, rw.make(Op::Conv, inputs, n.attrs, with_shape(out, image)), out.shape));
  return true;
}

}  // namespace

std::span<const Rule> sinking_rules();
std::span<const Rule> collapse_rules();

std::span<const Rule> layout_rules() {
  static const Rule kOwn[] = {
      {"sink-transpose-past-axis-op", axis_ops(), sink_transpose_past_axis_op},
      {"sink-reshape-past-elementwise", elementwise_ops(), sink_reshape_past_elementwise},
      {"slice-before-reshape", {Op::Slice}, slice_before_reshape},
      {"fold-transpose-into-weights", {Op::Conv}, fold_transpose_into_weights},
      {"pixels-to-image", {Op::Conv}, pixels_to_image},
  };
  static const std::vector<Rule> kRules = [] {
    std::vector<Rule> all(sinking_rules().begin(), sinking_rules().end());
    all.insert(all.end(), collapse_rules().begin(), collapse_rules().end());
    all.insert(all.end(), std::begin(kOwn), std::end(kOwn));
    return all;
  }();
  return kRules;
}

}  // namespace swoop
