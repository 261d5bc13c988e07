#include "rewriter/rewriter.h"

#include <algorithm>
#include <array>

#include "support/check.h"
#include "support/timer.h"

namespace swoop {

namespace {

// Whether a value holds booleans, integers or reals: quantized or not, those are the same.
enum class Kind { Booleans, Integers, Reals };
Kind kind_of(const Type& type) {
  if (type.quantized() || is_float(type.dtype)) return Kind::Reals;
  return type.dtype == DType::Bool ? Kind::Booleans : Kind::Integers;
}

}  // namespace

ValueId Rewriter::make(Op op, std::vector<ValueId> inputs, Attrs attrs) {
  ++changes_;
  Node& node = graph_->add_node(op, std::move(inputs), {}, std::move(attrs), root_->loc, root_->name, root_->id);
  Result<std::vector<Type>> types = infer(*graph_, node);
  CHECK(types, "rule {} at node {}: {} does not infer: {}", rule_, root_->name, name_of(op), types.error().message);
  CHECK(types->size() == 1, "rule {} at node {}: {} has {} results", rule_, root_->name, name_of(op), types->size());
  graph_->add_result(node, std::move(types->front()));
  touch(node.id);
  return node.outputs[0];
}

ValueId Rewriter::make(Op op, std::vector<ValueId> inputs, Attrs attrs, Type type) {
  ++changes_;
  Node& node =
      graph_->add_node(op, std::move(inputs), {std::move(type)}, std::move(attrs), root_->loc, root_->name, root_->id);
  check_type(node, 0);
  touch(node.id);
  return node.outputs[0];
}

// Shape and kind follow from the operands; only the codes are a rule's choice.
void Rewriter::check_type(const Node& node, size_t output) const {
  Result<std::vector<Type>> types = infer(*graph_, node);
  CHECK(types, "rule {} at node {}: {} does not infer: {}", rule_, root_->name, name_of(node.op),
        types.error().message);
  const Type& given = type(node.outputs[output]);
  const Type& inferred = (*types)[output];
  CHECK(given.shape == inferred.shape && kind_of(given) == kind_of(inferred),
        "rule {} at node {} gives {} the type {} where inference says {}", rule_, root_->name, name_of(node.op),
        to_text(given), to_text(inferred));
}

ValueId Rewriter::constant(Type type, Buffer data, std::string_view name) {
  ++changes_;
  return graph_->add_constant(std::move(type), graph_->store(std::move(data)), std::string(name));
}

ValueId Rewriter::quantized_constant(ValueId constant, const Type& type) {
  ++changes_;
  return quantize_constant(*graph_, constant, type);
}

std::optional<ValueId> Rewriter::folded(const Node& node) {
  std::optional<ValueId> constant = fold(*graph_, node);
  changes_ += constant.has_value();
  return constant;
}

void Rewriter::touch(NodeId id) {
  if (!requeue_ || id == kNone) return;
  if (queued_.size() <= id) queued_.resize(graph_->node_slots());
  if (queued_[id]) return;
  queued_[id] = true;
  worklist_.push_back(id);
}

void Rewriter::touch_users(ValueId id) {
  for (const Use& use : graph_->value(id).uses) touch(use.node);
}

void Rewriter::erase_if_dead(NodeId id) {
  std::vector<NodeId> candidates = {id};
  while (!candidates.empty()) {
    Node& node = graph_->node(candidates.back());
    candidates.pop_back();
    bool used = std::any_of(node.outputs.begin(), node.outputs.end(),
                            [&](ValueId v) { return !graph_->value(v).uses.empty(); });
    if (!node.alive || used) continue;
    std::vector<ValueId> inputs = node.inputs;
    graph_->erase(node.id);
    for (ValueId input : inputs) {
      if (input == kNone || graph_->value(input).producer == kNone) continue;
      touch(graph_->value(input).producer);  // it lost a user: rules that ask for a single one may fire now
      touch_users(input);
      candidates.push_back(graph_->value(input).producer);
    }
  }
}

// `with` now holds what the model calls by the name of the node's result, and so does what it was moved from. A
// movement that is left out changes no name: its operand has one of its own.
void Rewriter::hand_on_origin(const Node& node, ValueId with) {
  std::optional<Origin> origin = graph_->value(node.outputs[0]).origin;
  if (!origin || graph_->value(with).constant) return;
  if (graph_->value(with).origin && info(node.op).traits.movement) return;
  graph_->value(with).origin = origin;
  for (ValueId id = with;;) {
    const Node* mover = graph_->producer(id);
    if (!mover || (mover->op != Op::Reshape && mover->op != Op::Transpose)) return;
    id = mover->inputs[0];
    if (graph_->value(id).constant || graph_->value(id).origin) return;
    Origin::Move back{mover->op, Ints(type(id).shape)};
    if (mover->op == Op::Transpose) back.to = inverse(mover->ints(Key::Perm));
    origin->moves.push_back(std::move(back));
    graph_->value(id).origin = origin;
  }
}

void Rewriter::replace(const Node& node, ValueId with) {
  ++changes_;
  CHECK(node.outputs.size() == 1, "node {} with {} results is replaced by one value", node.name, node.outputs.size());
  ValueId old = node.outputs[0];
  CHECK(old != with, "node {} is replaced by itself", node.name);
  CHECK(type(old).shape == type(with).shape && kind_of(type(old)) == kind_of(type(with)),
        "rule {} replaces node {} of type {} by {}", rule_, node.name, to_text(type(old)), to_text(type(with)));
  hand_on_origin(node, with);
  graph_->replace_all_uses(old, with);
  touch_users(with);
  touch(graph_->value(with).producer);
  // The replacement takes the name, so that a dump before and after reads alike.
  if (graph_->value(with).producer != kNone && graph_->node(graph_->value(with).producer).name == node.name) {
    std::string name = graph_->value(old).name;
    erase_if_dead(node.id);
    graph_->rename(with, name);
  } else {
    erase_if_dead(node.id);
  }
}

void Rewriter::set_input(const Node& node, size_t index, ValueId input) {
  ++changes_;
  ValueId old = node.inputs[index];
  graph_->set_input(graph_->node(node.id), index, input);
  touch(node.id);
  for (ValueId output : node.outputs) touch_users(output);
  if (input != kNone) touch(graph_->value(input).producer);
  if (old != kNone && graph_->value(old).producer != kNone) erase_if_dead(graph_->value(old).producer);
}

void Rewriter::set_attr(const Node& node, Key key, Attr value) {
  ++changes_;
  graph_->node(node.id).attrs.set(key, std::move(value));
  touch(node.id);
}

void Rewriter::set_type(ValueId id, Type type) {
  ++changes_;
  graph_->value(id).type = std::move(type);
  if (const Node* node = graph_->producer(id)) check_type(*node, value(id).index);
  touch(graph_->value(id).producer);
  touch_users(id);
}

Graph& Rewriter::body(const Node& node, size_t index) {
  ++changes_;
  return *node.bodies[index];
}

const Node* Rewriter::producer(const Node& node, size_t index, Op op) const {
  if (index >= node.inputs.size()) return nullptr;
  const Node* found = graph_->producer(node.inputs[index]);
  return found && found->op == op ? found : nullptr;
}

// One run of one table over one graph.
class RuleEngine {
 public:
  RuleEngine(Graph& graph, std::span<const Rule> rules, Repeat repeat, const void* context, StepStats& stats)
      : rules_(rules), stats_(stats) {
    rewriter_.graph_ = &graph;
    rewriter_.context_ = context;
    rewriter_.requeue_ = repeat == Repeat::Fixpoint;
    for (size_t i = 0; i < rules.size(); ++i)
      for (Op op : rules[i].roots) by_op_[static_cast<size_t>(op)].push_back(i);
  }

