#include "quantize/parts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <span>
#include <tuple>

#include "quantize/choices.h"
#include "quantize/range.h"

namespace swoop {

namespace {

struct Part {
  double min = 0;
  double max = 0;
  double deviation = 0;
};

Part part_of(const Statistics& s) {
  if (s.empty()) return {};
  Part part{static_cast<double>(s.min), static_cast<double>(s.max), 0};
  if (s.min == s.max) return part;
  double width = (part.max - part.min) / static_cast<double>(Statistics::kBins);
  double mass = 0, first = 0, second = 0;
  for (size_t b = 0; b < Statistics::kBins; ++b) {
    double x = (static_cast<double>(b) + 0.5) * width;
    mass += s.bins[b];
    first += s.bins[b] * x;
    second += s.bins[b] * x * x;
  }
  part.deviation = std::sqrt(std::max(0.0, second / mass - first / mass * (first / mass)));
  return part;
}

// With what pads it on its way here: both have one type.
Part padded(Part part, const Graph& graph, ValueId id) {
  for (const Node* node = graph.producer(id); node && shares_type(*node); node = graph.producer(node->inputs[0])) {
    if (node->op != Op::Pad || node->text(Key::Mode) != "constant" || !std::isfinite(node->real(Key::Value))) continue;
    part.min = std::min(part.min, node->real(Key::Value));
    part.max = std::max(part.max, node->real(Key::Value));
  }
  return part;
}

// The concat that an operand of a concat comes from, null if there is none.
const Node* joined_before(const Graph& graph, const Node& node, ValueId input) {
  const Node* before = graph.producer(origin(graph, input));
  return node.op == Op::Concat && before && before->op == Op::Concat ? before : nullptr;
}

Part widened(Part part, const Part& by) {
  return {std::min(part.min, by.min), std::max(part.max, by.max), part.deviation};
}

// A concat before another, and what pads it on its way there: nested concats reach one on many ways.
using Visited = std::set<std::tuple<NodeId, double, double>>;

void add_parts(const Graph& graph, const Measured& measured, const Node& node, const Part& padding, Visited& seen,
               std::vector<Part>& parts) {
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (static_cast<int>(i) == info(node.op).traits.selector) continue;
    const ValueId from = origin(graph, node.inputs[i]);
    const Part around = padded(padding, graph, node.inputs[i]);
    if (const Node* before = joined_before(graph, node, from)) {
      if (seen.insert({before->id, around.min, around.max}).second)
        add_parts(graph, measured, *before, around, seen, parts);
    } else if (graph.value(from).constant) {
      Tensor tensor = to_tensor(graph.value(from));
      Statistics s;
      if (tensor.dtype == DType::F32) s.add(tensor.as<float>());
      parts.push_back(widened(part_of(s), around));
    } else if (from < measured.values.size()) {
      parts.push_back(widened(part_of(measured.values[from]), around));
    }
  }
}

// Of a concat, with those of the concats before it, or of a choice.
std::vector<Part> parts_of(const Graph& graph, const Measured& measured, const Node& node) {
  constexpr double kNothing = std::numeric_limits<double>::infinity();
  Visited seen;
  std::vector<Part> parts;
  add_parts(graph, measured, node, {kNothing, -kNothing}, seen, parts);
  return parts;
}

// In 8 bits.
double step_of(const Part& part) { return (std::max(part.max, 0.0) - std::min(part.min, 0.0)) / 255; }

Part joint(const std::vector<Part>& parts) {
  Part all;
  for (const Part& part : parts) all = {std::min(all.min, part.min), std::max(all.max, part.max), 0};
  return all;
}

// Only movement and outputs read it, or concats whose results go there. `readers` collects them.
bool reaches_outputs_only(const Graph& graph, ValueId id, std::vector<NodeId>& readers) {
  for (const Use& use : graph.value(id).uses) {
    if (use.node == kNone) continue;
    const Node& node = graph.node(use.node);
    if (node.op == Op::Dequantize) continue;
    if (node.op != Op::Concat && (!shares_type(node) || use.index != 0)) return false;
    if (std::ranges::find(readers, node.id) != readers.end()) continue;
    readers.push_back(node.id);
    if (!reaches_outputs_only(graph, node.outputs[0], readers)) return false;
  }
  return true;
}

// A part that moves by so few steps is lost. 16 bits for an output cost a copy; inside the network they cost the layers
// after it half of their speed, so there only what would vanish counts.
constexpr double kStepsOfOutput = 4;
constexpr double kStepsInside = 0.5;

bool loses_channel(double step, const ChannelExtents& channels) {
  for (size_t c = 0; c < channels.min.size(); ++c) {
    double moves = static_cast<double>(channels.max[c]) - static_cast<double>(channels.min[c]);
    if (moves > 0 && moves < kStepsOfOutput * step) return true;
  }
  return false;
}

bool loses_part(const Graph& graph, const Measured& measured, const std::vector<Part>& parts, const Node& node) {
  std::vector<NodeId> readers;
  const bool is_output = reaches_outputs_only(graph, node.outputs[0], readers);
  const double step = step_of(joint(parts));
  const bool loses = std::any_of(parts.begin(), parts.end(), [&](const Part& part) {
    bool finer = step_of(part) * 2 < step;  // it would have had better codes of its own
    return finer && part.deviation > 0 && part.deviation < (is_output ? kStepsOfOutput : kStepsInside) * step;
  });
  if (loses || !is_output) return loses;
  for (ValueId id : parts_of_output(graph, node.outputs[0]))
    if (auto head = measured.heads.find(id); head != measured.heads.end() && loses_channel(step, head->second))
      return true;
  return false;
}

// An output that moves by a few steps of 8 bits, as a sigmoid does that saturates.
bool loses_output(const Graph& graph, const Statistics& statistics, ValueId id) {
  const Node* node = graph.producer(id);
  if (statistics.empty() || !node || policy_of(*node) != Policy::OwnRange) return false;
  const Part part = part_of(statistics);
  return part.max > part.min && part.max - part.min < kStepsOfOutput * step_of(part);
}

// Whether 16 bits for all parts are coarser, for one of them, than 8 bits of its own.
bool wide_is_coarse(const std::vector<Part>& parts) {
  const Part all = joint(parts);
  const double wide = std::max(-all.min, all.max) / 32767;
  return std::any_of(parts.begin(), parts.end(),
                     [&](const Part& part) { return part.deviation > 0 && wide > 2 * step_of(part); });
}

// A scale of 32 bits that every part has many codes in, beside what 16 bits of its own would have.
double scale_of_32_bits(const std::vector<Part>& parts) {
  const Part all = joint(parts);
  double finest = step_of(all);
  for (const Part& part : parts)
    if (part.deviation > 0) finest = std::min(finest, step_of(part));
  const double largest = std::max(-all.min, all.max);
  return static_cast<double>(static_cast<float>(std::max(std::ldexp(finest, -12), std::ldexp(largest, -29))));
}

}  // namespace

