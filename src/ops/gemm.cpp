#include "ops/gemm.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "support/parallel.h"

namespace swoop {

namespace {

constexpr int64_t kDepth = 256;    // of a block of k: its panel of B stays in the first-level cache
constexpr int64_t kColumns = 512;  // of a block of n: its packed B stays in the second-level cache
constexpr int64_t kMaxTile = 12 * 32;
constexpr int64_t kPiece =
    16;  // transposing copies read this many elements along a row, so that what they write stays close

// A register tile: rows x columns of C, the sum over `depth` of packed A [depth][rows] and packed B [depth][columns].
struct Kernel {
  int64_t rows;
  int64_t columns;
  void (*run)(int64_t depth, const float* a, const float* b, float* tile);
};

void tile_plain(int64_t depth, const float* a, const float* b, float* tile) {
  float sums[4][8] = {};
  for (int64_t p = 0; p < depth; ++p, a += 4, b += 8)
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 8; ++j) {
#ifdef __FP_FAST_FMAF
        sums[i][j] = std::fma(a[i], b[j], sums[i][j]);
#else
        sums[i][j] += a[i] * b[j];
#endif
      }
  std::memcpy(tile, sums, sizeof sums);
}

#if defined(__x86_64__)

// Vector: the register type, V: the prefix of its intrinsics.
#define SWOOP_TILE(name, isa, Vector, V, kRows)                                                          \
  __attribute__((target(isa))) void name(int64_t depth, const float* a, const float* b, float* tile) {   \
    constexpr int kWidth = sizeof(Vector) / sizeof(float);                                               \
    Vector sums[kRows][2];                                                                               \
    _Pragma("GCC unroll 16") for (int i = 0; i < kRows; ++i) sums[i][0] = sums[i][1] = V##_setzero_ps(); \
    for (int64_t p = 0; p < depth; ++p, a += kRows, b += 2 * kWidth) {                                   \
      Vector left_columns = V##_loadu_ps(b);                                                             \
      Vector right_columns = V##_loadu_ps(b + kWidth);                                                   \
      _Pragma("GCC unroll 16") for (int i = 0; i < kRows; ++i) {                                         \
        Vector row = V##_set1_ps(a[i]);                                                                  \
        sums[i][0] = V##_fmadd_ps(row, left_columns, sums[i][0]);                                        \
        sums[i][1] = V##_fmadd_ps(row, right_columns, sums[i][1]);                                       \
      }                                                                                                  \
    }                                                                                                    \
    _Pragma("GCC unroll 16") for (int i = 0; i < kRows; ++i) {                                           \
      V##_storeu_ps(tile + i * 2 * kWidth, sums[i][0]);                                                  \
      V##_storeu_ps(tile + i * 2 * kWidth + kWidth, sums[i][1]);                                         \
    }                                                                                                    \
  }
SWOOP_TILE(tile_avx2, "avx2,fma", __m256, _mm256, 6)
SWOOP_TILE(tile_avx512, "avx512f,fma", __m512, _mm512, 12)
#undef SWOOP_TILE

#endif

Kernel choose_kernel() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return {12, 32, tile_avx512};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return {6, 16, tile_avx2};
#endif
  return {4, 8, tile_plain};
}

// Rows [first, last) of A as tiles: for each block of k, for each tile of rows, [depth][rows].
void pack_rows(const Kernel& kernel, MatrixView a, int64_t m, int64_t k, int64_t first_tile, int64_t last_tile,
               float* packed) {
  int64_t tiles = (m + kernel.rows - 1) / kernel.rows;
  for (int64_t k0 = 0; k0 < k; k0 += kDepth) {
    int64_t depth = std::min(kDepth, k - k0);
    for (int64_t tile = first_tile; tile < last_tile; ++tile) {
      float* to = packed + tiles * kernel.rows * k0 + tile * kernel.rows * depth;
      int64_t rows = std::min(kernel.rows, m - tile * kernel.rows);
      const float* from = a.data + tile * kernel.rows * a.row_stride + k0 * a.col_stride;
      for (int64_t p0 = 0; p0 < depth; p0 += kPiece) {
        int64_t p1 = std::min(depth, p0 + kPiece);
        for (int64_t i = 0; i < kernel.rows; ++i)
          for (int64_t p = p0; p < p1; ++p)
            to[p * kernel.rows + i] = i < rows ? from[i * a.row_stride + p * a.col_stride] : 0.0f;
      }
    }
  }
}

