// Maxima and minima along an axis, where the cores' own form is slow or wrong.
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
// (compose.h). In front of a concat, and of a minimum along any axes, it is also right where regor is not. Where halves
// are slow  ->  along the axis before, between transposes: 60 rows of 60 on U85-256 take 14 instead of 64 kcycles.
bool extreme_by_halves(Rewriter& rw, const Node& n) {
  const Type in = rw.type(n.inputs[0]);
  const Type out = rw.type(n.outputs[0]);
  const NpuFacts& facts = facts_of(rw);
  const bool lost = facts.loses_minima && n.op == Op::ReduceMin;
  const Ints& axes = n.ints(Key::Axes);
  if ((axes.size() != 1 && !lost) || !n.flag(Key::Keepdim) || !in.quantized()) return false;
  if (in.dtype != DType::I8 && in.dtype != DType::I16) return false;
  const int64_t axis = axes[0], length = in.shape[static_cast<size_t>(axis)];
  if (n.has(Key::ActMin) || n.has(Key::ActMax) || length == 1) return false;
  const bool last = axis + 1 == in.rank(), halved = last && is_halved_well(rw, in);
  // Few rows would leave most of the channels that the core computes at once without work.
  const bool turned = last && !halved && axis > 0 && in.shape[static_cast<size_t>(axis) - 1] >= facts.brick;
  bool wrong = lost || (facts.misplaces_joined_extremes && is_joined(rw, n.outputs[0]));
  if (!halved && !turned && !wrong) return false;
  ValueId extreme = n.inputs[0];
  if (turned && !wrong)
    extreme = extreme_of_turned(rw, n.op, extreme);
  else
    for (int64_t each : axes) extreme = by_halves(rw, n.op == Op::ReduceMax ? Op::Maximum : Op::Minimum, extreme, each);
  rw.replace(n, in.quant == out.quant ? extreme : rw.make(Op::Quantize, {extreme}, {}, out));
  return true;
}

}  // namespace

std::span<const Rule> extreme_rules() {
  static const Rule kRules[] = {{"extreme-by-halves", {Op::ReduceMax, Op::ReduceMin}, extreme_by_halves}};
  return kRules;
}

}  // namespace swoop
