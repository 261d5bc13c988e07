#include "accuracy/accuracy.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "support/check.h"
#include "support/clones.h"

namespace swoop {

namespace {

struct Layer {
  Noise total;
  Noise own;
  double clipped = 0;
  double elements = 0;
};

using Values = std::vector<Tensor>;  // by value id

// Keeps all values but those inside bodies.
Result<std::vector<Tensor>> run(const Graph& graph, std::span<const Tensor> inputs, OpaqueKernels* opaque,
                                Values& values) {
  values.assign(graph.value_slots(), {});
  auto keep = [&](const Graph& where, ValueId id, const Tensor& tensor) {
    if (&where == &graph) values[id] = tensor;
  };
  return execute(graph, inputs, {opaque, keep});
}

// The value of the float graph that one of the quantized graph stands for: the same id, or what a border node was made
// of.
ValueId float_value(const Graph& reference, const Graph& quantized, ValueId id) {
  while (id >= reference.value_slots()) id = quantized.producer(id)->inputs[0];
  return id;
}

constexpr float kMasked = 1e37f;  // no model computes with such numbers

// How many elements the codes of `type` miss by more than half a step.
double count_clipped(const Tensor& tensor, const Type& type) {
  double min = static_cast<double>(type.quant->qmin - type.zero_point()) * type.scale() - type.scale() / 2;
  double max = static_cast<double>(type.quant->qmax - type.zero_point()) * type.scale() + type.scale() / 2;
  double count = 0;
  for (float x : tensor.as<float>())
    count += std::fabs(x) < kMasked && (static_cast<double>(x) < min || static_cast<double>(x) > max);
  return count;
}

// What `node` alone does to exact operands: its own constants, and the rounding of its result. Null where an operand
// has no counterpart in the float graph.
Result<std::optional<Tensor>> run_alone(const Graph& reference, const Graph& quantized, const Node& node,
                                        const Values& exact, DType dtype) {
  if (!node.bodies.empty()) return std::optional<Tensor>();
  std::vector<Tensor> constants;
  constants.reserve(node.inputs.size());
  std::vector<const Tensor*> operands;
  for (ValueId input : node.inputs) {
    if (input == kNone) {
      operands.push_back(nullptr);
    } else if (quantized.value(input).constant) {
      operands.push_back(&constants.emplace_back(to_tensor(quantized.value(input))));
    } else {
      ValueId from = float_value(reference, quantized, input);
      if (exact[from].shape != quantized.type(input).shape) return std::optional<Tensor>();
      operands.push_back(&exact[from]);
    }
  }
  const Type& type = quantized.type(node.outputs[0]);
  std::vector<Tensor> results;
  results.push_back(make_tensor(dtype, type.shape));
  TRY(evaluate(node, operands, results));
  fake_quantize(results[0], type);
  return std::optional<Tensor>(std::move(results[0]));
}

LayerAccuracy accuracy_of(const Graph& quantized, const Node& node, const Layer& layer) {
  const Loc* loc = quantized.loc(node.loc);
  return {.name = quantized.value(node.outputs[0]).name,
          .node = node.name,
          .op = called(node),
          .source = loc ? to_text(*loc) : "",
          .type = to_text(quantized.type(node.outputs[0])),
          .sqnr_db = layer.total.db(),
          .own_db = layer.own.signal > 0 ? layer.own.db() : layer.total.db(),
          .clipped = layer.elements > 0 ? layer.clipped / layer.elements : 0};
}

// Sums side by side, in vector registers, joined in a fixed order. Values that the model masks are not compared: not a
// number, infinite, or near the lowest float, which transformers add to scores.
SWOOP_CLONES void add_squares(const float* reference, const float* actual, size_t count, double& signal,
                              double& error) {
  constexpr size_t kLanes = 8;
  double signals[kLanes] = {}, errors[kLanes] = {};
  const auto add = [&](size_t lane, size_t i) {
    const bool finite = std::fabs(reference[i]) < kMasked;
    const double x = finite ? static_cast<double>(reference[i]) : 0.0;
    const double d = finite ? x - static_cast<double>(actual[i]) : 0.0;
    signals[lane] += x * x;
    errors[lane] += d * d;
  };
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) add(lane, i + lane);
  for (size_t lane = 0; i < count; ++i, ++lane) add(lane, i);
  for (size_t lane = 0; lane < kLanes; ++lane) {
    signal += signals[lane];
    error += errors[lane];
  }
}

}  // namespace

void Noise::add(float reference, float actual) {
  double x = static_cast<double>(reference);
  double d = x - static_cast<double>(actual);
  signal += x * x;
  error += d * d;
}

void Noise::add(const Tensor& reference, const Tensor& actual) {
  CHECK(reference.shape == actual.shape && reference.dtype == actual.dtype, "tensors of {} and {} are compared",
        to_text(reference.shape), to_text(actual.shape));
  if (reference.dtype != DType::F32) {
    for (size_t i = 0; i < reference.data.size(); ++i) error += reference.data.data()[i] != actual.data.data()[i];
    signal += static_cast<double>(reference.data.size());
    return;
  }
  std::span<const float> r = reference.as<float>();
  std::span<const float> a = actual.as<float>();
  add_squares(r.data(), a.data(), r.size(), signal, error);
}

double Noise::db() const {
  if (error == 0) return 999;
  if (std::isnan(error)) return -std::numeric_limits<double>::infinity();
  return signal > 0 ? 10 * std::log10(signal / error) : 0;
}