void add_tile(const float* tile, int64_t stride, int64_t rows, int64_t columns, float* c, int64_t ldc, bool first) {
  for (int64_t i = 0; i < rows; ++i, tile += stride, c += ldc) {
    if (first)
      std::memcpy(c, tile, static_cast<size_t>(columns) * sizeof(float));
    else
      for (int64_t j = 0; j < columns; ++j) c[j] += tile[j];
  }
}

void pack_matrix(MatrixView b, int64_t k0, int64_t k1, int64_t n0, int64_t columns, int64_t width, float* to) {
  const float* from = b.data + n0 * b.col_stride;
  if (b.col_stride == 1) {
    for (int64_t p = k0; p < k1; ++p, to += width) {
      std::memcpy(to, from + p * b.row_stride, static_cast<size_t>(columns) * sizeof(float));
      std::fill(to + columns, to + width, 0.0f);
    }
    return;
  }
  for (int64_t p0 = k0; p0 < k1; p0 += kPiece) {
    int64_t p1 = std::min(k1, p0 + kPiece);
    for (int64_t j = 0; j < width; ++j)
      for (int64_t p = p0; p < p1; ++p)
        to[(p - k0) * width + j] = j < columns ? from[j * b.col_stride + p * b.row_stride] : 0.0f;
  }
}

}  // namespace

void gemm(int64_t m, int64_t n, int64_t k, MatrixView a, MatrixView b, float* c, int64_t ldc) {
  gemm(
      m, n, k, a,
      [b](int64_t k0, int64_t k1, int64_t n0, int64_t columns, int64_t width, float* to) {
        pack_matrix(b, k0, k1, n0, columns, width, to);
      },
      c, ldc);
}

void gemm(int64_t m, int64_t n, int64_t k, MatrixView a, const PackColumns& b, float* c, int64_t ldc) {
  static const Kernel kernel = choose_kernel();
  if (m == 0 || n == 0) return;
  if (k == 0) {
    for (int64_t i = 0; i < m; ++i) std::fill(c + i * ldc, c + i * ldc + n, 0.0f);
    return;
  }
  int64_t row_tiles = (m + kernel.rows - 1) / kernel.rows;
  int64_t column_tiles = (n + kernel.columns - 1) / kernel.columns;
  // A thread is worth starting for a hundred thousand multiply-adds.
  constexpr int64_t kWorthwhile = 1 << 17;
  auto grain = [&](int64_t work) {
    return static_cast<size_t>(std::max<int64_t>(1, kWorthwhile / std::max<int64_t>(1, work)));
  };
  std::unique_ptr<float[]> packed_a(new float[static_cast<size_t>(row_tiles * kernel.rows * k)]);
  parallel_for(static_cast<size_t>(row_tiles), grain(8 * kernel.rows * k), [&](size_t first, size_t last) {
    pack_rows(kernel, a, m, k, static_cast<int64_t>(first), static_cast<int64_t>(last), packed_a.get());
  });
  parallel_for(static_cast<size_t>(column_tiles), grain(kernel.columns * m * k), [&](size_t first, size_t last) {
    int64_t block = std::min<int64_t>(kColumns / kernel.columns, static_cast<int64_t>(last - first));
    std::unique_ptr<float[]> packed_b(new float[static_cast<size_t>(block * kernel.columns * std::min(k, kDepth))]);
    alignas(64) float tile[kMaxTile];
    for (auto t0 = static_cast<int64_t>(first); t0 < static_cast<int64_t>(last); t0 += block) {
      int64_t t1 = std::min(static_cast<int64_t>(last), t0 + block);
      for (int64_t k0 = 0; k0 < k; k0 += kDepth) {
        int64_t depth = std::min(kDepth, k - k0);
        auto panel = [&](int64_t t) { return packed_b.get() + (t - t0) * depth * kernel.columns; };
        for (int64_t t = t0; t < t1; ++t) {
          int64_t n0 = t * kernel.columns;
          b(k0, k0 + depth, n0, std::min(kernel.columns, n - n0), kernel.columns, panel(t));
        }
        const float* rows = packed_a.get() + row_tiles * kernel.rows * k0;
        for (int64_t i = 0; i < row_tiles; ++i) {
          for (int64_t t = t0; t < t1; ++t) {
            kernel.run(depth, rows + i * kernel.rows * depth, panel(t), tile);
            int64_t n0 = t * kernel.columns;
            add_tile(tile, kernel.columns, std::min(kernel.rows, m - i * kernel.rows), std::min(kernel.columns, n - n0),
                     c + i * kernel.rows * ldc + n0, ldc, k0 == 0);
          }
        }
      }
    }
  });
}

}  // namespace swoop
