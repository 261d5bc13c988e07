#include "quantize/calibrate.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <set>

#include "quantize/choices.h"
#include "quantize/complete.h"
#include "quantize/layers.h"

namespace swoop {

namespace {

// Watches one graph while it runs.
class Watch {
 public:
  Watch(const Graph& graph, Measured& measured, OpaqueKernels* opaque, Covariances* covariances = nullptr)
      : graph_(graph), m_(measured), opaque_(opaque), covariances_(covariances), constants_(graph) {
    size_t values = graph.value_slots();
    m_.values.resize(values);
    m_.inner.resize(graph.node_slots());
    m_.lowest_peak.resize(values, INFINITY);
    m_.masked = masked_scores(graph);
    m_.hides.resize(values);
    for (ValueId id : possible_masks(graph)) m_.depths[id];
    for (ValueId output : graph.outputs())
      for (ValueId head : parts_of_output(graph, output))
        if (units_axis(graph, head)) m_.heads[head];
    channel_axes_.resize(values);
    hooks_.resize(values);
    observed_.resize(values);
    for (ValueId id : graph.inputs()) observed_[id] = is_plain_float(id);
    for (NodeId id = graph.first(); id != kNone; id = graph.node(id).next) {
      const Node& node = graph.node(id);
      for (ValueId output : node.outputs) observed_[output] = is_plain_float(output) && !shares_type(node);
      if (is_layer(node.op) && graph.value(node.inputs[1]).constant)
        channel_axes_[node.inputs[0]].insert(channels_at(node, graph.type(node.inputs[0]).rank()));
      if (!has_inner(node.op) && node.bodies.empty()) continue;
      if (!node.bodies.empty()) m_.bodies[id].resize(node.bodies.size());
      size_t read = node.op == Op::Attention ? 2 : has_inner(node.op) ? 1 : node.inputs.size();
      for (size_t i = 0; i < read; ++i)
        if (node.inputs[i] != kNone) hooks_[node.inputs[i]].push_back(id);
    }
  }

  Result<std::vector<Tensor>> run(std::span<const Tensor> inputs, bool every_branch) {
    Watch* self[] = {this};
    return run(self, inputs, every_branch);
  }

  // Several that watch one graph see the same run.
  static Result<std::vector<Tensor>> run(std::span<Watch* const> watches, std::span<const Tensor> inputs,
                                         bool every_branch) {
    for (Watch* watch : watches) {
      watch->m_.ran = true;
      watch->kept_.clear();
    }
    const Graph& watched = watches[0]->graph_;
    auto see = [&](const Graph& graph, ValueId id, const Tensor& tensor) {
      if (&graph != &watched) return;  // bodies have a Watch of their own
      for (Watch* watch : watches) watch->observe(id, tensor);
    };
    const ExecuteOptions options{.opaque = watches[0]->opaque_, .observer = see, .constants = &watches[0]->constants_};
    Result<std::vector<Tensor>> outputs = execute(watched, inputs, options);
    if (!outputs) return outputs;
    for (Watch* watch : watches) TRY(watch->finish(every_branch));
    return outputs;
  }

 private:
  Result<void> finish(bool every_branch) {
    if (!fault_.message.empty()) return fault_;
    for (NodeId id : graph_.order())
      if (!graph_.node(id).bodies.empty()) TRY(run_bodies(graph_.node(id), every_branch));
    return {};
  }

  bool is_plain_float(ValueId id) const { return is_float(graph_.type(id).dtype) && !graph_.type(id).quantized(); }

  void observe(ValueId id, const Tensor& tensor) {
    if (observed_[id]) {
      m_.values[id].add(tensor.as<float>(), m_.masked[id] ? kMaskedBelow : -INFINITY);
      auto depths = m_.depths.find(id);
      if (depths != m_.depths.end()) depths->second.add(tensor.as<float>());
      if (m_.masked[id] || depths != m_.depths.end()) see_peaks(id, tensor);
      if (auto head = m_.heads.find(id); head != m_.heads.end())
        see_head(head->second, *units_axis(graph_, id), tensor);
    }
    if (tensor.dtype == DType::F32 && element_count(tensor.shape) > 0) {
      see_channels(id, tensor);
      if (covariances_) covariances_->see(id, tensor);
    }
    for (NodeId hooked : hooks_[id]) {
      const Node& node = graph_.node(hooked);
      if (node.op == Op::Attention) {
        kept_.insert_or_assign(id, tensor);
        try_scores(node);
      } else if (!node.bodies.empty()) {
        kept_.insert_or_assign(id, tensor);
      } else {
        const Tensor* operands[] = {&tensor};
        see_inner(node, operands);
      }
    }
  }

  static size_t elements_after(const Tensor& tensor, size_t axis) {
    size_t inner = 1;
    for (size_t d = axis + 1; d < tensor.shape.size(); ++d) inner *= static_cast<size_t>(tensor.shape[d]);
    return inner;
  }

