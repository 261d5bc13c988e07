// Sums of long rows: 16 running sums side by side (the compiler keeps them in vector registers), joined in a fixed
// order, blocks of 4096 elements in double. The same bits on every machine, and the error does not grow with the
// length.
#pragma once

#include <cstdint>

namespace swoop {

template <typename F>
inline double sum_of(const float* x, int64_t count, F f) {
  constexpr int64_t kLanes = 16;
  constexpr int64_t kBlock = 4096;
  double total = 0;
  for (int64_t start = 0; start < count; start += kBlock) {
    int64_t end = count - start < kBlock ? count : start + kBlock;
    float lanes[kLanes] = {};
    int64_t i = start;
    for (; i + kLanes <= end; i += kLanes)
      for (int64_t j = 0; j < kLanes; ++j) lanes[j] += f(x[i + j]);
    for (int64_t j = 0; i < end; ++i, ++j) lanes[j] += f(x[i]);
    for (int64_t half = kLanes / 2; half > 0; half /= 2)
      for (int64_t j = 0; j < half; ++j) lanes[j] += lanes[j + half];
    total += static_cast<double>(lanes[0]);
  }
  return total;
}

inline double sum_of(const float* x, int64_t count) {
  return sum_of(x, count, [](float v) { return v; });
}

// The largest of at least one element; NaN when there is one.
inline float max_of(const float* x, int64_t count) {
  constexpr int64_t kLanes = 16;
  float lanes[kLanes];
  for (float& lane : lanes) lane = x[0];
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int64_t j = 0; j < kLanes; ++j) lanes[j] = x[i + j] > lanes[j] || x[i + j] != x[i + j] ? x[i + j] : lanes[j];
  for (; i < count; ++i) lanes[0] = x[i] > lanes[0] || x[i] != x[i] ? x[i] : lanes[0];
  float best = lanes[0];
  for (float lane : lanes) best = lane > best || lane != lane ? lane : best;
  return best;
}

}  // namespace swoop
