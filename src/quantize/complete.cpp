#include "quantize/complete.h"

#include <algorithm>
#include <cmath>

#include "quantize/range.h"
#include "support/codes.h"

namespace swoop {

namespace {

bool was_zero(const Statistics& s) { return !s.empty() && s.min == 0 && s.max == 0; }

bool takes_codes(const Graph& graph, ValueId id) {
  return is_float(graph.type(id).dtype) && !graph.type(id).quantized() && !graph.value(id).uses.empty();
}

const std::string& shown_name(const Graph& graph, const Port& port, ValueId id) {
  return port.name.empty() ? graph.value(id).name : port.name;
}

const std::string& shown_input(const Graph& graph, size_t i) {
  return shown_name(graph, graph.input_port(i), graph.inputs()[i]);
}

// What is written to a state is read from it by the next run, so both have all that either has.
void join_state(const Graph& graph, ValueId read, ValueId written, Measured& measured) {
  ValueId from = origin(graph, written);
  if (takes_codes(graph, read) && !graph.value(from).constant && from != read)
    measured.values[read].merge(measured.values[from]);
}

void join_states(const Graph& graph, Measured& measured) {
  for (size_t i = 0; i < graph.inputs().size(); ++i)
    for (size_t o = 0; o < graph.outputs().size(); ++o)
      if (graph.input_port(i).role == Port::Role::State && graph.output_port(o).role == Port::Role::State &&
          graph.input_port(i).name == graph.output_port(o).name)
        join_state(graph, graph.inputs()[i], graph.outputs()[o], measured);
}

// Numbers from low to high, both ends among them, the same on every machine.
Tensor spread_over(Range range, Shape shape) {
  Tensor tensor = make_tensor(DType::F32, std::move(shape));
  uint32_t state = 1;
  for (float& x : tensor.as<float>()) {
    state = state * 1664525u + 1013904223u;  // Numerical Recipes, "quick and dirty"
    double share = std::clamp(static_cast<double>(state >> 8) * 0x1.0p-24 * 1.5 - 0.25, 0.0, 1.0);
    x = static_cast<float>(range.min + share * (range.max - range.min));
  }
  return tensor;
}

// What the operand of a node may be: null where that is not known (an index).
std::optional<Tensor> possible_operand(const Graph& graph, ValueId id, const Measured& measured) {
  const Type& type = graph.type(id);
  if (graph.value(id).constant) return to_tensor(graph.value(id));
  if (type.dtype == DType::Bool) {
    Tensor tensor = make_tensor(DType::Bool, type.shape);
    for (size_t i = 0; i < tensor.data.size(); ++i) tensor.as<uint8_t>()[i] = i % 2;
    return tensor;
  }
  if (!is_float(type.dtype) && !type.quantized()) return std::nullopt;
  if (type.quantized()) return spread_over(range_of(type), type.shape);
  const Statistics& s = measured.values[origin(graph, id)];
  if (s.empty()) return std::nullopt;
  return spread_over({std::min(0.0, static_cast<double>(s.min)), std::max(0.0, static_cast<double>(s.max))},
                     type.shape);
}

// The range of a node that gave zeros only: of its results for operands from all of their ranges.
Result<void> derive(const Graph& graph, const Node& node, Measured& measured) {
  std::vector<Tensor> tensors;
  tensors.reserve(node.inputs.size());
  std::vector<const Tensor*> operands;
  for (ValueId input : node.inputs) {
    if (input == kNone) {
      operands.push_back(nullptr);
      continue;
    }
    std::optional<Tensor> operand = possible_operand(graph, input, measured);
    if (!operand) return {};
    operands.push_back(&tensors.emplace_back(std::move(*operand)));
  }
  std::vector<Tensor> results;
  results.push_back(make_tensor(DType::F32, graph.type(node.outputs[0]).shape));
  TRY(evaluate(node, operands, results));
  Statistics derived;
  derived.add(results[0].as<float>());
  if (!derived.empty()) measured.values[node.outputs[0]] = std::move(derived);
  return {};
}

Result<void> derive_zeros(const Graph& graph, Measured& measured) {
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.outputs.size() == 1 && node.bodies.empty() && info(node.op).kernel &&
        takes_codes(graph, node.outputs[0]) && was_zero(measured.values[node.outputs[0]]))
      TRY(derive(graph, node, measured));
  }
  return {};
}

Result<void> complete_bodies(const Graph& graph, Measured& measured) {
  for (auto& [id, bodies] : measured.bodies) {
    const Node& node = graph.node(id);
    for (size_t i = 0; i < bodies.size(); ++i) {
      const Loc* loc = graph.loc(node.loc);
      if (!bodies[i].ran)
        return error("{}: no sample gets into the body of {}, so nothing is known of its ranges; add one that does",
                     loc ? to_text(*loc) : node.name, name_of(node.op));
      const Graph& body = *node.bodies[i];
      bool carries = (node.op == Op::While && i == 1) || node.op == Op::Scan;
      for (size_t c = 0; carries && c < static_cast<size_t>(node.integer(Key::Carried)); ++c)
        join_state(body, body.inputs()[c], body.outputs()[c], bodies[i]);
      TRY(complete_ranges(body, bodies[i]));
    }
  }
  return {};
}

