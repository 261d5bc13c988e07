// The functions of Op::Unary, as scalars and over arrays, and the other loops that must vectorise.
#include <algorithm>
#include <cmath>

#include "ops/clones.h"
#include "ops/kernels.h"
#include "ops/ops.h"
#include "ops/vmath.h"
#include "support/check.h"
#include "support/parallel.h"

namespace swoop {

namespace {

float soft_plus(float x, float scale, float threshold) {
  return x * scale > threshold ? x : std::log1p(vmath::exp(x * scale)) / scale;
}

float logit(float x, float eps) {
  if (eps >= 0) x = std::clamp(x, eps, 1.0f - eps);
  return std::log(x / (1.0f - x));
}

float floored_remainder(float x, float divisor) {
  float rest = std::fmod(x, divisor);
  return rest != 0 && (rest < 0) != (divisor < 0) ? rest + divisor : rest;
}

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

// One struct per function: the scalar, and the loop over an array.
#define UNARY(name, expression)                                                                                       \
  struct Unary_##name {                                                                                               \
    static inline float scalar([[maybe_unused]] float x, [[maybe_unused]] float alpha, [[maybe_unused]] float beta) { \
      return expression;                                                                                              \
    }                                                                                                                 \
    SWOOP_CLONES static void map(const float* in, float* out, size_t count, float alpha, float beta) {                \
      for (size_t i = 0; i < count; ++i) out[i] = scalar(in[i], alpha, beta);                                         \
    }                                                                                                                 \
  };
#include "ops/unary.def"
#undef UNARY

struct Row {
  std::string_view name;
  UnaryFn scalar;
  void (*map)(const float*, float*, size_t, float, float);
};

const Row* find_row(std::string_view fn) {
  static const Row kRows[] = {
#define UNARY(name, expression) {#name, Unary_##name::scalar, Unary_##name::map},
#include "ops/unary.def"
#undef UNARY
  };
  for (const Row& row : kRows)
    if (row.name == fn) return &row;
  return nullptr;
}

}  // namespace

UnaryFn unary_function(std::string_view fn) {
  const Row* row = find_row(fn);
  return row ? row->scalar : nullptr;
}

void map_unary(std::string_view fn, float alpha, float beta, std::span<const float> in, std::span<float> out) {
  const Row* row = find_row(fn);
  CHECK(row, "unary has no function {}", fn);
  parallel_for(in.size(), kGrain, [&](size_t first, size_t last) {
    row->map(in.data() + first, out.data() + first, last - first, alpha, beta);
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