void OutputNoise::add(const Tensor& reference, const Tensor& actual) {
  const auto count = static_cast<size_t>(element_count(reference.shape));
  elements += count;
  if (reference.dtype == DType::F32) {
    noise.add(reference, actual);
    for (size_t i = 0; i < count; ++i)
      max_error = std::max(max_error, std::fabs(static_cast<double>(actual.as<float>()[i]) -
                                                static_cast<double>(reference.as<float>()[i])));
    return;
  }
  integers = true;
  const size_t bytes = byte_size(reference.dtype);
  for (size_t i = 0; i < count; ++i)
    equal += std::memcmp(reference.data.data() + i * bytes, actual.data.data() + i * bytes, bytes) == 0;
}

std::optional<double> OutputNoise::equal_share() const {
  if (!integers) return std::nullopt;
  return elements == 0 ? 1.0 : static_cast<double>(equal) / static_cast<double>(elements);
}

double sqnr_db(std::span<const Tensor> reference, std::span<const Tensor> actual) {
  CHECK(reference.size() == actual.size(), "{} tensors are compared with {}", reference.size(), actual.size());
  Noise noise;
  for (size_t i = 0; i < reference.size(); ++i) noise.add(reference[i], actual[i]);
  return noise.db();
}

Result<AccuracyReport> measure_accuracy(const Graph& reference, const Graph& quantized, const Samples& samples,
                                        OpaqueKernels* opaque) {
  AccuracyReport report;
  report.samples = samples.inputs.size();
  report.uncalibrated = samples.random;
  std::map<NodeId, Layer> layers;
  std::vector<size_t> of_user;  // among all outputs: the others are the state of the next run
  for (size_t i = 0; i < reference.outputs().size(); ++i)
    if (reference.output_port(i).role == Port::Role::User) of_user.push_back(i);
  report.outputs.resize(of_user.size());
  std::vector<Tensor> previous, previous_quantized;
  for (const std::vector<Tensor>& sample : samples.inputs) {
    std::vector<Tensor> inputs = sample;
    std::vector<Tensor> inputs_quantized = sample;
    carry_state(reference, previous, inputs);
    carry_state(quantized, previous_quantized, inputs_quantized);
    Values exact, rounded;
    TRY_ASSIGN(previous, run(reference, inputs, opaque, exact));
    TRY_ASSIGN(previous_quantized, run(quantized, inputs_quantized, opaque, rounded));
    for (size_t i = 0; i < of_user.size(); ++i)
      report.outputs[i].add(previous[of_user[i]], previous_quantized[of_user[i]]);

    for (NodeId id : quantized.order()) {
      const Node& node = quantized.node(id);
      if (node.outputs.size() != 1 || !quantized.type(node.outputs[0]).quantized()) continue;
      ValueId wanted = float_value(reference, quantized, node.outputs[0]);
      if (exact[wanted].data.empty() || info(node.op).traits.movement) continue;
      const Tensor& right = exact[wanted];
      Layer& layer = layers[id];
      layer.total.add(right, rounded[node.outputs[0]]);
      layer.clipped += count_clipped(right, quantized.type(node.outputs[0]));
      layer.elements += static_cast<double>(right.as<float>().size());
      TRY_ASSIGN(std::optional<Tensor> alone, run_alone(reference, quantized, node, exact, right.dtype));
      if (alone) layer.own.add(right, *alone);
    }
  }
  for (const auto& [id, layer] : layers) report.layers.push_back(accuracy_of(quantized, quantized.node(id), layer));
  std::stable_sort(report.layers.begin(), report.layers.end(),
                   [](const LayerAccuracy& a, const LayerAccuracy& b) { return a.own_db < b.own_db; });
  return report;
}

std::optional<double> AccuracyReport::worst_db() const {
  std::optional<double> worst;
  for (const OutputNoise& output : outputs)
    if (!output.integers) worst = std::min(worst.value_or(output.noise.db()), output.noise.db());
  return worst;
}

std::string to_text(const AccuracyReport& report) {
  const auto figure = [](const OutputNoise& output) {
    const std::optional<double> share = output.equal_share();
    return share ? fmt::format("{:.1f} % equal", 100 * *share) : fmt::format("{:.1f} dB", output.noise.db());
  };
  const std::optional<double> worst = report.worst_db();
  std::string text = "outputs: ";
  if (report.outputs.size() == 1)
    text += figure(report.outputs[0]);
  else
    text += worst ? fmt::format("{:.1f} dB, the worst,", *worst) : fmt::format("{}", report.outputs.size());
  text += fmt::format(" over {} sample{}{}\n", report.samples, report.samples == 1 ? "" : "s",
                      report.uncalibrated ? "; UNCALIBRATED: the samples are random" : "");
  for (size_t i = 0; i < report.outputs.size() && report.outputs.size() > 1; ++i)
    text += fmt::format("  output {}: {}\n", i, figure(report.outputs[i]));
  text += fmt::format("{:>8} {:>8} {:>9}  {:<18} {:<30} {:<22} {}\n", "own dB", "all dB", "clipped", "op", "value",
                      "source", "type");
  for (const LayerAccuracy& layer : report.layers)
    text += fmt::format("{:>8.1f} {:>8.1f} {:>8.3f}%  {:<18} {:<30} {:<22} {}\n", layer.own_db, layer.sqnr_db,
                        100 * layer.clipped, layer.op, layer.name, layer.source, layer.type);
  return text;
}

}  // namespace swoop
