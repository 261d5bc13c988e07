#include "quantize/constants.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "quantize/known_constants.h"
#include "quantize/layers.h"
#include "quantize/range.h"
#include "quantize/weights.h"
#include "quantize/weights_by_rate.h"

namespace swoop {

namespace {

// Layers that differ in nothing but the codes they read: the steps of a recurrence. Weights, bias and the types around.
using Repeated = std::tuple<ValueId, ValueId, std::string, std::string>;

Repeated repeated(const Graph& graph, const Node& layer) {
  return {layer.inputs[1], layer.inputs.size() > 2 ? layer.inputs[2] : kNone, to_text(graph.type(layer.inputs[0])),
          to_text(graph.type(layer.outputs[0]))};
}

// What the step works on, and what it has made so far.
struct Work {
  Graph& graph;
  const Borders& borders;
  const TypeRequest& request;
  const WeightSteps weight_steps;
  std::map<Repeated, ChannelStatistics> channels = {};  // of what the layers read, before they are changed
  std::map<ValueId, std::vector<ValueId>> made = {};    // constant -> its quantized constants, each of another type
  size_t bias_corrected = 0;
};

Type symmetric_wide(Shape shape, Range range) { return activation_type(Precision::Int16, std::move(shape), range); }

// Operands that must have one width: both factors of a product, and a table's operand where its result is wide.
void widen_operands(Graph& graph, Node& node) {
  size_t count = node.op == Op::MatMul ? 2 : node.op == Op::Attention ? 3 : node.op == Op::Unary ? 1 : 0;
  bool wide = node.op == Op::Unary && graph.type(node.outputs[0]).dtype == DType::I16;
  for (size_t i = 0; i < count; ++i) wide |= node.op != Op::Unary && graph.type(node.inputs[i]).dtype == DType::I16;
  if (!wide) return;
  for (size_t i = 0; i < count; ++i) {
    ValueId input = node.inputs[i];
    const Type& type = graph.type(input);
    if (type.dtype != DType::I8 || !type.quantized()) continue;
    Node& widened = graph.add_node(Op::Quantize, {input}, {symmetric_wide(type.shape, range_of(type))}, {}, node.loc,
                                   graph.value(input).name + "_wide", node.id);
    graph.set_input(node, i, widened.outputs[0]);
  }
}

ValueId quantized_constant(Work& work, ValueId id, const Type& type) {
  Graph& graph = work.graph;
  KnownConstants* known = work.request.known;
  if (!known) return quantize_constant(graph, id, type);
  std::shared_ptr<const Buffer> codes = known->codes.find(id, type).value_or(nullptr);
  if (!codes) {
    const Rounding* rounding = known->rounding(id);
    codes =
        std::make_shared<const Buffer>(rounding ? round_weights(FloatElements(graph.value(id)).all(), type, *rounding)
                                                : codes_of_constant(graph.value(id), type));
    known->codes.keep(id, type, codes);
  }
  graph.keep_alive(codes);
  return graph.add_constant(type, *codes, graph.value(id).name);
}

void replace_constant(Work& work, Node& node, size_t index, const Type& type) {
  const ValueId id = node.inputs[index];
  std::vector<ValueId>& made = work.made[id];
  auto same = std::ranges::find_if(made, [&](ValueId other) { return work.graph.type(other) == type; });
  if (same == made.end()) same = made.insert(same, quantized_constant(work, id, type));
  work.graph.set_input(node, index, *same);
}

// The range of a mask that is added to scores, or chosen in their place: deep enough that any score falls out of the
// result's range, and no deeper.
Range mask_range(const Node& node, const Value& mask, const Range& result) {
  Range range{node.op == Op::Where ? result.min : result.min - result.max, 0};
  Tensor tensor = to_tensor(mask);
  for (float x : tensor.as<float>())
    if (x >= kMaskedBelow && std::isfinite(x)) range = joined(range, {static_cast<double>(x), static_cast<double>(x)});
  return range;
}

bool holds_infinity(const Value& constant) {
  Tensor tensor = to_tensor(constant);
  std::span<const float> x = tensor.as<float>();
  return std::any_of(x.begin(), x.end(), [](float one) { return std::isinf(one); });
}

// The type of a constant operand of anything but a layer.
Type parameter_type(const Work& work, const Node& node, size_t index) {
  const Graph& graph = work.graph;
  const Value& value = graph.value(node.inputs[index]);
  ValueId output = node.outputs[0];
  Type as_result = graph.type(output);
  as_result.shape = value.type.shape;
  if (node.outputs.size() == 1 && (shares_type(node) || info(node.op).traits.movement)) return as_result;
  Range range = constant_range(value);
  if (node.op == Op::Where) {  // no requantize where the result's type holds the constant
    Range result = range_of(as_result);
    if (range.min >= result.min && range.max <= result.max) return as_result;
  }
  if (node.op == Op::Compare) {  // a number that the other side can hold is equal to itself there
    Type as_other = graph.type(node.inputs[1 - index]);
    as_other.shape = value.type.shape;
    Range other = as_other.quantized() ? range_of(as_other) : Range{0, 0};
    if (as_other.quantized() && range.min >= other.min && range.max <= other.max) return as_other;
  }
  const Measured& measured = work.request.measured;
  if (output < measured.masked.size() && measured.masked[output])
    range = mask_range(node, value, range_of(graph.type(output)));
  if (output < measured.hides.size() && measured.hides[output]) {  // what a mask is made of need not be much deeper
    if (node.op == Op::Where) return as_result;
    const double deepest = 64 * range_of(graph.type(output)).min;
    range = {std::max(range.min, deepest), std::min(range.max, -deepest)};
  }
  // 16 bits cost nothing for a number per channel, and save a third of the noise.
  if (info(node.op).traits.parameters) return symmetric_wide(value.type.shape, range);
  if (node.op == Op::Attention && index == 3) {
    bool known = node.id < measured.inner.size() && !measured.inner[node.id].empty();
    double scores = known ? measured.inner[node.id][1] - measured.inner[node.id][0] : 16.0;
    const double deepest = -(2 * scores + 32);
    range.min = holds_infinity(value) ? deepest : std::max(range.min, deepest);
    return symmetric_wide(value.type.shape, range);
  }
  bool wide = graph.type(output).dtype == DType::I16;
  for (ValueId input : node.inputs)
    wide |= input != kNone && graph.type(input).dtype == DType::I16 && graph.type(input).quantized();
  return activation_type(wide ? Precision::Int16 : Precision::Int8, value.type.shape, range);
}

bool works_on_codes(const Graph& graph, const Node& node, Domain domain) {
  if (domain != Domain::Reader) return domain != Domain::Float;
  return node.op != Op::Quantize && std::any_of(node.inputs.begin(), node.inputs.end(),
                                                [&](ValueId v) { return v != kNone && graph.type(v).quantized(); });
}

void quantize_parameters(Work& work, Node& node) {
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (is_plain_float(work.graph, node.inputs[i]) && work.graph.value(node.inputs[i]).constant)
      replace_constant(work, node, i, parameter_type(work, node, i));
}

// What was measured per channel of the layers' operands, those of repeated layers together: one correction keeps their
// biases one.
void collect_channels(Work& work) {
  const Graph& graph = work.graph;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!is_layer(node.op) || !works_on_codes(graph, node, work.borders.domains[id])) continue;
    const auto& measured = work.request.measured.channels;
    auto own =
        measured.find({work.borders.measured_id(node.inputs[0]), channels_at(node, graph.type(node.inputs[0]).rank())});
    if (own != measured.end()) work.channels[repeated(graph, node)].merge(own->second);
  }
}

