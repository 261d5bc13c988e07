#include <algorithm>

#include "legalize/compose.h"

namespace swoop {

namespace {

// Dims of size 1, except leading ones that stay leading: regor adds those itself.
bool has_inner_ones(const Shape& shape, const Ints& perm) {
  size_t first = 0;
  while (first < shape.size() && shape[first] == 1 && perm[first] == static_cast<int64_t>(first)) ++first;
  return std::find(shape.begin() + static_cast<std::ptrdiff_t>(first), shape.end(), 1) != shape.end();
}

// transpose of many dims  ->  reshape, transpose of as few as say the same, reshape
// Dims of size 1 are dropped, and dims that travel together become one. U55 and U65 transpose a plane in one op where
// [0,2,3,1] takes two, and refuse some transposes of long axes unless the ones between them are dropped; but a view of
// what others read too is a copy. U85 transposes three axes at once and fuses a transpose into its neighbour; a reshape
// would prevent that. There only ones in between are dropped: with them, regor may take a swap of height and channels
// for one of width and channels, at five times the cost. More than four dims are unrolled.
bool shrink_transpose(Rewriter& rw, const Node& n) {
  if (!on_integers(rw.graph(), n)) return false;
  const Type in = rw.type(n.inputs[0]);
  const Type out = rw.type(n.outputs[0]);
  if (in.quant != out.quant || (in.quantized() && in.quant->per_channel())) return false;
  bool many = in.rank() > 4;
  const NpuFacts& facts = facts_of(rw);
  bool fuses = facts.fuses_transposes;
  if (!many && fuses && !has_inner_ones(in.shape, n.ints(Key::Perm))) return false;
  if (!many && !fuses && !rw.used_once(n.inputs[0]) && supports(rw.graph(), n, target_of(rw)).ok) return false;
  std::vector<size_t> place(in.shape.size(), 0);  // among the dims that are not 1
  size_t count = 0;
  for (size_t i = 0; i < in.shape.size(); ++i)
    if (in.shape[i] != 1) place[i] = count++;

  bool merges = many || facts.turns_merged_axes;
  struct Group {
    size_t first;
    size_t last;
    int64_t size;
  };
  std::vector<Group> groups;  // in the order of the result
  for (int64_t axis : n.ints(Key::Perm)) {
    auto a = static_cast<size_t>(axis);
    if (in.shape[a] == 1) continue;
    bool follows = merges && !groups.empty() && groups.back().last + 1 == place[a] &&
                   groups.back().size * in.shape[a] <= facts.max_axis;
    if (follows)
      groups.back() = {groups.back().first, place[a], groups.back().size * in.shape[a]};
    else
      groups.push_back({place[a], place[a], in.shape[a]});
  }
  if (groups.size() < 2 || groups.size() == in.shape.size()) return false;
  std::vector<Group> before = groups;  // in the order of the operand
  std::sort(before.begin(), before.end(), [](const Group& a, const Group& b) { return a.first < b.first; });
  Shape shape;
  Ints perm;
  for (const Group& group : before) shape.push_back(group.size);
  for (const Group& group : groups)
    perm.push_back(std::find_if(before.begin(), before.end(), [&](const Group& b) { return b.first == group.first; }) -
                   before.begin());
  rw.replace(n, reshape(rw, transpose(rw, reshape(rw, n.inputs[0], shape), perm), out.shape));
  return true;
}

// add(x, y) of 8 and of 16 bits  ->  of 16 bits; sub, mul, and where extremes take scales along, those.
// What is computed stays the same. regor fuses the scales of two operands of one type only: 24 x 24 x 64 on
// U55-128 take 92 instead of 248 kcycles, on U85-256 34 instead of 80, and half of the SRAM.
bool widen_narrow_operand(Rewriter& rw, const Node& n) {
  const bool extreme = n.op == Op::Maximum || n.op == Op::Minimum;
  if (extreme && !facts_of(rw).chains_elementwise) return false;
  for (size_t i = 0; i < 2; ++i) {
    const Type &narrow = rw.type(n.inputs[i]), &wide = rw.type(n.inputs[1 - i]);
    if (!is_codes(narrow) || narrow.dtype != DType::I8 || !is_codes(wide) || wide.dtype != DType::I16) continue;
    if (rw.value(n.inputs[i]).constant) continue;
    rw.set_input(n, i, widen(rw, n.inputs[i]));
    return true;
  }
  return false;
}

// Whether regor copies it into a concat: something else reads it, or it is a part of something.
bool is_copied(const Rewriter& rw, ValueId x) {
  const Node* producer = rw.graph().producer(viewed(rw, x));
  return is_shared(rw, x) || (producer && producer->op == Op::Slice);
}

// The same codes, by a maximum with the lowest one.
ValueId copied(Rewriter& rw, ValueId x) {
  const Type type = rw.type(x);
  const int64_t lowest = dtype_min(type.dtype);
  const Type one = with_shape(type, Shape(type.shape.size(), 1));
  return rw.make(Op::Maximum, {x, codes(rw, one, {&lowest, 1}, "lowest")}, {}, type);
}

// concat(x, ...) of what regor would copy  ->  of a maximum of x and the lowest code. A copy is a pool with a fixed
// cost: 32 x 32 x 32 on U85-256 take 8.2 instead of 16.6 kcycles, and 8 x 8 x 64 on U55-128 4.1 instead of 5.4.
bool copy_by_maximum(Rewriter& rw, const Node& n) {
  // U65 reads a part of a tensor better as a pool.
  if (target_of(rw).staging_bytes > 0 && !facts_of(rw).chains_elementwise) return false;
  if (!on_integers(rw.graph(), n)) return false;
  bool changed = false;
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    const ValueId x = n.inputs[i];
    if (rw.value(x).constant || !is_copied(rw, x) || !is_codes(rw.type(x)) || !is_near(rw, x)) continue;
    rw.set_input(n, i, copied(rw, x));
    changed = true;
  }
  return changed;
}

// slices of an input in DRAM  ->  of a copy in SRAM. Each operation waits 500 cycles for DRAM on U85: 16 steps of 10
// numbers, each joined to a state, took 9.0 kcycles to read.
bool copy_input_before_slices(Rewriter& rw, const Node& n) {
  constexpr size_t kFew = 4;
  const NpuTarget& target = target_of(rw);
  const ValueId x = n.inputs[0];
  if (!target.facts().slow_elementwise_from_dram || !is_codes(rw.type(x)) || !enters(rw, x)) return false;
  if (target.staging_bytes == 0 || 4 * byte_count(rw.type(x)) > target.staging_bytes) return false;
  std::vector<NodeId> slices;
  for (const Use& use : rw.value(x).uses)
    if (use.node != kNone && rw.graph().node(use.node).op == Op::Slice) slices.push_back(use.node);
  if (slices.size() < kFew) return false;
  for (NodeId id = n.prev; id != kNone; id = rw.graph().node(id).prev)
    if (std::ranges::find(slices, id) != slices.end()) return false;  // the copy stands before the first of them
  const ValueId near = copied(rw, x);
  for (NodeId slice : slices) rw.set_input(rw.graph().node(slice), 0, near);
  return true;
}

}  // namespace

