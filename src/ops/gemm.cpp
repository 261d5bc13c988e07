#include "ops/gemm.h"

#include <algorithm>
#include <memory>

#include "ops/product.h"
#include "support/check.h"
#include "support/parallel.h"

namespace swoop {

namespace {

// A tile of C at most, in multiples of what Eigen's kernel keeps in registers (4 x 24). Larger ones are up to 3 %
// faster on one core, smaller ones are shared out better among many.
constexpr int64_t kRows = 128;
constexpr int64_t kColumns = 384;
constexpr int64_t kDepth = 256;  // rows of B that are packed at a time

// As equal as the unit allows.
int64_t tile_size(int64_t size, int64_t most, int64_t unit) {
  int64_t count = (size + most - 1) / most;
  int64_t each = (size + count - 1) / count;
  return (each + unit - 1) / unit * unit;
}

using Multiply = void (*)(const Product&);

Multiply choose_multiply() {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (avx2 && __builtin_cpu_supports("avx512f")) return multiply_avx512;
  if (avx2) return multiply_avx2;
#endif
  return multiply_plain;
}

void multiply(const Product& product) {
  for (const MatrixView* x : {&product.a, &product.b})
    CHECK(x->row_stride == 1 || x->col_stride == 1, "neither rows nor columns are contiguous");
  static const Multiply run = choose_multiply();
  run(product);
}

// Calls body(i0, i1, j0, j1) for the tiles of C.
template <typename Body>
void for_tiles(int64_t m, int64_t n, int64_t k, Body body) {
  int64_t rows = tile_size(m, kRows, 4), columns = tile_size(n, kColumns, 24);
  int64_t across = (n + columns - 1) / columns, tiles = (m + rows - 1) / rows * across;
  constexpr int64_t kWorthwhile = 1 << 18;  // multiply-adds that are worth a thread: waking one takes as long
  int64_t grain = 1 + kWorthwhile / (rows * columns * k);
  parallel_for(static_cast<size_t>(tiles), static_cast<size_t>(grain), [&](size_t first, size_t last) {
    for (auto t = static_cast<int64_t>(first); t < static_cast<int64_t>(last); ++t) {
      int64_t i0 = t / across * rows, j0 = t % across * columns;
      body(i0, std::min(m, i0 + rows), j0, std::min(n, j0 + columns));
    }
  });
}

// No sum has a term: C is zero.
bool is_empty(int64_t m, int64_t n, int64_t k, float* c, int64_t ldc) {
  if (m == 0 || n == 0) return true;
  if (k == 0)
    for (int64_t i = 0; i < m; ++i) std::fill(c + i * ldc, c + i * ldc + n, 0.0f);
  return k == 0;
}

MatrixView part(MatrixView x, int64_t row, int64_t column) {
  x.data += row * x.row_stride + column * x.col_stride;
  return x;
}

}  // namespace

void gemm(int64_t m, int64_t n, int64_t k, MatrixView a, MatrixView b, float* c, int64_t ldc) {
  if (is_empty(m, n, k, c, ldc)) return;
  for_tiles(m, n, k, [&](int64_t i0, int64_t i1, int64_t j0, int64_t j1) {
    multiply({i1 - i0, j1 - j0, k, part(a, i0, 0), part(b, 0, j0), c + i0 * ldc + j0, ldc, false});
  });
}

void gemm(int64_t m, int64_t n, int64_t k, MatrixView a, const PackColumns& b, float* c, int64_t ldc) {
  if (is_empty(m, n, k, c, ldc)) return;
  for_tiles(m, n, k, [&](int64_t i0, int64_t i1, int64_t j0, int64_t j1) {
    std::unique_ptr<float[]> packed(new float[static_cast<size_t>(std::min(k, kDepth) * (j1 - j0))]);
    for (int64_t k0 = 0; k0 < k; k0 += kDepth) {
      int64_t k1 = std::min(k, k0 + kDepth);
      b(k0, k1, j0, j1, packed.get());
      multiply(
          {i1 - i0, j1 - j0, k1 - k0, part(a, i0, k0), {packed.get(), j1 - j0, 1}, c + i0 * ldc + j0, ldc, k0 > 0});
    }
  });
}

}  // namespace swoop
