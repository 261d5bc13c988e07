#include "quantize/candidates.h"

#include "quantize/choices.h"

namespace swoop {

ValueId value_in_float(const Graph& typed, ValueId choice) {
  const Node& node = *typed.producer(choice);
  return node.op == Op::Quantize ? node.inputs[0] : choice;
}

std::vector<ValueId> choices(const Graph& typed, const Graph& prepared) {
  std::vector<ValueId> list;
  for (NodeId id : typed.order()) {
    const Node& node = typed.node(id);
    for (ValueId output : node.outputs) {
      const Type& type = typed.type(output);
      if (shares_type(node) || !type.quantized() || type.dtype != DType::I8) continue;
      if (value_in_float(typed, output) < prepared.value_slots()) list.push_back(output);
    }
  }
  return list;
}

std::vector<ValueId> moved_from(const Graph& typed, ValueId choice) {
  std::vector<ValueId> members = {choice};
  for (size_t i = 0; i < members.size(); ++i)
    for (const Use& use : typed.value(members[i]).uses)
      if (use.node != kNone && use.index == 0 && shares_type(typed.node(use.node)))
        for (ValueId output : typed.node(use.node).outputs)
          if (typed.type(output).quantized()) members.push_back(output);
  return members;
}

std::vector<ValueId> readers_of(const Graph& typed, const std::vector<ValueId>& members) {
  std::vector<ValueId> results;
  for (ValueId member : members)
    for (const Use& use : typed.value(member).uses) {
      if (use.node == kNone || shares_type(typed.node(use.node)) || typed.node(use.node).outputs.empty()) continue;
      results.push_back(typed.node(use.node).outputs[0]);
    }
  if (results.empty()) results.push_back(members[0]);
  return results;
}

double cost_of_width(const Graph& typed, const std::vector<ValueId>& members, const Cost& price) {
  double cost = 0;
  for (ValueId reader : readers_of(typed, members))
    if (auto found = price.wide.find(name_in_model(typed.value(reader))); found != price.wide.end())
      cost += found->second;
  return cost;
}

Candidate describe(const Graph& prepared, ValueId value) {
  const Node* producer = prepared.producer(value);
  const Loc* loc = producer ? prepared.loc(producer->loc) : nullptr;
  return {.name = prepared.value(value).name,
          .op = producer ? std::string(name_of(producer->op)) : "input",
          .source = loc ? to_text(*loc) : ""};
}

}  // namespace swoop
