#include "partition/partition.h"

#include <algorithm>
#include <unordered_map>

#include "limits/limits.h"
#include "ops/ops.h"
#include "support/check.h"
#include "support/codes.h"

namespace swoop {

namespace {

// The runtime's kernels move bytes of any type, so such nodes need no dequantize around them.
bool moves_codes(const Graph& graph, const Node& node) {
  return info(node.op).traits.movement && node.op != Op::Pad && !node.inputs.empty() &&
         graph.type(node.inputs[0]).quant == graph.type(node.outputs[0]).quant;
}

// Host node on quantized types -> dequantize, the node in float, quantize.
void materialize_floats(Graph& graph, NodeId id) {
  Node& node = graph.node(id);
  if (node.op == Op::Quantize || node.op == Op::Dequantize || moves_codes(graph, node)) return;
  if (!node.bodies.empty()) return;  // control flow hands values on as they are: its bodies' inputs have their types
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    ValueId input = node.inputs[i];
    if (input == kNone || !graph.type(input).quantized()) continue;
    Type real{DType::F32, graph.type(input).shape, {}};
    Node& dequantize = graph.add_node(Op::Dequantize, {input}, {real}, {}, node.loc, node.name, id);
    graph.set_input(graph.node(id), i, dequantize.outputs[0]);
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    ValueId output = graph.node(id).outputs[i];
    Type type = graph.type(output);
    if (!type.quantized()) continue;
    Node& quantize = graph.add_node(Op::Quantize, {}, {type}, {}, node.loc, node.name, graph.node(id).next);
    graph.replace_all_uses(output, quantize.outputs[0]);
    graph.value(output).type = {DType::F32, type.shape, {}};
    quantize.inputs.push_back(kNone);
    graph.set_input(quantize, 0, output);
  }
}

// Every node of a branch can be part of a region, branches inside it included.
bool runs_whole(const Graph& body, const NpuTarget& target) {
  for (NodeId id = body.first(); id != kNone; id = body.node(id).next) {
    const Node& node = body.node(id);
    if (is_border(body, node) || !supports(body, node, target).ok) return false;
    for (const auto& inner : node.bodies)
      if (!runs_whole(*inner, target)) return false;
  }
  return std::all_of(body.outputs().begin(), body.outputs().end(),
                     [&](ValueId id) { return !is_float(body.type(id).dtype); });
}

// From 64 bits, which an input has, or to 64 bits, which an output has: numbers are converted on the way in and out.
bool converts_port(const Graph& graph, const Node& node) {
  if (node.op != Op::Cast) return false;
  const auto given = [&](ValueId id) { return !graph.value(id).constant && !graph.producer(id); };
  const auto returned = [&](const Use& use) { return use.node == kNone; };
  const auto& uses = graph.value(node.outputs[0]).uses;
  return (graph.type(node.inputs[0]).dtype == DType::I64 && given(node.inputs[0])) ||
         (graph.type(node.outputs[0]).dtype == DType::I64 && std::ranges::all_of(uses, returned));
}

class Partitioner {
 public:
  Partitioner(Graph& graph, const NpuTarget& target, const Verdicts& verdicts, Partition& result)
      : graph_(graph), target_(target), verdicts_(verdicts), result_(result) {}

  void run() {
    choose();
    leave_counting_to_host();
    for (NodeId id : graph_.order())
      if (!on_npu_[id]) materialize_floats(graph_, id);
    on_npu_.resize(graph_.node_slots());
    size_t count = assign_levels();
    sort_by_level();
    std::vector<std::vector<NodeId>> members(count + 1);
    for (NodeId id : graph_.order())
      if (on_npu_[id]) members[level_[id]].push_back(id);
    for (size_t level = 1; level <= count; ++level)
      if (!members[level].empty()) extract(level, members[level]);
    graph_.erase_dead();
  }

