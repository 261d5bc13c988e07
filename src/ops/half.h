// The half precision floats as bits: IEEE binary16 and bfloat16, rounded to nearest even as PyTorch does.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace swoop {

inline float from_bf16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

inline uint16_t to_bf16(float x) {
  auto bits = std::bit_cast<uint32_t>(x);
  if (std::isnan(x)) return 0x7fc0;
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

inline float from_f16(uint16_t bits) {
  int exponent = (bits >> 10) & 31;
  int fraction = bits & 1023;
  float magnitude = exponent == 31  ? (fraction ? NAN : INFINITY)
                    : exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                    : std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

inline uint16_t to_f16(float x) {
  uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  if (std::isnan(x)) return static_cast<uint16_t>(sign | 0x7e00);
  float magnitude = std::fabs(x);
  if (magnitude >= 65520.0f) return static_cast<uint16_t>(sign | 0x7c00);  // half way beyond the largest half
  if (magnitude < 6.103515625e-5f)                                         // 2^-14: subnormal, in steps of 2^-24
    return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(std::ldexp(magnitude, 24))));
  auto bits = std::bit_cast<uint32_t>(magnitude);
  bits += 0xfff + ((bits >> 13) & 1);
  return static_cast<uint16_t>(sign | ((bits >> 13) - (112u << 10)));  // exponent bias 127 -> 15
}

}  // namespace swoop
