#include <map>
#include <set>

#include "legalize/common.h"

namespace swoop {

namespace {

// The most bytes that a copied tail may have: about what the delegate that it saves takes in the file.
constexpr size_t kMostTailBytes = 4096;

bool stays_on_host(const Graph& graph, const Node& node, const NpuTarget& target) {
  return is_border(graph, node) || !supports(graph, node, target).ok;
}

// The nodes after a cond that would make a region of their own, and the one value that leaves it. Empty: other values
// go into it, or its constants are too large.
struct Tail {
  std::vector<NodeId> nodes;
  ValueId result = kNone;
};
Tail tail_of(const Graph& graph, const Node& cond, const NpuTarget& target) {
  Tail tail;
  std::set<ValueId> inside = {cond.outputs[0]};
  std::set<NodeId> members;
  size_t bytes = 0;
  for (NodeId id = cond.next; id != kNone; id = graph.node(id).next) {
    const Node& node = graph.node(id);
    bool reads = false, others = false;
    size_t weight = 0;
    for (ValueId input : node.inputs) {
      if (input == kNone) continue;
      if (graph.value(input).constant)
        weight += graph.value(input).data.size();
      else
        (inside.contains(input) ? reads : others) = true;
    }
    if (!reads || stays_on_host(graph, node, target)) continue;
    if (others || !node.bodies.empty() || node.outputs.size() != 1) return {};
    tail.nodes.push_back(id);
    members.insert(id);
    inside.insert(node.outputs[0]);
    bytes += weight;
  }
  if (tail.nodes.empty() || bytes > kMostTailBytes) return {};
  for (ValueId value : inside)
    for (const Use& use : graph.value(value).uses) {
      if (use.node != kNone && members.contains(use.node)) continue;
      if (tail.result != kNone && tail.result != value) return {};
      tail.result = value;
    }
  return tail.result == cond.outputs[0] ? Tail{} : tail;
}

// f(cond(p, a, b))  ->  cond(p, f(a), f(b)), where f is all that would be a region after a cond that stays on the
// host: one delegate less
bool copy_tail_into_branches(Rewriter& rw, const Node& n) {
  const Graph& graph = rw.graph();
  if (n.outputs.size() != 1 || supports(graph, n, target_of(rw)).ok) return false;
  for (const auto& body : n.bodies) {
    const Node* last = body->producer(body->outputs()[0]);
    if (!last || stays_on_host(*body, *last, target_of(rw)))
      return false;  // the tail would be a region of its own there too
  }
  Tail tail = tail_of(graph, n, target_of(rw));
  if (tail.result == kNone) return false;
  for (size_t i = 0; i < n.bodies.size(); ++i) {
    Graph& body = rw.body(n, i);
    std::map<ValueId, ValueId> there = {{n.outputs[0], body.outputs()[0]}};
    for (NodeId id : tail.nodes) {
      const Node& node = graph.node(id);
      std::vector<ValueId> inputs;
      for (ValueId input : node.inputs) {
        if (input != kNone && graph.value(input).constant && !there.contains(input))
          there[input] = body.add_constant(graph.type(input), graph.value(input).data, graph.value(input).name);
        inputs.push_back(input == kNone ? kNone : there.at(input));
      }
      LocId loc = graph.loc(node.loc) ? body.intern(*graph.loc(node.loc)) : kNone;
      Node& copy = body.add_node(node.op, inputs, {graph.type(node.outputs[0])}, node.attrs, loc, node.name);
      there[node.outputs[0]] = copy.outputs[0];
    }
    body.set_output(0, there.at(tail.result));
  }
  rw.set_type(n.outputs[0], graph.type(tail.result));
  rw.replace(*graph.producer(tail.result), n.outputs[0]);
  return true;
}

}  // namespace

std::span<const Rule> branch_rules() {
  static const Rule kRules[] = {{"copy-tail-into-branches", {Op::Cond}, copy_tail_into_branches}};
  return kRules;
}

}  // namespace swoop
