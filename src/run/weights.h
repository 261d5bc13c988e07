// Compressed weights and scales, back to plain arrays. The bit formats are those of regor's encoders (mlw_codec, weight
// encoders); the order in which the hardware wants the weights is undone here too.
#pragma once

#include "run/machine.h"
#include "run/window.h"

namespace swoop::ethos {

// The standard stream (entropy coded in slices). At most `limit` weights, else an Error.
Result<std::vector<int16_t>> decode_weight_stream(Bytes stream, uint64_t limit);

// U85's fast stream: a header with a palette, then 2, 4 or 8 bits per weight. Returns exactly `count` weights.
Result<std::vector<int16_t>> decode_fast_stream(Bytes stream, uint64_t count);

// Where each weight of a stream goes.
struct WeightOrder {
  int out = 0, kernel_h = 0, kernel_w = 0, in = 0;  // the array; in is 1 for depthwise
  bool depthwise = false;
  bool part_kernel_first = false;
  int input_bytes = 1;
  int dilation_y = 1, dilation_x = 1;
  int stride_y = 1, stride_x = 1;  // U85
  int block_depth = 0;             // of the output, from NPU_SET_OFM_BLK_DEPTH_M1
  int microblock_depth = 8;        // of the output
  int streams = 1;
  int macs = 0;         // U85
  bool sparse = false;  // U85
  bool fast = false;    // U85
};

// Lists, in the order of stream `stream`, the index of every weight in the array, or -1 for padding. U55 and U65.
Result<std::vector<int32_t>> weight_positions_u55(const WeightOrder& order, int stream);
Result<std::vector<int32_t>> weight_positions_u85(const WeightOrder& order, int stream);

// An upper bound on the places of all streams together, padding included.
uint64_t padded_weights(const WeightOrder& order);

// All of it: registers -> streams -> array. Cached in the machine. Null in a rehearsal.
Result<std::shared_ptr<const Weights>> read_weights(Machine& machine, const Window& window, bool depthwise);

}  // namespace swoop::ethos