std::span<const Rule> dims_rules();
std::span<const Rule> reduction_rules();
std::span<const Rule> boolean_rules();  // after expand, which knows some choices as tables
std::span<const Rule> padding_rules();  // layout folds padding, too
std::span<const Rule> repeat_rules();
std::span<const Rule> table_rules();
std::span<const Rule> turn_rules();

std::span<const Rule> finish_rules() {
  static const std::vector<Rule> kRules = [] {
    std::vector<Rule> all(reduction_rules().begin(), reduction_rules().end());
    all.insert(all.end(), turn_rules().begin(), turn_rules().end());  // before shrink-transpose: what it leaves
    all.push_back({"shrink-transpose", {Op::Transpose}, shrink_transpose});
    all.push_back(
        {"widen-narrow-operand", {Op::Add, Op::Sub, Op::Mul, Op::Maximum, Op::Minimum}, widen_narrow_operand});
    all.push_back({"copy-input-before-slices", {Op::Slice}, copy_input_before_slices});
    all.push_back({"copy-by-maximum", {Op::Concat}, copy_by_maximum});
    all.insert(all.end(), padding_rules().begin(), padding_rules().end());
    all.insert(all.end(), dims_rules().begin(), dims_rules().end());
    all.insert(all.end(), repeat_rules().begin(), repeat_rules().end());  // after dims, which repeat operands
    all.insert(all.end(), boolean_rules().begin(), boolean_rules().end());
    all.insert(all.end(), table_rules().begin(), table_rules().end());
    return all;
  }();
  return kRules;
}

}  // namespace swoop
