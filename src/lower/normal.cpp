// Quotients, roots and logarithms of values that may be of any size. One table over all codes has too few steps near
// zero, where these functions are steep, and one scale for all results too few codes for the small ones. So the value
// is normalised first: x = mantissa * 2^16 / 2^places, with as many places as it has leading zeros. A table of the
// mantissa's function then covers a factor of 2 (4 for roots), and the places come back as a shift or an addend.
//
// Error against the exact function, for every code of every type: below 1e-4 of the result (logarithm to base 2: 1e-4)
// plus half a step of the result's type. The mantissa's rounding is 3e-5 of it, the table's interpolation at most
// 2.4e-5, and the rounding of its 16-bit entries 3e-5.
#include <algorithm>
#include <cmath>

#include "lower/lowering.h"

namespace swoop {

namespace {

constexpr double kTop = 32767;

// 513 samples of a function of the mantissa, from `first` on; what is nearer to zero than that does not occur, and zero
// itself gives `at_zero`. Negative mantissas mirror the function or are as zero.
template <typename Function>
std::vector<int64_t> samples(double first, int64_t at_zero, bool odd, Function function) {
  std::vector<int64_t> entries;
  for (int i = -256; i <= 256; ++i) {
    double t = 128.0 * i, size = std::fabs(t);
    double value = static_cast<double>(at_zero);
    if (size >= first && (odd || t > 0)) value = (t < 0 ? -1 : 1) * function(size);
    // Between the two sides a table may not step by more than 16 bits.
    else if (odd && t < 0)
      value = -function(first) + (t + first) / first * (value + function(first));
    entries.push_back(std::clamp<int64_t>(std::llround(value), -32768, 32767));
  }
  return entries;
}

// Of a mantissa: 1/x up to a power of two.
std::vector<int64_t> reciprocals() {
  return samples(16384, 32767, true, [](double t) { return kTop * 16384 / t; });
}

}  // namespace

// Entries that are read below zero alone get reciprocals above it, which the next quotient by something positive reads.
void Lowering::add_reciprocals(std::vector<int64_t>& entries) {
  const std::vector<int64_t> others = reciprocals();
  const size_t middle = entries.size() / 2;
  if (entries[middle] != others[middle]) return;
  std::copy(others.begin() + static_cast<std::ptrdiff_t>(middle), others.end(),
            entries.begin() + static_cast<std::ptrdiff_t>(middle));
  half_table_ = entries;
}

// x is i32. The mantissa is in [2^14, 2^15), or in [2^13, 2^15) when the number of places is even; of zero it is zero.
// Magnitudes below `least` have the places of `least`.
Lowering::Normal Lowering::normalise(Id x, bool positive, bool even, int64_t least) {
  tosa::CodeRange codes = bounds_.of(x);
  if (positive && codes.low < 0) x = b.maximum(x, number(0, x));
  // The smallest number of 32 bits has no absolute value.
  Id bounded = codes.low <= -0x1p31 ? b.maximum(x, number(-0x7fffffff, x)) : x;
  Id size = positive || codes.low >= 0 ? x : b.abs(bounded);
  Id zeros = b.clz(b.maximum(size, number(least, x)));  // the sign among them
  Id half = 0, places = 0;
  if (even) {
    half = b.arithmetic_right_shift(b.sub(zeros, number(2, x)), number(1, x), true);  // U55 and U65 round every shift
    places = b.add(half, half);
  } else {
    places = b.sub(zeros, number(1, x));
  }
  return {rescale(shift_left(x, places), 0x1p-16, 0, 0, tosa::DType::I16), places, half};
}

// a / x with x as input `divisor` of n; a is i32. 1/x = table(mantissa) * 2^places, up to a
// constant, so a * table(mantissa) is shifted right by what is missing of the most places. A quotient by zero has the
// sign of a, as large as the smallest divisor makes it.
tosa::TensorId Lowering::quotient(Id a, double a_scale, const Node& n, size_t divisor) {
  Id x = widen(n, divisor, 1.0);
  bool positive = bounds_.of(x).low >= 0;
  // The product's 30 bits: of a dividend with more than 15 the lowest go with it.
  tosa::CodeRange codes = bounds_.of(a);
  int8_t drop = 0;
  while (std::ldexp(codes.magnitude() * kTop, -drop) >= 0x1p30) ++drop;
  double ratio = std::ldexp(a_scale, drop) / in(n, divisor).scale() / out(n).scale() / kTop;
  // The step of the shifted product should not be coarser than the result's. A divisor that is too small for that sends
  // all but the two smallest codes of a beyond 16 bits. Divisors that are never small leave more of the product.
  int most = 30 - (positive ? std::clamp(static_cast<int>(std::ceil(std::log2(ratio))), 0, 30) : 0);
  if (const int64_t least = in(n, divisor).quant->qmin - in(n, divisor).zero_point(); least > 0)
    most = std::min(most, 30 - std::ilogb(static_cast<double>(least)));
  Normal normal = normalise(x, positive, false, int64_t{1} << (30 - most));
  Id share = interpolate(normal.mantissa, positive && !half_table_.empty() ? half_table_ : reciprocals(),
                         fmt::format("{}_reciprocal", n.name));
  Id product = b.mul(a, rescale(share, 1.0, 0, 0, tosa::DType::I32), drop);
  Id shifted = b.arithmetic_right_shift(product, b.sub(number(most, normal.places), normal.places), true);
  return narrow(shifted, std::ldexp(ratio, most - 30), n);
}

Result<tosa::TensorId> Lowering::divide(const Node& n) {
  if (n.has(Key::Mode)) return cannot(n, "it rounds its quotient");
  if (!in(n, 0).quantized() || !in(n, 1).quantized() || !out(n).quantized())
    return cannot(n, "its operands are not quantized");
  double unit = in(n, 0).dtype == DType::I8 ? 128 : 1;  // 255 codes of 8 bits fill 16
  return quotient(widen(n, 0, unit), in(n, 0).scale() / unit, n, 1);
}

Result<tosa::TensorId> Lowering::normal_unary(const Node& n) {
  const std::string& fn = n.text(Key::Fn);
  const double from = in(n, 0).scale(), to = out(n).scale();
  std::string table = fmt::format("{}_table", n.name);
  if (fn == "reciprocal") return quotient(b.scalar(tosa::DType::I32, 32767, out(n).rank()), 1 / kTop, n, 0);
  Id x = widen(n, 0, 1.0);
  if (fn == "sqrt" || fn == "rsqrt") {
    Normal normal = normalise(x, true, true);
    Id half = normal.half;  // at most 15
    bool inverse = fn == "rsqrt";
    Id root = inverse
                  ? interpolate(normal.mantissa,
                                samples(8192, 32767, false, [](double t) { return kTop * std::sqrt(8192 / t); }), table)
                  : interpolate(normal.mantissa,
                                samples(8192, 0, false, [](double t) { return kTop * std::sqrt(t / 32768); }), table);
    root = rescale(root, 1.0, 0, 0, tosa::DType::I32);
    if (inverse) return narrow(shift_left(root, half), 1 / (kTop * std::sqrt(8192.0) * 256 * std::sqrt(from) * to), n);
    return narrow(shift_left(root, b.sub(number(15, half), half)), std::sqrt(32768 * from) * 256 / kTop / 32768 / to,
                  n);
  }
  // The logarithm to base 2 of the mantissa, less 14, plus 30 - places.
  double base = fn == "log" ? std::log(2.0) : fn == "log10" ? std::log10(2.0) : 1.0;
  Normal normal = normalise(x, true, false);
  Id log = interpolate(normal.mantissa,
                       samples(16384, -32767, false, [](double t) { return kTop * std::log2(t / 16384); }), table);
  Id whole = b.mul(normal.places, number(-32767, x));
  auto offset = static_cast<int64_t>(std::llround(kTop * (30 + std::log2(from))));
  Id sum = b.add(b.add(rescale(log, 1.0, 0, 0, tosa::DType::I32), whole), number(offset, x));
  return narrow(sum, base / kTop / to, n);
}

}  // namespace swoop
