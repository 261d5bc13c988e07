#include <algorithm>

#include "quantize/assign.h"
#include "quantize/layers.h"

namespace swoop {

TypeAssigner::TypeAssigner(Graph& graph, const Measured& measured, const Assignment& assignment, std::string path)
    : graph_(graph),
      measured_(measured),
      assignment_(assignment),
      path_(std::move(path)),
      masked_(masked_scores(graph)),
      kinds_(graph.node_slots(), Kind::Float),
      choices_(graph.node_slots()),
      domain_(graph.value_slots()) {}

TypeAssigner::Kind TypeAssigner::classify(const Node& node) const {
  if (node.op == Op::Quantize) return Kind::Reader;
  if (choices_[node.id].precision == Precision::Float) return Kind::Float;
  if (node.op == Op::Cond) return Kind::Branch;
  Policy policy = policy_of(node);
  if (policy == Policy::ReadsCodes) return Kind::Reader;
  if (policy == Policy::KeepFloat) return Kind::Float;
  if (std::none_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) { return plain_float(v); }))
    return Kind::Float;
  bool computed_bias =
      is_layer(node.op) && node.inputs.size() > 2 && node.inputs[2] != kNone && !graph_.value(node.inputs[2]).constant;
  return computed_bias ? Kind::Float : Kind::Quantized;
}

void TypeAssigner::mark(ValueId id) {
  if (domain_.size() <= id) domain_.resize(id + 1);
  domain_[id] = true;
}

// The node in front of which something made from this value can stand.
NodeId TypeAssigner::behind(ValueId id) const {
  NodeId producer = graph_.value(id).producer;
  return producer == kNone ? graph_.first() : graph_.node(producer).next;
}

ValueId TypeAssigner::quantized_copy(ValueId id) {
  if (auto at = copies_.find(id); at != copies_.end()) return at->second;
  const Node* producer = graph_.producer(id);
  std::string name = graph_.value(id).name + "_q";
  Node& node =
      graph_.add_node(Op::Quantize, {id}, {graph_.type(id)}, {}, producer ? producer->loc : kNone, name, behind(id));
  kinds_.resize(graph_.node_slots(), Kind::Reader);
  choices_.resize(graph_.node_slots(), {assignment_.options.precision, assignment_.options.method});
  ValueId copy = node.outputs[0];
  mark(copy);
  copies_[id] = copy;
  source_[copy] = id;
  return copy;
}

ValueId TypeAssigner::float_copy(ValueId id) {
  if (auto at = floats_.find(id); at != floats_.end()) return at->second;
  const Node* producer = graph_.producer(id);
  Type type = graph_.type(id);
  if (type.quantized()) type = Type{DType::F32, type.shape, {}};
  Node& node = graph_.add_node(Op::Dequantize, {id}, {type}, {}, producer ? producer->loc : kNone,
                               graph_.value(id).name + "_dq", behind(id));
  kinds_.resize(graph_.node_slots(), Kind::Float);
  choices_.resize(graph_.node_slots(), {assignment_.options.precision, assignment_.options.method});
  floats_[id] = node.outputs[0];
  return node.outputs[0];
}

// After this every use of a value reads it in the domain it lives in.
void TypeAssigner::place_borders() {
  std::vector<NodeId> order = graph_.order();
  for (ValueId input : graph_.inputs())
    if (graph_.type(input).quantized()) mark(input);
  for (NodeId id : order) {
    const Node& node = graph_.node(id);
    choices_[id] = choose(graph_, node, assignment_.options);
    kinds_[id] = classify(node);
    for (ValueId output : node.outputs)
      if (graph_.type(output).quantized() ||
          ((kinds_[id] == Kind::Quantized || kinds_[id] == Kind::Branch) && plain_float(output)))
        mark(output);
  }
  for (NodeId id : order) {
    Node& node = graph_.node(id);
    bool quantized = kinds_[id] == Kind::Quantized || kinds_[id] == Kind::Branch;
    bool reads_quantized = std::any_of(node.inputs.begin(), node.inputs.end(),
                                       [&](ValueId v) { return v != kNone && lives_quantized(v); });
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      ValueId input = node.inputs[i];
      if (input == kNone || graph_.value(input).constant) continue;
      bool wants = quantized || (kinds_[id] == Kind::Reader && node.op != Op::Quantize && reads_quantized);
      if (wants && plain_float(input) && !lives_quantized(input)) graph_.set_input(node, i, quantized_copy(input));
      bool as_is = wants || kinds_[id] == Kind::Reader || node.op == Op::Dequantize;
      if (!as_is && lives_quantized(input) && plain_float(input)) graph_.set_input(node, i, float_copy(input));
    }
  }
  if (!wanted_.empty()) return;
  for (size_t i = 0; i < graph_.outputs().size(); ++i) {
    ValueId output = graph_.outputs()[i];
    if (lives_quantized(output) && plain_float(output)) graph_.set_output(i, float_copy(output));
  }
}

// A body's outputs in the types of the cond's results.
void TypeAssigner::fix_outputs() {
  for (size_t i = 0; i < wanted_.size(); ++i) {
    ValueId output = graph_.outputs()[i];
    if (!wanted_[i].quantized() || graph_.type(output) == wanted_[i]) continue;
    if (graph_.value(output).constant) {
      graph_.set_output(i, quantize_constant(graph_, output, wanted_[i]));
      continue;
    }
    const Node* producer = graph_.producer(output);
    Node& node = graph_.add_node(Op::Quantize, {output}, {wanted_[i]}, {}, producer ? producer->loc : kNone,
                                 graph_.value(output).name + "_q");
    graph_.set_output(i, node.outputs[0]);
  }
}

}  // namespace swoop
