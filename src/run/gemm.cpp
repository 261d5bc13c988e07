#include "run/gemm.h"

#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace swoop::ethos {

std::vector<int16_t> pack_weights(const int16_t* weights, int out, int depth) {
  const int panels = (out + kPanel - 1) / kPanel, pairs = (depth + 1) / 2;
  std::vector<int16_t> packed(static_cast<size_t>(panels) * static_cast<size_t>(pairs) * kPanel * 2, 0);
  for (int o = 0; o < out; ++o)
    for (int d = 0; d < depth; ++d)
      packed[((static_cast<size_t>(o / kPanel) * static_cast<size_t>(pairs) + static_cast<size_t>(d / 2)) * kPanel +
              static_cast<size_t>(o % kPanel)) *
                 2 +
             static_cast<size_t>(d % 2)] =
          weights[static_cast<size_t>(o) * static_cast<size_t>(depth) + static_cast<size_t>(d)];
  return packed;
}

void multiply_plain(const int16_t* rows, int64_t row_stride, int row_count, const int16_t* packed, Panels panels,
                    int32_t* sums, int64_t out_stride) {
  for (int panel = panels.first; panel < panels.last; ++panel) {
    const int16_t* weights = packed + int64_t{panel} * panels.pairs * kPanel * 2;
    for (int row = 0; row < row_count; ++row) {
      const int16_t* in = rows + row * row_stride;
      uint32_t sum[kPanel] = {};  // unsigned: accumulators wrap
      for (int p = panels.first_pair; p < panels.last_pair; ++p)
        for (int o = 0; o < kPanel; ++o)
          sum[o] += static_cast<uint32_t>(in[2 * p] * weights[(p * kPanel + o) * 2]) +
                    static_cast<uint32_t>(in[2 * p + 1] * weights[(p * kPanel + o) * 2 + 1]);
      std::memcpy(sums + row * out_stride + int64_t{panel} * kPanel, sum, sizeof(sum));
    }
  }
}

#if defined(__x86_64__)
namespace {

template <int kRows>
__attribute__((target("avx2"))) void block_avx2(const int16_t* rows, int64_t row_stride, const int16_t* weights,
                                                int first, int last, int32_t* sums, int64_t out_stride) {
  __m256i low[kRows], high[kRows];
  for (int r = 0; r < kRows; ++r) low[r] = high[r] = _mm256_setzero_si256();
  for (int p = first; p < last; ++p) {
    const __m256i* w = reinterpret_cast<const __m256i*>(weights + int64_t{p} * kPanel * 2);
    const __m256i w0 = _mm256_loadu_si256(w), w1 = _mm256_loadu_si256(w + 1);
    for (int r = 0; r < kRows; ++r) {
      int32_t pair;
      std::memcpy(&pair, rows + r * row_stride + 2 * p, sizeof(pair));
      const __m256i in = _mm256_set1_epi32(pair);
      low[r] = _mm256_add_epi32(low[r], _mm256_madd_epi16(in, w0));
      high[r] = _mm256_add_epi32(high[r], _mm256_madd_epi16(in, w1));
    }
  }
  for (int r = 0; r < kRows; ++r) {
    __m256i* to = reinterpret_cast<__m256i*>(sums + r * out_stride);
    _mm256_storeu_si256(to, low[r]);
    _mm256_storeu_si256(to + 1, high[r]);
  }
}

}  // namespace
#endif

void multiply(const int16_t* rows, int64_t row_stride, int row_count, const int16_t* packed, Panels panels,
              int32_t* sums, int64_t out_stride) {
#if defined(__x86_64__)
  static const bool avx2 = __builtin_cpu_supports("avx2");
  if (avx2) {
    for (int panel = panels.first; panel < panels.last; ++panel) {
      const int16_t* weights = packed + int64_t{panel} * panels.pairs * kPanel * 2;
      int32_t* out = sums + int64_t{panel} * kPanel;
      int row = 0;
      for (; row + 4 <= row_count; row += 4)
        block_avx2<4>(rows + row * row_stride, row_stride, weights, panels.first_pair, panels.last_pair,
                      out + row * out_stride, out_stride);
      for (; row < row_count; ++row)
        block_avx2<1>(rows + row * row_stride, row_stride, weights, panels.first_pair, panels.last_pair,
                      out + row * out_stride, out_stride);
    }
    return;
  }
#endif
  multiply_plain(rows, row_stride, row_count, packed, panels, sums, out_stride);
}

}  // namespace swoop::ethos
