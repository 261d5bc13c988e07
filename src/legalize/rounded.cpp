// Results that jump: quotients that are rounded and what they leave over, and functions of 16 bits with jumps, which a
// table would make ramps of 128 codes.
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

// x of 16 bits, cut to codes from -most to most
ValueId cut_codes(Rewriter& rw, ValueId x, int64_t most) {
  const Type type = i16_type(rw.type(x).shape, rw.type(x).scale());  // x may have no codes that near to zero
  x = rw.make(Op::Minimum, {x, scalar(rw, DType::I16, type.rank(), most, type.scale())}, {}, type);
  return rw.make(Op::Maximum, {x, scalar(rw, DType::I16, type.rank(), -most, type.scale())}, {}, type);
}

// -1, 0 or 1, for x of 16 bits: its codes, cut to that
ValueId sign_of(Rewriter& rw, ValueId x, const Attrs& attrs, const Type& type) {
  const double step = rw.type(x).scale();
  ValueId factor = scalar(rw, DType::I16, type.rank(), 1, 1 / step);
  return rw.make(Op::Mul, {cut_codes(rw, x, 1), factor}, attrs, type);
}

ValueId sign_of(Rewriter& rw, ValueId x) { return sign_of(rw, x, {}, i16_type(rw.type(x).shape, 1.0)); }

// The same numbers in 16 bits: exactly those of 8
ValueId in_16_bits(Rewriter& rw, ValueId x) {
  const Type type = rw.type(x);
  if (type.dtype == DType::I16) return x;
  const double scale = type.dtype == DType::I8 ? type.scale() : largest(type) / 32767;
  return rw.make(Op::Quantize, {x}, {}, i16_type(type.shape, scale));
}

constexpr double kLargestWhole = 32767;  // that 16 bits hold

// a = times * b + rest, with the whole number that is nearest to a / b. A quotient of 16 bits may be off by nearly a
// half, and the number is that one or the next all the same: the rest, as exact as a float, tells which.
struct Quotient {
  ValueId a, b;   // in 16 bits
  ValueId times;  // in steps of one
  ValueId rest;   // of 32 bits
  ValueId side;   // the sign of the rest
};

Quotient nearest_quotient(Rewriter& rw, const Node& n, double largest_result) {
  const Shape shape = rw.type(n.outputs[0]).shape;
  const Type a = rw.type(n.inputs[0]), b = rw.type(n.inputs[1]);
  const Range divisors = range_of(b);
  const double least = divisors.min > 0 ? divisors.min : divisors.max < 0 ? -divisors.max : b.scale();
  const double most = std::min({largest(a) / least + 1, largest_result + 1, kLargestWhole});
  const double fine = (largest(a) + largest(b)) * 0x1p-26;
  Quotient q{in_16_bits(rw, n.inputs[0]), in_16_bits(rw, n.inputs[1]), kNone, kNone, kNone};
  ValueId quotient = rw.make(Op::Div, {n.inputs[0], n.inputs[1]}, {}, i16_type(shape, most / 32767));
  q.times = rw.make(Op::Quantize, {quotient}, {}, i16_type(shape, 1.0));
  ValueId taken = rw.make(Op::Mul, {q.times, q.b}, {}, i32_type(shape, fine));
  q.rest = rw.make(Op::Sub, {q.a, taken}, {}, i32_type(shape, fine));
  q.side = sign_of(rw, rw.make(Op::Quantize, {q.rest}, {}, i16_type(shape, 4 * fine)));  // less is rounding
  return q;
}

// -1 where x and y have different signs, otherwise 0
ValueId against(Rewriter& rw, ValueId x, ValueId y) {
  const Type type = i16_type(rw.type(x).shape, 1.0);
  ValueId product = rw.make(Op::Mul, {x, y}, {}, type);
  return rw.make(Op::Minimum, {product, scalar(rw, DType::I16, type.rank(), 0, 1.0)}, {}, type);
}

