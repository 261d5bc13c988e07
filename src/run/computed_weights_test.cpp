#include <gtest/gtest.h>

#include <cstring>

#include "run/weights.h"

namespace swoop::ethos {
namespace {

// A number for each weight that is never 0.
int8_t weight_at(int channel, int input) {
  const int value = (channel * 37 + input * 11) % 254 - 127;
  return static_cast<int8_t>(value >= 0 ? value + 1 : value);
}

// What the copies write, here by hand: each group of inputs of each channel in its place.
Buffer stream_of(const WeightCodes& codes) {
  Buffer stream(static_cast<size_t>(codes.bytes()));
  const Buffer table = weight_code_table();
  for (const WeightCodes::Constant& constant : codes.constants())
    std::memcpy(stream.data() + constant.at, constant.bytes.data(), constant.bytes.size());
  for (int channel = 0; channel < codes.channels(); ++channel)
    for (int input = 0; input < codes.depth(); ++input) {
      const int output = channel + WeightCodes::kUnused, micro = codes.microblock();
      const int64_t row = codes.row(input / 32, output / micro);
      const int64_t at = row + (input % 32 / 8 * micro + output % micro) * 8 + input % 8;
      stream[static_cast<size_t>(at)] = table[static_cast<size_t>(weight_at(channel, input) + 128)];
    }
  return stream;
}

TEST(ComputedWeights, the_decoder_reads_the_matrix_after_eight_outputs_of_zeros) {
  struct Case {
    int channels, depth, microblock, block_depth = 32;
  };
  for (const auto& [channels, depth, microblock, block_depth] :
       {Case{24, 64, 8}, Case{8, 8, 8}, Case{24, 37, 8}, Case{16, 33, 4}, Case{24, 1504, 8}, Case{24, 2100, 4},
        Case{24, 64, 8, 16}, Case{24, 200, 4, 16}, Case{24, 70, 8, 24}}) {
    WeightCodes codes(channels, depth, microblock);
    ASSERT_TRUE(codes.set_outputs_at_once(block_depth));
    WeightOrder order;
    order.out = channels + WeightCodes::kUnused;
    order.in = depth;
    order.kernel_h = order.kernel_w = 1;
    order.block_depth = block_depth;
    order.microblock_depth = microblock;
    const Buffer stream = stream_of(codes);
    EXPECT_EQ(stream.size() % 16, 0u);
    const auto positions = weight_positions_u55(order, 0);
    ASSERT_TRUE(positions);
    const auto decoded = decode_weight_stream(stream, positions->size());
    ASSERT_TRUE(decoded) << decoded.error().message;
    ASSERT_EQ(decoded->size(), positions->size()) << channels << " x " << depth;
    for (size_t i = 0; i < positions->size(); ++i) {
      const int place = (*positions)[i];
      if (place < 0) continue;
      const int channel = place / depth - WeightCodes::kUnused;
      if (channel < 0) continue;
      ASSERT_EQ((*decoded)[i], weight_at(channel, place % depth)) << channels << " x " << depth << ", place " << place;
    }
  }
}

TEST(ComputedWeights, slices_need_their_headers_at_the_start_of_a_block) {
  WeightCodes codes(24, 1504, 8);
  EXPECT_TRUE(codes.set_outputs_at_once(32));
  EXPECT_FALSE(codes.set_outputs_at_once(16));
  EXPECT_FALSE(WeightCodes(24, 64, 8).set_outputs_at_once(8)) << "the unused outputs would be a block of their own";
}

}  // namespace
}  // namespace swoop::ethos
