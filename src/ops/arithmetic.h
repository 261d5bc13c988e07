// Arithmetic on single numbers that PyTorch defines in its own way. Integers wrap; -1 as divisor is a negation, which
// wraps too.
#pragma once

#include <cmath>
#include <cstdint>

namespace swoop {

inline int64_t negate(int64_t a) { return static_cast<int64_t>(0 - static_cast<uint64_t>(a)); }
inline int64_t square(int64_t a) { return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(a)); }

// With the sign of the divisor.
inline float floored_remainder(float a, float b) {
  float rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
inline int64_t floored_remainder(int64_t a, int64_t b) {
  if (b == -1) return 0;
  int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

// With the sign of the dividend.
inline int64_t truncated_remainder(int64_t a, int64_t b) { return b == -1 ? 0 : a % b; }

inline int64_t integer_power(int64_t a, int64_t b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
  uint64_t result = 1;
  for (auto base = static_cast<uint64_t>(a), power = static_cast<uint64_t>(b); power; power >>= 1, base *= base)
    if (power & 1) result *= base;
  return static_cast<int64_t>(result);
}

}  // namespace swoop
