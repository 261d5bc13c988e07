#include "quantize/noise.h"

#include <algorithm>

#include "quantize/choices.h"
#include "quantize/known_constants.h"
#include "quantize/layers.h"

namespace swoop {

namespace {

double mean_square(const Statistics& statistics) {
  if (statistics.bins.empty()) return 0;
  const double width = (static_cast<double>(statistics.max) - static_cast<double>(statistics.min)) /
                       static_cast<double>(statistics.bins.size());
  double sum = 0, count = 0;
  for (size_t i = 0; i < statistics.bins.size(); ++i) {
    const double middle = static_cast<double>(statistics.min) + (static_cast<double>(i) + 0.5) * width;
    sum += statistics.bins[i] * middle * middle;
    count += statistics.bins[i];
  }
  return count > 0 ? sum / count : 0;
}

// Elements that a clamp has left as they were: those that are not at its bounds.
double share_inside(const Statistics& statistics, const Node& node) {
  const bool clamp = node.op == Op::Clamp;
  const auto at = [&](Key key, float end) {
    return node.has(key) && static_cast<double>(end) == static_cast<double>(static_cast<float>(node.real(key)));
  };
  double outside = 0;
  if (!statistics.bins.empty() && at(clamp ? Key::Min : Key::ActMin, statistics.min))
    outside += statistics.bins.front();
  if (!statistics.bins.empty() && at(clamp ? Key::Max : Key::ActMax, statistics.max)) outside += statistics.bins.back();
  return std::max(0.0, 1 - outside / static_cast<double>(std::max<uint64_t>(1, statistics.count)));
}

double mean_square(const Value& constant) {
  const Type& type = constant.type;
  if (!(is_float(type.dtype) || type.quantized()) || element_count(type.shape) == 0) return 1;
  const FloatElements elements(constant);
  double sum = 0;
  for (float x : elements.all()) sum += static_cast<double>(x) * static_cast<double>(x);
  return sum / static_cast<double>(elements.all().size());
}

class NoiseFlow {
 public:
  NoiseFlow(const Graph& prepared, const Graph& typed, const Measured& measured, KnownConstants* known)
      : prepared_(prepared),
        typed_(typed),
        known_(known),
        power_(typed.value_slots(), 0),
        inside_(typed.value_slots(), 1),
        passed_(typed.value_slots(), 0) {
    for (ValueId id = 0; id < std::min(measured.values.size(), power_.size()); ++id)
      power_[id] = mean_square(measured.values[id]);
    for (NodeId id : typed.order()) {
      const Node& node = typed.node(id);
      for (ValueId output : node.outputs)
        if (power_[output] == 0 && !node.inputs.empty() && node.inputs[0] != kNone)
          power_[output] = power_[node.inputs[0]];  // movement, and copies at the borders
      if (!node.outputs.empty() && node.outputs[0] < measured.values.size())
        inside_[node.outputs[0]] = share_inside(measured.values[node.outputs[0]], node);
    }
  }

  NoiseShares shares() {
    for (ValueId output : typed_.outputs())
      if (power_[output] > 0) passed_[output] += 1 / power_[output];
    pass_back();
    NoiseShares shares{std::vector<double>(typed_.value_slots(), 0)};
    for (ValueId id = 0; id < shares.values.size(); ++id)
      if (const Type& type = typed_.type(id); type.quantized() && !type.quant->per_channel())
        shares.values[id] = passed_[id] * rounding(type);
    for (NodeId id : typed_.order())
      if (const Node& node = typed_.node(id); is_layer(node.op) && typed_.type(node.inputs[1]).quantized())
        shares.weights += passed_[node.outputs[0]] * from_weights(node) * rounding(typed_.type(node.inputs[1]));
    return shares;
  }

  std::map<ValueId, double> gains(const std::map<ValueId, double>& errors) {
    const std::vector<double> noise = noise_of_values(errors);
    for (ValueId output : typed_.outputs())
      if (power_[output] > 0 && noise[output] > 0) passed_[output] += 1 / noise[output];
    pass_back();
    std::map<ValueId, double> gains;
    for (const auto& [id, error] : errors) {
      double& gain = gains[id];
      for (const Use& use : typed_.value(id).uses)
        if (use.node != kNone && use.index == 1 && is_layer(typed_.node(use.node).op))
          gain += passed_[typed_.node(use.node).outputs[0]] * from_weights(typed_.node(use.node));
    }
    return gains;
  }

 private:
  // From the outputs, whose `passed_` is set, to all that they are computed from.
  void pass_back() {
    const std::vector<NodeId> order = typed_.order();
    for (auto id = order.rbegin(); id != order.rend(); ++id) {
      const Node& node = typed_.node(*id);
      for (ValueId output : node.outputs)
        for (size_t i = 0; i < node.inputs.size(); ++i)
          if (ValueId input = node.inputs[i]; input != kNone && !typed_.value(input).constant)
            passed_[input] += passed_[output] * inside_[output] * passed_on(node, i, output);
    }
  }