// div(a, b) rounded  ->  the nearest whole number, or the one before it if that is too far
bool round_quotient(Rewriter& rw, const Node& n) {
  if (!n.has(Key::Mode) || !divides_codes(rw, n)) return false;
  const Type out = rw.type(n.outputs[0]);
  if (largest(out) > kLargestWhole) return false;
  const Type type = i16_type(out.shape, 1.0);
  const Quotient q = nearest_quotient(rw, n, largest(out));
  ValueId sign = sign_of(rw, q.b), less;
  if (n.text(Key::Mode) == "trunc") {  // too far from zero
    ValueId sign_of_a = sign_of(rw, q.a);
    sign = rw.make(Op::Mul, {sign_of_a, sign}, {}, type);
    less = rw.make(Op::Mul, {against(rw, q.side, sign_of_a), sign}, {}, type);
  } else {
    less = against(rw, q.side, sign);
  }
  rw.replace(n, rw.make(Op::Add, {q.times, less}, clamp_of(n), out));
  return true;
}

// remainder(a, b)  ->  what the nearest whole number of b leaves, or that and b if it is on the other side of zero
bool remainder_of_quotient(Rewriter& rw, const Node& n) {
  constexpr double kSmallest = 1.0 / 32;  // divisor, of the largest one: about zero there is nothing to divide by
  if (!divides_codes(rw, n)) return false;
  if (largest(rw.type(n.inputs[0])) > kLargestWhole * kSmallest * largest(rw.type(n.inputs[1]))) return false;
  const Type out = rw.type(n.outputs[0]);
  const Quotient q = nearest_quotient(rw, n, kInfinity);
  ValueId less = against(rw, q.side, sign_of(rw, q.b));
  ValueId back = rw.make(Op::Mul, {less, q.b}, {}, i16_type(out.shape, rw.type(q.b).scale()));
  rw.replace(n, rw.make(Op::Sub, {q.rest, back}, clamp_of(n), out));
  return true;
}

bool jumps_on_16_bits(const Rewriter& rw, const Node& n) {
  return computes_on_codes(rw, n) && rw.type(n.inputs[0]).dtype == DType::I16;
}

// How often `alpha` goes into x of 16 bits. Sums have 32 bits, with kFiner steps in one of x, so that what is rounded
// down or up is exact: a float, with 512 of them, cannot tell more.
enum class To { Nearest, Below, Above, Zero };
constexpr double kFiner = 4096;

}  // namespace

// 32 bits hold half of `alpha` in such steps, and 16 bits the result.
bool has_multiples(const Type& x, double alpha) {
  constexpr double kMost = 4096;  // of the rest, 32 bits hold as many times what its own 16 bits do
  const double size = std::fabs(alpha);
  return largest(x) < kMost * size && size * kFiner < 0x1p29 * x.scale();
}