std::vector<double> mean_errors(Work& work, const Node& node, ValueId weights, const ChannelStatistics& means) {
  const Value& codes = work.graph.value(node.inputs[1]);
  KnownConstants* known = work.request.known;
  if (!known) return mean_errors(node, work.graph.value(weights), codes, means);
  const WeightIndex index(node, codes.type.shape);
  const KnownConstants::ErrorsQuestion rounding{codes.type, {index.transposed, index.groups}, means.sum, means.count};
  if (auto errors = known->errors.find(weights, rounding)) return std::move(*errors);
  std::vector<double> errors = mean_errors(node, work.graph.value(weights), codes, means);
  known->errors.keep(weights, rounding, errors);
  return errors;
}

// The mean error of rounded weights is taken off the bias.
void correct_bias(Work& work, const Node& node, ValueId weights, const ChannelStatistics& means,
                  std::vector<double>& bias) {
  const std::vector<double> errors = mean_errors(work, node, weights, means);
  bias.resize(errors.size());
  for (size_t c = 0; c < bias.size(); ++c) bias[c] += errors[c];
  ++work.bias_corrected;
}

void quantize_layer(Work& work, Node& node) {
  Graph& graph = work.graph;
  const ValueId weights = node.inputs[1];
  const auto step = work.weight_steps.find(weights);
  const auto means = work.channels.find(repeated(graph, node));
  LayerConstants chosen = choose_layer_constants(
      graph, node, work.request.options, step == work.weight_steps.end() ? 0 : step->second, work.request.known);
  if (chosen.weight != graph.type(weights)) {
    replace_constant(work, node, 1, chosen.weight);
    if (means != work.channels.end() && node.inputs.size() > 2)
      correct_bias(work, node, weights, means->second, chosen.bias);
  }
  if (chosen.bias.empty() || !chosen.weight.quantized()) return;
  Type type = bias_type(graph.type(node.inputs[0]), chosen.weight, chosen.bias.size());
  std::string name = node.inputs[2] != kNone ? graph.value(node.inputs[2]).name : fmt::format("{}_bias", node.name);
  graph.set_input(node, 2, graph.add_constant(type, graph.store(bias_codes(chosen.bias, type)), name));
}

}  // namespace

size_t quantize_constants(Graph& graph, const Borders& borders, const TypeRequest& request) {
  Work work{graph, borders, request, coarser_steps(graph, request)};
  if (request.options.correct_bias) collect_channels(work);
  for (NodeId id : graph.order()) {
    Node& node = graph.node(id);
    if (!works_on_codes(graph, node, borders.domains[id])) continue;
    if (has_inner(node.op) && id < request.measured.inner.size() && !request.measured.inner[id].empty())
      node.attrs.set(Key::Inner, request.measured.inner[id]);
    widen_operands(graph, node);
    if (is_layer(node.op))
      quantize_layer(work, node);
    else
      quantize_parameters(work, node);
  }
  return work.bias_corrected;
}

}  // namespace swoop
