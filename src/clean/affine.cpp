#include "clean/affine.h"

#include <algorithm>
#include <cmath>

#include "clean/clean.h"
#include "clean/floats.h"

namespace swoop {

bool takes_affine(const Rewriter& rw, const Node& layer) {
  if (!info(layer.op).traits.weights || layer.has(Key::ActMin) || layer.has(Key::ActMax)) return false;
  if (!rw.used_once(layer.outputs[0]) || rw.type(layer.outputs[0]).quantized()) return false;
  return rw.value(layer.inputs[1]).constant && (layer.inputs[2] == kNone || rw.value(layer.inputs[2]).constant);
}

ValueId with_affine(Rewriter& rw, const Node& layer, const Affine& affine, Attrs attrs, const Type& type) {
  const Value& weight = rw.value(layer.inputs[1]);
  Tensor scaled = to_tensor(weight);
  int64_t groups = layer.op == Op::Linear ? 1 : layer.integer(Key::Groups);
  int64_t inner = element_count(weight.type.shape) / weight.type.shape[0];  // elements per index of axis 0
  auto values = scaled.as<float>();
  for (int64_t i = 0; i < static_cast<int64_t>(values.size()); ++i) {
    int64_t channel = i / inner;  // conv, linear: axis 0 is the output channel
    if (layer.op == Op::ConvTranspose) {
      int64_t per_group = weight.type.shape[1];
      int64_t kernel = inner / per_group;
      int64_t group = (i / inner) / (weight.type.shape[0] / groups);
      channel = group * per_group + (i % inner) / kernel;
    }
    values[static_cast<size_t>(i)] *= static_cast<float>(affine.gain[static_cast<size_t>(channel)]);
  }
  std::vector<float> bias(affine.offset.begin(), affine.offset.end());
  for (size_t c = 0; c < bias.size() && layer.inputs[2] != kNone; ++c)
    bias[c] += static_cast<float>(real_at(rw.value(layer.inputs[2]), static_cast<int64_t>(c))) *
               static_cast<float>(affine.gain[c]);
  ValueId new_weight = float_constant(rw, weight.type.shape, values, weight.name);
  ValueId new_bias = float_constant(rw, {static_cast<int64_t>(bias.size())}, bias, fmt::format("{}_bias", weight.name));
  return rw.make(layer.op, {layer.inputs[0], new_weight, new_bias}, std::move(attrs), type);
}

namespace {

bool is_affine(const Node& n) { return n.op == Op::Mul || n.op == Op::Add || n.op == Op::Sub; }

// The constant's number for each index along `axis` of what it is broadcast to; nullopt when it differs along other
// axes, or is no constant.
std::optional<std::vector<double>> numbers_along(const Rewriter& rw, ValueId id, const Shape& shape, int64_t axis) {
  if (!is_float_constant(rw, id) || rw.type(id).rank() > static_cast<int>(shape.size())) return std::nullopt;
  const Value& value = rw.value(id);
  const int64_t count = element_count(value.type.shape), size = shape[static_cast<size_t>(axis)];
  if (count != 1 && count != size) return std::nullopt;
  const int64_t own = axis - static_cast<int64_t>(shape.size()) + value.type.rank();  // the axis of the constant
  if (count != 1 && (own < 0 || value.type.shape[static_cast<size_t>(own)] != count)) return std::nullopt;
  std::vector<double> numbers;
  for (int64_t i = 0; i < size; ++i) numbers.push_back(real_at(value, count == 1 ? 0 : i));
  return numbers;
}

// y * c, y + c, y - c or c - y with operand `i` as y: its gain and offset along `axis`.
std::optional<Affine> affine_of(const Rewriter& rw, const Node& n, size_t i, int64_t axis) {
  const Shape& shape = rw.type(n.outputs[0]).shape;
  if (rw.type(n.inputs[i]).shape != shape || !plain_floats(rw, n)) return std::nullopt;
  std::optional<std::vector<double>> c = numbers_along(rw, n.inputs[1 - i], shape, axis);
  if (!c) return std::nullopt;
  if (n.op == Op::Mul) return Affine{*c, std::vector<double>(c->size(), 0.0)};
  if (n.op == Op::Sub && i == 0)
    for (double& number : *c) number = -number;
  return Affine{std::vector<double>(c->size(), n.op == Op::Sub && i == 1 ? -1.0 : 1.0), *c};
}

int64_t channel_axis(const Node& layer, int rank) { return layer.op == Op::Linear ? rank - 1 : 1; }

// layer(x) * c, layer(x) + c, layer(x) - c  ->  a layer with other weights and another bias
bool fold_affine_after(Rewriter& rw, const Node& n) {
  for (size_t i = 0; i < 2; ++i) {
    const Node* layer = rw.graph().producer(n.inputs[i]);
    if (!layer || !takes_affine(rw, *layer)) continue;
    std::optional<Affine> affine = affine_of(rw, n, i, channel_axis(*layer, rw.type(n.inputs[i]).rank()));
    if (!affine) continue;
    Attrs attrs = layer->attrs;
    for (Key key : {Key::ActMin, Key::ActMax})
      if (const Attr* bound = n.attrs.find(key)) attrs.set(key, *bound);
    rw.replace(n, with_affine(rw, *layer, *affine, attrs, rw.type(n.outputs[0])));
    return true;
  }
  return false;
}

// Channels that differ more than this stay apart: weights have one scale for all of a result's inputs.
constexpr double kWidestGain = 4;

bool is_even(const std::vector<double>& gain) {
  auto less = [](double a, double b) { return std::fabs(a) < std::fabs(b); };
  auto [least, most] = std::minmax_element(gain.begin(), gain.end(), less);
  return std::fabs(*most) <= kWidestGain * std::fabs(*least);
}

// layer(x * c), layer(x + c), layer(x - c)  ->  a layer with other weights and another bias: the normalization of an
// image costs nothing. A sum stays before a conv that pads, where zeros come after it.
bool fold_affine_before(Rewriter& rw, const Node& n) {
  const Node* before = rw.graph().producer(n.inputs[0]);
  if (!before || !is_affine(*before) || !rw.used_once(n.inputs[0]) || !plain_floats(rw, n)) return false;
  if (before->has(Key::ActMin) || before->has(Key::ActMax) || !is_float_constant(rw, n.inputs[1])) return false;
  if (n.inputs[2] != kNone && !is_float_constant(rw, n.inputs[2])) return false;
  bool pads = n.has(Key::Padding) && n.ints(Key::Padding) != Ints(n.ints(Key::Padding).size(), 0);
  if (pads && before->op != Op::Mul) return false;
  const size_t operand = rw.value(before->inputs[0]).constant ? 1 : 0;
  std::optional<Affine> affine = affine_of(rw, *before, operand, channel_axis(n, rw.type(n.inputs[0]).rank()));
  if (!affine || !is_even(affine->gain)) return false;

  const Value& weight = rw.value(n.inputs[1]);
  Tensor scaled = to_tensor(weight);
  auto values = scaled.as<float>();
  const Shape& shape = weight.type.shape;  // [O, I / groups, ...]
  const int64_t groups = n.op == Op::Linear ? 1 : n.integer(Key::Groups);
  const int64_t taps = element_count(shape) / (shape[0] * shape[1]);
  std::vector<float> bias;
  for (int64_t o = 0; o < shape[0]; ++o) {
    double sum = n.inputs[2] == kNone ? 0.0 : real_at(rw.value(n.inputs[2]), o);
    for (int64_t i = 0; i < shape[1] * taps; ++i) {
      auto channel = static_cast<size_t>(o / (shape[0] / groups) * shape[1] + i / taps);
      float& w = values[static_cast<size_t>(o * shape[1] * taps + i)];
      sum += static_cast<double>(w) * affine->offset[channel];
      w *= static_cast<float>(affine->gain[channel]);
    }
    bias.push_back(static_cast<float>(sum));
  }
  ValueId new_weight = float_constant(rw, shape, values, weight.name);
  ValueId new_bias = float_constant(rw, {shape[0]}, bias, fmt::format("{}_bias", weight.name));
  rw.replace(n, rw.make(n.op, {before->inputs[operand], new_weight, new_bias}, n.attrs, rw.type(n.outputs[0])));
  return true;
}

const Rule kAffineRules[] = {
    {"fold-affine-after", {Op::Mul, Op::Add, Op::Sub}, fold_affine_after},
    {"fold-affine-before", {Op::Conv, Op::Linear}, fold_affine_before},
};

}  // namespace

std::span<const Rule> affine_rules() { return kAffineRules; }

}  // namespace swoop
