// Softmax and what is built on it. The largest value of a row is always subtracted first, so exp() fills its whole
// range.
#include <algorithm>
#include <cmath>

#include "legalize/compose.h"

namespace swoop {

namespace {

// exp(-12) is below half a code of 16 bits.
constexpr double kNothing = 12;

// Of a difference from a maximum. A table of it is read below zero alone, and the lowering gives its other half to the
// reciprocal of the sum: one table of 2 KiB instead of two.
Type not_above_zero(const Shape& shape, double scale) {
  Type type = i16_type(shape, scale);
  type.quant->qmax = 0;
  return type;
}

// x - max(x) of each row of 8 bits, in 16. Every difference is a sample of the 16-bit table that follows, so its exp is
// exact.
ValueId below_max(Rewriter& rw, ValueId x, ValueId max) {
  return rw.make(Op::Sub, {x, max}, {}, not_above_zero(rw.type(x).shape, rw.type(x).scale() / 128));
}

// The same of 16 bits, exact in 32.
ValueId wide_below_max(Rewriter& rw, ValueId x, ValueId max) {
  return rw.make(Op::Sub, {x, max}, {}, i32_type(rw.type(x).shape, rw.type(x).scale()));
}

double half_of_nothing(const Type& x) { return 32767 * std::min(x.scale(), kNothing / 65534); }

// exp(x - max x) of each row as 16 bits. Of 16-bit x all 512 steps of the table are used: half of what exp() tells from
// nothing is added first, so the result has exp(half) as a factor.
ValueId exp_below_max(Rewriter& rw, ValueId x, ValueId max) {
  constexpr double kFine = 1 << 14;  // more of the table's steps in one of x: 32 bits hold the difference alone
  const Type type = rw.type(x);
  if (type.dtype == DType::I8) return unary(rw, "exp", below_max(rw, x, max), i16_type(type.shape, 1.0 / 32767));
  const double half = half_of_nothing(type), step = half / 32767;
  const Type above_type = i16_type(type.shape, step);
  ValueId shift = scalar(rw, DType::I32, type.rank(), 32767, step), above = kNone;  // half, without a change of scale
  if (type.scale() < kFine * step) {
    ValueId middle = rw.make(Op::Sub, {max, shift}, {}, i32_type(rw.type(max).shape, step));
    above = rw.make(Op::Sub, {x, middle}, {}, above_type);
  } else {
    const auto nothing = static_cast<int64_t>(std::ceil(kNothing / type.scale())) + 1;
    ValueId least = scalar(rw, DType::I32, type.rank(), -nothing, type.scale()), below = wide_below_max(rw, x, max);
    below = rw.make(Op::Maximum, {below, least}, {}, rw.type(below));
    above = rw.make(Op::Add, {below, shift}, {}, above_type);
  }
  return unary(rw, "exp", above, i16_type(type.shape, std::exp(half) / 32767));
}

// The same from 16 bits for a result of 8, in the half of the table that is below zero: its 256 steps are off by 3e-4.
ValueId exp_in_half(Rewriter& rw, ValueId x, ValueId max) {
  const Type type = rw.type(x);
  const Type below = not_above_zero(type.shape, std::min(2 * type.scale(), kNothing / 32768));
  return unary(rw, "exp", rw.make(Op::Sub, {x, max}, {}, below), i16_type(type.shape, 1.0 / 32767));
}

// softmax(x) along another axis than the last  ->  transpose, softmax along the last, transpose back
bool softmax_along_last(Rewriter& rw, const Node& n) {
  const Type out = rw.type(n.outputs[0]);
  int64_t axis = n.integer(Key::Axis);
  int64_t last = out.rank() - 1;
  if (axis == last || !on_integers(rw.graph(), n)) return false;
  Ints perm;
  for (int64_t i = 0; i <= last; ++i)
    if (i != axis) perm.push_back(i);
  perm.push_back(axis);
  Attrs attrs = n.attrs;
  attrs.set(Key::Axis, last);
  ValueId moved = rw.make(n.op, {transpose(rw, n.inputs[0], perm)}, attrs, with_shape(out, permuted(out.shape, perm)));
  rw.replace(n, transpose(rw, moved, inverse(perm)));
  return true;
}

// softmax(x)  ->  e = exp(x - max x); e * (1 / sum e), or e / sum e where 16 bits are involved
bool expand_softmax(Rewriter& rw, const Node& n) {
  const Type type = rw.type(n.inputs[0]);
  const Type out = rw.type(n.outputs[0]);
  if (!computes_on_codes(rw, n) || n.integer(Key::Axis) != type.rank() - 1) return false;
  if (reader_as_weights(rw, n)) return false;  // fuse-softmax-into-matmul's
  auto length = static_cast<double>(type.shape.back());
  const bool half = type.dtype == DType::I16 && out.dtype == DType::I8 && type.scale() < kNothing;
  auto exp = half ? exp_in_half : exp_below_max;
  ValueId e = exp(rw, n.inputs[0], max_of_rows(rw, n.inputs[0]));
  const bool wide = type.dtype == DType::I16 || out.dtype == DType::I16;
  Type sum_type = i32_type({}, rw.type(e).scale());
  // The largest of a row alone gives 32767, up to what its table is off by: a quotient that knows it keeps more bits.
  if (wide) sum_type.quant->qmin = 1 << 14;
  ValueId sum = reduce(rw, Op::Sum, e, {type.rank() - 1}, sum_type);
  if (wide) {
    rw.replace(n, rw.make(Op::Div, {e, sum}, {}, out));
    return true;
  }
  // The largest of a row is 1 / sum. Room for 16 times what the result can hold: in a row whose largest is clipped the
  // others are right.
  double most = std::clamp(16 * range_of(out).max, 1.0 / length, 1.0);
  ValueId share = unary(rw, "reciprocal", sum, i16_type(rw.type(sum).shape, most / 32767));
  rw.replace(n, rw.make(Op::Mul, {e, share}, {}, out));
  return true;
}

// log_softmax(x)  ->  d = x - max x; d - log(sum exp(d))
bool expand_log_softmax(Rewriter& rw, const Node& n) {
  const Type type = rw.type(n.inputs[0]);
  const Type out = rw.type(n.outputs[0]);
  if (!computes_on_codes(rw, n) || n.integer(Key::Axis) != type.rank() - 1) return false;
  const ValueId x = n.inputs[0], max = max_of_rows(rw, x);
  const double most = std::log(static_cast<double>(type.shape.back()));
  auto log_of_sum = [&](ValueId e, double scale) {
    ValueId sum = reduce(rw, Op::Sum, e, {type.rank() - 1}, i32_type({}, rw.type(e).scale()));
    return unary(rw, "log", sum, i16_type(rw.type(sum).shape, scale));
  };
  ValueId below = kNone, log = kNone;
  if (type.dtype == DType::I8) {
    below = below_max(rw, x, max);
    double scale = rw.type(below).scale();
    while (scale * 32767 < most) scale *= 2;
    log = log_of_sum(unary(rw, "exp", below, i16_type(type.shape, 1.0 / 32767)), scale);
  } else {
    const double half = half_of_nothing(type);
    below = wide_below_max(rw, x, max);
    log = log_of_sum(exp_below_max(rw, x, max), (half + most) / 32767);
    log = rw.make(Op::Sub, {log, scalar(rw, DType::I32, type.rank(), 1, half)}, {}, rw.type(log));
  }
  rw.replace(n, rw.make(Op::Sub, {below, log}, {}, out));
  return true;
}

}  // namespace

std::span<const Rule> softmax_rules() {
  static const Rule kRules[] = {
      {"softmax-along-last", {Op::Softmax, Op::LogSoftmax}, softmax_along_last},
      {"expand-softmax", {Op::Softmax}, expand_softmax, {2e-4, 1e-4}},
      {"expand-log-softmax", {Op::LogSoftmax}, expand_log_softmax, {1e-4, 1e-4}},
  };
  return kRules;
}

}  // namespace swoop
