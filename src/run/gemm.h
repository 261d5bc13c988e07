// Integer matrix product for convolutions: 16-bit inputs (8-bit elements minus zero point, or 16-bit elements) times
// 9-bit weights. Why its own file: it is where the time goes. The plain loop and the AVX2 one give the same sums; a
// test compares them.
#pragma once

#include <cstdint>
#include <vector>

namespace swoop::ethos {

constexpr int kPanel = 16;  // output channels computed side by side

// weights[out][depth] -> panels of kPanel outputs, each [depth / 2][kPanel][2], padded with zeros; depth is rounded up
// to even.
std::vector<int16_t> pack_weights(const int16_t* weights, int out, int depth);

// Which part of the packed weights to use: panels [first, last) of all, pairs [first_pair, last_pair) of each panel's
// `pairs`.
struct Panels {
  int first = 0, last = 0;
  int pairs = 0, first_pair = 0, last_pair = 0;
};

// sums[row][out] = rows[row][0..depth)  . weights[out], over the chosen pairs. rows are row_stride apart and begin with
// pair 0; the element after an odd row must be readable (its weight is zero). sums rows are out_stride apart, whole
// panels.
void multiply(const int16_t* rows, int64_t row_stride, int row_count, const int16_t* packed, Panels panels,
              int32_t* sums, int64_t out_stride);

// The loop without vector instructions, for the test.
void multiply_plain(const int16_t* rows, int64_t row_stride, int row_count, const int16_t* packed, Panels panels,
                    int32_t* sums, int64_t out_stride);

}  // namespace swoop::ethos
