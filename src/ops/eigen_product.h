// The body of multiply_plain and multiply_avx2, for the two files that define SWOOP_MULTIPLY and the macro Eigen, the
// name that Eigen's namespace gets there.
#include "ops/product.h"

#define EIGEN_DONT_PARALLELIZE                // support/parallel.h does it, over tiles of fixed sizes
#define EIGEN_GEMM_TO_COEFFBASED_THRESHOLD 0  // Eigen's loop for tiny products sums by the alignment of the result
#define EIGEN_NO_DEBUG                        // its assertions
#define EIGEN_MPL2_ONLY
#include <Eigen/Core>

namespace swoop {

namespace {

using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using ColMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor>;
using Stride = Eigen::OuterStride<>;

template <typename A, typename B>
void multiply_as(const Product& p, int64_t a_stride, int64_t b_stride) {
  Eigen::Map<const A, 0, Stride> a(p.a.data, p.m, p.k, Stride(a_stride));
  Eigen::Map<const B, 0, Stride> b(p.b.data, p.k, p.n, Stride(b_stride));
  Eigen::Map<RowMajor, 0, Stride> c(p.c, p.m, p.n, Stride(p.ldc));
  if (p.add)
    c.noalias() += a * b;
  else
    c.noalias() = a * b;
}

bool fix_cache_sizes() {
  Eigen::setCpuCacheSizes(32 << 10, 512 << 10, 2 << 20);  // the block of k follows from the first: 288 with AVX2
  return true;
}

}  // namespace

void SWOOP_MULTIPLY(const Product& p) {
  [[maybe_unused]] static const bool fixed = fix_cache_sizes();
  bool a_by_row = p.a.col_stride == 1, b_by_row = p.b.col_stride == 1;
  if (a_by_row && b_by_row)
    multiply_as<RowMajor, RowMajor>(p, p.a.row_stride, p.b.row_stride);
  else if (a_by_row)
    multiply_as<RowMajor, ColMajor>(p, p.a.row_stride, p.b.col_stride);
  else if (b_by_row)
    multiply_as<ColMajor, RowMajor>(p, p.a.col_stride, p.b.row_stride);
  else
    multiply_as<ColMajor, ColMajor>(p, p.a.col_stride, p.b.col_stride);
}

}  // namespace swoop