PartForms forms_of_parts(const Graph& graph, const Measured& measured) {
  PartForms forms{std::vector<bool>(graph.value_slots()), {}, std::vector<bool>(graph.node_slots())};
  for (const auto& [id, channels] : measured.heads)
    forms.wide[id] = loses_channel(step_of(part_of(measured.values[id])), channels);
  for (ValueId output : graph.outputs()) {
    const ValueId id = origin(graph, output);
    if (id < measured.values.size() && loses_output(graph, measured.values[id], id)) forms.wide[id] = true;
  }
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const bool joins = node.op == Op::Concat || node.op == Op::Where;
    if (!joins || !is_float(graph.type(node.outputs[0]).dtype)) continue;
    if (node.outputs[0] < measured.masked.size() && measured.masked[node.outputs[0]]) continue;
    std::vector<Part> parts = parts_of(graph, measured, node);
    if (!loses_part(graph, measured, parts, node)) continue;
    forms.wide[node.outputs[0]] = true;
    std::vector<NodeId> readers = {id};
    if (!reaches_outputs_only(graph, node.outputs[0], readers) || !wide_is_coarse(parts)) continue;
    // Of concats that follow each other, none takes 32 bits: the next would have to take it as well.
    const auto is_concat = [&](NodeId reader) { return graph.node(reader).op == Op::Concat; };
    const auto is_joined = [&](ValueId input) { return joined_before(graph, node, input) != nullptr; };
    if (std::ranges::any_of(std::span(readers).subspan(1), is_concat) || std::ranges::any_of(node.inputs, is_joined))
      continue;
    if (node.op == Op::Concat)
      forms.in_32_bits[node.outputs[0]] = scale_of_32_bits(parts);
    else
      for (NodeId reader : readers) forms.in_float[reader] = true;
  }
  return forms;
}

}  // namespace swoop
