// The graph: plain structs, 32-bit ids, nodes in a linked order that is always topological. Use lists are kept by Graph
// alone. References to nodes and values stay valid while the graph grows. Bodies of control flow are graphs inside
// their node, closed over nothing.
#pragma once

#include <array>
#include <deque>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "ir/type.h"
#include "support/bytes.h"

namespace swoop {

enum class Op : uint8_t {
#define OP(name, ...) name,
#include "ir/ops.def"
#undef OP
};
constexpr int kOpCount = 0
#define OP(name, ...) +1
#include "ir/ops.def"
#undef OP
    ;
std::string_view name_of(Op op);
std::optional<Op> op_from(std::string_view name);

enum class Key : uint8_t {
#define KEY(name, ...) name,
#include "ir/keys.def"
#undef KEY
};
std::string_view name_of(Key key);
std::optional<Key> key_from(std::string_view name);

std::span<const Key> attributes_of(Op op);  // that a node of this operator has

using Ints = std::vector<int64_t>;
using Doubles = std::vector<double>;
using Strings = std::vector<std::string>;
using Attr = std::variant<bool, int64_t, double, std::string, DType, Ints, Doubles, Strings>;

bool has_type_of(Key key, const Attr& attr);

// A node's attributes, sorted by key.
class Attrs {
 public:
  Attrs() = default;
  Attrs(std::initializer_list<std::pair<Key, Attr>> list);
  void set(Key key, Attr value);
  void erase(Key key);
  const Attr* find(Key key) const;
  auto begin() const { return list_.begin(); }
  auto end() const { return list_.end(); }
  bool operator==(const Attrs&) const = default;

 private:
  std::vector<std::pair<Key, Attr>> list_;
};

using NodeId = uint32_t;
using ValueId = uint32_t;
using LocId = uint32_t;
constexpr uint32_t kNone = ~uint32_t{0};

// Where a node came from in the user's Python.
struct Loc {
  std::string file;  // "net.py"; empty when unknown
  int line = 0;
  std::string code;         // the source line itself
  std::string module_path;  // "encoder.block1"
  std::string module_type;  // "Attention"
  bool operator==(const Loc&) const = default;
};
std::string to_text(const Loc& loc);  // "net.py:31", or the module path, or ""

// node == kNone: the graph's own output list.
struct Use {
  NodeId node = kNone;
  uint32_t index = 0;
  bool operator==(const Use&) const = default;
};

// Which value of the model, as it was read, a value holds, and how its elements were moved since: by these reshapes and
// transposes.
struct Origin {
  struct Move {
    Op op = Op::Reshape;  // Reshape or Transpose
    Ints to;              // its shape or perm
    bool operator==(const Move&) const = default;
  };
  std::string name;
  std::vector<Move> moves;  // in order, from the model's value to this one
  bool operator==(const Origin&) const = default;
};

struct Value {
  Type type;
  std::string name;              // unique in its graph
  std::optional<Origin> origin;  // absent: made by a rewrite, and nothing of the model's own
  NodeId producer = kNone;       // kNone: a graph input or a constant
  uint32_t index = 0;            // which result of the producer
  bool constant = false;
  Bytes data;  // of constants: row-major, in the mapped file or in the graph's own storage
  std::vector<Use> uses;
};

class Graph;

struct Node {
  Op op = Op::Opaque;
  NodeId id = kNone;
  std::vector<ValueId> inputs;  // kNone where an optional input is absent
  std::vector<ValueId> outputs;
  Attrs attrs;
  LocId loc = kNone;
  std::string name;  // the exported node it came from
  std::vector<std::unique_ptr<Graph>> bodies;
  NodeId prev = kNone;  // execution order
  NodeId next = kNone;
  bool alive = true;

  bool has(Key key) const { return attrs.find(key) != nullptr; }
  // Typed access; CHECKs that the attribute is there. Of optional ones, the fallback says what absence means; an absent
  // flag is false.
  bool flag(Key key) const;
  int64_t integer(Key key) const;
  int64_t integer(Key key, int64_t fallback) const;
  double real(Key key) const;
  double real(Key key, double fallback) const;
  const std::string& text(Key key) const;
  std::string_view text(Key key, std::string_view fallback) const;
  const Ints& ints(Key key) const;
  const Doubles& doubles(Key key) const;
};

// An opaque node with this target stands for a region of the NPU; attribute region is its number, its operands and
// results are the region's arguments in order.
constexpr std::string_view kRegionTarget = "swoop::npu";

// What the caller of the program sees of an input or output.
struct Port {
  enum class Role : uint8_t {
    User,     // an argument or a result
    State,    // a mutable buffer: an input that holds it, and the output that replaces it, share `name`
    Mutation  // an output that is written back into the user input `name`
  };
  Role role = Role::User;
  std::string name;
  Bytes initial;  // of state inputs
  bool operator==(const Port& other) const { return role == other.role && name == other.name; }
};

class Graph {
 public:
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  Graph(Graph&&) = default;
  Graph& operator=(Graph&&) = default;

