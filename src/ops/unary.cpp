// The functions of Op::Unary, as scalars and over arrays, and the other loops that must vectorise.
#include <algorithm>
#include <cmath>

#include "ops/arithmetic.h"
#include "ops/kernels.h"
#include "ops/ops.h"
#include "ops/vmath.h"
#include "support/check.h"
#include "support/clones.h"
#include "support/parallel.h"

namespace swoop {

namespace {

float soft_plus(float x, float scale, float threshold) {
  return x * scale > threshold ? x : std::log1p(vmath::exp(x * scale)) / scale;
}

float logit(float x, float eps) {
  if (eps >= 0) x = x < eps ? eps : x > 1.0f - eps ? 1.0f - eps : x;  // eps above 0.5 too
  return std::log(x / (1.0f - x));
}

double largest_logit(double eps) { return eps > 0 && eps < 1 ? std::fabs(std::log(eps / (1 - eps))) : kInfinity; }

bool is_whole(double x) { return x == std::floor(x); }
bool is_odd(double x) { return std::fabs(std::fmod(x, 2)) == 1; }

// Giles' logarithm-based start value, then two Newton steps in double on erf itself.
float inverse_erf(float value) {
  auto y = static_cast<double>(value);
  if (std::fabs(y) >= 1) return std::fabs(y) > 1 || std::isnan(y) ? NAN : std::copysign(INFINITY, value);
  double w = std::log1p(-y * y) / 2;
  double c = 2 / (M_PI * 0.147) + w;
  double x = std::copysign(std::sqrt(std::sqrt(c * c - 2 * w / 0.147) - c), y);
  for (int step = 0; step < 3; ++step) x -= (std::erf(x) - y) / (2 / std::sqrt(M_PI) * std::exp(-x * x));
  return static_cast<float>(x);
}

// One struct per function: the scalar, the loop over an array, the range. Functions of integers have a second one.
#define UNARY(name, low, high, formula)                                                                           \
  struct Unary_##name {                                                                                           \
    static inline float of([[maybe_unused]] float x, [[maybe_unused]] float alpha, [[maybe_unused]] float beta) { \
      return formula;                                                                                             \
    }                                                                                                             \
    SWOOP_CLONES static void map(const float* in, float* out, size_t count, float alpha, float beta) {            \
      for (size_t i = 0; i < count; ++i) out[i] = of(in[i], alpha, beta);                                         \
    }                                                                                                             \
    static Range range([[maybe_unused]] double alpha, [[maybe_unused]] double beta) { return {low, high}; }       \
  };
#define UNARY_OF_INTEGERS(name, low, high, formula, when, integer)                                                 \
  UNARY(name, low, high, formula)                                                                                  \
  struct Integer_##name {                                                                                          \
    static bool keeps([[maybe_unused]] double alpha) { return when; }                                              \
    static int64_t of([[maybe_unused]] int64_t x, [[maybe_unused]] int64_t alpha, [[maybe_unused]] int64_t beta) { \
      return integer;                                                                                              \
    }                                                                                                              \
  };
#include "ops/unary.def"
#undef UNARY
#undef UNARY_OF_INTEGERS

const UnaryFunction kFunctions[] = {
#define UNARY(name, low, high, formula) \
  {#name, Unary_##name::of, Unary_##name::map, Unary_##name::range, nullptr, nullptr},
#define UNARY_OF_INTEGERS(name, low, high, formula, when, integer) \
  {#name, Unary_##name::of, Unary_##name::map, Unary_##name::range, Integer_##name::keeps, Integer_##name::of},
#include "ops/unary.def"
#undef UNARY
#undef UNARY_OF_INTEGERS
};

}  // namespace

std::span<const UnaryFunction> unary_functions() { return kFunctions; }

const UnaryFunction* unary_function(std::string_view fn) {
  auto* found =
      std::find_if(std::begin(kFunctions), std::end(kFunctions), [&](const auto& row) { return row.name == fn; });
  return found == std::end(kFunctions) ? nullptr : found;
}

void map_unary(std::string_view fn, float alpha, float beta, std::span<const float> in, std::span<float> out) {
  const UnaryFunction* function = unary_function(fn);
  CHECK(function, "unary has no function {}", fn);
  parallel_for(in.size(), kGrain, [&](size_t first, size_t last) {
    function->map(in.data() + first, out.data() + first, last - first, alpha, beta);
  });
}

SWOOP_CLONES void fake_quantize_run(float* data, size_t count, float inverse, float scale, float zero, float low,
                                    float high) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding and taking it away rounds half to even
  for (size_t i = 0; i < count; ++i) {
    float x = data[i] * inverse;
    x = x < low - zero ? low - zero : x;
    x = x > high - zero ? high - zero : x;
    data[i] = (x + kRound - kRound) * scale;
  }
}

}  // namespace swoop
