#include "tosa/gemm.h"

#include <algorithm>

#include "tosa/simd.h"

namespace swoop::tosa {

namespace {

constexpr size_t kChunk = 128;  // 128 products of 2^23 stay below 2^31

// Rows x Cols dot products at once: each loaded vector is used Cols or Rows times. The fixed inner trip count lets the
// compiler turn the loop into multiply-add pairs (pmaddwd, vpdpwssd).
template <size_t Rows, size_t Cols, typename T, typename Store>
SWOOP_INLINE inline void dot_block(const int16_t* a, const int16_t* b, size_t stride, size_t k, const Store& store) {
  T sums[Rows][Cols] = {};
  for (size_t i = 0; i < k; ++i) {
    for (size_t r = 0; r < Rows; ++r)
      for (size_t c = 0; c < Cols; ++c) sums[r][c] += int32_t{a[r * stride + i]} * int32_t{b[c * stride + i]};
  }
  for (size_t r = 0; r < Rows; ++r)
    for (size_t c = 0; c < Cols; ++c) store(r, c, sums[r][c]);
}

// Walks c in blocks of 4 x 4, with narrower ones at the edges.
template <typename T, typename Store>
SWOOP_INLINE inline void blocked(const int16_t* a, const int16_t* b, size_t m, size_t n, size_t stride, size_t k,
                                 const Store& store) {
  size_t row = 0;
  for (; row + 4 <= m; row += 4) {
    size_t col = 0;
    auto at = [&](size_t r, size_t c, T sum) SWOOP_INLINE { store(row + r, col + c, sum); };
    for (; col + 4 <= n; col += 4) dot_block<4, 4, T>(a + row * stride, b + col * stride, stride, k, at);
    for (; col < n; ++col) dot_block<4, 1, T>(a + row * stride, b + col * stride, stride, k, at);
  }
  for (; row < m; ++row) {
    size_t col = 0;
    auto at = [&](size_t r, size_t c, T sum) SWOOP_INLINE { store(row + r, col + c, sum); };
    for (; col + 4 <= n; col += 4) dot_block<1, 4, T>(a + row * stride, b + col * stride, stride, k, at);
    for (; col < n; ++col) dot_block<1, 1, T>(a + row * stride, b + col * stride, stride, k, at);
  }
}

}  // namespace

void gemm(const int16_t* a, const int16_t* b, size_t m, size_t n, size_t k, int32_t* c, size_t ldc) {
  with_best_simd([=]() SWOOP_INLINE {
    blocked<int32_t>(a, b, m, n, k, k,
                     [=](size_t row, size_t col, int32_t sum) SWOOP_INLINE { c[row * ldc + col] = sum; });
  });
}

void gemm(const int16_t* a, const int16_t* b, size_t m, size_t n, size_t k, Sum sum, int64_t* c, size_t ldc) {
  if (sum == Sum::Wide) {
    with_best_simd([=]() SWOOP_INLINE {
      blocked<int64_t>(a, b, m, n, k, k,
                       [=](size_t row, size_t col, int64_t s) SWOOP_INLINE { c[row * ldc + col] = s; });
    });
    return;
  }
  for (size_t row = 0; row < m; ++row) std::fill_n(c + row * ldc, n, int64_t{0});
  for (size_t first = 0; first < k; first += kChunk) {
    size_t length = std::min(kChunk, k - first);
    with_best_simd([=]() SWOOP_INLINE {
      blocked<int32_t>(a + first, b + first, m, n, k, length,
                       [=](size_t row, size_t col, int32_t s) SWOOP_INLINE { c[row * ldc + col] += s; });
    });
  }
}

}  // namespace swoop::tosa
