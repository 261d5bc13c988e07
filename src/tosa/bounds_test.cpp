#include "tosa/bounds.h"

#include <gtest/gtest.h>

namespace swoop::tosa {
namespace {

RescaleParameters times(int32_t multiplier, int8_t shift, DType to) {
  RescaleParameters parameters;
  parameters.multiplier = {multiplier};
  parameters.shift = {shift};
  parameters.to = to;
  return parameters;
}

// Whether a sum of `count` 16-bit codes may leave 32 bits.
bool sum_overflows(int count) {
  Program program;
  Builder b(program);
  Bounds bounds(program, 0);
  b.reduce_sum(b.rescale(b.input("x", DType::I16, {1, count}), times(1 << 30, 30, DType::I32)), 1);
  return bounds.overflow();
}

TEST(Bounds, know_which_sums_leave_32_bits) {
  EXPECT_FALSE(sum_overflows(65535));
  EXPECT_TRUE(sum_overflows(65537));
}

TEST(Bounds, of_a_convolution_follow_from_its_weights_and_zero_points) {
  Program program;
  Builder b(program);
  Bounds bounds(program, 0);
  auto x = b.input("x", DType::I8, {1, 1, 1, 2});
  auto w = b.constant(DType::I8, {2, 1, 1, 2}, std::vector<int64_t>{1, -2, 5, 0});
  auto bias = b.constant(DType::I32, {2}, std::vector<int64_t>{1000, -7});
  auto y = b.conv2d(x, w, bias, {}, 2, 0);
  EXPECT_EQ(bounds.of(y).high, 3 * 130 + 1000) << "-128 - 2 is the furthest from zero";
  EXPECT_FALSE(bounds.overflow());
}

TEST(Bounds, know_which_products_leave_32_bits) {
  // Of two sums of 16 codes each, with so many of its lowest bits dropped: the largest is 2^38.
  auto overflows = [](int8_t shift) {
    Program program;
    Builder b(program);
    Bounds bounds(program, 0);
    auto sum = [&](std::string name) {
      return b.reduce_sum(b.rescale(b.input(std::move(name), DType::I16, {1, 16}), times(1 << 30, 30, DType::I32)), 1);
    };
    b.mul(sum("x"), sum("y"), shift);
    return bounds.overflow();
  };
  EXPECT_TRUE(overflows(0));
  EXPECT_TRUE(overflows(7));
  EXPECT_FALSE(overflows(8));
}

TEST(Bounds, accept_what_leaves_its_type_in_the_model_too) {
  Program program;
  Builder b(program);
  Bounds bounds(program, 0);
  const TensorId x = b.input("x", DType::I32, {4}), sum = b.add(x, x);
  bounds.accept_overflow();
  EXPECT_FALSE(bounds.overflow());
  EXPECT_EQ(bounds.of(sum).high, 0x1p31 - 1);
  b.add(sum, x);
  EXPECT_TRUE(bounds.overflow()) << "of codes, this is a wrong number";
}

TEST(Bounds, know_what_a_rescale_may_multiply) {
  auto overflows = [](int8_t shift) {
    Program program;
    Builder b(program);
    Bounds bounds(program, 0);
    b.rescale(b.input("x", DType::I16, {4}), times(1 << 30, shift, DType::I16));
    return bounds.overflow();
  };
  EXPECT_FALSE(overflows(30));
  EXPECT_TRUE(overflows(15)) << "TOSA 1.0, apply_scale_32: below 2^(shift - 1)";
}

}  // namespace
}  // namespace swoop::tosa
