#include <algorithm>
#include <cmath>

#include "quantize/assign.h"
#include "quantize/layers.h"

namespace swoop {

namespace {

constexpr int64_t kBiasLimit = 2147483647;  // as PT2E writes biases: -(2^31 - 1) .. 2^31 - 1
// A weight scale so small that a step of the accumulator is below 2^-22 of the result's step wastes range that the bias
// may need.
constexpr double kFinestStep = 1.0 / (1 << 22);

Type symmetric_wide(Shape shape, Range range) { return activation_type(Precision::Int16, std::move(shape), range); }

// The axis of the weights along which each index is one output channel; -1: there is none.
int channel_axis(const Node& node, const Shape& weight) {
  if (node.op != Op::ConvTranspose) return 0;
  int64_t groups = node.integer(Key::Groups);
  if (groups == 1) return 1;
  return weight[1] == 1 && weight[0] == groups ? 0 : -1;
}

}  // namespace

void TypeAssigner::set_input_type(Node& node, size_t index, const Type& type) {
  ValueId input = node.inputs[index];
  Node& widened =
      graph_.add_node(Op::Quantize, {input}, {type}, {}, node.loc, graph_.value(input).name + "_wide", node.id);
  kinds_.resize(graph_.node_slots(), Kind::Reader);
  choices_.resize(graph_.node_slots());
  mark(widened.outputs[0]);
  graph_.set_input(node, index, widened.outputs[0]);
}

// Operands that must have one width: both factors of a product, and a table's operand where its result is wide.
void TypeAssigner::widen_operands(Node& node) {
  size_t count = node.op == Op::MatMul ? 2 : node.op == Op::Attention ? 3 : node.op == Op::Unary ? 1 : 0;
  bool wide = node.op == Op::Unary && graph_.type(node.outputs[0]).dtype == DType::I16;
  for (size_t i = 0; i < count; ++i) wide |= node.op != Op::Unary && graph_.type(node.inputs[i]).dtype == DType::I16;
  if (!wide) return;
  for (size_t i = 0; i < count; ++i) {
    const Type& type = graph_.type(node.inputs[i]);
    if (type.dtype == DType::I8 && type.quantized())
      set_input_type(node, i, symmetric_wide(type.shape, range_of(type)));
  }
}

void TypeAssigner::replace_constant(Node& node, size_t index, const Type& type) {
  ValueId id = node.inputs[index];
  auto [at, fresh] = codes_.try_emplace({id, to_text(type)}, kNone);
  if (fresh) at->second = quantize_constant(graph_, id, type);
  graph_.set_input(node, index, at->second);
}

// The type of a constant operand of anything but a layer.
Type TypeAssigner::parameter_type(const Node& node, size_t index) const {
  const Value& value = graph_.value(node.inputs[index]);
  Range range = constant_range(value);
  if (node.outputs.size() == 1 && (shares_type(node) || info(node.op).traits.movement)) {
    Type type = graph_.type(node.outputs[0]);
    type.shape = value.type.shape;
    return type;
  }
  ValueId output = node.outputs[0];
  if (node.op == Op::Where) {  // no requantize where the result's type holds the constant
    Type type = graph_.type(output);
    Range result = range_of(type);
    type.shape = value.type.shape;
    if (range.min >= result.min && range.max <= result.max) return type;
  }
  if (output < masked_.size() &&
      masked_[output]) {  // deep enough that any score falls out of the result's range, and no deeper
    Range result = range_of(graph_.type(output));
    Tensor tensor = to_tensor(value);
    range = {node.op == Op::Where ? result.min : result.min - result.max, 0};
    for (float x : tensor.as<float>())
      if (x >= kMaskedBelow && std::isfinite(x))
        range = {std::min(range.min, static_cast<double>(x)), std::max(range.max, static_cast<double>(x))};
  }
  // 16 bits cost nothing for a number per channel, and save a third of the noise.
  if (info(node.op).traits.parameters) return symmetric_wide(value.type.shape, range);
  if (node.op == Op::Attention && index == 3) {
    double scores = measured_.inner[node.id].empty() ? 16.0 : measured_.inner[node.id][1] - measured_.inner[node.id][0];
    range.min = std::max(range.min, -(2 * scores + 32));
    return symmetric_wide(value.type.shape, range);
  }
  bool wide = graph_.type(output).dtype == DType::I16;
  for (ValueId input : node.inputs)
    wide |= input != kNone && graph_.type(input).dtype == DType::I16 && graph_.type(input).quantized();
  return activation_type(wide ? Precision::Int16 : Precision::Int8, value.type.shape, range);
}

void TypeAssigner::quantize_constants(Node& node) {
  if (is_layer(node.op)) return quantize_layer(node);
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (plain_float(node.inputs[i]) && graph_.value(node.inputs[i]).constant)
      replace_constant(node, i, parameter_type(node, i));
}

void TypeAssigner::quantize_layer(Node& node) {
  const QuantizeOptions& options = assignment_.options;
  const Type& x = graph_.type(node.inputs[0]);
  const Type& y = graph_.type(node.outputs[0]);
  const Value weight_value = graph_.value(node.inputs[1]);
  const Shape shape = weight_value.type.shape;
  WeightIndex index(node, shape);
  bool has_bias = node.inputs.size() > 2 && node.inputs[2] != kNone;
  auto channels = static_cast<size_t>(index.outputs);
  std::vector<double> bias(channels);
  if (has_bias)
    for (size_t c = 0; c < channels; ++c) bias[c] = real_at(graph_.value(node.inputs[2]), static_cast<int64_t>(c));

  Type weight = weight_value.type;
  if (plain_float(node.inputs[1]) && weight_value.constant) {
    Tensor values = to_tensor(weight_value);
    std::span<const float> w = values.as<float>();
    int axis = options.per_channel ? channel_axis(node, shape) : -1;
    int64_t limit = options.weight_bits == 4 ? 7 : 127;
    std::vector<double> scales(axis < 0 ? 1 : channels);
    for (size_t i = 0; i < w.size(); ++i) {
      double& scale = scales[axis < 0 ? 0 : static_cast<size_t>(index.output(static_cast<int64_t>(i)))];
      scale = std::max(scale, std::fabs(static_cast<double>(w[i])) / static_cast<double>(limit));
    }
    for (size_t c = 0; c < channels; ++c) {  // a bias must fit 31 bits in steps of s_x * s_w
      double& scale = scales[axis < 0 ? 0 : c];
      scale =
          std::max({scale, y.scale() / x.scale() * kFinestStep, std::fabs(bias[c]) / (x.scale() * (1 << 30)), 1e-20});
    }
    for (double& scale : scales) scale = static_cast<double>(static_cast<float>(scale));
    weight = Type{DType::I8, shape, Quant{scales, std::vector<int64_t>(scales.size(), 0), axis, -limit, limit}};
    ValueId read = measured_id(node.inputs[0]);
    const ChannelStatistics* means =
        read < measured_.channels.size() && measured_.channels[read].count > 0 ? &measured_.channels[read] : nullptr;
    if (options.correct_bias && means && node.inputs.size() > 2) {
      std::vector<double> error(channels);
      for (size_t i = 0; i < w.size(); ++i) {
        auto at = static_cast<int64_t>(i);
        auto c = static_cast<size_t>(index.output(at));
        double scale = scales[axis < 0 ? 0 : c];
        auto code = quantize_value(w[i], scale, 0, -limit, limit);
        double mean = means->sum[static_cast<size_t>(index.input(at))] / static_cast<double>(means->count);
        error[c] += (static_cast<double>(w[i]) - static_cast<double>(code) * scale) * mean;
      }
      for (size_t c = 0; c < channels; ++c) bias[c] += error[c];
      has_bias = true;
      if (assignment_.bias_corrected) ++*assignment_.bias_corrected;
    }
    replace_constant(node, 1, weight);
  }
  if (!has_bias || !weight.quantized()) return;
  Quant quant{{}, {}, weight.quant->per_channel() ? 0 : -1, -kBiasLimit, kBiasLimit};
  for (double scale : weight.quant->scale) {
    quant.scale.push_back(static_cast<double>(static_cast<float>(x.scale() * scale)));
    quant.zero_point.push_back(0);
  }
  Buffer codes;
  for (size_t c = 0; c < channels; ++c) {
    double code = std::nearbyint(bias[c] / quant.scale[quant.per_channel() ? c : 0]);
    append(codes,
           static_cast<int32_t>(std::clamp(code, static_cast<double>(-kBiasLimit), static_cast<double>(kBiasLimit))));
  }
  Type type{DType::I32, {index.outputs}, quant};
  std::string name = node.inputs[2] != kNone ? graph_.value(node.inputs[2]).name : fmt::format("{}_bias", node.name);
  ValueId constant = graph_.add_constant(type, graph_.store(std::move(codes)), name);
  graph_.set_input(node, 2, constant);
}

}  // namespace swoop
