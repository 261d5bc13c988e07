#include <algorithm>
#include <numeric>

#include "clean/clean.h"

namespace swoop {

namespace {

bool is_iota(const Ints& perm) {
  for (size_t i = 0; i < perm.size(); ++i)
    if (perm[i] != static_cast<int64_t>(i)) return false;
  return true;
}

// A movement op whose result has another quantization also requantizes; such a node is not pure movement.
bool pure(Rewriter& rw, const Node& n) { return rw.type(n.inputs[0]).quant == rw.type(n.outputs[0]).quant; }

// transpose(transpose(x, p), q)  ->  transpose(x, p then q)
bool merge_transposes(Rewriter& rw, const Node& n) {
  const Node* inner = rw.producer(n, 0, Op::Transpose);
  if (!inner || !pure(rw, n) || !pure(rw, *inner)) return false;
  Ints perm;
  for (int64_t axis : n.ints(Key::Perm)) perm.push_back(inner->ints(Key::Perm)[static_cast<size_t>(axis)]);
  rw.replace(n, rw.make(Op::Transpose, {inner->inputs[0]}, {{Key::Perm, perm}}));
  return true;
}

// reshape(reshape(x))  ->  reshape(x)
bool merge_reshapes(Rewriter& rw, const Node& n) {
  const Node* inner = rw.producer(n, 0, Op::Reshape);
  if (!inner || !pure(rw, n) || !pure(rw, *inner)) return false;
  rw.replace(n, rw.make(Op::Reshape, {inner->inputs[0]}, {{Key::Shape, n.ints(Key::Shape)}}));
  return true;
}

// transpose(x) that only moves dims of size 1  ->  reshape(x)
bool transpose_as_reshape(Rewriter& rw, const Node& n) {
  if (!pure(rw, n) || rw.type(n.inputs[0]).quant.value_or(Quant{}).per_channel()) return false;
  const Shape& shape = rw.type(n.inputs[0]).shape;
  int64_t last = -1;
  for (int64_t axis : n.ints(Key::Perm)) {
    if (shape[static_cast<size_t>(axis)] == 1) continue;
    if (axis < last) return false;
    last = axis;
  }
  if (is_iota(n.ints(Key::Perm))) return false;  // drop-identity-move's
  rw.replace(n, rw.make(Op::Reshape, {n.inputs[0]}, {{Key::Shape, rw.type(n.outputs[0]).shape}}));
  return true;
}

// cast(cast(x: integers) to float) to integers  ->  cast(x). Floats hold integers up to 2^24; counts are smaller.
bool drop_float_between(Rewriter& rw, const Node& n) {
  const Node* inner = rw.producer(n, 0, Op::Cast);
  if (!inner || !pure(rw, n) || !pure(rw, *inner)) return false;
  const DType from = rw.type(inner->inputs[0]).dtype, between = rw.type(n.inputs[0]).dtype;
  if (is_float(from) || !is_float(between) || is_float(rw.type(n.outputs[0]).dtype)) return false;
  if (from == DType::Bool || between == DType::F16 || between == DType::BF16) return false;
  rw.replace(n, rw.make(Op::Cast, {inner->inputs[0]}, {{Key::DType, rw.type(n.outputs[0]).dtype}}));
  return true;
}

// a move that leaves every element where it is  ->  x
bool drop_identity_move(Rewriter& rw, const Node& n) {
  const Type& from = rw.type(n.inputs[0]);
  const Type& to = rw.type(n.outputs[0]);
  if (from != to || n.inputs.size() != 1) return false;
  if (n.op == Op::Transpose && !is_iota(n.ints(Key::Perm))) return false;
  if (n.op == Op::Flip && std::any_of(n.ints(Key::Axes).begin(), n.ints(Key::Axes).end(),
                                      [&](int64_t axis) { return from.shape[static_cast<size_t>(axis)] > 1; }))
    return false;
  if (n.op == Op::Pad &&
      std::any_of(n.ints(Key::Padding).begin(), n.ints(Key::Padding).end(), [](int64_t p) { return p != 0; }))
    return false;
  rw.replace(n, n.inputs[0]);
  return true;
}

// concat(concat(a, b), c)  ->  concat(a, b, c), along the same axis
bool merge_concats(Rewriter& rw, const Node& n) {
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    const Node* inner = rw.producer(n, i, Op::Concat);
    if (!inner || inner->integer(Key::Axis) != n.integer(Key::Axis) || !rw.used_once(n.inputs[i])) continue;
    if (rw.type(n.inputs[i]).quant != rw.type(n.outputs[0]).quant) continue;
    std::vector<ValueId> inputs = n.inputs;
    inputs.erase(inputs.begin() + static_cast<std::ptrdiff_t>(i));
    inputs.insert(inputs.begin() + static_cast<std::ptrdiff_t>(i), inner->inputs.begin(), inner->inputs.end());
    rw.replace(n, rw.make(Op::Concat, inputs, n.attrs, rw.type(n.outputs[0])));
    return true;
  }
  return false;
}

bool only_broadcasts(const Rewriter& rw, const Node& n) {
  if (n.op == Op::Expand) return true;
  const Shape& from = rw.type(n.inputs[0]).shape;
  for (size_t i = 0; i < from.size(); ++i)
    if (n.ints(Key::Multiples)[i] != 1 && from[i] != 1) return false;
  return true;
}

// op(x, expand(y)), elementwise, where x has the result's shape  ->  op(x, y), which broadcasts y itself
bool drop_broadcast(Rewriter& rw, const Node& n) {
  const Shape& shape = rw.type(n.outputs[0]).shape;
  auto is_whole = [&](ValueId id) { return id != kNone && rw.type(id).shape == shape; };
  if (std::count_if(n.inputs.begin(), n.inputs.end(), is_whole) < 2) return false;
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    const Node* repeat = is_whole(n.inputs[i]) ? rw.graph().producer(n.inputs[i]) : nullptr;
    if (!repeat || (repeat->op != Op::Expand && repeat->op != Op::Repeat)) continue;
    if (!pure(rw, *repeat) || !only_broadcasts(rw, *repeat)) continue;
    rw.set_input(n, i, repeat->inputs[0]);
    return true;
  }
  return false;
}

}  // namespace

std::span<const Rule> movement_rules() {
  static const Rule kRules[] = {
      {"merge-transposes", {Op::Transpose}, merge_transposes},
      {"merge-reshapes", {Op::Reshape}, merge_reshapes},
      {"transpose-as-reshape", {Op::Transpose}, transpose_as_reshape},
      {"drop-float-between", {Op::Cast}, drop_float_between},
      {"drop-identity-move",
       {Op::Transpose, Op::Reshape, Op::Expand, Op::Repeat, Op::Slice, Op::Pad, Op::Concat, Op::Flip, Op::Cast},
       drop_identity_move},
      {"merge-concats", {Op::Concat}, merge_concats},
      {"drop-broadcast", ops_where([](const OpInfo& op) { return op.traits.elementwise; }), drop_broadcast},
  };
  return kRules;
}

}  // namespace swoop
