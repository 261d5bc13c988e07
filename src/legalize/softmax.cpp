// Softmax and what is built on it. The largest value of a row is always subtracted first, so exp() fills its whole
// range.
#include <algorithm>
#include <cmath>

#include "legalize/compose.h"

namespace swoop {

namespace {

// exp(-12) is below half a code of 16 bits.
constexpr double kNothing = 12;

// x - max(x) of each row, 16 bits. For 8-bit x every difference is a sample of the 16-bit table that follows, so its
// exp is exact.
ValueId below_max(Rewriter& rw, ValueId x) {
  double step = rw.type(x).scale();
  double scale = rw.type(x).dtype == DType::I8 ? step / 128 : std::min(2 * step, kNothing / 32768);
  return rw.make(Op::Sub, {x, max_of_rows(rw, x)}, {}, i16_type(rw.type(x).shape, scale));
}

// exp(x - max x) of each row as 16 bits, up to a factor. Of 16-bit x all 512 steps of the table are used: half of what
// exp() tells from nothing is added first, and that is the factor.
ValueId exp_below_max(Rewriter& rw, ValueId x) {
  const Type type = rw.type(x);
  if (type.dtype == DType::I8) return unary(rw, "exp", below_max(rw, x), i16_type(type.shape, 1.0 / 32767));
  double step = std::min(type.scale(), kNothing / 65534), half = 32767 * step;
  ValueId max = max_of_rows(rw, x);
  ValueId shift = scalar(rw, DType::I32, type.rank(), 1, half);
  ValueId middle = rw.make(Op::Sub, {max, shift}, {}, i32_type(rw.type(max).shape, step));
  ValueId above = rw.make(Op::Sub, {x, middle}, {}, i16_type(type.shape, step));
  return unary(rw, "exp", above, i16_type(type.shape, std::exp(half) / 32767));
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
  const Type& type = rw.type(n.inputs[0]);
  const Type out = rw.type(n.outputs[0]);
  if (!computes_on_codes(rw, n) || n.integer(Key::Axis) != type.rank() - 1) return false;
  if (reader_as_weights(rw, n)) return false;  // fuse-softmax-into-matmul's
  auto length = static_cast<double>(type.shape.back());
  ValueId e = exp_below_max(rw, n.inputs[0]);
  ValueId sum = reduce(rw, Op::Sum, e, {type.rank() - 1}, i32_type({}, rw.type(e).scale()));
  if (type.dtype == DType::I16 || out.dtype == DType::I16) {
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
  const Type& type = rw.type(n.inputs[0]);
  const Type out = rw.type(n.outputs[0]);
  if (!computes_on_codes(rw, n) || n.integer(Key::Axis) != type.rank() - 1) return false;
  auto length = static_cast<double>(type.shape.back());
  ValueId below = below_max(rw, n.inputs[0]);
  ValueId e = unary(rw, "exp", below, i16_type(type.shape, 1.0 / 32767));
  ValueId sum = reduce(rw, Op::Sum, e, {type.rank() - 1}, i32_type({}, 1.0 / 32767));
  double scale = rw.type(below).scale();
  while (scale * 32767 < std::log(length)) scale *= 2;
  ValueId log = unary(rw, "log", sum, i16_type(rw.type(sum).shape, scale));
  rw.replace(n, rw.make(Op::Sub, {below, log}, {}, out));
  return true;
}

}  // namespace

std::span<const Rule> softmax_rules() {
  static const Rule kRules[] = {
      {"softmax-along-last", {Op::Softmax, Op::LogSoftmax}, softmax_along_last},
      {"expand-softmax", {Op::Softmax}, expand_softmax},
      {"expand-log-softmax", {Op::LogSoftmax}, expand_log_softmax},
  };
  return kRules;
}

}  // namespace swoop
