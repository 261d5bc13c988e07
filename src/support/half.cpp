// Half precision floats are Eigen's. Alone here, because Eigen's headers take long to compile.
#define EIGEN_MPL2_ONLY
#include "support/half.h"

#include <Eigen/Core>
#include <bit>

namespace swoop {

float from_f16(uint16_t bits) { return static_cast<float>(std::bit_cast<Eigen::half>(bits)); }

float from_bf16(uint16_t bits) { return static_cast<float>(std::bit_cast<Eigen::bfloat16>(bits)); }

uint16_t to_f16(float x) { return std::bit_cast<uint16_t>(Eigen::half(x)); }

uint16_t to_bf16(float x) { return std::bit_cast<uint16_t>(Eigen::bfloat16(x)); }

}  // namespace swoop
