#include "quantize/assign.h"

namespace swoop {

void TypeAssigner::run_bodies(Node& node) {
  auto at = measured_.bodies.find(node.id);
  if (at == measured_.bodies.end()) return;
  for (size_t b = 0; b < node.bodies.size(); ++b) {
    Graph& body = *node.bodies[b];
    std::string path = fmt::format("{}{}/{}/", path_, node.name, b);
    std::vector<Type> results;
    if (kinds_[node.id] == Kind::Branch) {
      for (size_t i = 0; i < body.inputs().size(); ++i) {
        const Type& operand = graph_.type(node.inputs[i + 1]);
        if (operand.quantized()) body.value(body.inputs()[i]).type = operand;
      }
      for (ValueId output : node.outputs) results.push_back(graph_.type(output));
    }
    TypeAssigner inside(body, at->second[b], assignment_, path);
    inside.want_outputs(std::move(results));
    inside.run();
  }
}

void TypeAssigner::run() {
  place_borders();
  make_classes();
  share_joins();
  set_types();
  for (NodeId id : graph_.order()) {
    Node& node = graph_.node(id);
    if (kinds_[id] == Kind::Branch) quantize_constants(node);
    if (!node.bodies.empty()) run_bodies(node);
    bool quantized = kinds_[id] == Kind::Quantized;
    if (kinds_[id] == Kind::Reader && node.op != Op::Quantize)
      for (ValueId input : node.inputs) quantized |= input != kNone && graph_.type(input).quantized();
    if (!quantized) continue;
    if (has_inner(node.op) && id < measured_.inner.size() && !measured_.inner[id].empty())
      node.attrs.set(Key::Inner, measured_.inner[id]);
    widen_operands(node);
    quantize_constants(node);
  }
  fix_outputs();
  graph_.erase_dead();
}

}  // namespace swoop
