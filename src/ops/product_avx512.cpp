// The large part of most products with wider vectors, to the bit what Eigen gives with AVX2: there, each sum of the
// first columns, 24 at a time, goes over k in its order with fused multiply-adds. What is left of the columns is summed
// in other orders, so Eigen does it. cmake/dependencies.cmake has this file compiled for AVX-512, on x86-64.
#if defined(__AVX512F__)
#include <immintrin.h>

#include <algorithm>

#include "ops/product.h"

namespace swoop {

namespace {

constexpr int64_t kColumns = 24;    // of Eigen's register tile with AVX2
constexpr int64_t kOneBlock = 288;  // most of k that Eigen sums at once: see eigen_product.h
constexpr int64_t kUnrolled = 8;    // of k
constexpr int64_t kLanes = 16;
constexpr __mmask16 kHalf = 0x00ff;  // 24 columns are a vector and a half

// A strip of columns of B, one row after the other.
struct Strip {
  const float* data;
  int64_t column;
  __mmask16 last;  // of its last vector
};

template <int kRows, int kVectors>
void multiply_block(const Product& p, int64_t row, const Strip& strip) {
  __m512 sums[kRows][kVectors];
  for (auto& line : sums)
    for (__m512& sum : line) sum = _mm512_setzero_ps();
  const float* a = p.a.data + row * p.a.row_stride;
  const float* b = strip.data;
  for (int64_t k = 0; k < p.k; ++k, b += kVectors * kLanes) {
    __m512 right[kVectors];
    for (int v = 0; v < kVectors; ++v) right[v] = _mm512_load_ps(b + v * kLanes);
    for (int r = 0; r < kRows; ++r) {
      const __m512 left = _mm512_set1_ps(a[r * p.a.row_stride + k * p.a.col_stride]);
      for (int v = 0; v < kVectors; ++v) sums[r][v] = _mm512_fmadd_ps(left, right[v], sums[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) {
      float* c = p.c + (row + r) * p.ldc + strip.column + v * kLanes;
      const __mmask16 mask = v + 1 < kVectors ? __mmask16{0xffff} : strip.last;
      const __m512 before = p.add ? _mm512_maskz_loadu_ps(mask, c) : _mm512_setzero_ps();
      _mm512_mask_storeu_ps(c, mask, _mm512_add_ps(sums[r][v], before));
    }
}

// Lane i of x[j] changes places with lane j of x[i].
void transpose(__m512 (&x)[kLanes]) {
  __m512 pairs[kLanes], fours[kLanes];
  for (int i = 0; i < kLanes; i += 2) {
    pairs[i] = _mm512_unpacklo_ps(x[i], x[i + 1]);
    pairs[i + 1] = _mm512_unpackhi_ps(x[i], x[i + 1]);
  }
  const auto low = [](__m512 one, __m512 other) {
    return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(one), _mm512_castps_pd(other)));
  };
  const auto high = [](__m512 one, __m512 other) {
    return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(one), _mm512_castps_pd(other)));
  };
  for (int i = 0; i < kLanes; i += 4) {
    fours[i] = low(pairs[i], pairs[i + 2]);
    fours[i + 1] = high(pairs[i], pairs[i + 2]);
    fours[i + 2] = low(pairs[i + 1], pairs[i + 3]);
    fours[i + 3] = high(pairs[i + 1], pairs[i + 3]);
  }
  constexpr int kEven = 0x88, kOdd = 0xdd;  // quarters of both operands
  for (int i = 0; i < 4; ++i) {
    const __m512 even_low = _mm512_shuffle_f32x4(fours[i], fours[4 + i], kEven);
    const __m512 even_high = _mm512_shuffle_f32x4(fours[8 + i], fours[12 + i], kEven);
    const __m512 odd_low = _mm512_shuffle_f32x4(fours[i], fours[4 + i], kOdd);
    const __m512 odd_high = _mm512_shuffle_f32x4(fours[8 + i], fours[12 + i], kOdd);
    x[i] = _mm512_shuffle_f32x4(even_low, even_high, kEven);
    x[4 + i] = _mm512_shuffle_f32x4(odd_low, odd_high, kEven);
    x[8 + i] = _mm512_shuffle_f32x4(even_low, even_high, kOdd);
    x[12 + i] = _mm512_shuffle_f32x4(odd_low, odd_high, kOdd);
  }
}

__mmask16 first_lanes(int64_t count) { return static_cast<__mmask16>((1u << std::min(count, kLanes)) - 1); }

template <int kVectors>
void pack_strip(const Product& p, int64_t column, __mmask16 last, float* to) {
  const float* from = p.b.data + column * p.b.col_stride;
  for (int v = 0; v < kVectors; ++v, from += kLanes * p.b.col_stride, to += kLanes) {
    const __mmask16 mask = v + 1 < kVectors ? __mmask16{0xffff} : last;
    if (p.b.col_stride == 1) {
      for (int64_t k = 0; k < p.k; ++k)
        _mm512_store_ps(to + k * kVectors * kLanes, _mm512_maskz_loadu_ps(mask, from + k * p.b.row_stride));
      continue;
    }
    for (int64_t k = 0; k < p.k; k += kLanes) {
      __m512 square[kLanes];
      for (int64_t c = 0; c < kLanes; ++c)
        square[c] = mask >> c & 1 ? _mm512_maskz_loadu_ps(first_lanes(p.k - k), from + c * p.b.col_stride + k)
                                  : _mm512_setzero_ps();
      transpose(square);
      for (int64_t i = 0; i < std::min(kLanes, p.k - k); ++i)
        _mm512_store_ps(to + (k + i) * kVectors * kLanes, square[i]);
    }
  }
}

template <int kVectors>
void multiply_strip(const Product& p, int64_t column, __mmask16 last) {
  alignas(64) float packed[kOneBlock * kVectors * kLanes];
  pack_strip<kVectors>(p, column, last, packed);
  const Strip strip{packed, column, last};
  int64_t row = 0;
  for (; row + 8 <= p.m; row += 8) multiply_block<8, kVectors>(p, row, strip);
  for (; row + 2 <= p.m; row += 2) multiply_block<2, kVectors>(p, row, strip);
  if (row < p.m) multiply_block<1, kVectors>(p, row, strip);
}

// How much of k Eigen sums at once: parts that are about equal.
int64_t depth_of_block(int64_t k) {
  const int64_t left = k % kOneBlock;
  if (k <= kOneBlock || left == 0) return std::min(k, kOneBlock);
  return kOneBlock - kUnrolled * ((kOneBlock - 1 - left) / (kUnrolled * (k / kOneBlock + 1)));
}

// Eigen takes other ways for vectors.
bool is_summed_in_order(const Product& p) { return p.m > 1 && p.n >= kColumns && p.n % kColumns != 1; }

}  // namespace

void multiply_avx512(const Product& p) {
  if (!is_summed_in_order(p)) return multiply_avx2(p);
  const int64_t columns = p.n / kColumns * kColumns;
  const int64_t depth = depth_of_block(p.k);
  for (int64_t k = 0; k < p.k; k += depth) {
    Product part = p;
    part.k = std::min(depth, p.k - k);
    part.a.data += k * p.a.col_stride;
    part.b.data += k * p.b.row_stride;
    part.add = p.add || k > 0;
    int64_t column = 0;
    for (; column + 2 * kColumns <= columns; column += 2 * kColumns) multiply_strip<3>(part, column, 0xffff);
    if (column < columns) multiply_strip<2>(part, column, kHalf);
  }
  if (columns == p.n) return;
  Product rest = p;
  rest.n = p.n - columns;
  rest.b.data += columns * p.b.col_stride;
  rest.c += columns;
  multiply_avx2(rest);
}

}  // namespace swoop
#endif
