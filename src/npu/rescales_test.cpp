#include <gtest/gtest.h>

#include "npu/npu.h"

namespace swoop {
namespace {

using tosa::DType;
using tosa::RescaleParameters;
using tosa::TensorId;

constexpr int32_t kOne = 1 << 30;

// What is made of two inputs x and y of 32 bits, and the RESCALE of it to 8 bits.
template <typename Make>
tosa::Program rescaled(Make make, RescaleParameters by) {
  tosa::Program program;
  tosa::Builder b(program);
  const TensorId x = b.input("x", DType::I32, {1, 4, 8, 16}), y = b.input("y", DType::I32, {1, 4, 8, 1});
  by.to = DType::I8;
  b.output(b.rescale(make(b, x, y), by));
  return program;
}

tosa::Program rescaled_product(RescaleParameters by, int8_t shift = 0) {
  return rescaled([=](tosa::Builder& b, TensorId x, TensorId y) { return b.mul(x, y, shift); }, by);
}

size_t sums_in(tosa::Program program, std::string_view target = "ethos-u85-256") {
  join_rescales(program, *parse_target(target));
  EXPECT_TRUE(tosa::validate(program));
  size_t count = 0;
  for (const tosa::Operator& op : program.bodies[0].operators) count += op.op == tosa::Op::Add;
  return count;
}

const RescaleParameters kAny{.multiplier = {1173024531}, .shift = {31}};
const RescaleParameters kHalf{.multiplier = {kOne}, .shift = {31}};
const RescaleParameters kUnit{.multiplier = {kOne}, .shift = {30}};

TEST(JoinRescales, puts_a_sum_where_a_product_of_32_bits_takes_no_scale_along) {
  EXPECT_EQ(sums_in(rescaled_product(kAny)), 1u);
  EXPECT_EQ(sums_in(rescaled_product(kHalf, 6)), 1u);
  EXPECT_EQ(sums_in(rescaled_product(kHalf)), 0u);
  EXPECT_EQ(sums_in(rescaled_product(kAny), "ethos-u55-128"), 0u);
  EXPECT_EQ(sums_in(rescaled_product(kAny), "ethos-u65-256"), 0u);
}

TEST(JoinRescales, puts_a_sum_behind_a_shift_that_is_rescaled) {
  const auto shifted = [](tosa::Builder& b, TensorId x, TensorId y) { return b.arithmetic_right_shift(x, y, true); };
  const auto up = [](tosa::Builder& b, TensorId x, TensorId y) { return b.binary(tosa::Op::LogicalLeftShift, x, y); };
  EXPECT_EQ(sums_in(rescaled(shifted, kAny)), 1u);
  EXPECT_EQ(sums_in(rescaled(up, kHalf)), 1u);
  EXPECT_EQ(sums_in(rescaled(shifted, kUnit)), 0u);
}

TEST(JoinRescales, leaves_what_regor_joins_itself) {
  const RescaleParameters narrow{.multiplier = {kOne}, .shift = {30}, .to = DType::I16};
  const RescaleParameters wide{.multiplier = {kOne}, .shift = {30}, .to = DType::I32};
  const auto narrow_product = [=](tosa::Builder& b, TensorId x, TensorId y) {
    return b.mul(b.rescale(b.rescale(x, narrow), wide), b.rescale(b.rescale(y, narrow), wide));
  };
  EXPECT_EQ(sums_in(rescaled(narrow_product, kAny)), 0u);
  EXPECT_EQ(sums_in(rescaled([](tosa::Builder& b, TensorId x, TensorId y) { return b.sub(x, y); }, kAny)), 0u);
}

TEST(JoinRescales, leaves_what_something_else_reads_or_turns) {
  const auto kept = [](bool keeps) {
    tosa::Program program;
    tosa::Builder b(program);
    const TensorId product = b.mul(b.input("x", DType::I32, {1, 8}), b.input("y", DType::I32, {1, 8}));
    RescaleParameters by = kAny;
    by.to = DType::I8;
    if (keeps) b.output(product);
    b.output(b.rescale(product, by));
    return program;
  };
  EXPECT_EQ(sums_in(kept(true)), 0u);
  EXPECT_EQ(sums_in(kept(false)), 1u);

  const auto turned = [](bool turns) {
    tosa::Program program;
    tosa::Builder b(program);
    const TensorId product = b.mul(b.input("x", DType::I32, {1, 4, 8}), b.input("y", DType::I32, {1, 4, 1}));
    RescaleParameters by = kAny;
    by.to = DType::I8;
    const TensorId codes = b.reshape(b.rescale(product, by), {1, 4, 2, 4});
    b.output(turns ? b.transpose(codes, {0, 2, 1, 3}) : codes);
    return program;
  };
  EXPECT_EQ(sums_in(turned(true)), 0u);
  EXPECT_EQ(sums_in(turned(false)), 1u);
}

}  // namespace
}  // namespace swoop
