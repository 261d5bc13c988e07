#include <gtest/gtest.h>

#include <cstring>

#include "npu/npu.h"

namespace swoop {
namespace {

using tosa::DType;

// SLICE of a batch of `batch`, then a padded maximum pool.
tosa::Program pooled_slice(int batch) {
  tosa::Program program;
  tosa::Builder b(program);
  auto x = b.input("x", DType::I8, {batch, 8, 8, 4});
  b.output(b.max_pool2d(b.slice(x, {0, 0, 0, 2}, {batch, 8, 8, 2}), {{3, 3}, {1, 1}, {1, 1, 1, 1}}));
  return program;
}

// A product whose first operand is a SLICE that leaves out half of axis `axis`.
tosa::Program product_of_slice(size_t axis) {
  tosa::Program program;
  tosa::Builder b(program);
  tosa::Shape whole = {4, 8, 16}, part = whole;
  whole[axis] *= 2;
  auto a = b.slice(b.input("a", DType::I8, whole), {0, 0, 0}, part);
  b.output(b.matmul(a, b.input("b", DType::I8, {4, 16, 8}), 0, 0));
  return program;
}

// The sum of a SLICE, past a RESCALE; of an input, or of what is computed from it.
tosa::Program sum_of_slice(bool computed) {
  tosa::Program program;
  tosa::Builder b(program);
  auto x = b.input("x", DType::I16, {1, 4, 8});
  auto part = b.slice(computed ? b.clamp(x, 0, 99) : x, {0, 0, 4}, {1, 4, 4});
  b.output(b.reduce_sum(b.rescale(part, {.multiplier = {1 << 30}, .shift = {30}, .to = DType::I32}), 2));
  return program;
}

// The same of a result that something else reads too: then its RESCALE is an operation of its own.
tosa::Program sum_of_shared_slice() {
  tosa::Program program;
  tosa::Builder b(program);
  auto part = b.slice(b.clamp(b.input("x", DType::I8, {1, 4, 8}), 0, 99), {0, 0, 4}, {1, 4, 4});
  auto wide = b.rescale(part, {.multiplier = {1 << 30}, .shift = {23}, .to = DType::I16});
  b.output(wide);
  b.output(b.reduce_sum(b.rescale(wide, {.multiplier = {1 << 30}, .shift = {30}, .to = DType::I32}), 2));
  return program;
}

// A product with what is turned, which may be an output too. The heads are two dims or one when it is turned.
tosa::Program product_of_output(bool output, bool reshaped = false) {
  tosa::Program program;
  tosa::Builder b(program);
  auto cache = b.clamp(b.input("cache", DType::I8, {1, 2, 32, 8}), 0, 99);
  if (output) b.output(cache);
  auto keys = reshaped ? b.transpose(b.reshape(cache, {2, 32, 8}), {0, 2, 1})
                       : b.reshape(b.transpose(cache, {0, 1, 3, 2}), {2, 8, 32});
  b.output(b.matmul(b.input("a", DType::I8, {2, 1, 8}), keys, 0, 0));
  return program;
}

// Numbers of a row, or of another one, where they equal those of the row turned.
tosa::Program chosen_by_itself(bool itself) {
  tosa::Program program;
  tosa::Builder b(program);
  auto x = b.input("x", DType::I32, {1, 1, 9}), y = b.input("y", DType::I32, {1, 1, 9});
  b.output(b.select(b.equal(x, b.reshape(x, {1, 9, 1})), itself ? x : y, y));
  return program;
}

// A table of 8 bits, a sum, and another table; `kept`: the sum is an output too.
tosa::Program chained_tables(DType second, bool kept) {
  tosa::Program program;
  tosa::Builder b(program);
  const tosa::RescaleParameters up{.multiplier = {1 << 30}, .shift = {30}, .to = DType::I32};
  auto x = b.input("x", DType::I8, {1, 4, 4, 8});
  auto y = b.table(x, b.constant(DType::I8, {256}, Buffer(256)));
  auto sum =
      b.rescale(b.add(b.rescale(y, up), b.rescale(x, up)), {.multiplier = {1 << 30}, .shift = {31}, .to = second});
  if (kept) b.output(sum);
  b.output(b.table(sum, second == DType::I16 ? b.constant(DType::I16, {513}, Buffer(1026))
                                             : b.constant(DType::I8, {256}, Buffer(256))));
  return program;
}

size_t pads_in(tosa::Program program, std::string_view target) {
  avoid_defects(program, *parse_target(target));
  EXPECT_TRUE(tosa::validate(program));
  size_t count = 0;
  for (const tosa::Operator& op : program.bodies[0].operators) count += op.op == tosa::Op::Pad;
  return count;
}

TEST(AvoidDefects, keeps_an_output_that_a_product_reads_turned) {
  EXPECT_EQ(pads_in(product_of_output(true), "ethos-u85-256"), 1u);
  EXPECT_EQ(pads_in(product_of_output(false), "ethos-u85-256"), 0u);
  EXPECT_EQ(pads_in(product_of_output(true, true), "ethos-u85-256"), 1u);
  EXPECT_EQ(pads_in(product_of_output(false, true), "ethos-u85-256"), 0u);
}

TEST(AvoidDefects, keeps_tables_apart_that_do_not_fit_together) {
  EXPECT_EQ(pads_in(chained_tables(DType::I16, false), "ethos-u85-256"), 1u);
  EXPECT_EQ(pads_in(chained_tables(DType::I8, false), "ethos-u85-256"), 0u);
  EXPECT_EQ(pads_in(chained_tables(DType::I16, true), "ethos-u85-256"), 0u);
  EXPECT_EQ(pads_in(chained_tables(DType::I16, false), "ethos-u55-128"), 0u);
}

TEST(AvoidDefects, keeps_what_is_chosen_in_its_shape) {
  EXPECT_EQ(pads_in(chosen_by_itself(true), "ethos-u85-256"), 1u);
  EXPECT_EQ(pads_in(chosen_by_itself(false), "ethos-u85-256"), 0u);
}

TEST(AvoidDefects, keeps_a_slice_apart_from_who_would_misread_it_and_from_nobody_else) {
  EXPECT_EQ(pads_in(pooled_slice(2), "ethos-u55-128"), 1u);
  EXPECT_EQ(pads_in(pooled_slice(2), "ethos-u85-256"), 1u);
  EXPECT_EQ(pads_in(pooled_slice(1), "ethos-u55-128"), 0u);
  EXPECT_EQ(pads_in(product_of_slice(1), "ethos-u55-128"), 1u);
  EXPECT_EQ(pads_in(product_of_slice(2), "ethos-u55-128"), 1u);
  EXPECT_EQ(pads_in(product_of_slice(0), "ethos-u55-128"), 0u);
  EXPECT_EQ(pads_in(product_of_slice(1), "ethos-u85-256"), 0u);
  EXPECT_EQ(pads_in(sum_of_slice(true), "ethos-u55-128"), 1u);
  EXPECT_EQ(pads_in(sum_of_slice(false), "ethos-u55-128"), 0u);
  EXPECT_EQ(pads_in(sum_of_shared_slice(), "ethos-u85-256"), 0u);
}

// A convolution that moves codes of 16 bits, its RESCALE by `multiplier` / 2^14, and another one.
tosa::Program moved_codes(int32_t multiplier) {
  tosa::Program program;
  tosa::Builder b(program);
  const int64_t one[] = {1}, none[] = {0};
  auto sum = b.conv2d(b.input("x", DType::I16, {1, 2, 8, 1}), b.constant(DType::I8, {1, 1, 1, 1}, one),
                      b.constant(DType::I48, {1}, none), {{0, 0, 0, 0}, {1, 1}, {1, 1}}, 0, 0);
  auto moved = b.rescale(sum, {.multiplier = {multiplier}, .shift = {14}, .to = DType::I16, .scale32 = false});
  b.output(b.rescale(b.reshape(moved, {1, 8, 2, 1}), {.multiplier = {1729754570}, .shift = {30}, .to = DType::I32}));
  return program;
}

TEST(AvoidDefects, keeps_a_scale_apart_from_a_convolution_that_has_none) {
  EXPECT_EQ(pads_in(moved_codes(1 << 14), "ethos-u85-256"), 1u);
  EXPECT_EQ(pads_in(moved_codes(1 << 13), "ethos-u85-256"), 0u);
  EXPECT_EQ(pads_in(moved_codes(1 << 14), "ethos-u55-128"), 0u);
}

TEST(AvoidDefects, takes_a_number_less_many_dims_as_four_dims) {
  auto difference = [](int rank) {
    tosa::Program program;
    tosa::Builder b(program);
    tosa::Shape shape(static_cast<size_t>(rank), 2);
    auto x = b.input("x", DType::I32, shape);
    b.output(b.sub(b.scalar(DType::I32, 5, rank), b.sub(b.scalar(DType::I32, 7, rank), x)));
    return program;
  };
  for (int rank : {4, 5, 6}) {
    tosa::Program flat = difference(rank);
    avoid_defects(flat, *parse_target("ethos-u55-128"));
    ASSERT_TRUE(tosa::validate(flat));
    EXPECT_EQ(flat.bodies[0].operators.size(), rank > 4 ? 6u : 2u);
    tosa::TensorData x{DType::I32, tosa::Shape(static_cast<size_t>(rank), 2), {}};
    for (int32_t i = 0; i < 1 << rank; ++i) append(x.data, i * 1000);
    const auto before = tosa::run(difference(rank), {&x, 1}), after = tosa::run(flat, {&x, 1});
    ASSERT_TRUE(before && after);
    EXPECT_EQ((*before)[0].data, (*after)[0].data);
  }
}

// The multipliers of convolutions with the same weights and scales and these biases, of two channels each.
template <typename Multiplier>
std::vector<Multiplier> multipliers_for(DType dtype, Multiplier one, std::vector<int64_t> biases) {
  tosa::Program program;
  tosa::Builder b(program);
  auto x = b.input("x", dtype, {1, 2, 2, 1});
  const int64_t weights[] = {3, 4};
  const bool wide = dtype == DType::I16;
  for (int64_t value : biases) {
    const int64_t bias[] = {value, 0};
    auto sum = b.conv2d(x, b.constant(DType::I8, {2, 1, 1, 1}, weights),
                        b.constant(wide ? DType::I48 : DType::I32, {2}, bias), {{0, 0, 0, 0}, {1, 1}, {1, 1}}, 0, 0);
    b.output(b.rescale(sum, {.multiplier = {one, one}, .shift = {20, 20}, .to = dtype, .scale32 = !wide}));
  }
  avoid_defects(program, *parse_target("ethos-u55-128"));
  EXPECT_TRUE(tosa::validate(program));
  std::vector<Multiplier> read;
  for (const tosa::Operator& op : program.bodies[0].operators) {
    if (op.op != tosa::Op::Rescale) continue;
    const Buffer& data = program.bodies[0].tensors[op.inputs[1]].data;
    read.resize(read.size() + 2);
    EXPECT_EQ(data.size(), 2 * sizeof(Multiplier));
    std::memcpy(&read[read.size() - 2], data.data(), data.size());
  }
  return read;
}

TEST(AvoidDefects, tells_equal_weights_with_other_biases_apart) {
  const int32_t one = 1 << 30;
  EXPECT_EQ(multipliers_for<int32_t>(DType::I8, one, {0, 0}), (std::vector<int32_t>{one, one, one, one}));
  EXPECT_EQ(multipliers_for<int32_t>(DType::I8, one, {0, 7, 0, 8, 9}),
            (std::vector<int32_t>{one, one, one - 1, one, one, one, one, one - 1, one - 2, one}));
  const int16_t half = 1 << 14;
  EXPECT_EQ(multipliers_for<int16_t>(DType::I16, half, {0, 7}), (std::vector<int16_t>{half, half, half - 1, half}));
}

// Two depthwise convolutions with the same weights, and a product with the constant that they are.
TEST(AvoidDefects, gives_weights_of_a_convolution_a_constant_of_their_own) {
  tosa::Program program;
  tosa::Builder b(program);
  const int64_t codes[] = {1, 2, 3};
  const auto ones = b.constant(DType::I8, {1, 1, 3, 1}, codes);
  const auto x = b.input("x", DType::I8, {1, 4, 4, 3}), y = b.input("y", DType::I8, {1, 4, 3, 5});
  const auto bias = b.constant(DType::I32, {3}, Buffer(12));
  for (int i = 0; i < 2; ++i) {
    const auto sum = b.depthwise_conv2d(x, ones, bias, {{0, 0, 0, 0}, {1, 1}, {1, 1}}, 0, 0);
    b.output(b.rescale(sum, {.multiplier = {1 << 30}, .shift = {30}, .to = DType::I8}));
  }
  b.output(b.mul(ones, y));
  avoid_defects(program, *parse_target("ethos-u55-128"));
  EXPECT_TRUE(tosa::validate(program));
  const tosa::Body& body = program.bodies[0];
  std::vector<tosa::TensorId> weights;
  for (const tosa::Operator& op : body.operators) {
    if (op.op == tosa::Op::DepthwiseConv2d) weights.push_back(op.inputs[1]);
    if (op.op == tosa::Op::Mul) {
      EXPECT_NE(op.inputs[0], weights[0]);
      EXPECT_EQ(body.tensors[op.inputs[0]].data, body.tensors[weights[0]].data);
    }
  }
  ASSERT_EQ(weights.size(), 2U);
  EXPECT_EQ(weights[0], weights[1]);
}

TEST(AvoidDefects, changes_no_result) {
  tosa::Program guarded = pooled_slice(2);
  avoid_defects(guarded, *parse_target("ethos-u55-128"));
  tosa::TensorData x{DType::I8, {2, 8, 8, 4}, Buffer(2 * 8 * 8 * 4)};
  for (size_t i = 0; i < x.data.size(); ++i) x.data[i] = static_cast<std::byte>(i * 37);
  const auto before = tosa::run(pooled_slice(2), {&x, 1});
  const auto after = tosa::run(guarded, {&x, 1});
  ASSERT_TRUE(before && after);
  EXPECT_EQ((*before)[0].data, (*after)[0].data);
}

}  // namespace
}  // namespace swoop
