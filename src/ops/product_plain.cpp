#define SWOOP_MULTIPLY multiply_plain
#define Eigen SwoopEigenPlain
#include "ops/eigen_product.h"
