// Results that jump: quotients that are rounded and what they leave over, and functions of 16 bits with jumps, which a
// table would make ramps of 128 codes. A quotient has 16 bits, and its whole numbers are exact: a step of the result's
// own type may be larger than one.
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

// The whole numbers below or above values of 16 bits. What is nearer to the next one than `slack` codes counts as that.
ValueId whole(Rewriter& rw, ValueId x, bool up, double slack) {
  const Type& type = rw.type(x);
  double half = 0.5 - std::min(0.25, slack * type.scale());
  ValueId shift = scalar(rw, DType::I16, type.rank(), up ? 32767 : -32767, half / 32767);
  return rw.make(Op::Add, {x, shift}, {}, i16_type(type.shape, 1.0));
}

ValueId whole_towards_zero(Rewriter& rw, ValueId x, double slack) {
  const Type type = rw.type(x);
  ValueId zero = scalar(rw, DType::I16, type.rank(), 0, type.scale());
  ValueId above = whole(rw, rw.make(Op::Maximum, {x, zero}, {}, type), false, slack);
  ValueId below = whole(rw, rw.make(Op::Minimum, {x, zero}, {}, type), true, slack);
  // Zero loses a half on either side and rounds back to zero.
  return rw.make(Op::Add, {above, below}, {}, i16_type(type.shape, 1.0));
}

// floor(a / b) or trunc(a / b), at most `most` in size
ValueId rounded_quotient(Rewriter& rw, const Node& n, double most, bool to_zero) {
  constexpr double kOfOperands = 2;  // codes that the rounding of a and b may take from a quotient
  Type type = i16_type(rw.type(n.outputs[0]).shape, std::min(most + 1, 32767.0) / 32767);
  ValueId quotient = rw.make(Op::Div, {n.inputs[0], n.inputs[1]}, {}, type);
  return to_zero ? whole_towards_zero(rw, quotient, kOfOperands) : whole(rw, quotient, false, kOfOperands);
}

// div(a, b) rounded  ->  the quotient, rounded, in the result's type
bool round_quotient(Rewriter& rw, const Node& n) {
  if (!n.has(Key::Mode) || !divides_codes(rw, n)) return false;
  const Type out = rw.type(n.outputs[0]);
  ValueId quotient = rounded_quotient(rw, n, largest(out), n.text(Key::Mode) == "trunc");
  rw.replace(n, times_one(rw, quotient, clamp_of(n), out));
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

bool jumps_on_16_bits(const Rewriter& rw, const Node& n) {
  return computes_on_codes(rw, n) && rw.type(n.inputs[0]).dtype == DType::I16;
}

constexpr double kExact = 0.25;  // of a code: none is that near to a whole number without being one

// floor, ceil, trunc, round and frac of 16 bits  ->  sums that are rounded to whole numbers
bool round_by_sum(Rewriter& rw, const Node& n) {
  const std::string fn = n.text(Key::Fn);
  const Type x = rw.type(n.inputs[0]), out = rw.type(n.outputs[0]);
  if (!jumps_on_16_bits(rw, n) || largest(x) >= 32767) return false;
  ValueId result = kNone;
  if (fn == "floor" || fn == "ceil")
    result = whole(rw, n.inputs[0], fn == "ceil", kExact);
  else if (fn == "trunc" || fn == "frac")
    result = whole_towards_zero(rw, n.inputs[0], kExact);
  else if (fn == "round")
    result = times_one(rw, n.inputs[0], {}, i16_type(x.shape, 1.0));
  else
    return false;
  rw.replace(n, fn == "frac" ? rw.make(Op::Sub, {n.inputs[0], result}, clamp_of(n), out)
                             : times_one(rw, result, clamp_of(n), out));
  return true;
}

// remainder and fmod by a number, of 16 bits  ->  x - whole(x / a) * a
bool remainder_by_sum(Rewriter& rw, const Node& n) {
  const std::string fn = n.text(Key::Fn);
  if (!jumps_on_16_bits(rw, n) || (fn != "remainder" && fn != "fmod")) return false;
  const Type x = rw.type(n.inputs[0]), out = rw.type(n.outputs[0]);
  const double alpha = n.real(Key::Alpha), most = largest(x) / std::fabs(alpha) + 1;
  if (!(most < 32767)) return false;
  auto number = [&](double value) { return scalar(rw, DType::I16, x.rank(), value < 0 ? -1 : 1, std::fabs(value)); };
  ValueId quotient = rw.make(Op::Mul, {n.inputs[0], number(1 / alpha)}, {}, i16_type(x.shape, most / 32767));
  ValueId times = fn == "fmod" ? whole_towards_zero(rw, quotient, kExact) : whole(rw, quotient, false, kExact);
  ValueId taken = rw.make(Op::Mul, {times, number(alpha)}, {}, i16_type(x.shape, most * std::fabs(alpha) / 32767));
  rw.replace(n, rw.make(Op::Sub, {n.inputs[0], taken}, clamp_of(n), out));
  return true;
}

// x of 16 bits, cut to codes from -most to most
ValueId cut_codes(Rewriter& rw, ValueId x, int64_t most) {
  const Type type = rw.type(x);
  x = rw.make(Op::Minimum, {x, scalar(rw, DType::I16, type.rank(), most, type.scale())}, {}, type);
  return rw.make(Op::Maximum, {x, scalar(rw, DType::I16, type.rank(), -most, type.scale())}, {}, type);
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

// sign of 16 bits  ->  the codes, cut to -1, 0 and 1
bool sign_by_cutting(Rewriter& rw, const Node& n) {
  if (!jumps_on_16_bits(rw, n) || n.text(Key::Fn) != "sign") return false;
  const Type x = rw.type(n.inputs[0]);
  ValueId cut = cut_codes(rw, n.inputs[0], 1);
  ValueId factor = scalar(rw, DType::I16, x.rank(), 1, 1 / x.scale());
  rw.replace(n, rw.make(Op::Mul, {cut, factor}, clamp_of(n), rw.type(n.outputs[0])));
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
      {"cut-to-change", {Op::Unary}, cut_to_change},
  };
  return kRules;
}

}  // namespace swoop