namespace {

ValueId multiples(Rewriter& rw, ValueId x, double alpha, To to) {
  const Type type = rw.type(x);
  if (to == To::Zero) {
    ValueId zero = scalar(rw, DType::I16, type.rank(), 0, type.scale());
    const bool up = alpha < 0;
    ValueId positive = multiples(rw, rw.make(Op::Maximum, {x, zero}, {}, type), alpha, up ? To::Above : To::Below);
    ValueId negative = multiples(rw, rw.make(Op::Minimum, {x, zero}, {}, type), alpha, up ? To::Below : To::Above);
    return rw.make(Op::Add, {positive, negative}, {}, i16_type(type.shape, 1.0));
  }
  auto number = [&](DType dtype, double value) {
    return scalar(rw, dtype, type.rank(), value < 0 ? -1 : 1, std::fabs(value));
  };
  if (to != To::Nearest) {
    const double fine = type.scale() / kFiner, half = alpha / 2 - std::copysign(fine, alpha);
    x = rw.make(Op::Add, {x, number(DType::I32, to == To::Below ? -half : half)}, {}, i32_type(type.shape, fine));
  }
  return rw.make(Op::Mul, {x, number(DType::I16, 1 / alpha)}, {}, i16_type(type.shape, 1.0));
}

// x - times * alpha
ValueId rest_of(Rewriter& rw, ValueId x, ValueId times, double alpha, const Attrs& attrs, const Type& out) {
  const Type type = rw.type(x);
  ValueId factor = scalar(rw, DType::I16, type.rank(), alpha < 0 ? -1 : 1, std::fabs(alpha));
  const double most = largest(type) + std::fabs(alpha);
  ValueId taken = rw.make(Op::Mul, {times, factor}, {}, i32_type(type.shape, most * 0x1p-26));
  return rw.make(Op::Sub, {x, taken}, attrs, out);
}

// floor, ceil, trunc, round and frac of 16 bits  ->  how often one goes into them, and what is left
bool round_by_sum(Rewriter& rw, const Node& n) {
  const std::string fn = n.text(Key::Fn);
  const Type out = rw.type(n.outputs[0]);
  if (fn != "floor" && fn != "ceil" && fn != "trunc" && fn != "frac" && fn != "round") return false;
  if (!jumps_on_16_bits(rw, n) || !has_multiples(rw.type(n.inputs[0]), 1)) return false;
  const To to = fn == "floor" ? To::Below : fn == "ceil" ? To::Above : fn == "round" ? To::Nearest : To::Zero;
  ValueId times = multiples(rw, n.inputs[0], 1, to);
  rw.replace(
      n, fn == "frac" ? rest_of(rw, n.inputs[0], times, 1, clamp_of(n), out) : times_one(rw, times, clamp_of(n), out));
  return true;
}

// remainder and fmod by a number, of 16 bits  ->  x - whole(x / a) * a
bool remainder_by_sum(Rewriter& rw, const Node& n) {
  const std::string fn = n.text(Key::Fn);
  if (!jumps_on_16_bits(rw, n) || (fn != "remainder" && fn != "fmod")) return false;
  const double alpha = n.real(Key::Alpha);
  if (!has_multiples(rw.type(n.inputs[0]), alpha)) return false;
  ValueId times = multiples(rw, n.inputs[0], alpha, fn == "fmod" ? To::Zero : To::Below);
  rw.replace(n, rest_of(rw, n.inputs[0], times, alpha, clamp_of(n), rw.type(n.outputs[0])));
  return true;
}

// Beyond which x, in both directions, the function stays within half a step of its result: `top`, or a half of it, or a
// half of that.
double end_of_change(const Node& n, double top, double step) {
  constexpr int kSamples = 64, kHalves = 40;
  const UnaryFunction* function = unary_function(n.text(Key::Fn));
  if (!function) return top;
  auto f = [&](double x) {
    return static_cast<double>(function->of(static_cast<float>(x), static_cast<float>(n.real(Key::Alpha, 0.0)),
                                            static_cast<float>(n.real(Key::Beta, 0.0))));
  };
  auto stays_beyond = [&](double bound) {
    for (int i = 0; i < kSamples; ++i) {
      const double x = bound * std::pow(top / bound, static_cast<double>(i) / kSamples);
      for (double side : {-1.0, 1.0})
        if (!(std::fabs(f(side * x) - f(side * top)) <= step / 2)) return false;
    }
    return true;
  };
  double bound = top;
  for (int i = 0; i < kHalves; ++i) {
    if (!stays_beyond(bound / 2)) return bound;
    bound /= 2;
  }
  return top;  // it does not change at all
}

// f(x) of 16 bits, x reaching far beyond where f changes, as a sigmoid of thousands  ->  f of x cut to that: the table
// has steps of its own there
bool cut_to_change(Rewriter& rw, const Node& n) {
  constexpr double kFar = 8;
  const Type x = rw.type(n.inputs[0]), out = rw.type(n.outputs[0]);
  if (!jumps_on_16_bits(rw, n)) return false;
  const double bound = end_of_change(n, largest(x), out.scale());
  if (kFar * bound > largest(x)) return false;
  ValueId cut = cut_codes(rw, n.inputs[0], static_cast<int64_t>(std::ceil(bound / x.scale())));
  cut = rw.make(Op::Quantize, {cut}, {}, i16_type(x.shape, bound / 32767));
  rw.replace(n, rw.make(Op::Unary, {cut}, n.attrs, out));
  return true;
}

// sin(x), cos(x) of 16 bits over several turns  ->  of x less its whole turns: a table has 512 steps for all of x.
// tan(x) as soon as x reaches a pole: what no table follows there is at the ends then, where it is cut off.
bool turn_back(Rewriter& rw, const Node& n) {
  const std::string fn = n.text(Key::Fn);
  if (!jumps_on_16_bits(rw, n) || (fn != "sin" && fn != "cos" && fn != "tan")) return false;
  const bool has_poles = fn == "tan";
  const double turn = has_poles ? M_PI : 2 * M_PI;
  const Type x = rw.type(n.inputs[0]);
  if (largest(x) <= (has_poles ? 1.001 * turn / 2 : 2 * turn) || !has_multiples(x, turn)) return false;
  // What is near a half may be rounded to either side. A table has a sample past the last code: before the pole, too.
  const Type half = i16_type(x.shape, has_poles ? turn / 2 / 32769 : 1.001 * turn / 2 / 32767);
  ValueId rest = rest_of(rw, n.inputs[0], multiples(rw, n.inputs[0], turn, To::Nearest), turn, {}, half);
  rw.replace(n, rw.make(Op::Unary, {rest}, n.attrs, rw.type(n.outputs[0])));
  return true;
}

// sign of 16 bits  ->  the codes, cut to -1, 0 and 1
bool sign_by_cutting(Rewriter& rw, const Node& n) {
  if (!jumps_on_16_bits(rw, n) || n.text(Key::Fn) != "sign") return false;
  rw.replace(n, sign_of(rw, n.inputs[0], clamp_of(n), rw.type(n.outputs[0])));
  return true;
}

// threshold and hardshrink of 16 bits  ->  choices: x > a ? x : b, and that of x < -a ? x : 0
bool choose_by_comparing(Rewriter& rw, const Node& n) {
  const std::string fn = n.text(Key::Fn);
  if (!jumps_on_16_bits(rw, n) || (fn != "threshold" && fn != "hardshrink")) return false;
  const Type x = rw.type(n.inputs[0]), out = rw.type(n.outputs[0]);
  const double alpha = n.real(Key::Alpha);
  auto choice = [&](std::string_view compare, double bound, ValueId otherwise) {
    const double code = bound / x.scale();  // x > bound: as codes, above the one below it
    const auto limit =
        static_cast<int64_t>(std::clamp(compare == "gt" ? std::floor(code) : std::ceil(code), -32767.0, 32767.0));
    ValueId mask = rw.make(Op::Compare, {n.inputs[0], scalar(rw, DType::I16, x.rank(), limit, x.scale())},
                           {{Key::Fn, std::string(compare)}});
    return rw.make(Op::Where, {mask, n.inputs[0], otherwise}, {}, out);
  };
  const double other = fn == "threshold" ? n.real(Key::Beta) : 0.0;
  const double size = other == 0 ? out.scale() : std::fabs(other) / 32767;
  ValueId number = scalar(rw, DType::I16, x.rank(), std::llround(other / size), size);
  if (fn == "hardshrink") number = choice("lt", -alpha, number);
  ValueId result = choice("gt", alpha, number);
  if (n.has(Key::ActMin) || n.has(Key::ActMax))  // a choice takes none in
    result = times_one(rw, result, clamp_of(n), out);
  rw.replace(n, result);
  return true;
}

}  // namespace

std::span<const Rule> rounded_rules() {
  static const Rule kRules[] = {
      {"round-quotient", {Op::Div}, round_quotient},
      {"remainder-of-quotient", {Op::Remainder}, remainder_of_quotient},
      {"round-by-sum", {Op::Unary}, round_by_sum},
      {"remainder-by-sum", {Op::Unary}, remainder_by_sum},
      {"sign-by-cutting", {Op::Unary}, sign_by_cutting},
      {"choose-by-comparing", {Op::Unary}, choose_by_comparing},
      {"turn-back", {Op::Unary}, turn_back},
      {"cut-to-change", {Op::Unary}, cut_to_change},
  };
  return kRules;
}

}  // namespace swoop
