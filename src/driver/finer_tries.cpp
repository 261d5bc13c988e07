#include "driver/finer_tries.h"

#include <fmt/ranges.h>

#include <set>

#include "driver/gates.h"
#include "support/codes.h"

namespace swoop {

namespace {

// The value whose elements these are, before they were moved.
ValueId unmoved(const Graph& graph, ValueId id) {
  const Node* node = graph.producer(id);
  while (node && info(node->op).traits.movement) {
    id = node->inputs[0];
    node = graph.producer(id);
  }
  return id;
}

// What the parts are computed from, with themselves and with what joins them: the nearest of it, and all of it. Without
// what somebody chose the precision of.
struct Before {
  std::set<std::string> nearest, all;
};
Before values_before(const Pipeline& pipeline, const std::vector<const PartAccuracy*>& parts) {
  const Graph& model = *pipeline.reference;
  std::set<ValueId> flat, nearest, all;
  const std::vector<NodeId> order = model.order();
  for (NodeId id : order)
    for (ValueId output : model.node(id).outputs)
      if (std::ranges::any_of(parts, [&](const PartAccuracy* part) { return part->name == model.value(output).name; }))
        flat.insert(output);
  for (NodeId id : order) {  // on their way to an output
    const Node& node = model.node(id);
    const auto is_flat = [&](ValueId input) { return flat.contains(input); };
    const bool moves = node.op == Op::Concat || info(node.op).traits.movement;
    if (moves && std::ranges::any_of(node.inputs, is_flat)) flat.insert(node.outputs[0]);
  }
  all = nearest = flat;
  for (auto id = order.rbegin(); id != order.rend(); ++id) {
    const Node& node = model.node(*id);
    if (std::ranges::none_of(node.outputs, [&](ValueId output) { return all.contains(output); })) continue;
    for (ValueId input : node.inputs) {
      if (input == kNone || model.value(input).constant || !is_float(model.type(input).dtype)) continue;
      all.insert(input);
      if (std::ranges::any_of(node.outputs, [&](ValueId output) { return flat.contains(output); }))
        nearest.insert(unmoved(model, input));
    }
  }
  const auto names = [&](const std::set<ValueId>& ids) {
    std::set<std::string> open;
    for (ValueId id : ids) {
      const bool given = !model.producer(id) && pipeline.options.ports.inputs != PortNumbers::Float;
      if (!given && !is_settled(model, id, pipeline.options.quantize)) open.insert(model.value(id).name);
    }
    return open;
  };
  return {names(nearest), names(all)};
}

}  // namespace

// From what costs least on. A way that changes nothing is none.
std::vector<FinerTries::Way> FinerTries::ways(const Pipeline& pipeline, const std::vector<const PartAccuracy*>& flat) {
  const bool coarse = pipeline.quantized->smaller_weights.has_value();
  const bool widened = !pipeline.quantized->cheap.candidates.empty();
  std::vector<Way> ways;
  if (coarse) ways.push_back({"the finest weights", {.weights = true}, pipeline.widens});
  if (widened) ways.push_back({"no nearly free int16", {}, false});
  if (coarse && widened) ways.push_back({"the finest weights and no nearly free int16", {.weights = true}, false});
  if (pipeline.options.quantize.int16_budget == 0 || pipeline.options.ports.outputs != PortNumbers::Float) return ways;
  const Before before = values_before(pipeline, flat);
  const auto widen = [&](std::string what, const std::set<std::string>& values) {
    ways.push_back({std::move(what), {.weights = true, .int16 = {values.begin(), values.end()}}, pipeline.widens});
  };
  if (!before.nearest.empty()) widen(fmt::format("int16 for {}", fmt::join(before.nearest, " and ")), before.nearest);
  if (before.all.size() > before.nearest.size()) widen("int16 for all that it is computed from", before.all);
  return ways;
}

bool FinerTries::next(Pipeline& pipeline, const Summary* summary) {
  const std::vector<const PartAccuracy*> flat =
      summary ? flat_parts(*summary, pipeline.options.gates) : std::vector<const PartAccuracy*>();
  if (!pipeline.quantized || (summary && flat.empty())) return false;
  if (tried_ == 0 && summary) {
    std::vector<std::string> texts;
    for (const PartAccuracy* part : flat) texts.push_back(flat_text(*part));
    flat_ = fmt::format("{}", fmt::join(texts, " and "));
    first_cycles_ = totals_of(*summary).total_cycles;
    ways_ = ways(pipeline, flat);
  }
  if (tried_ == ways_.size()) return false;
  pipeline.finer = ways_[tried_].finer;
  pipeline.widens = ways_[tried_].widens;
  ++tried_;
  return true;
}

std::optional<std::string> FinerTries::warning(const Summary& summary) const {
  if (tried_ == 0) return std::nullopt;
  return with_code(fmt::format("{} would have one value in the file: built with {} instead; {} -> {} cycles", flat_,
                               ways_[tried_ - 1].what, first_cycles_, totals_of(summary).total_cycles),
                   Code::Finer);
}

std::string FinerTries::tried_text() const {
  if (tried_ == 0) return "";
  std::vector<std::string_view> all;
  for (size_t i = 0; i < tried_; ++i) all.push_back(ways_[i].what);
  return fmt::format("; building it with {} does not help", fmt::join(all, ", or with "));
}

Error FinerTries::refusal() const {
  return error("{} varies in the float model and not in the file{}; no file is written", flat_, tried_text());
}

}  // namespace swoop
