#include "import/scope.h"

#include <algorithm>

#include "import/indices.h"
#include "ops/ops.h"
#include "support/check.h"

namespace swoop {

namespace {

// Gather: a slice whose place depends on the data.
bool is_move(Op op) {
  return op == Op::Reshape || op == Op::Transpose || op == Op::Slice || op == Op::Expand || op == Op::Gather;
}

// The move again, of another value.
ValueId repeat(NodeBuilder& at, const Node& move, ValueId x) {
  std::vector<ValueId> inputs = move.inputs;
  inputs[0] = x;
  return at.make(move.op, std::move(inputs), move.attrs);
}

// The storage before `move` such that the move gives `result`; `base` supplies the elements the move drops.
ValueId undo(NodeBuilder& at, const Node& move, ValueId base, ValueId result) {
  if (move.op == Op::Reshape) return at.reshape(result, at.shape(base));
  if (move.op == Op::Transpose) return at.transpose(result, inverse(move.ints(Key::Perm)));
  if (move.op == Op::Slice)
    return write_slice(at, base, move.integer(Key::Axis), move.integer(Key::Start), move.integer(Key::Step), result);
  if (move.op == Op::Gather && at.rank(move.inputs[1]) == 1)
    return write_rows(at, base, move.integer(Key::Axis), move.inputs[1], result);
  unsupported("an in-place operator writes through an expanded view");
}

}  // namespace

Binding* Scope::find(std::string_view name) {
  auto at = names_.find(name);
  return at == names_.end() ? nullptr : &at->second;
}

Binding& Scope::get(std::string_view name) {
  Binding* binding = find(name);
  if (!binding)
    malformed("it uses `{}` before anything has made it; the file's nodes are out of order or form a circle", name);
  return *binding;
}

Binding& Scope::fresh(std::string_view name) {
  auto [at, is_new] = names_.try_emplace(name);
  if (!is_new) malformed("the name `{}` is given twice", name);
  return at->second;
}

void Scope::bind_number(std::string_view name, Number number) { fresh(name).number = std::move(number); }

void Scope::bind_absent(std::string_view name) { fresh(name).absent = true; }

void Scope::bind_counted(std::string_view name, ValueId value) {
  bind_value(name, value);
  get(name).counted = true;
}

void Scope::bind_constant(std::string_view name, std::string_view fqn, const StoredTensor* constant) {
  Binding& binding = fresh(name);
  binding.storage = static_cast<uint32_t>(storages_.size());
  TensorStorage& made = storages_.emplace_back();
  made.origin = TensorStorage::Origin::Weight;
  made.name = fqn;
  made.constant = constant;
  binding.complex = constant->complex;
}

TensorStorage& Scope::bind_value(std::string_view name, ValueId value, bool contiguous) {
  Binding& binding = fresh(name);
  binding.storage = static_cast<uint32_t>(storages_.size());
  binding.value = value;
  binding.contiguous = contiguous;
  TensorStorage& made = storages_.emplace_back();
  made.value = value;
  return made;
}

void Scope::bind_view(std::string_view name, const Binding& base, ValueId base_value, ValueId value, bool contiguous) {
  std::vector<NodeId> path;
  ValueId walk = value;
  while (walk != base_value) {
    const Node* node = graph_.producer(walk);
    if (!node || !is_move(node->op)) {
      bind_value(name, value, contiguous);
      return;
    }
    path.push_back(node->id);
    walk = node->inputs[0];
  }
  std::reverse(path.begin(), path.end());
  Binding whole = base;
  Binding& binding = fresh(name);
  binding = std::move(whole);
  binding.path.insert(binding.path.end(), path.begin(), path.end());
  binding.value = value;
  binding.version = storages_[binding.storage].version;
  binding.contiguous = contiguous;
}

void Scope::bind_alias(std::string_view name, const Binding& other) {
  Binding copy = other;
  if (Binding* known = find(name)) {
    *known = std::move(copy);
    return;
  }
  fresh(name) = std::move(copy);
}

Binding Scope::unnamed(ValueId value) {
  Binding binding;
  binding.storage = static_cast<uint32_t>(storages_.size());
  binding.value = value;
  storages_.emplace_back().value = value;
  return binding;
}

ValueId Scope::read(Binding& binding, const NodeBuilder& at) {
  if (binding.number || binding.absent) malformed("a tensor is needed where a number or None is given");
  TensorStorage& from = storages_[binding.storage];
  if (from.value == kNone) {
    CHECK(from.constant, "storage {} has neither value nor constant", from.name);
    from.value = graph_.add_constant(from.constant->type, from.constant->data, from.name);
  }
  if (binding.value != kNone && binding.version == from.version) return binding.value;
  NodeBuilder again(graph_, budget_);
  again.start(at.loc, at.name);
  ValueId value = from.value;
  for (NodeId id : binding.path) value = repeat(again, graph_.node(id), value);
  binding.value = value;
  binding.version = from.version;
  return value;
}

void Scope::write(Binding& binding, ValueId value, NodeBuilder& at) {
  ValueId old = read(binding, at);
  TensorStorage& to = storages_[binding.storage];
  if (to.baked && to.origin == TensorStorage::Origin::Weight && !body_) throw BecomesState{to.name};
  if (to.baked) unsupported("an in-place operator changes a tensor that a condition or control flow has already read");
  if (to.origin == TensorStorage::Origin::Weight) {
    if (body_)
      malformed(
          "it changes the buffer `{}` inside of control flow; call run_decompositions() on the program before saving "
          "it",
          to.name);
    make_state(to);
  }
  value = at.expand(at.cast(value, at.dtype(old)), at.shape(old));
  std::vector<ValueId> steps = {to.value};
  for (NodeId id : binding.path) steps.push_back(repeat(at, graph_.node(id), steps.back()));
  ValueId whole = value;
  for (size_t i = binding.path.size(); i-- > 0;) whole = undo(at, graph_.node(binding.path[i]), steps[i], whole);
  to.value = whole;
  ++to.version;
  binding.value = value;
  binding.version = to.version;
}

const StoredTensor* Scope::constant(const Binding& binding) const {
  if (binding.storage == kNone || !binding.path.empty()) return nullptr;
  const TensorStorage& from = storages_[binding.storage];
  return from.version == 0 && from.origin != TensorStorage::Origin::State ? from.constant : nullptr;
}

void Scope::make_state(TensorStorage& storage) {
  if (storage.constant->complex) malformed("the buffer `{}` is state and complex; keep its parts", storage.name);
  ValueId constant = storage.value;
  storage.value =
      graph_.add_input(storage.constant->type, storage.name, {Port::Role::State, storage.name, storage.constant->data});
  if (constant != kNone) {
    graph_.replace_all_uses(constant, storage.value);
    std::swap(graph_.value(constant).name, graph_.value(storage.value).name);
  }
  storage.origin = TensorStorage::Origin::State;
}

}  // namespace swoop
