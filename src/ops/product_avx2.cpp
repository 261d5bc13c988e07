// cmake/dependencies.cmake has this file compiled for AVX2 and FMA, on x86-64.
#if defined(__AVX2__)
#define SWOOP_MULTIPLY multiply_avx2
#define Eigen SwoopEigenAvx2
#include "ops/eigen_product.h"
#endif
