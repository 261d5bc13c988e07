#include "quantize/borders.h"

#include <algorithm>
#include <set>

#include "quantize/folds.h"
#include "quantize/layers.h"
#include "quantize/parts.h"

namespace swoop {

namespace {

struct Placement {
  Graph& graph;
  const QuantizeOptions& options;
  Borders borders;
  std::map<ValueId, ValueId> copies;  // float value -> its quantized copy
  std::map<ValueId, ValueId> floats;  // quantized value -> its float copy
};

Domain domain_of(const Graph& graph, const Node& node, const Choice& choice) {
  if (node.op == Op::Quantize) return Domain::Reader;
  if (choice.precision == Precision::Float) return Domain::Float;
  if (node.op == Op::Cond) return Domain::Branch;
  Policy policy = policy_of(node);
  if (policy == Policy::ReadsCodes) return Domain::Reader;
  if (policy == Policy::KeepFloat) return Domain::Float;
  if (std::none_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) { return is_plain_float(graph, v); }))
    return Domain::Float;
  bool computed_bias =
      is_layer(node.op) && node.inputs.size() > 2 && node.inputs[2] != kNone && !graph.value(node.inputs[2]).constant;
  return computed_bias ? Domain::Float : Domain::Quantized;
}

void mark(Borders& borders, ValueId id) {
  if (borders.codes.size() <= id) borders.codes.resize(id + 1);
  borders.codes[id] = true;
}

// A quantize or dequantize node right after the value that it reads.
ValueId add_border(Placement& p, Op op, ValueId from, Type type, std::string_view suffix, Domain domain) {
  const Node* producer = p.graph.producer(from);
  Node& node =
      p.graph.add_node(op, {from}, {std::move(type)}, {}, producer ? producer->loc : kNone,
                       p.graph.value(from).name + std::string(suffix), producer ? producer->next : p.graph.first());
  p.borders.domains.resize(p.graph.node_slots(), domain);
  p.borders.choices.resize(p.graph.node_slots(), {p.options.precision, p.options.method});
  return node.outputs[0];
}

ValueId quantized_copy(Placement& p, ValueId id) {
  auto [at, fresh] = p.copies.try_emplace(id, kNone);
  if (!fresh) return at->second;
  at->second = add_border(p, Op::Quantize, id, p.graph.type(id), "_q", Domain::Reader);
  mark(p.borders, at->second);
  p.borders.copy_of[at->second] = id;
  return at->second;
}

ValueId float_copy(Placement& p, ValueId id) {
  auto [at, fresh] = p.floats.try_emplace(id, kNone);
  if (!fresh) return at->second;
  Type type = p.graph.type(id);
  if (type.quantized()) type = Type{DType::F32, type.shape, {}};
  at->second = add_border(p, Op::Dequantize, id, std::move(type), "_dq", Domain::Float);
  p.borders.copy_of[at->second] = id;
  return at->second;
}

// Which nodes and values are to have codes.
void divide(Placement& p, const std::vector<bool>& in_float) {
  Borders& b = p.borders;
  b.domains.resize(p.graph.node_slots(), Domain::Float);
  b.choices.resize(p.graph.node_slots());
  b.codes.resize(p.graph.value_slots());
  for (ValueId input : p.graph.inputs())
    if (p.graph.type(input).quantized()) mark(b, input);
  for (NodeId id : p.graph.order()) {
    const Node& node = p.graph.node(id);
    b.choices[id] = choose(p.graph, node, p.options);
    b.domains[id] = in_float[id] && !b.choices[id].by_scope ? Domain::Float : domain_of(p.graph, node, b.choices[id]);
    bool gives_codes = b.domains[id] == Domain::Quantized || b.domains[id] == Domain::Branch;
    for (ValueId output : node.outputs)
      if (p.graph.type(output).quantized() || (gives_codes && is_plain_float(p.graph, output))) mark(b, output);
  }
}