  std::string name = "main";
  std::string in_spec;  // PyTorch's pytree strings, stored unchanged in the .pte
  std::string out_spec;

  // -- building
  ValueId add_input(Type type, std::string_view stem, Port port = {});
  // The bytes must outlive the graph: from store() or a mapping given to keep_alive().
  ValueId add_constant(Type type, Bytes data, std::string_view stem);
  Bytes store(Buffer bytes);
  void keep_alive(std::shared_ptr<const void> owner) { owners_.push_back(std::move(owner)); }
  // Inserts before `before`, or at the end. One result value per type.
  Node& add_node(Op op, std::vector<ValueId> inputs, std::vector<Type> types, Attrs attrs = {}, LocId loc = kNone,
                 std::string name = {}, NodeId before = kNone);
  ValueId add_result(Node& node, Type type);
  void add_output(ValueId value, Port port = {});
  LocId intern(const Loc& loc);

  // -- changing
  void set_input(Node& node, size_t index, ValueId value);
  void set_output(size_t index, ValueId value);
  void replace_all_uses(ValueId from, ValueId to);
  void move_before(NodeId node, NodeId before);
  void erase(NodeId node);  // its results must have no uses left
  size_t
  erase_dead();  // nodes without used results (control flow and opaque nodes included), and unused constants' uses

  // -- reading
  Node& node(NodeId id) { return nodes_[id]; }
  const Node& node(NodeId id) const { return nodes_[id]; }
  Value& value(ValueId id) { return values_[id]; }
  const Value& value(ValueId id) const { return values_[id]; }
  const Type& type(ValueId id) const { return values_[id].type; }
  size_t node_slots() const { return nodes_.size(); }
  size_t value_slots() const { return values_.size(); }
  size_t node_count() const { return alive_; }
  size_t op_count(Op op) const { return op_counts_[static_cast<size_t>(op)]; }  // of this graph alone, without bodies
  NodeId first() const { return first_; }
  NodeId last() const { return last_; }
  const std::vector<ValueId>& inputs() const { return inputs_; }
  const std::vector<ValueId>& outputs() const { return outputs_; }
  const Port& input_port(size_t index) const { return input_ports_[index]; }
  const Port& output_port(size_t index) const { return output_ports_[index]; }
  void set_initial(size_t index, Bytes numbers) { input_ports_[index].initial = numbers; }  // of a state input
  const Node* producer(ValueId id) const;  // null for inputs and constants
  Node* producer(ValueId id);
  const Loc* loc(LocId id) const { return id == kNone ? nullptr : &locs_[id]; }
  bool is_output(ValueId id) const;
  std::string unique_name(std::string_view stem);
  void rename(ValueId value, std::string_view name);  // keeps names unique: a taken name gets a number
  void copy_names(const Graph& from);                 // of the same values, id by id
  // Every value becomes its own origin; in bodies of control flow the name of the node comes first ("cond:0/relu").
  // Not part of the text form.
  void mark_origins(std::string_view prefix = {});

  bool has_bodies() const {
    return op_count(Op::Cond) + op_count(Op::While) + op_count(Op::Map) + op_count(Op::Scan) > 0;
  }

  // The nodes in execution order; safe against erasing the node being visited.
  std::vector<NodeId> order() const;

 private:
  void link(NodeId id, NodeId before);
  void unlink(NodeId id);
  void drop_use(ValueId value, Use use);

  std::deque<Node> nodes_;
  std::deque<Value> values_;
  std::vector<ValueId> inputs_;
  std::vector<ValueId> outputs_;
  std::vector<Port> input_ports_;
  std::vector<Port> output_ports_;
  NodeId first_ = kNone;
  NodeId last_ = kNone;
  size_t alive_ = 0;
  std::array<uint32_t, kOpCount> op_counts_{};
  std::deque<Loc> locs_;
  std::unordered_map<std::string, LocId> loc_ids_;
  std::unordered_map<std::string, uint32_t> names_;
  std::deque<Buffer> storage_;
  std::vector<std::shared_ptr<const void>> owners_;
};

}  // namespace swoop
