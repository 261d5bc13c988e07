// Layers whose parameters the model computes, or gets as inputs. A layer of the NPU has constants for weights, so what
// computed parameters do is said by operators of their own.
#include <algorithm>
#include <cmath>

#include "clean/clean.h"
#include "clean/floats.h"

namespace swoop {

namespace {

bool is_computed(const Rewriter& rw, const Node& n, size_t input) {
  return input < n.inputs.size() && n.inputs[input] != kNone && !rw.value(n.inputs[input]).constant;
}

bool any_computed(const Rewriter& rw, const Node& n) {
  for (size_t i = 1; i < n.inputs.size(); ++i)
    if (is_computed(rw, n, i)) return true;
  return false;
}

Attrs without_clamp(const Node& n) {
  Attrs attrs = n.attrs;
  attrs.erase(Key::ActMin);
  attrs.erase(Key::ActMax);
  return attrs;
}

// The result in the node's place, with the clamp that the node had.
void replace_clamped(Rewriter& rw, const Node& n, ValueId result) {
  Attrs bounds;
  if (const Attr* low = n.attrs.find(Key::ActMin)) bounds.set(Key::Min, *low);
  if (const Attr* high = n.attrs.find(Key::ActMax)) bounds.set(Key::Max, *high);
  rw.replace(n, bounds == Attrs() ? result : rw.make(Op::Clamp, {result}, bounds));
}

// One number per channel, to stand beside [N,C,...]
ValueId beside_channels(Rewriter& rw, ValueId x, const Node& n) {
  Ints shape(static_cast<size_t>(rw.type(n.outputs[0]).rank()) - 1, 1);
  shape[0] = element_count(rw.type(x).shape);
  return rw.type(x).shape == shape ? x : rw.make(Op::Reshape, {x}, {{Key::Shape, shape}});
}

// norm(x, w, b)  ->  norm(x) * w + b
bool apply_computed_affine(Rewriter& rw, const Node& n) {
  if (!plain_floats(rw, n) || !any_computed(rw, n)) return false;
  std::vector<ValueId> inputs = n.inputs;
  std::fill(inputs.begin() + 1, inputs.end(), kNone);
  ValueId result = rw.make(n.op, inputs, without_clamp(n));
  for (size_t i = 1; i < n.inputs.size(); ++i) {
    if (n.inputs[i] == kNone) continue;
    ValueId parameter = n.op == Op::GroupNorm ? beside_channels(rw, n.inputs[i], n) : n.inputs[i];
    result = rw.make(i == 1 ? Op::Mul : Op::Add, {result, parameter});
  }
  replace_clamped(rw, n, result);
  return true;
}

// batch_norm(x, w, b, mean, var)  ->  (x - mean) * rsqrt(var + eps) * w + b
bool apply_computed_statistics(Rewriter& rw, const Node& n) {
  if (rw.type(n.outputs[0]).dtype != DType::F32 || !plain_floats(rw, n) || !any_computed(rw, n)) return false;
  const auto eps = static_cast<float>(n.real(Key::Eps));
  ValueId gain = rw.make(Op::Add, {n.inputs[4], float_constant(rw, {}, {&eps, 1}, n.name + "_eps")});
  gain = rw.make(Op::Unary, {gain}, {{Key::Fn, std::string("rsqrt")}});
  if (n.inputs[1] != kNone) gain = rw.make(Op::Mul, {gain, n.inputs[1]});
  ValueId result = rw.make(Op::Sub, {n.inputs[0], beside_channels(rw, n.inputs[3], n)});
  result = rw.make(Op::Mul, {result, beside_channels(rw, gain, n)});
  if (n.inputs[2] != kNone) result = rw.make(Op::Add, {result, beside_channels(rw, n.inputs[2], n)});
  replace_clamped(rw, n, result);
  return true;
}

// conv(x, w, b) or linear(x, w, b) with a computed w or b  ->  the same without b, then + b
bool add_bias_of_computed(Rewriter& rw, const Node& n) {
  if (!plain_floats(rw, n) || n.inputs.size() < 3 || n.inputs[2] == kNone || !any_computed(rw, n)) return false;
  ValueId result = rw.make(n.op, {n.inputs[0], n.inputs[1], kNone}, without_clamp(n));
  ValueId bias = n.op == Op::Linear ? n.inputs[2] : beside_channels(rw, n.inputs[2], n);
  replace_clamped(rw, n, rw.make(Op::Add, {result, bias}));
  return true;
}

// linear(x, computed w)  ->  matmul(x, w turned)
bool linear_of_computed_to_matmul(Rewriter& rw, const Node& n) {
  if (!plain_floats(rw, n) || !is_computed(rw, n, 1) || (n.inputs.size() > 2 && n.inputs[2] != kNone)) return false;
  const Type out = rw.type(n.outputs[0]);
  ValueId x = n.inputs[0];
  if (out.rank() == 1) x = rw.make(Op::Reshape, {x}, {{Key::Shape, Ints{1, rw.type(x).shape[0]}}});
  ValueId turned = rw.make(Op::Transpose, {n.inputs[1]}, {{Key::Perm, Ints{1, 0}}});
  ValueId product = rw.make(Op::MatMul, {x, turned}, n.attrs);
  if (out.rank() == 1) product = rw.make(Op::Reshape, {product}, {{Key::Shape, Ints(out.shape)}});
  rw.replace(n, product);
  return true;
}

// prelu(x, computed w)  ->  max(x, 0) + w * min(x, 0)
bool prelu_of_computed(Rewriter& rw, const Node& n) {
  if (!plain_floats(rw, n) || !is_computed(rw, n, 1)) return false;
  ValueId w = rw.type(n.outputs[0]).rank() > 1 ? beside_channels(rw, n.inputs[1], n) : n.inputs[1];
  ValueId above = rw.make(Op::Clamp, {n.inputs[0]}, {{Key::Min, 0.0}});
  ValueId below = rw.make(Op::Mul, {rw.make(Op::Clamp, {n.inputs[0]}, {{Key::Max, 0.0}}), w});
  if (rw.type(below).shape != rw.type(n.outputs[0]).shape)
    below = rw.make(Op::Reshape, {below}, {{Key::Shape, Ints(rw.type(n.outputs[0]).shape)}});
  replace_clamped(rw, n, rw.make(Op::Add, {above, below}));
  return true;
}

const Rule kComputedRules[] = {
    {"apply-computed-affine", {Op::LayerNorm, Op::RmsNorm, Op::GroupNorm}, apply_computed_affine},
    {"apply-computed-statistics", {Op::BatchNorm}, apply_computed_statistics},
    {"add-bias-of-computed", {Op::Conv, Op::ConvTranspose, Op::Linear}, add_bias_of_computed},
    {"linear-of-computed-to-matmul", {Op::Linear}, linear_of_computed_to_matmul},
    {"prelu-of-computed", {Op::Prelu}, prelu_of_computed},
};

}  // namespace

std::span<const Rule> computed_rules() { return kComputedRules; }

}  // namespace swoop
