// The engine that applies rewrite rules. It owns the loop: a worklist in which a node meets only the rules that list
// its op as a root, and after a change only the new nodes and the neighbours of what changed are queued again. A rule
// table whose root ops are absent from the graph and all its bodies is not run at all. Every rule counts its tries,
// hits and time.
// A rule reads the graph and changes it through the Rewriter alone, which counts: a rule that refuses has changed
// nothing, one that fires has changed something, and a type that a rule hands in is what inference would say but for
// its quantization. Each is checked at every visit and names the rule.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ir/ir.h"
#include "ops/ops.h"

namespace swoop {

class Rewriter {
 public:
  const Graph& graph() const { return *graph_; }
  const Type& type(ValueId id) const { return graph_->type(id); }
  const Value& value(ValueId id) const { return graph_->value(id); }

  // The facts a table of rules was started with (the target, say).
  template <typename T>
  const T& context() const {
    return *static_cast<const T*>(context_);
  }

  // New nodes stand before the node being rewritten and inherit its location. The result type is inferred, or given by
  // the caller where a quantized result needs a scale that inference cannot know.
  ValueId make(Op op, std::vector<ValueId> inputs, Attrs attrs = {});
  ValueId make(Op op, std::vector<ValueId> inputs, Attrs attrs, Type type);
  ValueId constant(Type type, Buffer data, std::string_view name);
  ValueId quantized_constant(ValueId constant, const Type& type);  // of ops/ops.h: quantize_constant and fold
  std::optional<ValueId> folded(const Node& node);

  // All uses of `node`'s result become `with`; the node and what only it used are erased.
  void replace(const Node& node, ValueId with);
  // Changes in place; the node and its neighbours are visited again.
  void set_input(const Node& node, size_t index, ValueId value);
  void set_attr(const Node& node, Key key, Attr value);
  void set_type(ValueId value, Type type);
  Graph& body(const Node& node, size_t index);  // to be changed

  // The producer of input `index` if it is an `op`, else null.
  const Node* producer(const Node& node, size_t index, Op op) const;
  bool used_once(ValueId id) const { return graph_->value(id).uses.size() == 1; }

 private:
  friend class RuleEngine;
  void touch(NodeId id);
  void touch_users(ValueId id);
  void erase_if_dead(NodeId id);
  void hand_on_origin(const Node& node, ValueId with);
  void check_type(const Node& node, size_t output) const;

  Graph* graph_ = nullptr;
  const void* context_ = nullptr;
  Node* root_ = nullptr;
  std::string_view rule_;  // that is being tried
  size_t changes_ = 0;
  bool requeue_ = true;
  std::vector<NodeId> worklist_;
  std::vector<bool> queued_;
};

// What an integer form of an operator may be off by, beyond the rounding of its result: the root of the mean square
// error, as a share of the largest number that the result's type holds. By the bits of the form's first operand.
struct ErrorBound {
  double of_8_bits = 0;
  double of_16_bits = 0;
};

struct Rule {
  std::string_view name;  // the function's name in kebab case
  std::vector<Op> roots;
  bool (*apply)(Rewriter&, const Node&);  // true when something changed
  ErrorBound off = {};                    // of what it makes; nothing: exact up to rounding
};

struct RuleStats {
  std::string_view name;
  size_t tries = 0;
  size_t hits = 0;
};

struct StepStats {
  std::string_view name;
  bool skipped = false;
  size_t visits = 0;
  size_t hits = 0;
  double microseconds = 0;
  std::vector<RuleStats> rules;
};

enum class Repeat { Once, Fixpoint };

// Runs a table over the graph and every body in it.
StepStats rewrite(Graph& graph, std::span<const Rule> rules, Repeat repeat, const void* context = nullptr);

// Ops of a graph and its bodies that are among `ops`.
bool contains_any(const Graph& graph, std::span<const Op> ops);

}  // namespace swoop
