// Inner loops of regor that are ours: those that most of its time went to, written so that they take a tenth of it.
// Their results are regor's own, number for number; test/test_npu.py compares whole programs with those of `vela`.
// regor is compiled with this header before each of its files (tools/regor.sh), so it is C++11 and includes little.
#pragma once

#include <cstdint>
#include <vector>

// regor's encoder of weights calls a template of this name; this function is a better match for its 16-bit symbols.
// Finds which coding each part of `count` symbols takes; its parameters are the template's.
struct grc_param_t;
int search_grc_params(const int16_t* symbols, int count, int is_zero_runs, int uncompressed_bits,
                      std::vector<grc_param_t>& slices, bool single_slice);

namespace swoop {

// Bytes that are in use from one time to another, the last one included.
struct TimedRange {
  int start;
  int end;
  int size;
  int64_t address;
};

// Gives each its address, so that together they end as low as a search finds; it goes on while the end is above
// `limit`. Takes the place of regor's hillclimb_allocator.cpp (cmake/regor_place.cpp). Returns the end.
int64_t place_ranges(std::vector<TimedRange>& ranges, int64_t limit);

// Appends the stream that the NPU reads weights from. Every `part` of them has a palette of its own. Returns how many
// zeros are written as runs. Negative: a part has nothing but zeros, which regor's own encoder has a form for; then
// nothing is appended. Takes the place of regor's mlw_encode.cpp (cmake/regor_encode.cpp).
int64_t encode_weights(const int16_t* weights, int64_t count, int64_t part, std::vector<uint8_t>& stream);

}  // namespace swoop
