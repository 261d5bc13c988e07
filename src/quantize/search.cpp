#include "quantize/search.h"

#include <algorithm>
#include <cmath>

#include "accuracy/accuracy.h"
#include "quantize/choices.h"
#include "quantize/layers.h"

namespace swoop {

namespace {

constexpr size_t kSearchSamples = 4;  // a trial runs the whole graph on each

struct Candidate {
  std::string name;  // of the value, behind the path of its body
  ValueId value;
  double gain = 0;  // dB when raised alone
  double cost = 0;
};

class Search {
 public:
  Search(const Graph& prepared, const Measured& measured, const Samples& samples, const QuantizeOptions& options)
      : prepared_(prepared),
        measured_(measured),
        options_(options),
        samples_(samples.inputs.data(), std::min(kSearchSamples, samples.inputs.size())) {}

  Result<void> start() {
    for (const Sample& sample : samples_) {
      Sample inputs = sample;
      if (!exact_.empty()) carry_state(prepared_, exact_.back(), inputs);
      TRY_ASSIGN(std::vector<Tensor> outputs, execute(prepared_, inputs, {options_.opaque}));
      exact_.push_back(std::move(outputs));
    }
    return {};
  }

  Graph quantized(const std::set<std::string>& raised) const {
    Graph graph = clone(prepared_);
    choose_types(graph, {options_, measured_, raised});
    return graph;
  }

  Result<double> sqnr(const Graph& graph) const {
    Noise noise;  // of all samples together: one without error would lift a mean of decibels
    std::vector<Tensor> actual;
    for (size_t i = 0; i < samples_.size(); ++i) {
      Sample inputs = samples_[i];
      carry_state(graph, actual, inputs);
      TRY_ASSIGN(actual, execute(graph, inputs, {options_.opaque}));
      for (size_t o = 0; o < actual.size(); ++o) noise.add(exact_[i][o], actual[o]);
    }
    return noise.db();
  }

  Result<Cost> cost(const Graph& graph) const {
    return options_.cost ? options_.cost(graph) : Cost{.value = estimate_cost(graph)};
  }

  // Values whose type is their own choice: one per class of int8 values.
  std::vector<Candidate> candidates(const Graph& base) const {
    std::vector<Candidate> list;
    for (NodeId id : base.order()) {
      const Node& node = base.node(id);
      for (ValueId output : node.outputs) {
        const Type& type = base.type(output);
        if (shares_type(node) || !type.quantized() || type.dtype != DType::I8) continue;
        ValueId named = node.op == Op::Quantize ? node.inputs[0] : output;
        if (named >= prepared_.value_slots()) continue;
        list.push_back({base.value(named).name, named});
      }
    }
    return list;
  }

 private:
  const Graph& prepared_;
  const Measured& measured_;
  const QuantizeOptions& options_;
  std::span<const std::vector<Tensor>> samples_;
  std::vector<std::vector<Tensor>> exact_;
};

}  // namespace

double estimate_cost(const Graph& graph) {
  double cost = 0;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    for (const auto& body : node.bodies) cost += estimate_cost(*body);
    if (node.outputs.empty()) continue;
    auto elements = static_cast<double>(element_count(graph.type(node.outputs[0]).shape));
    double work = elements;
    if (is_layer(node.op)) {
      const Shape& weight = graph.type(node.inputs[1]).shape;
      double per_element =
          static_cast<double>(element_count(weight)) / static_cast<double>(std::max<int64_t>(1, weight[0]));
      if (node.op == Op::ConvTranspose) elements = static_cast<double>(element_count(graph.type(node.inputs[0]).shape));
      work = elements * per_element;
    } else if (node.op == Op::MatMul) {
      work = elements * static_cast<double>(graph.type(node.inputs[0]).shape.back());
    } else if (node.op == Op::Attention) {
      work = 2 * elements *
             static_cast<double>(graph.type(node.inputs[1]).shape[graph.type(node.inputs[1]).shape.size() - 2]);
    }
    bool wide = graph.type(node.outputs[0]).dtype == DType::I16 ||
                (!node.inputs.empty() && node.inputs[0] != kNone && graph.type(node.inputs[0]).dtype == DType::I16);
    cost += wide ? 2 * work : work;
  }
  return cost;
}

Result<std::set<std::string>> search_precision(const Graph& prepared, const Measured& measured, const Samples& samples,
                                               const QuantizeOptions& options, QuantizeReport& report) {
  Search search(prepared, measured, samples, options);
  TRY(search.start());
  std::set<std::string> raised;
  Graph base = search.quantized(raised);
  TRY_ASSIGN(double base_db, search.sqnr(base));
  report.wanted_sqnr = options.min_sqnr;
  report.sqnr_db = base_db;
  TRY_ASSIGN(Cost base_cost, search.cost(base));
  if (!base_cost.value) return error("--min-sqnr has nothing to weigh gains against: {}", base_cost.why_not);
  report.cost_before = report.cost_after = *base_cost.value;
  if (base_db >= *options.min_sqnr) return raised;

  std::vector<Candidate> list;
  for (Candidate& candidate : search.candidates(base)) {
    Graph graph = search.quantized({candidate.name});
    TRY_ASSIGN(double db, search.sqnr(graph));
    TRY_ASSIGN(Cost cost, search.cost(graph));
    if (!cost.value) {
      report.unpriced.push_back({candidate.name, cost.why_not});
      continue;
    }
    candidate.gain = db - base_db;
    candidate.cost = *cost.value - report.cost_before;
    list.push_back(std::move(candidate));
  }
  // Gain per cost; what gains nothing alone comes last, in its order, since noise that adds up hides single
  // contributions.
  double unit = std::max(1.0, report.cost_before) * 1e-4;
  std::stable_sort(list.begin(), list.end(), [&](const Candidate& a, const Candidate& b) {
    return a.gain / (std::max(a.cost, 0.0) + unit) > b.gain / (std::max(b.cost, 0.0) + unit);
  });
  for (const Candidate& candidate : list) {
    std::set<std::string> more = raised;
    more.insert(candidate.name);
    Graph graph = search.quantized(more);
    TRY_ASSIGN(double db, search.sqnr(graph));
    if (db <= *report.sqnr_db && candidate.gain <= 0) continue;
    TRY_ASSIGN(Cost cost, search.cost(graph));
    if (!cost.value) {
      report.unpriced.push_back({candidate.name, cost.why_not});
      continue;
    }
    raised = std::move(more);
    report.sqnr_db = db;
    const Node* producer = prepared.producer(candidate.value);
    const Loc* loc = producer ? prepared.loc(producer->loc) : nullptr;
    report.raised.push_back({.name = candidate.name,
                             .op = producer ? std::string(name_of(producer->op)) : "input",
                             .source = loc ? to_text(*loc) : "",
                             .gain_db = candidate.gain,
                             .cost = *cost.value - report.cost_after});
    report.cost_after = *cost.value;
    if (db >= *options.min_sqnr) break;
  }
  return raised;
}

}  // namespace swoop
