// Matrix products in float. Every element is summed in the same order, k upwards with fused multiply-adds, in blocks of
// a fixed size: the result does not depend on the vector unit (AVX2 or AVX-512), the number of threads or the other
// sizes. A library's does, and the scales that calibration finds would then differ from machine to machine. Without FMA
// (x86 before 2013) the last bits differ.
#pragma once

#include <cstdint>
#include <functional>

namespace swoop {

// element (r, c) is data[r * row_stride + c * col_stride]
struct MatrixView {
  const float* data;
  int64_t row_stride;
  int64_t col_stride;
};

// Writes rows [k0, k1) of columns [n0, n0 + columns) of B to `to`, row after row, `width` floats each; the floats after
// `columns` are zero.
using PackColumns = std::function<void(int64_t k0, int64_t k1, int64_t n0, int64_t columns, int64_t width, float* to)>;

// C[m,n] = A[m,k] B[k,n]; C is row-major with row stride ldc. Uses all cores when there is enough to do.
void gemm(int64_t m, int64_t n, int64_t k, MatrixView a, MatrixView b, float* c, int64_t ldc);
void gemm(int64_t m, int64_t n, int64_t k, MatrixView a, const PackColumns& b, float* c, int64_t ldc);

}  // namespace swoop
