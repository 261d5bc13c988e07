// Kernels block by block: which may overlap, and which may write where they read.
#include <gtest/gtest.h>

#include "run/machine.h"

namespace swoop::ethos {
namespace {

// A map of 4 rows of 1 x 16 bytes at the given byte, one block per row.
FeatureMap rows_at(int64_t base) {
  FeatureMap map;
  map.base[0] = base;
  map.height0 = 4;
  map.stride_x = map.stride_y = 16;
  return map;
}

KernelBlocks row_kernel(int64_t from, int64_t to, ReadOrder order) {
  KernelBlocks kernel;
  kernel.output = {4, 1, 16};
  kernel.block = {1, 1, 16};
  kernel.writes = true;
  kernel.written = rows_at(to);
  kernel.reads = {{rows_at(from), kernel.output, order, "The input"}};
  auto range = [](int64_t at) { return NpuRange{0, static_cast<uint64_t>(at), static_cast<uint64_t>(at) + 64}; };
  kernel.accesses = {{range(from), false, "The input"}, {range(to), true, "The output"}};
  return kernel;
}

class Blocks : public testing::Test {
 protected:
  Blocks() { machine.work_left = 1 << 20; }
  bool may_overlap(const KernelBlocks& first, const KernelBlocks& second, int blockdep) {
    return !find_overlap(machine, first, second, blockdep)->has_value();
  }
  Machine machine;
};

TEST_F(Blocks, rows_that_are_read_as_they_were_written_may_follow_closely) {
  KernelBlocks first = row_kernel(0, 100, ReadOrder::Same), second = row_kernel(100, 200, ReadOrder::Same);
  EXPECT_TRUE(may_overlap(first, second, 3));   // row 0 may be read while rows 1 to 3 are written
  EXPECT_FALSE(may_overlap(first, second, 4));  // and not while row 0 is
  EXPECT_TRUE(may_overlap(first, row_kernel(300, 200, ReadOrder::Same), 7));
}

TEST_F(Blocks, a_window_reads_ahead) {
  KernelBlocks first = row_kernel(0, 100, ReadOrder::Same), second = row_kernel(100, 200, ReadOrder::Window);
  second.y = {.stride = 1, .reach = 3, .before = 1};
  EXPECT_TRUE(may_overlap(first, second, 2));
  EXPECT_FALSE(may_overlap(first, second, 3));  // block 2 reads row 3, the last that is written
}

TEST_F(Blocks, a_reversed_output_ends_with_its_first_row) {
  KernelBlocks first = row_kernel(0, 100, ReadOrder::Same), second = row_kernel(100, 200, ReadOrder::Same);
  first.reversed = 1;
  EXPECT_FALSE(may_overlap(first, second, 1));
  EXPECT_TRUE(may_overlap(first, second, 0));
}

TEST_F(Blocks, a_transposed_output_is_followed_to_its_place) {
  KernelBlocks first = row_kernel(0, 100, ReadOrder::Same), second = row_kernel(100, 200, ReadOrder::Same);
  first.output = {1, 4, 16};  // columns, which become the rows
  first.written_axes = {1, 0, 2};
  EXPECT_TRUE(may_overlap(first, second, 3));
  first.output = {16, 4, 1};  // the last block holds one byte of every row
  first.block = {1, 4, 1};
  first.written_axes = {1, 2, 0};
  EXPECT_FALSE(may_overlap(first, second, 1));
}

TEST_F(Blocks, an_operation_may_only_overwrite_what_it_no_longer_needs) {
  EXPECT_TRUE(check_in_place(machine, row_kernel(100, 100, ReadOrder::Same)).has_value());
  EXPECT_TRUE(check_in_place(machine, row_kernel(116, 100, ReadOrder::Same)).has_value());   // after the reader
  EXPECT_FALSE(check_in_place(machine, row_kernel(100, 116, ReadOrder::Same)).has_value());  // before it
  KernelBlocks window = row_kernel(100, 100, ReadOrder::Window);
  window.y = {.stride = 1, .reach = 3, .before = 1};
  EXPECT_EQ(check_in_place(machine, window).error().message,
            "The input reads byte 100 of region 0, which the operation has overwritten before.");
  window.block = window.output;  // a single block reads everything before it writes
  EXPECT_TRUE(check_in_place(machine, window).has_value());
}

}  // namespace
}  // namespace swoop::ethos