  // The power of noise in each value, from rounding it and all that it is computed from.
  std::vector<double> noise_of_values(const std::map<ValueId, double>& errors) const {
    std::vector<double> noise(typed_.value_slots(), 0);
    for (NodeId id : typed_.order()) {
      const Node& node = typed_.node(id);
      for (ValueId output : node.outputs) {
        for (size_t i = 0; i < node.inputs.size(); ++i)
          if (ValueId input = node.inputs[i]; input != kNone && !typed_.value(input).constant)
            noise[output] += noise[input] * inside_[output] * passed_on(node, i, output);
        if (const auto error = is_layer(node.op) ? errors.find(node.inputs[1]) : errors.end(); error != errors.end())
          noise[output] += from_weights(node) * error->second;
        if (const Type& type = typed_.type(output); type.quantized() && !shares_type(node))
          noise[output] += rounding(type);
      }
    }
    return noise;
  }

  // The power of noise in a layer's result over the mean square error of its weights.
  double from_weights(const Node& layer) const {
    return inside_[layer.outputs[0]] * power_[layer.inputs[0]] * weights_per_output(layer);
  }

  // The power of the errors of rounding to a type: a twelfth of its steps' squares.
  static double rounding(const Type& type) {
    double squares = 0;
    for (double scale : type.quant->scale) squares += scale * scale;
    return squares / 12 / static_cast<double>(type.quant->scale.size());
  }

  double weights_per_output(const Node& layer) const {
    const Shape& shape = typed_.type(layer.inputs[1]).shape;
    return static_cast<double>(element_count(shape)) / static_cast<double>(WeightIndex(layer, shape).outputs);
  }

  double elements(ValueId id) const { return static_cast<double>(element_count(typed_.type(id).shape)); }

  double power_of(ValueId id) const {
    if (id >= prepared_.value_slots() || !prepared_.value(id).constant) return power_[id];
    auto [power, fresh] = constants_.try_emplace(id);
    if (!fresh) return power->second;
    const std::optional<double> known = known_ ? known_->power.find(id, {}) : std::nullopt;
    power->second = known ? *known : mean_square(prepared_.value(id));
    if (known_ && !known) known_->power.keep(id, {}, power->second);
    return power->second;
  }

  // The power of noise in `output` over that in operand `i`.
  double passed_on(const Node& node, size_t i, ValueId output) const {
    const ValueId input = node.inputs[i];
    const ValueId other = node.inputs.size() == 2 ? node.inputs[1 - i] : kNone;
    const double shrinks = elements(input) / elements(output);
    if (is_layer(node.op) && i == 0 && prepared_.value(prepared_.node(node.id).inputs[1]).constant) {
      const double each = power_of(prepared_.node(node.id).inputs[1]) * weights_per_output(node);
      return node.op == Op::ConvTranspose ? each * std::min(1.0, shrinks) : each;
    }
    const auto is = [&](std::initializer_list<Op> ops) { return std::ranges::find(ops, node.op) != ops.end(); };
    if (is({Op::Quantize, Op::Dequantize, Op::Add, Op::Sub, Op::Clamp})) return 1;
    if (is({Op::Concat, Op::Pad})) return std::min(1.0, shrinks);
    if (is({Op::Mul}) && other != kNone) return power_of(other);
    if (is({Op::MatMul})) return static_cast<double>(typed_.type(node.inputs[0]).shape.back()) * power_of(other);
    if (is({Op::Mean, Op::AdaptiveAvgPool})) return 1 / shrinks;
    if (is({Op::Sum})) return shrinks;
    if (is({Op::AvgPool})) {
      double window = 1;
      for (int64_t size : node.ints(Key::Kernel)) window *= static_cast<double>(size);
      return 1 / window;
    }
    return power_[input] > 0 ? power_[output] / power_[input] : 0;
  }

  const Graph& prepared_;
  const Graph& typed_;
  KnownConstants* known_;
  mutable std::map<ValueId, double> constants_;  // their mean squares, of those that were asked for
  std::vector<double> power_;                    // by value id: mean square of the float values
  std::vector<double> inside_;                   // by value id: share of elements that no clamp cut
  std::vector<double> passed_;  // by value id: noise over signal of the outputs, per power of noise here
};

}  // namespace

NoiseShares noise_of_outputs(const Graph& prepared, const Graph& typed, const Measured& measured,
                             KnownConstants* known) {
  return NoiseFlow(prepared, typed, measured, known).shares();
}

std::map<ValueId, double> gains_of_weights(const Graph& graph, const Measured& measured,
                                           const std::map<ValueId, double>& errors, KnownConstants* known) {
  return NoiseFlow(graph, graph, measured, known).gains(errors);
}

}  // namespace swoop
