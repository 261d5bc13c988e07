#include "driver/forecast.h"

#include <gtest/gtest.h>

#include "driver/graphs_for_tests.h"

namespace swoop {
namespace {

constexpr std::string_view kTyped = R"text(graph "net" (%x: i8[2,3] q(0.5, 0) as "x")
  %t = unary %x fn="tanh" : i8[2,3] q(0.01, 0) name "t"
  %y = add %t, %t : i8[2,3] q(0.02, 0) name "y"
  return %y
)text";

// The same after a rewrite that turned the layer round: t[i][j] stands at [j][i].
Graph turned() {
  Graph region = parsed(R"text(graph "region" (%x: i8[3,2] q(0.5, 0) as "x")
  %t = unary %x fn="tanh" : i8[3,2] q(0.01, 0) name "t"
  return %t
)text");
  region.value(region.outputs()[0]).origin->moves = {{Op::Transpose, {1, 0}}};
  return region;
}

Tensor input() {
  Tensor x = make_tensor(DType::F32, {2, 3});
  const float values[] = {-2, -1, -0.5f, 0, 0.5f, 1.5f};
  std::copy(std::begin(values), std::end(values), x.as<float>().begin());
  return x;
}

// What the forecast finds when the file's layer t has these codes.
Forecast::Comparison compare(const std::vector<int>& codes) {
  Graph typed = parsed(kTyped), region = turned();
  Forecast forecast(typed, nullptr);
  tosa::Body body;
  body.tensors.push_back({.name = "t", .dtype = tosa::DType::I8, .shape = {3, 2}, .is_const = false, .data = {}});
  Buffer bytes;
  for (int code : codes) append(bytes, static_cast<int8_t>(code));
  forecast.observer(region, body)(body, tosa::Operator{}, 0, {tosa::DType::I8, {3, 2}, bytes});
  Tensor x = input();
  Result<Forecast::Comparison> comparison = forecast.compare({&x, 1});
  CHECK(comparison, "{}", comparison.error().message);
  return std::move(*comparison);
}

// tanh of the input, in steps of 0.01: -96 -76 -46 / 0 46 91.
TEST(Forecast, accepts_what_the_types_allow) {
  Forecast::Comparison right = compare({-96, 0, -76, 46, -46, 91});
  EXPECT_EQ(right.layers, 1u);
  EXPECT_TRUE(right.faults.empty());
  EXPECT_TRUE(compare({-95, 0, -77, 47, -46, 90}).faults.empty()) << "a step more or less is rounding";
}

TEST(Forecast, takes_nothing_of_a_branch) {
  Graph typed = parsed(kTyped), region = turned();
  Forecast forecast(typed, nullptr);
  tosa::Body main, branch;
  branch.tensors.push_back({.name = "t", .dtype = tosa::DType::I8, .shape = {3, 2}, .is_const = false, .data = {}});
  forecast.observer(region, main)(branch, tosa::Operator{}, 0, {tosa::DType::I8, {3, 2}, Buffer(6)});
  Tensor x = input();
  Result<Forecast::Comparison> comparison = forecast.compare({&x, 1});
  ASSERT_TRUE(comparison);
  EXPECT_EQ(comparison->layers, 0u) << "t of a branch is not t of the region";
}

TEST(Forecast, names_a_layer_that_is_wrong) {
  Forecast::Comparison wrong = compare({-96, 0, -76, 46, -46, 31});
  ASSERT_EQ(wrong.faults.size(), 1u);
  EXPECT_LT(wrong.faults[0].of_file.db(), 12);
  EXPECT_GT(wrong.faults[0].of_types.db(), 40);
  EXPECT_EQ(compare({-96, -76, -46, 0, 46, 91}).faults.size(), 1u) << "not turned round";
}

// The next layer is judged on the file's operands, not on what they should have been.
TEST(Forecast, goes_on_with_what_the_file_has) {
  Forecast::Comparison wrong = compare({-96, 0, -76, 46, -46, 31});
  EXPECT_NEAR(wrong.outputs[0].as<float>()[5], 0.62, 1e-6);
}

// 0.3 + 0.1 - 0.4 is 7e-9 in floats, and the layer's steps are finer than that.
TEST(Forecast, does_not_ask_for_more_than_floats_have) {
  Graph typed = parsed(R"text(graph "net" (%x: i16[3] q(0.0001, 0) as "x")
  %t = sum %x axes=[0] keepdim=true : i16[1] q(1e-11, 0) name "t"
  return %t
)text");
  Forecast forecast(typed, nullptr);
  tosa::Body body;
  body.tensors.push_back({.name = "t", .dtype = tosa::DType::I16, .shape = {1}, .is_const = false, .data = {}});
  forecast.observer(typed, body)(body, tosa::Operator{}, 0, {tosa::DType::I16, {1}, Buffer(2)});
  Tensor x = make_tensor(DType::F32, {3});
  const float values[] = {0.3f, 0.1f, -0.4f};
  std::copy(std::begin(values), std::end(values), x.as<float>().begin());
  Result<Forecast::Comparison> comparison = forecast.compare({&x, 1});
  ASSERT_TRUE(comparison) << comparison.error().message;
  EXPECT_EQ(comparison->layers, 1u);
  EXPECT_TRUE(comparison->faults.empty());
}

}  // namespace
}  // namespace swoop
