#include "ir/ir.h"
#include "support/check.h"

namespace swoop {

namespace {

void make_nodes(const Graph& from, Graph& to, NodeId end) {
  for (auto id = static_cast<NodeId>(to.node_slots()); id < end; ++id) {
    const Node& node = from.node(id);
    Node& copy =
        to.add_node(node.op, std::vector<ValueId>(node.inputs.size(), kNone), {}, node.attrs, kNone, node.name);
    CHECK(copy.id == id, "node {} is copied to another id", node.name);
    if (const Loc* loc = from.loc(node.loc)) copy.loc = to.intern(*loc);
    for (const auto& body : node.bodies) copy.bodies.push_back(std::make_unique<Graph>(clone(*body)));
  }
}

}  // namespace

Graph clone(const Graph& from) {
  Graph to;
  to.name = from.name;
  to.in_spec = from.in_spec;
  to.out_spec = from.out_spec;
  size_t input = 0;
  for (ValueId id = 0; id < from.value_slots(); ++id) {
    const Value& value = from.value(id);
    if (value.producer != kNone) {
      make_nodes(from, to, value.producer + 1);
      to.add_result(to.node(value.producer), value.type);
    } else if (value.constant) {
      to.add_constant(value.type, value.data, value.name);
    } else {
      CHECK(input < from.inputs().size() && from.inputs()[input] == id,
            "value {} is neither computed, constant nor an input", value.name);
      to.add_input(value.type, value.name, from.input_port(input++));
    }
  }
  make_nodes(from, to, static_cast<NodeId>(from.node_slots()));
  for (NodeId id : from.order()) {
    const Node& node = from.node(id);
    to.move_before(id, kNone);
    for (size_t i = 0; i < node.inputs.size(); ++i) to.set_input(to.node(id), i, node.inputs[i]);
  }
  for (size_t i = 0; i < from.outputs().size(); ++i) to.add_output(from.outputs()[i], from.output_port(i));
  for (NodeId id = 0; id < from.node_slots(); ++id)
    if (!from.node(id).alive) to.erase(id);
  to.copy_names(from);  // they were made unique on the way
  for (ValueId id = 0; id < from.value_slots(); ++id) to.value(id).origin = from.value(id).origin;
  return to;
}

}  // namespace swoop