 private:
  const Verdict* verdict_of(const Node& node) const {
    if (node.outputs.empty()) return nullptr;
    auto found = verdicts_.find(graph_.value(node.outputs[0]).name);
    return found != verdicts_.end() ? &found->second : nullptr;
  }

  void choose() {
    on_npu_.assign(graph_.node_slots(), false);
    for (NodeId id : graph_.order()) {
      Node& node = graph_.node(id);
      if (is_border(graph_, node)) continue;
      Support support = supports(graph_, node, target_);
      if (const Verdict* verdict = verdict_of(node); support.ok && verdict && verdict->host)
        support = {false, name_of(Code::Differs), verdict->reason, ""};
      if (support.ok && !std::all_of(node.bodies.begin(), node.bodies.end(),
                                     [&](const auto& body) { return runs_whole(*body, target_); }))
        support = {false, name_of(Code::Branch), "one of its branches does not run on the NPU as a whole",
                   "keep both branches to operators of `swoop ops`"};
      if (!support.ok)
        for (auto& body : node.bodies) Partitioner(*body, target_, verdicts_, result_).run();
      if (support.ok) {
        on_npu_[id] = true;
        continue;
      }
      if (!converts_port(graph_, node)) stay(node, support);
    }
  }

  void stay(const Node& node, const Support& why) {
    const Loc* loc = graph_.loc(node.loc);
    std::string op = node.op == Op::Opaque ? node.text(Key::Target) : std::string(name_of(node.op));
    result_.host.push_back(
        {node.name, op, std::string(why.rule), why.reason, std::string(why.advice), loc ? *loc : Loc{}});
  }

  // Level of an NPU node: the region it belongs to, from 1. Where a region must begin, it is a new one. Level of a host
  // node: the regions that must have run before it. All NPU nodes of a level form one region: no path leaves it and
  // comes back, since a host node in between raises the level.
  size_t assign_levels() {
    level_.assign(graph_.node_slots(), 0);
    size_t highest = 0;
    for (NodeId id = graph_.first(); id != kNone; id = graph_.node(id).next) {
      const Node& node = graph_.node(id);
      size_t level = on_npu_[id] ? 1 : 0;
      const bool begins = on_npu_[id] && verdict_of(node);
      for (ValueId input : node.inputs) {
        const Node* producer = graph_.producer(input);
        if (!producer) continue;
        size_t before = level_[producer->id];
        level = std::max(level, begins || (on_npu_[id] && !on_npu_[producer->id]) ? before + 1 : before);
      }
      level_[id] = level;
      if (on_npu_[id]) highest = std::max(highest, level);
    }
    return highest;
  }

  bool on_codes(const Node& node) const {
    auto coded = [&](ValueId id) { return id != kNone && graph_.type(id).quantized(); };
    return std::any_of(node.inputs.begin(), node.inputs.end(), coded) ||
           std::any_of(node.outputs.begin(), node.outputs.end(), coded);
  }

