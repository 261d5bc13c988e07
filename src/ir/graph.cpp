#include "ir/graph.h"

#include <algorithm>
#include <array>

#include "support/check.h"

namespace swoop {

namespace {

constexpr std::array<std::string_view, kOpCount> kOpNames = {
#define OP(name, text, ...) text,
#include "ir/ops.def"
#undef OP
};

constexpr std::string_view kKeyNames[] = {
#define KEY(name, text, type) text,
#include "ir/keys.def"
#undef KEY
};

template <typename T>
const T* get_if(const Node& node, Key key) {
  const Attr* attr = node.attrs.find(key);
  return attr ? std::get_if<T>(attr) : nullptr;
}

template <typename T>
const T& get(const Node& node, Key key) {
  const T* value = get_if<T>(node, key);
  CHECK(value, "node {} ({}) lacks attribute {}", node.name, name_of(node.op), name_of(key));
  return *value;
}

}  // namespace

std::string_view name_of(Op op) { return kOpNames[static_cast<size_t>(op)]; }

std::optional<Op> op_from(std::string_view name) {
  for (size_t i = 0; i < kOpNames.size(); ++i)
    if (kOpNames[i] == name) return static_cast<Op>(i);
  return std::nullopt;
}

std::string_view name_of(Key key) { return kKeyNames[static_cast<size_t>(key)]; }

std::optional<Key> key_from(std::string_view name) {
  for (size_t i = 0; i < std::size(kKeyNames); ++i)
    if (kKeyNames[i] == name) return static_cast<Key>(i);
  return std::nullopt;
}

std::span<const Key> attributes_of(Op op) {
  using enum Key;
  static const std::vector<Key> kAttributes[] = {
#define OP(name, text, ...) {__VA_ARGS__},
#include "ir/ops.def"
#undef OP
  };
  return kAttributes[static_cast<size_t>(op)];
}

bool has_type_of(Key key, const Attr& attr) {
  switch (key) {
#define KEY(name, text, type) \
  case Key::name:             \
    return std::holds_alternative<type>(attr);
#include "ir/keys.def"
#undef KEY
  }
  return false;
}

Attrs::Attrs(std::initializer_list<std::pair<Key, Attr>> list) {
  for (const auto& [key, value] : list) set(key, value);
}

void Attrs::set(Key key, Attr value) {
  auto at = std::lower_bound(list_.begin(), list_.end(), key, [](const auto& entry, Key k) { return entry.first < k; });
  if (at != list_.end() && at->first == key)
    at->second = std::move(value);
  else
    list_.emplace(at, key, std::move(value));
}

void Attrs::erase(Key key) {
  std::erase_if(list_, [key](const auto& entry) { return entry.first == key; });
}

const Attr* Attrs::find(Key key) const {
  for (const auto& [k, value] : list_)
    if (k == key) return &value;
  return nullptr;
}

bool Node::flag(Key key) const {
  const bool* value = get_if<bool>(*this, key);
  return value && *value;
}
int64_t Node::integer(Key key) const { return get<int64_t>(*this, key); }
int64_t Node::integer(Key key, int64_t fallback) const {
  const int64_t* value = get_if<int64_t>(*this, key);
  return value ? *value : fallback;
}
double Node::real(Key key) const { return get<double>(*this, key); }
double Node::real(Key key, double fallback) const {
  const double* value = get_if<double>(*this, key);
  return value ? *value : fallback;
}
const std::string& Node::text(Key key) const { return get<std::string>(*this, key); }
std::string_view Node::text(Key key, std::string_view fallback) const {
  const std::string* value = get_if<std::string>(*this, key);
  return value ? std::string_view(*value) : fallback;
}
const Ints& Node::ints(Key key) const { return get<Ints>(*this, key); }
const Doubles& Node::doubles(Key key) const { return get<Doubles>(*this, key); }

std::string to_text(const Loc& loc) {
  if (!loc.file.empty()) return fmt::format("{}:{}", loc.file, loc.line);
  return loc.module_path;
}

std::string Graph::unique_name(std::string_view stem) {
  std::string candidate(stem.empty() ? "v" : stem);
  auto [entry, fresh] = names_.try_emplace(candidate, 0);
  if (fresh) return candidate;
  while (true) {
    std::string numbered = fmt::format("{}_{}", candidate, ++entry->second);
    if (names_.try_emplace(numbered, 0).second) return numbered;
    entry = names_.find(candidate);
  }
}

void Graph::rename(ValueId id, std::string_view wanted) {
  Value& value = values_[id];
  if (value.name == wanted) return;
  names_.erase(value.name);
  value.name = unique_name(wanted);
}

void Graph::copy_names(const Graph& from) {
  CHECK(from.values_.size() == values_.size(), "names of another graph");
  names_ = from.names_;
  for (size_t i = 0; i < values_.size(); ++i) values_[i].name = from.values_[i].name;
}

ValueId Graph::add_input(Type type, std::string_view stem, Port port) {
  auto id = static_cast<ValueId>(values_.size());
  std::string unique = unique_name(stem);  // before the list grows: the stem may be the name of a value in it
  Value& value = values_.emplace_back();
  value.type = std::move(type);
  value.name = std::move(unique);
  inputs_.push_back(id);
  input_ports_.push_back(std::move(port));
  return id;
}

ValueId Graph::add_constant(Type type, Bytes data, std::string_view stem) {
  auto id = static_cast<ValueId>(values_.size());
  std::string unique = unique_name(stem);
  Value& value = values_.emplace_back();
  value.type = std::move(type);
  value.name = std::move(unique);
  value.constant = true;
  value.data = data;
  return id;
}

Bytes Graph::store(Buffer bytes) { return storage_.emplace_back(std::move(bytes)); }

Node& Graph::add_node(Op op, std::vector<ValueId> inputs, std::vector<Type> types, Attrs attrs, LocId loc,
                      std::string node_name, NodeId before) {
  auto id = static_cast<NodeId>(nodes_.size());
  Node& node = nodes_.emplace_back();
  node.op = op;
  node.id = id;
  node.inputs = std::move(inputs);
  node.attrs = std::move(attrs);
  node.loc = loc;
  node.name = std::move(node_name);
  for (Type& type : types) add_result(node, std::move(type));
  for (uint32_t i = 0; i < node.inputs.size(); ++i)
    if (node.inputs[i] != kNone) values_[node.inputs[i]].uses.push_back({id, i});
  link(id, before);
  ++alive_;
  ++op_counts_[static_cast<size_t>(op)];
  return node;
}

ValueId Graph::add_result(Node& node, Type type) {
  auto id = static_cast<ValueId>(values_.size());
  Value& value = values_.emplace_back();
  value.type = std::move(type);
  value.name = unique_name(node.name.empty() ? name_of(node.op) : std::string_view(node.name));
  value.producer = node.id;
  value.index = static_cast<uint32_t>(node.outputs.size());
  node.outputs.push_back(id);
  return id;
}

void Graph::mark_origins(std::string_view prefix) {
  for (Value& value : values_)
    if (!value.constant) value.origin = Origin{fmt::format("{}{}", prefix, value.name), {}};
  for (Node& node : nodes_)
    for (size_t i = 0; i < node.bodies.size(); ++i)
      node.bodies[i]->mark_origins(fmt::format("{}{}:{}/", prefix, node.name, i));
}

void Graph::add_output(ValueId value, Port port) {
  values_[value].uses.push_back({kNone, static_cast<uint32_t>(outputs_.size())});
  outputs_.push_back(value);
  output_ports_.push_back(std::move(port));
}

LocId Graph::intern(const Loc& loc) {
  std::string key =
      fmt::format("{}\x1f{}\x1f{}\x1f{}\x1f{}", loc.file, loc.line, loc.module_path, loc.module_type, loc.code);
  auto [entry, fresh] = loc_ids_.try_emplace(std::move(key), static_cast<LocId>(locs_.size()));
  if (fresh) locs_.push_back(loc);
  return entry->second;
}

void Graph::drop_use(ValueId value, Use use) {
  if (value == kNone) return;
  auto& uses = values_[value].uses;
  // From the end: what takes a graph apart goes backwards, and a value may have a use in every node.
  auto at = std::find(uses.rbegin(), uses.rend(), use);
  CHECK(at != uses.rend(), "value {} does not list a use it has", values_[value].name);
  uses.erase(std::next(at).base());
}

void Graph::set_input(Node& node, size_t index, ValueId value) {
  auto slot = static_cast<uint32_t>(index);
  if (node.inputs[index] == value) return;
  drop_use(node.inputs[index], {node.id, slot});
  node.inputs[index] = value;
  if (value != kNone) values_[value].uses.push_back({node.id, slot});
}

void Graph::set_output(size_t index, ValueId value) {
  auto slot = static_cast<uint32_t>(index);
  if (outputs_[index] == value) return;
  drop_use(outputs_[index], {kNone, slot});
  outputs_[index] = value;
  values_[value].uses.push_back({kNone, slot});
}

void Graph::replace_all_uses(ValueId from, ValueId to) {
  if (from == to) return;
  std::vector<Use> uses = std::move(values_[from].uses);
  values_[from].uses.clear();
  for (const Use& use : uses) {
    if (use.node == kNone)
      outputs_[use.index] = to;
    else
      nodes_[use.node].inputs[use.index] = to;
    values_[to].uses.push_back(use);
  }
}

void Graph::link(NodeId id, NodeId before) {
  Node& node = nodes_[id];
  node.next = before;
  node.prev = before == kNone ? last_ : nodes_[before].prev;
  (node.prev == kNone ? first_ : nodes_[node.prev].next) = id;
  (before == kNone ? last_ : nodes_[before].prev) = id;
}

void Graph::unlink(NodeId id) {
  Node& node = nodes_[id];
  (node.prev == kNone ? first_ : nodes_[node.prev].next) = node.next;
  (node.next == kNone ? last_ : nodes_[node.next].prev) = node.prev;
}

void Graph::move_before(NodeId node, NodeId before) {
  if (node == before) return;
  unlink(node);
  link(node, before);
}

void Graph::erase(NodeId id) {
  Node& node = nodes_[id];
  CHECK(node.alive, "node {} is erased twice", node.name);
  for (ValueId output : node.outputs) {
    CHECK(values_[output].uses.empty(), "node {} is erased while {} is used", node.name, values_[output].name);
    names_.erase(values_[output].name);
  }
  for (uint32_t i = 0; i < node.inputs.size(); ++i) drop_use(node.inputs[i], {id, i});
  node.inputs.clear();
  node.bodies.clear();
  node.alive = false;
  unlink(id);
  --alive_;
  --op_counts_[static_cast<size_t>(node.op)];
}

size_t Graph::erase_dead() {
  size_t erased = 0;
  for (NodeId id = last_; id != kNone;) {
    Node& node = nodes_[id];
    NodeId previous = node.prev;
    bool used =
        std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) { return !values_[v].uses.empty(); });
    if (!used && !node.outputs.empty()) {
      erase(id);
      ++erased;
    } else {
      for (auto& body : node.bodies) erased += body->erase_dead();
    }
    id = previous;
  }
  return erased;
}

const Node* Graph::producer(ValueId id) const {
  if (id == kNone || values_[id].producer == kNone) return nullptr;
  return &nodes_[values_[id].producer];
}

Node* Graph::producer(ValueId id) { return const_cast<Node*>(std::as_const(*this).producer(id)); }

bool Graph::is_output(ValueId id) const {
  const auto& uses = values_[id].uses;
  return std::any_of(uses.begin(), uses.end(), [](const Use& use) { return use.node == kNone; });
}

std::vector<NodeId> Graph::order() const {
  std::vector<NodeId> ids;
  ids.reserve(alive_);
  for (NodeId id = first_; id != kNone; id = nodes_[id].next) ids.push_back(id);
  return ids;
}

}  // namespace swoop
