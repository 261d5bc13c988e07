// Maxima and minima along an axis, where the cores' own form is dear or wrong.
#include "legalize/compose.h"

namespace swoop {

namespace {

// Whether a concat reads the value, as it is, reshaped or requantized.
bool is_joined(Rewriter& rw, ValueId id) {
  for (const Use& use : rw.value(id).uses) {
    if (use.node == kNone) continue;
    const Node& user = rw.graph().node(use.node);
    bool passes = user.op == Op::Reshape || user.op == Op::Quantize;
    if (user.op == Op::Concat || (passes && is_joined(rw, user.outputs[0]))) return true;
  }
  return false;
}

// amax, amin along one axis  ->  MAXIMUM, MINIMUM of its halves. Along the last axis that is 5 to 14 times cheaper
// (compose.h). In front of a concat it is also right: regor 5.1.0 adds the concat's offset to the height of the pool
// that it makes of a REDUCE_MAX on U55 and U65, which then reads a row too far.
bool extreme_by_halves(Rewriter& rw, Node& n) {
  const Type in = rw.type(n.inputs[0]);
  const Type out = rw.type(n.outputs[0]);
  if (n.ints(Key::Axes).size() != 1 || !n.flag(Key::Keepdim) || !in.quantized()) return false;
  if (in.dtype != DType::I8 && in.dtype != DType::I16) return false;
  const int64_t axis = n.ints(Key::Axes)[0], length = in.shape[static_cast<size_t>(axis)];
  if (n.has(Key::ActMin) || n.has(Key::ActMax) || length == 1) return false;
  bool bricks = length <= 16 || length % 16 == 0;
  bool dear = axis + 1 == in.rank() && (!is_u85(rw) || bricks);
  bool wrong = !is_u85(rw) && is_joined(rw, n.outputs[0]);
  if (!dear && !wrong) return false;
  ValueId extreme = by_halves(rw, n.op == Op::ReduceMax ? Op::Maximum : Op::Minimum, n.inputs[0], axis);
  rw.replace(n, in.quant == out.quant ? extreme : rw.make(Op::Quantize, {extreme}, {}, out));
  return true;
}

}  // namespace

std::span<const Rule> extreme_rules() {
  static const Rule kRules[] = {{"extreme-by-halves", {Op::ReduceMax, Op::ReduceMin}, extreme_by_halves}};
  return kRules;
}

}  // namespace swoop