  static void see_head(ChannelExtents& head, size_t axis, const Tensor& tensor) {
    head.add(tensor.as<float>(), static_cast<size_t>(tensor.shape[axis]), elements_after(tensor, axis));
  }

  void see_channels(ValueId id, const Tensor& tensor) {
    for (int axis : channel_axes_[id]) {
      const auto at = static_cast<size_t>(axis);
      m_.channels[{id, axis}].add(tensor.as<float>(), static_cast<size_t>(tensor.shape[at]),
                                  elements_after(tensor, at));
    }
  }

  void see_peaks(ValueId id, const Tensor& tensor) {
    auto length = static_cast<size_t>(tensor.shape.empty() ? 1 : tensor.shape.back());
    std::span<const float> x = tensor.as<float>();
    for (size_t row = 0; length > 0 && row < x.size() / length; ++row) {
      float peak = *std::max_element(x.begin() + static_cast<int64_t>(row * length),
                                     x.begin() + static_cast<int64_t>((row + 1) * length));
      if (peak >= kMaskedBelow) m_.lowest_peak[id] = std::min(m_.lowest_peak[id], peak);
    }
  }

  const Tensor* operand(ValueId id) {
    if (id == kNone) return nullptr;
    if (graph_.value(id).constant) kept_.try_emplace(id, to_tensor(graph_.value(id)));
    auto at = kept_.find(id);
    return at == kept_.end() ? nullptr : &at->second;
  }

  void see_inner(const Node& node, std::span<const Tensor* const> operands) {
    if (auto done = measure_inner(node, operands, m_.inner[node.id]); !done && fault_.message.empty())
      fault_ = done.error();
  }

  // Once queries and keys are both there. What only this node reads is let go.
  void try_scores(const Node& node) {
    const Tensor* operands[] = {operand(node.inputs[0]), operand(node.inputs[1])};
    if (!operands[0] || !operands[1]) return;
    see_inner(node, operands);
    for (size_t i = 0; i < 2; ++i)
      if (hooks_[node.inputs[i]].size() == 1) kept_.erase(node.inputs[i]);
  }

  Result<void> run_body(const Node& node, size_t which, std::span<const Tensor> operands, bool every_branch,
                        std::vector<Tensor>* outputs = nullptr) {
    Watch body(*node.bodies[which], m_.bodies[node.id][which], opaque_);
    TRY_ASSIGN(std::vector<Tensor> results, body.run(operands, every_branch));
    if (outputs) *outputs = std::move(results);
    return {};
  }

  static Tensor row_of(const Tensor& tensor, int64_t index) {
    Tensor row = make_tensor(tensor.dtype, Shape(tensor.shape.begin() + 1, tensor.shape.end()));
    if (!row.data.empty())
      std::memcpy(row.data.data(), tensor.data.data() + static_cast<size_t>(index) * row.data.size(), row.data.size());
    return row;
  }

  // The bodies run a second time here, watched; the graph's own run has already shown that they end.
  Result<void> run_bodies(const Node& node, bool every_branch) {
    std::vector<Tensor> operands;
    for (ValueId input : node.inputs) {
      const Tensor* tensor = operand(input);
      if (!tensor) return {};
      operands.push_back(*tensor);
    }
    std::span<const Tensor> all(operands);
    if (node.op == Op::Cond) {
      size_t taken = operands[0].as<uint8_t>()[0] != 0 ? 0 : 1;
      for (size_t which = 0; which < 2; ++which)
        if (which == taken || (every_branch && !taken_.contains({node.id, which})))
          TRY(run_body(node, which, all.subspan(1), every_branch));
      if (!every_branch) taken_.insert({node.id, taken});
      return {};
    }
    auto carried = static_cast<size_t>(node.integer(Key::Carried));
    if (node.op == Op::While) {
      while (true) {
        std::vector<Tensor> verdict, next;
        TRY(run_body(node, 0, operands, every_branch, &verdict));
        const bool goes_on = verdict[0].as<uint8_t>()[0] != 0;
        if (!goes_on && (!every_branch || taken_.contains({node.id, 1}))) return {};
        TRY(run_body(node, 1, operands, every_branch, &next));
        if (!goes_on) return {};
        taken_.insert({node.id, 1});
        std::move(next.begin(), next.begin() + static_cast<int64_t>(std::min(carried, next.size())), operands.begin());
      }
    }
    size_t states = node.op == Op::Map ? 0 : carried;
    size_t scanned = node.op == Op::Map ? carried : static_cast<size_t>(node.integer(Key::Scanned));
    for (int64_t step = 0; step < operands[states].shape[0]; ++step) {
      std::vector<Tensor> turn = operands;
      for (size_t i = states; i < states + scanned; ++i) turn[i] = row_of(operands[i], step);
      std::vector<Tensor> next;
      TRY(run_body(node, 0, turn, every_branch, &next));
      std::move(next.begin(), next.begin() + static_cast<int64_t>(states), operands.begin());
    }
    return {};
  }

