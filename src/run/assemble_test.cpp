#include <gtest/gtest.h>

#include "run/feature_map.h"

namespace swoop {
namespace {

using ethos::kBrick;

Buffer counting(int count) {
  Buffer bytes(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) bytes[static_cast<size_t>(i)] = static_cast<std::byte>(i);
  return bytes;
}

// The part of a dense [height][width][depth] tensor of bytes that has rows [y, y + rows) and channels [c, c +
// channels).
Buffer part(const Buffer& tensor, int width, int depth, int y, int rows, int c, int channels) {
  Buffer bytes;
  for (int pixel = y * width; pixel < (y + rows) * width; ++pixel)
    for (int i = c; i < c + channels; ++i) bytes.push_back(tensor[static_cast<size_t>(pixel * depth + i)]);
  return bytes;
}

NpuPlace nhwc(int64_t base, int width, int depth) {
  NpuPlace place;
  place.base[0] = base;
  place.height0 = place.width0 = 1 << 16;
  place.stride_x = depth;
  place.stride_y = int64_t{width} * depth;
  return place;
}

NpuPlace bricks(int64_t base, int width, int depth) {
  NpuPlace place = nhwc(base, width, depth);
  place.bricks = true;
  place.stride_x = kBrick;
  place.stride_c = int64_t{width} * kBrick;
  place.stride_y = place.stride_c * ((depth + kBrick - 1) / kBrick);
  return place;
}

// 2 x 3 pixels of 32 channels, written as two slices of 16 channels each, the second one first.
TEST(Assemble, slices_of_channels_in_nhwc) {
  const Buffer tensor = counting(2 * 3 * 32);
  const NpuBlock pieces[] = {{2, 3, 16, 1, part(tensor, 3, 32, 0, 2, 16, 16), nhwc(100 + 16, 3, 32)},
                             {2, 3, 16, 1, part(tensor, 3, 32, 0, 2, 0, 16), nhwc(100, 3, 32)}};
  Result<Buffer> whole = assemble(pieces, 2 * 3 * 32, 32);
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ(*whole, tensor);
}

TEST(Assemble, slices_of_channels_in_bricks) {
  const Buffer tensor = counting(2 * 3 * 32);
  const NpuPlace first = bricks(64, 3, 32);
  NpuPlace second = first;
  second.base[0] += first.stride_c;
  const NpuBlock pieces[] = {{2, 3, 16, 1, part(tensor, 3, 32, 0, 2, 16, 16), second},
                             {2, 3, 16, 1, part(tensor, 3, 32, 0, 2, 0, 16), first}};
  Result<Buffer> whole = assemble(pieces, 2 * 3 * 32, 32);
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ(*whole, tensor);
}

// The last brick holds 4 channels: the gap behind them is not part of the tensor.
TEST(Assemble, bricks_that_are_not_full) {
  const Buffer tensor = counting(2 * 3 * 20);
  const NpuBlock pieces[] = {{2, 3, 20, 1, tensor, bricks(0, 3, 20)}};
  Result<Buffer> whole = assemble(pieces, 2 * 3 * 20, 20);
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ(*whole, tensor);
}

// A cascade writes every stripe of rows to the same memory.
TEST(Assemble, stripes_in_one_memory) {
  const Buffer tensor = counting(4 * 3 * 8);
  const NpuBlock pieces[] = {{2, 3, 8, 1, part(tensor, 3, 8, 0, 2, 0, 8), nhwc(0, 3, 8)},
                             {2, 3, 8, 1, part(tensor, 3, 8, 2, 2, 0, 8), nhwc(0, 3, 8)}};
  Result<Buffer> whole = assemble(pieces, 4 * 3 * 8, 8);
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ(*whole, tensor);
}

TEST(Assemble, says_what_is_missing) {
  const NpuBlock half[] = {{1, 1, 8, 1, counting(8), nhwc(0, 1, 8)}};
  EXPECT_EQ(assemble(half, 16, 16).error().message, "8 of its 16 bytes were written");
  const NpuBlock twice[] = {half[0], half[0]};  // neither two halves of one pixel nor two rows of 16 channels
  EXPECT_EQ(assemble(twice, 16, 16).error().message, "it was written in 2 pieces that do not fit together");
}

// An int32 sum goes through a chain buffer into an operation that writes int8: the sum has its place, four times as
// far.
TEST(Assemble, a_chained_block_lies_as_the_end_of_its_chain_does) {
  NpuBlock sum{1, 2, 4, 4, counting(32), std::nullopt};
  NpuBlock end{1, 2, 4, 1, counting(8), nhwc(40, 2, 4)};
  place_like(sum, end);
  ASSERT_TRUE(sum.place);
  EXPECT_EQ(sum.place->base[0], 160);
  EXPECT_EQ(sum.place->stride_x, 16);
  NpuBlock other{2, 1, 4, 4, counting(32), std::nullopt};
  place_like(other, end);
  EXPECT_FALSE(other.place);
}

}  // namespace
}  // namespace swoop
