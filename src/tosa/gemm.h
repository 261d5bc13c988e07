// Products of integer matrices, the inner loops of convolution and MATMUL. Rows are contiguous along k.
#pragma once

#include <cstddef>
#include <cstdint>

namespace swoop::tosa {

constexpr size_t kGemmStep = 32;  // k is padded with zeros to a multiple of this

// How the sums stay exact.
enum class Sum : uint8_t {
  Narrow,   // |a * b| <= 2^16 and k <= 2^15: 32-bit sums cannot overflow
  Chunked,  // |a * b| <= 2^23: 32-bit sums of 128 products, added up in 64 bits
  Wide,     // any i16 operands
};

// c[m][n] = sum over k of a[m][k] * b[n][k]; c has rows of ldc.
void gemm(const int16_t* a, const int16_t* b, size_t m, size_t n, size_t k, Sum sum, int64_t* c, size_t ldc);
void gemm(const int16_t* a, const int16_t* b, size_t m, size_t n, size_t k, int32_t* c, size_t ldc);  // Narrow

}  // namespace swoop::tosa