// One node's operands in the form that the node reads.
void convert_operands(Placement& p, Node& node) {
  Domain domain = p.borders.domains[node.id];
  bool reads_some = std::any_of(node.inputs.begin(), node.inputs.end(),
                                [&](ValueId v) { return v != kNone && p.borders.has_codes(v); });
  reads_some |= node.op == Op::Compare;  // of inputs too: what it decides is the NPU's
  bool wants_codes = domain == Domain::Quantized || domain == Domain::Branch ||
                     (domain == Domain::Reader && node.op != Op::Quantize && reads_some);
  bool takes_either = wants_codes || domain == Domain::Reader || node.op == Op::Dequantize;
  bool gives_codes =
      std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) { return p.graph.type(v).quantized(); });
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    ValueId input = node.inputs[i];
    if (input == kNone || p.graph.value(input).constant) continue;
    // Codes come from a branch's own inputs too, where a loop or another operator may compute in float.
    if (!is_plain_float(p.graph, input) && (gives_codes || !p.graph.type(input).quantized())) continue;
    bool has_codes = p.borders.has_codes(input);
    if (wants_codes && !has_codes) p.graph.set_input(node, i, quantized_copy(p, input));
    if (!takes_either && has_codes) p.graph.set_input(node, i, float_copy(p, input));
  }
}

struct Way {
  std::set<ValueId> seen;
  std::vector<ValueId> values;  // on a way from the state
  bool adds = false;
};

// Whether `at` is made of a state by sums, products with constants, clamps and moves alone.
bool find_way(const Graph& graph, ValueId at, ValueId state, Way& way) {
  if (at == state) return true;
  const Node* node = graph.producer(at);
  if (!node || !way.seen.insert(at).second) return false;
  const bool sum = node->op == Op::Add || node->op == Op::Sub;
  const bool passes = sum || node->op == Op::Mul || node->op == Op::Clamp || shares_type(*node);
  if (!passes) return false;
  bool found = false;
  for (size_t i = 0; i < node->inputs.size(); ++i) {
    const bool scaled = node->op != Op::Mul || graph.value(node->inputs[1 - i]).constant;
    if (node->inputs[i] != kNone && scaled) found |= find_way(graph, node->inputs[i], state, way);
  }
  if (!found) return false;
  way.values.push_back(at);
  way.adds |= sum;
  return true;
}

// A state, or what a loop carries from step to step, that adds up (a running mean, a filter with feedback) has 16 bits:
// what comes to it in one run may be less than half a step of 8, and would be lost in every run.
void widen_sums(Placement& p, size_t carried) {
  Graph& graph = p.graph;
  for (size_t i = 0; i < graph.inputs().size(); ++i)
    for (size_t o = 0; o < graph.outputs().size(); ++o) {
      const Port &from = graph.input_port(i), &to = graph.output_port(o);
      const bool state = from.role == Port::Role::State && from == to;
      if (!state && (i != o || i >= carried)) continue;
      Way way;
      const ValueId before = graph.inputs()[i];
      if (!is_plain_float(graph, before) || !find_way(graph, graph.outputs()[o], before, way) || !way.adds) continue;
      way.values.push_back(quantized_copy(p, before));
      p.borders.wide.resize(std::max<size_t>(p.borders.wide.size(), graph.value_slots()));
      for (ValueId value : way.values) p.borders.wide[value] = true;
    }
}

}  // namespace

ValueId Borders::measured_id(ValueId id) const {
  for (auto at = copy_of.find(id); at != copy_of.end(); at = copy_of.find(id)) id = at->second;
  return id;
}

ValueId Borders::measured_origin(const Graph& graph, ValueId id) const {
  while (true) {
    ValueId from = origin(graph, measured_id(id));
    if (from == id) return id;
    id = from;
  }
}

Borders place_borders(Graph& graph, const TypeRequest& request) {
  const QuantizeOptions& options = request.options;
  const Measured& measured = request.measured;
  const bool outputs_as_codes = !request.output_types.empty();  // of the body of a cond
  Placement p{graph, options, {}, {}, {}};
  PartForms parts = forms_of_parts(graph, measured);
  if (outputs_as_codes) parts.in_float.assign(graph.node_slots(), false);
  divide(p, parts.in_float);
  p.borders.wide = std::move(parts.wide);
  if (!outputs_as_codes) p.borders.in_32_bits = std::move(parts.in_32_bits);
  widen_folded(graph, measured, options.raises_inputs, request.known, p.borders.wide);
  widen_sums(p, request.carried);
  for (NodeId id : graph.order()) convert_operands(p, graph.node(id));
  for (size_t i = 0; i < graph.outputs().size() && !outputs_as_codes; ++i) {
    ValueId output = graph.outputs()[i];
    if (p.borders.has_codes(output) && is_plain_float(graph, output)) graph.set_output(i, float_copy(p, output));
  }
  return std::move(p.borders);
}

}  // namespace swoop
