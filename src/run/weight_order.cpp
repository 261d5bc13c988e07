// The order in which the MAC array consumes weights. The loops mirror what the encoders of regor walk through.
#include <algorithm>

#include "run/weights.h"

namespace swoop::ethos {

namespace {

int round_up(int value, int step) { return (value + step - 1) / step * step; }

// Collects positions and stops a stream that describes more weights than its array could ever need with padding.
class Positions {
 public:
  explicit Positions(const WeightOrder& order) : order_(order) {}
  // Input channels [in, in + count) of a tap.
  void add_run(int out, int y, int x, int in, int count, int out_limit) {
    const size_t at = values_.size();
    values_.resize(at + static_cast<size_t>(count), -1);
    if (out >= out_limit || out >= order_.out) return;
    const int64_t first = ((int64_t{out} * order_.kernel_h + y) * order_.kernel_w + x) * order_.in + in;
    for (int i = 0; i < std::min(count, order_.in - in); ++i)
      values_[at + static_cast<size_t>(i)] = static_cast<int32_t>(first + i);
  }
  void pad(int64_t count) { values_.insert(values_.end(), static_cast<size_t>(count), -1); }
  std::vector<int32_t> take() { return std::move(values_); }

 private:
  const WeightOrder& order_;
  std::vector<int32_t> values_;
};

}  // namespace

uint64_t padded_weights(const WeightOrder& order) {
  constexpr uint64_t kInputBlock = 128, kSubKernel = 4;  // the largest block, the smallest sub-kernel
  // Taps come in groups of up to 16, but one by one where channels go first.
  const uint64_t tap_round = order.depthwise || order.part_kernel_first ? 16 : 0;
  auto blocks = [](int value, uint64_t step) { return (static_cast<uint64_t>(value) + step - 1) / step; };
  const uint64_t block = static_cast<uint64_t>(order.block_depth),
                 micro = static_cast<uint64_t>(order.microblock_depth);
  const uint64_t outputs =
      blocks(order.out, block) * ((block + micro - 1) / micro) * micro * static_cast<uint64_t>(order.streams);
  const uint64_t taps = static_cast<uint64_t>(order.kernel_h) * static_cast<uint64_t>(order.kernel_w) +
                        blocks(order.kernel_h, kSubKernel) * blocks(order.kernel_w, kSubKernel) * tap_round;
  const uint64_t inputs = order.depthwise ? 2 : blocks(order.in, kInputBlock) * kInputBlock;
  constexpr uint64_t kFactor = uint64_t{1}
                               << 20;  // each factor is below 2^21 + 2^20 * 16, so that the product of two fits
  return outputs < kFactor * 64 && taps < kFactor * 16 && outputs * taps < kFactor << 20 ? outputs * taps * inputs
                                                                                         : UINT64_MAX;
}

Result<std::vector<int32_t>> weight_positions_u55(const WeightOrder& order, int stream) {
  constexpr int kInputMicroblock = 8;
  const bool wide = order.input_bytes == 2;
  const int input_block = order.part_kernel_first || wide ? 16 : 32;
  const int tap_round = order.depthwise ? 4 : order.part_kernel_first ? (wide ? 2 : 4) : 1;
  const int decompose_y = 8 / order.dilation_y, decompose_x = 8 / order.dilation_x;
  // Output channels are dealt to the cores in turn.
  const int outputs = (order.out + order.streams - 1 - stream) / order.streams;
  const int output_block = (order.block_depth + order.streams - 1 - stream) / order.streams;
  if (output_block < 1) return error("The output block is too shallow for {} cores.", order.streams);
  Positions positions(order);
  for (int block = 0; block < outputs; block += output_block) {
    const int block_outputs = std::min(output_block, outputs - block);
    for (int in = 0; in < (order.depthwise ? 1 : order.in); in += input_block) {
      int block_inputs = order.depthwise           ? kInputMicroblock
                         : order.part_kernel_first ? std::min(input_block, order.in - in)
                                                   : input_block;
      for (int sub_y = 0; sub_y < order.kernel_h; sub_y += decompose_y) {
        const int sub_h = std::min(order.kernel_h - sub_y, decompose_y);
        for (int sub_x = 0; sub_x < order.kernel_w; sub_x += decompose_x) {
          const int sub_w = std::min(order.kernel_w - sub_x, decompose_x);
          const int taps = round_up(sub_w * sub_h, tap_round);
          const int outer = order.part_kernel_first ? block_inputs : 1,
                    inner = order.part_kernel_first ? 1 : block_inputs;
          for (int in_outer = 0; in_outer < outer; in_outer += kInputMicroblock)
            for (int micro = 0; micro < block_outputs; micro += order.microblock_depth)
              for (int tap = 0; tap < taps; ++tap) {
                const int x = tap % sub_w, y = tap / sub_w;
                for (int in_inner = 0; in_inner < inner; in_inner += kInputMicroblock)
                  for (int z = 0; z < order.microblock_depth; ++z) {
                    const int out = block + micro + z, count = order.depthwise ? 1 : kInputMicroblock;
                    if (y >= sub_h || out >= outputs)
                      positions.pad(count);
                    else
                      positions.add_run(out * order.streams + stream, sub_y + y, sub_x + x, in + in_outer + in_inner,
                                        count, order.out);
                  }
              }
        }
      }
    }
  }
  return positions.take();
}

Result<std::vector<int32_t>> weight_positions_u85(const WeightOrder& order, int stream) {
  constexpr int kInterleave = 4;  // output channels that stay together when several decoders share the work
  const bool wide = order.input_bytes == 2;
  int input_block = 64;  // depth of input blocks; see the block configuration of the U85 in regor
  if (order.part_kernel_first)
    input_block = 16;
  else if (order.input_bytes == 4 || (order.macs <= 256 && order.microblock_depth == 16 && !order.sparse))
    input_block = 32;
  else if (order.sparse && order.input_bytes == 1)
    input_block = 128;
  int tap_round = 1, input_micro = input_block, stride_y = 1, stride_x = 1;
  if (order.depthwise) {
    tap_round = 10;
    input_micro = 1;
    stride_y = order.stride_y;
    stride_x = order.stride_x;
  } else if (order.part_kernel_first) {
    tap_round = wide || order.sparse ? 10 : 5;
    input_micro = wide && !order.sparse ? 8 : input_block;
    stride_y = order.stride_y;
    stride_x = order.stride_x;
  }
  const int decompose_y = 8 / order.dilation_y, decompose_x = 8 / order.dilation_x;
  const int depthwise_padding = !wide && order.macs <= 256 ? 0 : order.macs <= 512 ? 2 : 6;
  const int inner_step = order.depthwise ? 1 : order.sparse ? 16 : 8;
  if (order.microblock_depth % (kInterleave * order.streams) != 0)
    return error("Microblocks of {} channels cannot be shared by {} weight decoders.", order.microblock_depth,
                 order.streams);
  Positions positions(order);
  int direction = 1;  // input blocks are walked forwards and backwards in turn
  int in = 0;
  const int in_count = order.depthwise ? 1 : order.in;
  for (int block = 0; block < order.out; block += order.block_depth, direction = -direction) {
    const int block_outputs = std::min(order.block_depth, order.out - block);
    // A turn begins where the last one ended.
    const int last = (in_count - 1) / input_block * input_block;
    for (in = direction > 0 ? 0 : last; in >= 0 && in < in_count; in += direction * input_block) {
      const int block_inputs = std::min(input_block, order.in - in);
      for (int sub_x = 0; sub_x < order.kernel_w; sub_x += decompose_x) {
        const int sub_w = std::min(order.kernel_w - sub_x, decompose_x);
        for (int sub_y = 0; sub_y < order.kernel_h; sub_y += decompose_y) {
          const int sub_h = std::min(order.kernel_h - sub_y, decompose_y);
          for (int in_outer = 0; in_outer < (order.depthwise ? 1 : block_inputs); in_outer += input_micro)
            for (int micro = 0; micro < block_outputs; micro += order.microblock_depth) {
              int taps_left = round_up(sub_w * sub_h, tap_round);
              for (int phase_y = 0; phase_y < stride_y; ++phase_y) {
                const int rows = (sub_h + stride_y - 1 - phase_y) / stride_y;
                for (int phase_x = 0; phase_x < stride_x; ++phase_x) {
                  const int columns = (sub_w + stride_x - 1 - phase_x) / stride_x;
                  for (int row = 0; row < rows; ++row)
                    for (int column = 0; column < columns; ++column) {
                      const int x = sub_x + phase_x + (row % 2 == 0 ? column : columns - 1 - column) * stride_x;
                      const int y = sub_y + phase_y + row * stride_y;
                      --taps_left;
                      for (int in_inner = 0; in_inner < input_micro; in_inner += inner_step)
                        for (int z = stream * kInterleave; z < order.microblock_depth; z += kInterleave * order.streams)
                          for (int o = 0; o < kInterleave; ++o)
                            positions.add_run(block + micro + z + o, y, x, in + in_outer + in_inner, inner_step,
                                              order.out);
                      if (order.depthwise && taps_left % tap_round == 0)
                        positions.pad(int64_t{depthwise_padding} * order.microblock_depth / order.streams);
                    }
                }
              }
              if (taps_left > 0)
                positions.pad(int64_t{taps_left + (order.depthwise ? depthwise_padding : 0)} * input_micro *
                              order.microblock_depth / order.streams);
            }
        }
      }
    }
  }
  return positions.take();
}

}  // namespace swoop::ethos
