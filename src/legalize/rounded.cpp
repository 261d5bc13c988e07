// Quotients that are rounded, and what they leave over. The quotient has 16 bits, and its whole numbers are exact: a
// step of the result's own type may be larger than one.
#include <algorithm>
#include <cmath>

#include "legalize/compose.h"

namespace swoop {

namespace {

bool divides_codes(const Rewriter& rw, const Node& n) {
  if (!computes_on_codes(rw, n)) return false;
  const Type& divisor = rw.type(n.inputs[1]);
  return divisor.quantized() && !divisor.quant->per_channel() && !is_float(divisor.dtype);
}

double largest(const Type& type) {
  Range reals = range_of(type);
  return std::max(std::fabs(reals.min), std::fabs(reals.max));
}

// Whole numbers of 16 bits. A quotient that falls short of a whole number by the rounding of its operands counts as
// that number.
ValueId whole(Rewriter& rw, ValueId quotient, bool up) {
  const Type& type = rw.type(quotient);
  double half = 0.5 - std::min(0.25, 2 * type.scale());
  ValueId shift = scalar(rw, DType::I16, type.rank(), up ? 32767 : -32767, half / 32767);
  return rw.make(Op::Add, {quotient, shift}, {}, i16_type(type.shape, 1.0));
}

// floor(a / b) or trunc(a / b), at most `most` in size
ValueId rounded_quotient(Rewriter& rw, const Node& n, double most, bool to_zero) {
  const Shape shape = rw.type(n.outputs[0]).shape;
  Type type = i16_type(shape, std::min(most + 1, 32767.0) / 32767);
  ValueId quotient = rw.make(Op::Div, {n.inputs[0], n.inputs[1]}, {}, type);
  if (!to_zero) return whole(rw, quotient, false);
  ValueId zero = scalar(rw, DType::I16, type.rank(), 0, type.scale());
  ValueId above = whole(rw, rw.make(Op::Maximum, {quotient, zero}, {}, type), false);
  ValueId below = whole(rw, rw.make(Op::Minimum, {quotient, zero}, {}, type), true);
  // Zero loses a half on either side and rounds back to zero.
  return rw.make(Op::Add, {above, below}, {}, i16_type(shape, 1.0));
}

// div(a, b) rounded  ->  the quotient, rounded, in the result's type
bool round_quotient(Rewriter& rw, const Node& n) {
  if (!n.has(Key::Mode) || !divides_codes(rw, n)) return false;
  const Type out = rw.type(n.outputs[0]);
  ValueId quotient = rounded_quotient(rw, n, largest(out), n.text(Key::Mode) == "trunc");
  rw.replace(n, rw.make(Op::Mul, {quotient, scalar(rw, DType::I16, out.rank(), 1, 1.0)}, clamp_of(n), out));
  return true;
}

// remainder(a, b)  ->  a - floor(a / b) * b
bool remainder_of_quotient(Rewriter& rw, const Node& n) {
  if (!divides_codes(rw, n)) return false;
  const Type a = rw.type(n.inputs[0]), b = rw.type(n.inputs[1]), out = rw.type(n.outputs[0]);
  Range divisors = range_of(b);
  double least = divisors.min > 0 ? divisors.min : divisors.max < 0 ? -divisors.max : b.scale();
  ValueId times = rounded_quotient(rw, n, largest(a) / least, false);
  Type wide = i16_type(b.shape, largest(b) / 32767);
  ValueId divisor = rw.make(Op::Quantize, {n.inputs[1]}, {}, wide);
  Type whole_part = i16_type(out.shape, (largest(a) + largest(b)) / 32767);
  ValueId taken = rw.make(Op::Mul, {times, divisor}, {}, whole_part);
  rw.replace(n, rw.make(Op::Sub, {n.inputs[0], taken}, clamp_of(n), out));
  return true;
}

}  // namespace

std::span<const Rule> rounded_rules() {
  static const Rule kRules[] = {
      {"round-quotient", {Op::Div}, round_quotient},
      {"remainder-of-quotient", {Op::Remainder}, remainder_of_quotient},
  };
  return kRules;
}

}  // namespace swoop