// The share of values whose range the samples leave open: others are expected to reach half as far again.
double uncertain_share(const Measured& measured) {
  constexpr double kFurther = 1.5;
  size_t values = 0, uncertain = 0;
  for (const Statistics& s : measured.values) {
    if (s.empty() || s.min == s.max) continue;
    ++values;
    uncertain += s.likely_max() - s.likely_min() > kFurther * (static_cast<double>(s.max) - static_cast<double>(s.min));
  }
  return values ? static_cast<double>(uncertain) / static_cast<double>(values) : 0;
}

// The output that one sample takes furthest beyond all others, if none of many like the others would get there: a
// product of inputs may do so, and the next sample goes further still.
std::string lone_extreme(const Graph& graph, const Measured& measured) {
  double furthest = 4.5;  // deviations: of 16 normal numbers, the largest is as far from the others once in 190 times
  std::string found;
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const ValueId id = origin(graph, graph.outputs()[i]);
    const Statistics& s = measured.values[id];
    if (s.empty() || s.mins.count < kEnoughSamples) continue;
    for (bool top : {false, true}) {
      const auto end = static_cast<double>(top ? s.max : s.min);
      const Moments others = (top ? s.maxs : s.mins).without(end);
      const double far = std::fabs(end - others.mean());
      if (others.deviation() == 0 || far <= furthest * others.deviation()) continue;
      furthest = far / others.deviation();
      found = fmt::format("in one of them, the output {} ends at {:.3g}, in the others at {:.3g} in the mean",
                          shown_name(graph, graph.output_port(i), id), end, others.mean());
    }
  }
  return found;
}

// Why so many samples are too few, if they are.
std::string lacking(const Graph& graph, const Measured& measured, const QuantizeReport& report) {
  constexpr double kTooUncertain = 0.5;
  constexpr double kTooMuch = 3, kEqual = 999;  // dB; the latter is accuracy/'s of what is equal
  if (report.samples >= kEnoughSamples) return lone_extreme(graph, measured);
  if (report.samples == 1) return "it does not show how far others reach";
  if (const auto& last = report.left_out; last && last->loss_db() > kTooMuch)
    return fmt::format("with the ranges of the others, the last one has {:.1f} dB instead of {}", last->unseen_db,
                       last->seen_db < kEqual ? fmt::format("{:.1f} dB", last->seen_db) : "no error");
  const double share = uncertain_share(measured);
  if (share <= kTooUncertain) return "";
  return fmt::format("they differ so much that {:.0f} % of the ranges had to be widened by half or more", 100 * share);
}

}  // namespace

Result<void> complete_ranges(const Graph& graph, Measured& measured) {
  join_states(graph, measured);
  TRY(derive_zeros(graph, measured));
  settle_masks(graph, measured);
  return complete_bodies(graph, measured);
}

Result<void> check_inputs(const Graph& graph, const Measured& measured) {
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    ValueId id = graph.inputs()[i];
    const Statistics& s = measured.values[id];
    if (graph.input_port(i).role != Port::Role::User || !takes_codes(graph, id) || measured.hides[id]) continue;
    if (s.infinite > 0)
      return error("input {} holds infinities, which only a mask may that is added to the scores of a softmax",
                   shown_input(graph, i));
    if (was_zero(s))
      return error(
          "input {} is 0 in every sample, which says nothing of its range; calibrate with inputs like those that the "
          "device will meet",
          shown_input(graph, i));
  }
  return {};
}

std::vector<std::string> doubts(const Graph& graph, const Measured& measured, const QuantizeReport& report) {
  std::vector<std::string> found;
  if (std::string why = lacking(graph, measured, report); !why.empty())
    found.push_back(with_code(
        fmt::format(
            "{} sample{} too few: {}; give more to --calibrate, as different as those that the device will meet",
            report.samples, report.samples == 1 ? " is" : "s are", why),
        Code::FewSamples));
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    ValueId id = graph.inputs()[i];
    const Statistics& s = measured.values[id];
    if (graph.input_port(i).role != Port::Role::User || !takes_codes(graph, id) || measured.hides[id]) continue;
    if (s.count > 1 && s.min == s.max)
      found.push_back(
          with_code(fmt::format("input {} is {} in every sample: other values are outside the range that was measured",
                                shown_input(graph, i), s.min),
                    Code::ConstantInput));
  }
  return found;
}

}  // namespace swoop
