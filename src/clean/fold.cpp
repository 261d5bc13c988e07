#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "clean/affine.h"
#include "clean/clean.h"
#include "clean/floats.h"

namespace swoop {

namespace {

// The range of a clamp node or of a fused clamp.
Range clamp_range(const Node& n) { return {n.real(Key::Min, -kInfinity), n.real(Key::Max, kInfinity)}; }
Range fused_range(const Node& n) { return {n.real(Key::ActMin, -kInfinity), n.real(Key::ActMax, kInfinity)}; }

// clamp(op(x))  ->  op(x) with act_min, act_max
// Exact between equal types too: quantization is monotone, so clamping the code equals quantizing the clamped value.
bool fuse_clamp(Rewriter& rw, const Node& n) {
  const Node* op = rw.graph().producer(n.inputs[0]);
  if (!op || !info(op->op).traits.fuses_clamp || !rw.used_once(n.inputs[0])) return false;
  const Type& before = rw.type(n.inputs[0]);
  const Type& after = rw.type(n.outputs[0]);
  if (before.quantized() ? before != after : before.dtype != after.dtype) return false;
  if (!before.quantized() && !is_float(before.dtype)) return false;  // only floats and codes take bounds in
  Range outer = clamp_range(n);
  // A maximum has its operand's scale, which may be far too coarse for what is left below an upper bound.
  if (!before.quantized() && info(op->op).policy == Policy::SameAsInput && outer.max < kInfinity) return false;
  Range inner = fused_range(*op);
  Range both{std::max(outer.min, inner.min), std::min(outer.max, inner.max)};
  if (!(both.min <= both.max)) return false;
  if (both.min > -kInfinity) rw.set_attr(*op, Key::ActMin, both.min);
  if (both.max < kInfinity) rw.set_attr(*op, Key::ActMax, both.max);
  rw.set_type(op->outputs[0], after);
  rw.replace(n, op->outputs[0]);
  return true;
}

// clamp(clamp(x))  ->  clamp(x)
bool merge_clamps(Rewriter& rw, const Node& n) {
  const Node* inner = rw.producer(n, 0, Op::Clamp);
  if (!inner || !rw.used_once(n.inputs[0])) return false;
  const Type& before = rw.type(n.inputs[0]);
  if (before.quantized() && before != rw.type(n.outputs[0])) return false;
  Range a = clamp_range(*inner);
  Range b = clamp_range(n);
  Range both{std::max(a.min, b.min), std::min(a.max, b.max)};
  if (!(both.min <= both.max)) return false;
  Attrs attrs;
  if (both.min > -kInfinity) attrs.set(Key::Min, both.min);
  if (both.max < kInfinity) attrs.set(Key::Max, both.max);
  rw.replace(n, rw.make(Op::Clamp, {inner->inputs[0]}, attrs, rw.type(n.outputs[0])));
  return true;
}

// batch_norm(conv(x, w, b))  ->  conv(x, w * gain, b * gain + offset), for conv, transposed conv and linear
bool fold_batch_norm(Rewriter& rw, const Node& n) {
  const Node* layer = rw.graph().producer(n.inputs[0]);
  if (!layer || !takes_affine(rw, *layer)) return false;
  if (layer->op == Op::Linear && rw.type(n.inputs[0]).rank() != 2) return false;  // its channels would not be axis 1
  std::optional<Affine> affine = batch_norm_affine(rw.graph(), n);
  if (!affine) return false;
  rw.replace(n, with_affine(rw, *layer, *affine, layer->attrs, rw.type(n.outputs[0])));
  return true;
}

// The padding of a window together with that of the constant pad before it; null if that pads more than the plane.
std::optional<Ints> joint_padding(const Rewriter& rw, const Node& window, const Node& pad) {
  if (rw.type(pad.inputs[0]).quant != rw.type(window.inputs[0]).quant) return std::nullopt;
  const Ints& amounts = pad.ints(Key::Padding);
  bool channels_last = window.flag(Key::ChannelsLast);
  size_t rank = amounts.size() / 2;
  size_t first = channels_last ? 1 : 2;
  size_t channel = channels_last ? rank - 1 : 1;
  if (amounts[0] || amounts[1] || amounts[2 * channel] || amounts[2 * channel + 1]) return std::nullopt;
  Ints padding = window.ints(Key::Padding);
  for (size_t i = 0; i < padding.size(); ++i) {
    if (amounts[2 * first + i] < 0) return std::nullopt;  // a crop
    padding[i] += amounts[2 * first + i];
  }
  return padding;
}

void take_in_pad(Rewriter& rw, const Node& n, const Node& pad, Ints padding) {
  Attrs attrs = n.attrs;
  attrs.set(Key::Padding, std::move(padding));
  std::vector<ValueId> inputs = n.inputs;
  inputs[0] = pad.inputs[0];
  rw.replace(n, rw.make(n.op, inputs, attrs, rw.type(n.outputs[0])));
}

// conv(pad(x, 0))  ->  conv(x) with more padding
bool fold_pad_into_conv(Rewriter& rw, const Node& n) {
  const Node* pad = rw.producer(n, 0, Op::Pad);
  if (!pad || pad->text(Key::Mode) != "constant" || pad->real(Key::Value) != 0.0) return false;
  std::optional<Ints> padding = joint_padding(rw, n, *pad);
  if (padding) take_in_pad(rw, n, *pad, std::move(*padding));
  return padding.has_value();
}

// max_pool(pad(x, far below))  ->  max_pool(x) with more padding, if every window has an element of x
bool fold_pad_into_max_pool(Rewriter& rw, const Node& n) {
  const Node* pad = rw.producer(n, 0, Op::Pad);
  if (!pad || pad->text(Key::Mode) != "constant" || n.flag(Key::CeilMode)) return false;
  if (pad->real(Key::Value) > 2 * static_cast<double>(kMaskedBelow)) return false;
  std::optional<Ints> padding = joint_padding(rw, n, *pad);
  if (!padding) return false;
  const Ints &kernel = n.ints(Key::Kernel), &dilation = n.ints(Key::Dilation);
  for (size_t i = 0; i < padding->size(); ++i)
    if (dilation[i / 2] != 1 || (*padding)[i] >= kernel[i / 2]) return false;
  take_in_pad(rw, n, *pad, std::move(*padding));
  return true;
}

// the mean, sum or largest of one element each, as of an image that is one pixel already  ->  x
bool drop_reduction_of_one(Rewriter& rw, const Node& n) {
  Type from = rw.type(n.inputs[0]);
  const Type& to = rw.type(n.outputs[0]);
  if (n.has(Key::ActMin) || n.has(Key::ActMax) || element_count(to.shape) == 0) return false;
  if (element_count(from.shape) != element_count(to.shape)) return false;
  const Shape shape = std::exchange(from.shape, to.shape);
  if (from != to) return false;
  rw.replace(n, shape == to.shape ? n.inputs[0] : rw.make(Op::Reshape, {n.inputs[0]}, {{Key::Shape, to.shape}}));
  return true;
}

const Rule kFoldRules[] = {
    {"fold-batch-norm", {Op::BatchNorm}, fold_batch_norm},
    {"merge-clamps", {Op::Clamp}, merge_clamps},
    {"fuse-clamp", {Op::Clamp}, fuse_clamp},
    {"fold-pad-into-conv", {Op::Conv}, fold_pad_into_conv},
    {"fold-pad-into-max-pool", {Op::MaxPool}, fold_pad_into_max_pool},
    {"drop-reduction-of-one",
     {Op::Sum, Op::Mean, Op::ReduceMax, Op::ReduceMin, Op::Prod, Op::Any, Op::All, Op::AdaptiveAvgPool,
      Op::AdaptiveMaxPool},
     drop_reduction_of_one},
};

}  // namespace

std::span<const Rule> fold_rules() { return kFoldRules; }

}  // namespace swoop
