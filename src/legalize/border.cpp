#include <algorithm>

#include "legalize/legalize.h"

namespace swoop {

// A float input that is only quantized, always the same way, becomes the quantized value itself; a dequantized output
// likewise. A buffer keeps its type: it begins with numbers of that type, and what replaces it has it too.
void use_integer_ports(Graph& graph) {
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const ValueId input = graph.inputs()[i];
    if (graph.input_port(i).role != Port::Role::User) continue;
    const std::vector<Use> uses = graph.value(input).uses;
    auto quantizes_alike = [&](const Use& use) {
      if (use.node == kNone || graph.node(use.node).op != Op::Quantize) return false;
      return graph.type(graph.node(use.node).outputs[0]) == graph.type(graph.node(uses[0].node).outputs[0]);
    };
    if (uses.empty() || !std::all_of(uses.begin(), uses.end(), quantizes_alike)) continue;
    graph.value(input).type = graph.type(graph.node(uses[0].node).outputs[0]);
    for (const Use& use : uses) {
      graph.replace_all_uses(graph.node(use.node).outputs[0], input);
      graph.erase(use.node);
    }
  }
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const Node* dequantize = graph.producer(graph.outputs()[i]);
    if (dequantize && dequantize->op == Op::Dequantize && graph.output_port(i).role == Port::Role::User)
      graph.set_output(i, dequantize->inputs[0]);
  }
  graph.erase_dead();
}

}  // namespace swoop
