#include <gtest/gtest.h>
#include <mlw_encode.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "npu/regor_parts.h"

namespace swoop {
namespace {

constexpr int kPart = 8192;

struct Source {
  const std::vector<int16_t>& weights;
  size_t given = 0;
};

// By regor's own encoder.
std::vector<uint8_t> expected(const std::vector<int16_t>& weights) {
  const auto next = [](int32_t, ml_source_state_t* state, int16_t* buffer, int32_t size, void* argument) {
    auto& source = *static_cast<Source*>(argument);
    const size_t count = std::min(static_cast<size_t>(size), source.weights.size() - source.given);
    std::copy_n(source.weights.data() + source.given, count, buffer);
    source.given += count;
    state->eos = count < static_cast<size_t>(size);
    return static_cast<int32_t>(count);
  };
  Source source{weights};
  ml_ethosu_encode_params_t parameters{};
  ml_encode_result_t made{};
  mle_context_t* context = nullptr;
  EXPECT_GE(ml_encode_ethosu_stream(&made, &parameters, next, &source, &context), 0);
  std::vector<uint8_t> stream(made.encoded_data, made.encoded_data + made.encoded_length);
  mle_destroy_context(context);
  mle_free(&made);
  return stream;
}

std::vector<int16_t> normal(size_t count, double deviation, std::mt19937& random) {
  std::vector<int16_t> weights;
  for (size_t i = 0; i < count; ++i) {
    double sum = 0;
    for (int j = 0; j < 4; ++j) sum += static_cast<double>(random() % 2001) / 1000.0 - 1.0;
    weights.push_back(static_cast<int16_t>(std::clamp(std::lround(sum * deviation), -255L, 255L)));
  }
  return weights;
}

void expect_regors(const std::vector<int16_t>& weights, const std::string& which) {
  const std::vector<uint8_t> before = {1, 2, 3};  // what is there stays
  std::vector<uint8_t> stream = before;
  ASSERT_GE(encode_weights(weights.data(), static_cast<int64_t>(weights.size()), kPart, stream), 0) << which;
  ASSERT_TRUE(std::equal(before.begin(), before.end(), stream.begin()));
  stream.erase(stream.begin(), stream.begin() + 3);
  ASSERT_EQ(stream, expected(weights)) << which;
}

TEST(EncodeWeights, are_regors_bytes) {
  std::mt19937 random(3);
  for (size_t count : {1u, 2u, 11u, 12u, 13u, 16u, 100u, 1000u, 8191u, 8192u, 8193u, 40000u})
    for (double deviation : {0.6, 2.0, 5.0, 12.0, 30.0, 64.0, 120.0}) {
      std::vector<int16_t> weights = normal(count, deviation, random);
      weights.back() = 3;  // no part is all zeros
      expect_regors(weights, std::to_string(count) + " of " + std::to_string(deviation));
    }
}

// Layers have parts of other deviations, which take other codings.
TEST(EncodeWeights, change_their_coding) {
  std::mt19937 random(5);
  for (int turn = 0; turn < 20; ++turn) {
    std::vector<int16_t> weights;
    while (weights.size() < 20000) {
      const std::vector<int16_t> more = normal(50 + random() % 900, 0.5 * std::exp2(random() % 9), random);
      weights.insert(weights.end(), more.begin(), more.end());
    }
    expect_regors(weights, std::to_string(turn));
  }
}

TEST(EncodeWeights, few_and_extreme_ones) {
  for (const std::vector<int16_t>& few :
       {std::vector<int16_t>{7}, {-255, 255}, {0, 1}, {-1, 2, 3}, {255, 254, 253, 252, -255, -254}}) {
    std::vector<int16_t> weights;
    for (size_t i = 0; i < 500; ++i) weights.push_back(few[i * i % few.size()]);
    expect_regors(weights, std::to_string(few[0]));
  }
  std::vector<int16_t> all;
  for (int i = 0; i < 511; ++i) all.push_back(static_cast<int16_t>(i * 7 % 511 - 255));
  expect_regors(all, "all");
}

// With few weights between long runs, and with many between short ones.
TEST(EncodeWeights, runs_of_zeros) {
  std::mt19937 random(7);
  for (double deviation : {0.7, 3.0, 20.0, 90.0})
    for (uint32_t share : {1u, 5u, 20u, 60u, 90u})  // per cent that are no zeros
      for (size_t count : {20u, 500u, 9000u, 30000u}) {
        std::vector<int16_t> weights = normal(count, deviation, random);
        for (size_t i = 0; i < count; i += 1 + random() % 9)
          if (random() % 100 >= share)
            std::fill_n(weights.begin() + static_cast<int64_t>(i),
                        std::min<size_t>(count - i, 1 + random() % (400 / share + 1)), int16_t{0});
        for (size_t i = 5; i < count; i += 5000) weights[i] = 9;  // in every part
        weights.back() = 9;
        expect_regors(weights,
                      std::to_string(count) + " of " + std::to_string(deviation) + ", " + std::to_string(share));
      }
}

TEST(EncodeWeights, runs_are_counted) {
  std::vector<int16_t> weights(1000);
  for (size_t i = 0; i < weights.size(); i += 20) weights[i] = static_cast<int16_t>(i % 7 + 1);
  std::vector<uint8_t> stream;
  EXPECT_EQ(encode_weights(weights.data(), std::ssize(weights), kPart, stream), 950);
  EXPECT_EQ(stream, expected(weights));
}

TEST(EncodeWeights, nothing_but_zeros_is_left_to_regor) {
  const std::vector<int16_t> weights(1000);
  std::vector<uint8_t> stream = {9};
  EXPECT_LT(encode_weights(weights.data(), std::ssize(weights), kPart, stream), 0);
  EXPECT_EQ(stream, std::vector<uint8_t>{9});
}

}  // namespace
}  // namespace swoop
