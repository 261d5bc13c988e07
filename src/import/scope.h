// Names of one exported graph and what they stand for now. PyTorch's graphs are not functional: an in-place operator
// changes a storage, and every view of it sees that. A storage has a current value; a view is a chain of movement nodes
// over it, replayed when the storage has changed since, and inverted when the view itself is written to.
#pragma once

#include <deque>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "import/archive.h"
#include "import/call.h"
#include "import/node_builder.h"

namespace swoop {

struct TensorStorage {
  enum class Origin : uint8_t { Local, UserInput, Weight, State };
  Origin origin = Origin::Local;
  ValueId value = kNone;  // kNone: a weight nobody has read yet
  uint32_t version = 0;   // counts the writes
  std::string name;       // of inputs and weights
  const StoredTensor* constant = nullptr;
  bool baked = false;  // copied into a body, or read as a number: must not change any more
};

using Number = std::variant<bool, int64_t, double, std::string>;

struct Binding {
  std::optional<Number> number;  // a size or other Python number; no storage then
  bool absent = false;           // a None
  bool counted = false;          // a Python number that depends on the data: a tensor of one integer
  uint32_t storage = kNone;
  std::vector<NodeId> path;  // the movement nodes from the storage's value to this view
  ValueId value = kNone;     // of `version`
  uint32_t version = 0;
  bool contiguous = true;
  bool complex = false;  // complex.h
};

class Scope {
 public:
  // `body`: of control flow, which must not write to weights.
  Scope(Graph& graph, Budget& budget, bool body) : graph_(graph), budget_(budget), body_(body) {}

  Binding* find(std::string_view name);
  Binding& get(std::string_view name);  // throws Malformed: used before it is made
  void bind_number(std::string_view name, Number number);
  void bind_absent(std::string_view name);
  void bind_counted(std::string_view name, ValueId value);
  void bind_constant(std::string_view name, std::string_view fqn, const StoredTensor* constant);
  TensorStorage& bind_value(std::string_view name, ValueId value, bool contiguous = true);
  // A result of an operator whose results alias `base`; a fresh value when no chain of moves leads back to it.
  void bind_view(std::string_view name, const Binding& base, ValueId base_value, ValueId value, bool contiguous);
  void bind_alias(std::string_view name, const Binding& other);
  Binding unnamed(ValueId value);

  ValueId read(Binding& binding, const NodeBuilder& at);
  // What the binding stands for becomes `value` (cast and broadcast to its type); views of the same storage follow.
  void write(Binding& binding, ValueId value, NodeBuilder& at);
  const StoredTensor* constant(const Binding& binding) const;

  // A weight becomes a state input, all uses of its constant included.
  void make_state(TensorStorage& storage);

  TensorStorage& storage(const Binding& binding) { return storages_[binding.storage]; }
  std::deque<TensorStorage>& storages() { return storages_; }

  // Names of an inlined body hide the outer ones until it ends.
  using Names = std::unordered_map<std::string_view, Binding>;
  Names exchange_names(Names names) { return std::exchange(names_, std::move(names)); }

 private:
  Binding& fresh(std::string_view name);

  Graph& graph_;
  Budget& budget_;
  bool body_;
  Names names_;
  std::deque<TensorStorage> storages_;
};

}  // namespace swoop