  // In a model that computes on codes, what the host makes of plain integers and reads again itself stays with it:
  // positions that are counted before they are looked up. On the NPU they would be a region of their own.
  void leave_counting_to_host() {
    std::vector<bool> counts(graph_.node_slots(), false);
    bool codes = false;
    auto read_by_host = [&](ValueId id) {
      const auto& uses = graph_.value(id).uses;
      return std::all_of(uses.begin(), uses.end(),
                         [&](const Use& use) { return use.node != kNone && (!on_npu_[use.node] || counts[use.node]); });
    };
    const std::vector<NodeId> order = graph_.order();
    for (auto id = order.rbegin(); id != order.rend(); ++id) {
      const Node& node = graph_.node(*id);
      if (!on_npu_[*id]) continue;
      codes = codes || on_codes(node);
      counts[*id] =
          node.bodies.empty() && !on_codes(node) && std::all_of(node.outputs.begin(), node.outputs.end(), read_by_host);
    }
    if (!codes) return;
    for (NodeId id : order) {
      const Node& node = graph_.node(id);
      bool after_codes = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
        const Node* producer = input == kNone ? nullptr : graph_.producer(input);
        return producer && on_npu_[producer->id];
      });
      if (!counts[id] || after_codes) continue;
      on_npu_[id] = false;
      stay(node, {false, name_of(Code::Counting), "the host makes and reads these integers", ""});
    }
  }

  size_t rank(NodeId id) const { return on_npu_[id] ? 2 * level_[id] - 1 : 2 * level_[id]; }

  void sort_by_level() {
    std::vector<NodeId> order = graph_.order();
    std::stable_sort(order.begin(), order.end(), [&](NodeId a, NodeId b) { return rank(a) < rank(b); });
    for (NodeId id : order) graph_.move_before(id, kNone);
  }

  void extract(size_t level, const std::vector<NodeId>& members) {
    auto region = std::make_unique<Graph>();
    region->name = fmt::format("region{}", result_.regions.size());
    std::unordered_map<ValueId, ValueId> inside;  // never walked
    std::vector<ValueId> arguments;
    auto translate = [&](ValueId id) {
      if (id == kNone) return kNone;
      auto [entry, fresh] = inside.try_emplace(id, kNone);
      if (!fresh) return entry->second;
      const Value& value = graph_.value(id);
      if (value.constant) return entry->second = region->add_constant(value.type, value.data, value.name);
      arguments.push_back(id);
      return entry->second = region->add_input(value.type, value.name);
    };
    std::vector<ValueId> results;
    for (NodeId id : members) {
      const Node& node = graph_.node(id);
      std::vector<ValueId> inputs;
      for (ValueId input : node.inputs) inputs.push_back(translate(input));
      std::vector<Type> types;
      for (ValueId output : node.outputs) types.push_back(graph_.type(output));
      LocId loc = graph_.loc(node.loc) ? region->intern(*graph_.loc(node.loc)) : kNone;
      Node& copy = region->add_node(node.op, inputs, types, node.attrs, loc, node.name);
      copy.bodies = std::move(graph_.node(id).bodies);
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        inside[node.outputs[i]] = copy.outputs[i];
        region->rename(copy.outputs[i], graph_.value(node.outputs[i]).name);
        region->value(copy.outputs[i]).origin = graph_.value(node.outputs[i]).origin;
        if (leaves(node.outputs[i], level)) results.push_back(node.outputs[i]);
      }
    }
    std::vector<Type> types;
    for (ValueId result : results) {
      region->add_output(inside.at(result));
      types.push_back(graph_.type(result));
    }
    const Node& last = graph_.node(members.back());
    Attrs attrs{{Key::Target, std::string(kRegionTarget)}, {Key::Region, static_cast<int64_t>(result_.regions.size())}};
    Node& call = graph_.add_node(Op::Opaque, arguments, types, attrs, last.loc, region->name, last.next);
    for (size_t i = 0; i < results.size(); ++i) graph_.replace_all_uses(results[i], call.outputs[i]);
    for (auto id = members.rbegin(); id != members.rend(); ++id) graph_.erase(*id);
    result_.regions.push_back(std::move(region));
  }

  // Used by the graph's outputs or by a node outside the region.
  bool leaves(ValueId id, size_t level) const {
    const auto& uses = graph_.value(id).uses;
    return std::any_of(uses.begin(), uses.end(), [&](const Use& use) {
      return use.node == kNone || use.node >= on_npu_.size() || !on_npu_[use.node] || level_[use.node] != level;
    });
  }

  Graph& graph_;
  const NpuTarget& target_;
  const Verdicts& verdicts_;
  Partition& result_;
  std::vector<bool> on_npu_;
  std::vector<size_t> level_;
};

}  // namespace

Partition partition(Graph& graph, const NpuTarget& target, const Verdicts& verdicts) {
  Partition result;
  Partitioner(graph, target, verdicts, result).run();
  return result;
}

}  // namespace swoop
