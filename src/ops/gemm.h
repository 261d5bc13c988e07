// Matrix products in float: Eigen's, one tile per thread at a time. Tiles have sizes that follow from m, n and k alone,
// so the bits do not depend on the number of threads; and Eigen is compiled for one vector unit, AVX2 with FMA, so they
// do not depend on the machine either. (Without AVX2, x86 before 2013 and others, the last bits differ.)
#pragma once

#include <cstdint>
#include <functional>

namespace swoop {

// element (r, c) is data[r * row_stride + c * col_stride]; one of the strides is 1
struct MatrixView {
  const float* data;
  int64_t row_stride;
  int64_t col_stride;
};

// Writes rows [k0, k1) of columns [n0, n1) of B to `to`, row after row.
using PackColumns = std::function<void(int64_t k0, int64_t k1, int64_t n0, int64_t n1, float* to)>;

// C[m,n] = A[m,k] B[k,n]; C is row-major with row stride ldc. Uses all cores when there is enough to do.
void gemm(int64_t m, int64_t n, int64_t k, MatrixView a, MatrixView b, float* c, int64_t ldc);
void gemm(int64_t m, int64_t n, int64_t k, MatrixView a, const PackColumns& b, float* c, int64_t ldc);

}  // namespace swoop
