// The half precision floats as bits, IEEE binary16 and bfloat16, rounded to nearest even as PyTorch does.
#pragma once

#include <cstdint>

namespace swoop {

float from_f16(uint16_t bits);
float from_bf16(uint16_t bits);
uint16_t to_f16(float x);
uint16_t to_bf16(float x);

}  // namespace swoop
