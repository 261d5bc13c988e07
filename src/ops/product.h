// One matrix product by Eigen, in the caller's thread. Eigen is compiled twice, for any x86-64 (or other processor) and
// for AVX2 with FMA, each time into a namespace of its own; with AVX-512, a part of the sums is ours. The bits of the
// result depend on the build that runs and on m, n and k, on nothing else: the cache sizes that Eigen blocks for are
// constants here, and nothing depends on where a matrix begins.
#pragma once

#include "ops/gemm.h"

namespace swoop {

// C[m,n] = A[m,k] B[k,n], added to what is there when `add` says so; m, n and k are at least 1.
struct Product {
  int64_t m, n, k;
  MatrixView a, b;
  float* c;
  int64_t ldc;
  bool add;
};

void multiply_plain(const Product& product);
void multiply_avx2(const Product& product);    // x86-64 with AVX2 and FMA only
void multiply_avx512(const Product& product);  // x86-64 with AVX-512 only; the bits of multiply_avx2

}  // namespace swoop