  void run() {
    Graph& graph = *rewriter_.graph_;
    std::vector<NodeId> round;
    for (NodeId id = graph.first(); id != kNone; id = graph.node(id).next)
      if (!by_op_[static_cast<size_t>(graph.node(id).op)].empty()) round.push_back(id);
    // Rules point towards cheaper; a table that keeps firing this often per node goes in circles.
    size_t limit = 200 * (graph.node_count() + 100);
    while (!round.empty()) {
      for (NodeId id : round) visit(id, limit);
      round.clear();
      std::swap(round, rewriter_.worklist_);
      for (NodeId id : round) rewriter_.queued_[id] = false;
    }
  }

 private:
  void visit(NodeId id, size_t limit) {
    Node& node = rewriter_.graph_->node(id);
    if (!node.alive) return;
    ++stats_.visits;
    rewriter_.root_ = &node;
    for (size_t index : by_op_[static_cast<size_t>(node.op)]) {
      RuleStats& rule = stats_.rules[index];
      ++rule.tries;
      rewriter_.rule_ = rule.name;
      size_t before = rewriter_.changes_;
      bool fired = rules_[index].apply(rewriter_, node);
      CHECK(fired == (rewriter_.changes_ != before), "rule {} {} at node {} ({})", rule.name,
            fired ? "fires and has changed nothing" : "refuses and has changed the graph", node.name, name_of(node.op));
      if (!fired) continue;
      ++rule.hits;
      CHECK(++stats_.hits < limit, "rules {} and {} undo each other", rule.name, last_hit_);
      last_hit_ = rule.name;
      if (!node.alive) return;
      rewriter_.touch(id);
    }
  }

  std::span<const Rule> rules_;
  StepStats& stats_;
  Rewriter rewriter_;
  std::array<std::vector<size_t>, kOpCount> by_op_;
  std::string_view last_hit_;
};

namespace {

void rewrite_with_bodies(Graph& graph, std::span<const Rule> rules, Repeat repeat, const void* context,
                         StepStats& stats) {
  RuleEngine(graph, rules, repeat, context, stats).run();
  if (!graph.has_bodies()) return;
  for (NodeId id : graph.order())
    for (auto& body : graph.node(id).bodies) rewrite_with_bodies(*body, rules, repeat, context, stats);
}

}  // namespace

bool contains_any(const Graph& graph, std::span<const Op> ops) {
  for (Op op : ops)
    if (graph.op_count(op) > 0) return true;
  if (!graph.has_bodies()) return false;
  for (NodeId id = graph.first(); id != kNone; id = graph.node(id).next)
    for (const auto& body : graph.node(id).bodies)
      if (contains_any(*body, ops)) return true;
  return false;
}

StepStats rewrite(Graph& graph, std::span<const Rule> rules, Repeat repeat, const void* context) {
  Timer timer;
  StepStats stats;
  for (const Rule& rule : rules) stats.rules.push_back({rule.name});
  stats.skipped =
      std::none_of(rules.begin(), rules.end(), [&](const Rule& rule) { return contains_any(graph, rule.roots); });
  if (!stats.skipped) rewrite_with_bodies(graph, rules, repeat, context, stats);
  stats.microseconds = timer.microseconds();
  return stats;
}

}  // namespace swoop
