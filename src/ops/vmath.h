// exp, tanh and erf as straight-line float code, which compilers vectorise and which gives the same bits on every
// machine (libm's do not). Relative error at most 3e-7 over all floats (kernel_test.cpp). Coefficients: minimax fits in
// relative error, made for this file.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace swoop::vmath {

// exp(x) = 2^n * exp(r) with r = x - n ln 2 in +-0.347; n in two factors so that results beyond normal floats come out
// right.
inline float exp(float x) {
  float bounded = x < -104.0f ? -104.0f : x;
  bounded = bounded > 89.0f ? 89.0f : bounded;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
  float shifted = bounded * 1.44269504f + kRound;
  float n = shifted - kRound;
  float r = bounded - n * 0.693359375f;  // ln 2 in two parts; the first has 10 bits, so the product is exact
  r = r + n * 2.12194440e-4f;
  float q = 1.395038632e-03f;
  q = q * r + 8.368850452e-03f;
  q = q * r + 4.166620815e-02f;
  q = q * r + 1.666651933e-01f;
  q = q * r + 5.000000094e-01f;
  float y = q * r * r + r + 1.0f;
  int32_t exponent = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(kRound);
  int32_t half = exponent >> 1;
  float first = std::bit_cast<float>((half + 127) << 23);
  float second = std::bit_cast<float>((exponent - half + 127) << 23);
  return y * first * second;
}

inline float tanh(float x) {
  float magnitude = std::fabs(x);
  float z = x * x;
  float p = -5.660788609e-03f;
  p = p * z + 2.060200732e-02f;
  p = p * z - 5.372922989e-02f;
  p = p * z + 1.333132896e-01f;
  p = p * z - 3.333327832e-01f;
  float small = x + x * z * p;  // up to 0.625
  float large = std::copysign(1.0f - 2.0f / (exp(magnitude + magnitude) + 1.0f), x);
  return magnitude < 0.625f ? small : large;
}

// x P(x^2) up to 1; beyond, 1 - exp(-x^2) Q(u) with u = (x - 2) / (x + 2), and 1 from 4 on.
inline float erf(float x) {
  float z = x * x;
  float p = 7.889122834e-05f;
  p = p * z - 8.020842268e-04f;
  p = p * z + 5.189535450e-03f;
  p = p * z - 2.685444465e-02f;
  p = p * z + 1.128360018e-01f;
  p = p * z - 3.761262714e-01f;
  p = p * z + 1.128379166e+00f;
  float small = x * p;
  float magnitude = std::fabs(x);
  float a = magnitude > 4.0f ? 4.0f : magnitude;
  float u = (a - 2.0f) / (a + 2.0f);
  float q = -8.351829435e-04f;
  q = q * u + 6.811398345e-03f;
  q = q * u + 3.731907719e-03f;
  q = q * u - 7.896834200e-02f;
  q = q * u + 2.416582208e-01f;
  q = q * u - 4.271859888e-01f;
  q = q * u + 2.553956762e-01f;
  float large = std::copysign(1.0f - exp(-a * a) * q, x);
  return magnitude < 1.0f ? small : large;
}

inline float sigmoid(float x) { return 1.0f / (1.0f + exp(-x)); }

}  // namespace swoop::vmath
