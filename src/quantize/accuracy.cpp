#include <algorithm>
#include <cmath>
#include <map>

#include "quantize/calibrate.h"
#include "quantize/quantize.h"
#include "quantize/range.h"
#include "support/check.h"

namespace swoop {

namespace {

struct Layer {
  Noise total;
  Noise own;
  double clipped = 0;
  double elements = 0;
};

struct Pass {
  const Graph& graph;
  std::vector<Tensor> values;  // by value id
};

void keep(void* context, ValueId id, const Tensor& tensor) { static_cast<Pass*>(context)->values[id] = tensor; }

// The value of the float graph that one of the quantized graph stands for: the same id, or what a border node was made
// of.
ValueId float_value(const Graph& reference, const Graph& quantized, ValueId id) {
  while (id >= reference.value_slots()) id = quantized.producer(id)->inputs[0];
  return id;
}

}  // namespace

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
  for (size_t i = 0; i < r.size(); ++i) {
    if (!std::isfinite(r[i])) continue;
    double x = static_cast<double>(r[i]);
    double d = x - static_cast<double>(a[i]);
    signal += x * x;
    error += d * d;
  }
}

double Noise::db() const {
  if (error == 0) return 999;
  return signal > 0 ? 10 * std::log10(signal / error) : 0;
}

double sqnr_db(std::span<const Tensor> reference, std::span<const Tensor> actual) {
  CHECK(reference.size() == actual.size(), "{} tensors are compared with {}", reference.size(), actual.size());
  Noise noise;
  for (size_t i = 0; i < reference.size(); ++i) noise.add(reference[i], actual[i]);
  return noise.db();
}

Result<AccuracyReport> measure_accuracy(const Graph& reference, const Graph& quantized, const Samples& samples) {
  AccuracyReport report;
  report.samples = samples.inputs.size();
  report.uncalibrated = samples.random;
  std::map<NodeId, Layer> layers;
  std::vector<Noise> outputs(reference.outputs().size());
  std::vector<Tensor> previous, previous_quantized;
  for (const std::vector<Tensor>& sample : samples.inputs) {
    std::vector<Tensor> inputs = sample;
    std::vector<Tensor> inputs_quantized = sample;
    if (!previous.empty()) carry_state(reference, previous, inputs);
    if (!previous_quantized.empty()) carry_state(quantized, previous_quantized, inputs_quantized);
    Pass exact{reference, std::vector<Tensor>(reference.value_slots())};
    Pass rounded{quantized, std::vector<Tensor>(quantized.value_slots())};
    TRY_ASSIGN(previous, execute(reference, inputs, keep, &exact));
    TRY_ASSIGN(previous_quantized, execute(quantized, inputs_quantized, keep, &rounded));
    report.sqnr_db += sqnr_db(previous, previous_quantized) / static_cast<double>(samples.inputs.size());
    for (size_t i = 0; i < previous.size(); ++i) outputs[i].add(previous[i], previous_quantized[i]);

    for (NodeId id : quantized.order()) {
      const Node& node = quantized.node(id);
      if (node.outputs.size() != 1 || !quantized.type(node.outputs[0]).quantized()) continue;
      ValueId wanted = float_value(reference, quantized, node.outputs[0]);
      if (exact.values[wanted].data.empty() || info(node.op).traits.movement) continue;
      Layer& layer = layers[id];
      const Tensor& right = exact.values[wanted];
      layer.total.add(right, rounded.values[node.outputs[0]]);
      Range range = range_of(quantized.type(node.outputs[0]));
      double margin = quantized.type(node.outputs[0]).scale() / 2;
      for (float x : right.as<float>())
        layer.clipped += std::isfinite(x) &&
                         (static_cast<double>(x) < range.min - margin || static_cast<double>(x) > range.max + margin);
      layer.elements += static_cast<double>(right.as<float>().size());
      // Alone: this node's own constants and rounding, on operands from the float graph.
      std::vector<Tensor> constants;
      constants.reserve(node.inputs.size());
      std::vector<const Tensor*> operands;
      bool complete = node.bodies.empty();
      for (ValueId input : node.inputs) {
        if (input == kNone) {
          operands.push_back(nullptr);
        } else if (quantized.value(input).constant) {
          operands.push_back(&constants.emplace_back(to_tensor(quantized.value(input))));
        } else {
          ValueId from = float_value(reference, quantized, input);
          complete &= exact.values[from].shape == quantized.type(input).shape;
          operands.push_back(complete ? &exact.values[from] : nullptr);
        }
      }
      if (!complete) continue;
      std::vector<Tensor> results;
      results.push_back(make_tensor(right.dtype, right.shape));
      TRY(evaluate(node, operands, results));
      fake_quantize(results[0], quantized.type(node.outputs[0]));
      layer.own.add(right, results[0]);
    }
  }
  for (const Noise& noise : outputs) report.output_db.push_back(noise.db());
  for (const auto& [id, layer] : layers) {
    const Node& node = quantized.node(id);
    const Loc* loc = quantized.loc(node.loc);
    std::string op(name_of(node.op));
    if (node.op == Op::Unary) op = node.text(Key::Fn);
    report.layers.push_back({.name = quantized.value(node.outputs[0]).name,
                             .node = node.name,
                             .op = op,
                             .source = loc ? to_text(*loc) : "",
                             .type = to_text(quantized.type(node.outputs[0])),
                             .sqnr_db = layer.total.db(),
                             .own_db = layer.own.signal > 0 ? layer.own.db() : layer.total.db(),
                             .clipped = layer.elements > 0 ? layer.clipped / layer.elements : 0});
  }
  std::stable_sort(report.layers.begin(), report.layers.end(),
                   [](const LayerAccuracy& a, const LayerAccuracy& b) { return a.own_db < b.own_db; });
  return report;
}

std::string to_text(const AccuracyReport& report) {
  std::string text =
      fmt::format("outputs: {:.1f} dB over {} sample{}{}\n", report.sqnr_db, report.samples,
                  report.samples == 1 ? "" : "s", report.uncalibrated ? "; UNCALIBRATED: the samples are random" : "");
  for (size_t i = 0; i < report.output_db.size() && report.output_db.size() > 1; ++i)
    text += fmt::format("  output {}: {:.1f} dB\n", i, report.output_db[i]);
  text += fmt::format("{:>8} {:>8} {:>9}  {:<18} {:<30} {:<22} {}\n", "own dB", "all dB", "clipped", "op", "value",
                      "source", "type");
  for (const LayerAccuracy& layer : report.layers)
    text += fmt::format("{:>8.1f} {:>8.1f} {:>8.3f}%  {:<18} {:<30} {:<22} {}\n", layer.own_db, layer.sqnr_db,
                        100 * layer.clipped, layer.op, layer.name, layer.source, layer.type);
  return text;
}

}  // namespace swoop