  const Graph& graph_;
  Measured& m_;
  OpaqueKernels* opaque_;
  Covariances* covariances_;
  ConstantTensors constants_;
  std::vector<std::set<int>> channel_axes_;  // by value id: of the layers that read it
  std::vector<std::vector<NodeId>> hooks_;   // by value id: composites and control flow that read it
  std::vector<bool> observed_;
  std::map<ValueId, Tensor> kept_;
  std::set<std::pair<NodeId, size_t>> taken_;
  Error fault_;
};

Result<void> check_numbers(const Graph& graph, const Measured& measured) {
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    for (ValueId output : node.outputs) {
      if (!measured.values[output].has_nan) continue;
      const Loc* loc = graph.loc(node.loc);
      std::string place = loc ? to_text(*loc) : "";
      return error(
          "{}: {} gives NaN on the calibration samples; the float model itself does, so look at its inputs and weights "
          "first",
          place.empty() ? node.name : place, name_of(node.op));
    }
    if (auto bodies = measured.bodies.find(id); bodies != measured.bodies.end())
      for (size_t i = 0; i < node.bodies.size(); ++i)
        if (bodies->second[i].ran) TRY(check_numbers(*node.bodies[i], bodies->second[i]));
  }
  return {};
}

bool all_ran(const Measured& measured) {
  for (const auto& [id, bodies] : measured.bodies)
    for (const Measured& body : bodies)
      if (!body.ran || !all_ran(body)) return false;
  return true;
}

Result<void> settle_ranges(const Graph& graph, Measured& measured) {
  TRY(check_numbers(graph, measured));
  TRY(complete_ranges(graph, measured));
  return check_inputs(graph, measured);
}

}  // namespace

ValueId origin(const Graph& graph, ValueId id) {
  for (const Node* node = graph.producer(id); node && shares_type(*node); node = graph.producer(id))
    id = node->inputs[0];
  return id;
}

// Nested concats reach a value on many ways, so that each is asked once.
std::vector<ValueId> parts_of_output(const Graph& graph, ValueId id) {
  std::vector<ValueId> parts, asked{origin(graph, id)};
  for (size_t i = 0; i < asked.size(); ++i) {
    const Node* node = graph.producer(asked[i]);
    if (!node || node->op != Op::Concat) {
      parts.push_back(asked[i]);
      continue;
    }
    for (ValueId input : node->inputs)
      if (const ValueId from = origin(graph, input); std::ranges::find(asked, from) == asked.end())
        asked.push_back(from);
  }
  return parts;
}

Result<Measured> calibrate(const Graph& graph, const Samples& samples, OpaqueKernels* opaque,
                           std::optional<Measured>* without_last, Covariances* covariances) {
  const StorageReuse reuse;
  Measured measured;
  Watch watch(graph, measured, opaque, covariances);
  // A branch that no sample takes, and the body of a loop that none gets into, still need ranges: then each runs on
  // what it would be given.
  for (bool every_branch : {false, true}) {
    std::vector<Tensor> previous;
    std::vector<std::vector<Tensor>> first;
    for (const std::vector<Tensor>& sample : samples.inputs) {
      if (without_last && !every_branch && &sample == &samples.inputs.back()) *without_last = measured;
      std::vector<Tensor> inputs = sample;
      carry_state(graph, previous, inputs);
      TRY_ASSIGN(previous, watch.run(inputs, every_branch));
      if (first.size() < Measured::kKept) first.push_back(previous);
    }
    measured.first_outputs = std::move(first);
    measured.last_outputs = std::move(previous);
    if (all_ran(measured)) break;
  }
  TRY(settle_ranges(graph, measured));
  if (without_last && *without_last &&
      (!complete_ranges(graph, **without_last) || !check_inputs(graph, **without_last)))
    without_last->reset();
  return measured;
}

Result<std::vector<Measured>> calibrate_without_each(const Graph& graph, const Samples& samples, size_t count,
                                                     OpaqueKernels* opaque) {
  const StorageReuse reuse;
  std::vector<Measured> measured(count);
  std::deque<Watch> watches;
  for (Measured& one : measured) watches.emplace_back(graph, one, opaque);
  std::vector<bool> done(count);
  for (bool every_branch : {false, true}) {
    for (size_t s = 0; s < samples.inputs.size(); ++s) {
      std::vector<Watch*> watching;
      for (size_t i = 0; i < count; ++i)
        if (i != s && !done[i]) watching.push_back(&watches[i]);
      if (!watching.empty()) TRY(Watch::run(watching, samples.inputs[s], every_branch));
    }
    for (size_t i = 0; i < count; ++i) done[i] = all_ran(measured[i]);
  }
  for (Measured& one : measured) TRY(settle_ranges(graph, one));
  return measured;
}

}  // namespace swoop
