// Statistics, ranges and scopes.
#include "quantize/range.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "quantize/choices.h"

namespace swoop {
namespace {

std::vector<float> normal(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> distribution;
  std::vector<float> values(count);
  for (float& x : values) x = distribution(random);
  return values;
}

TEST(Statistics, counts_every_finite_element_once) {
  Statistics s;
  std::vector<float> x = normal(100003, 1);
  x[5] = INFINITY;
  x[70000] = -INFINITY;
  s.add(x);
  EXPECT_EQ(s.count, 100001u);
  EXPECT_FALSE(s.has_nan);
  double total = 0;
  for (double bin : s.bins) total += bin;
  EXPECT_EQ(total, 100001);
  std::vector<float> wider = {-20, 30};
  s.add(wider);
  EXPECT_EQ(s.min, -20);
  EXPECT_EQ(s.max, 30);
  total = 0;
  for (double bin : s.bins) total += bin;
  EXPECT_NEAR(total, 100003, 1e-6);
  std::vector<float> nan = {NAN};
  s.add(nan);
  EXPECT_TRUE(s.has_nan);
}

// What a histogram becomes over a wider range: each bin in 16 parts, one after the other.
std::vector<double> spread_by_parts(const std::vector<double>& bins, float min, float max, float low, float high) {
  constexpr int kParts = 16;
  const auto count = static_cast<double>(bins.size());
  const double width = (static_cast<double>(max) - static_cast<double>(min)) / count;
  const auto per_width = static_cast<float>(count / (static_cast<double>(high) - static_cast<double>(low)));
  std::vector<double> to(bins.size());
  for (size_t i = 0; i < bins.size(); ++i)
    for (int part = 0; part < kParts; ++part) {
      const double x = static_cast<double>(min) + (static_cast<double>(i) + (part + 0.5) / kParts) * width;
      const double at = (x - static_cast<double>(low)) * static_cast<double>(per_width);
      to[static_cast<size_t>(std::clamp(at, 0.0, count - 1))] += bins[i] / kParts;
    }
  return to;
}

TEST(Statistics, a_wider_range_takes_the_bins_apart) {
  for (float wider : {1.0001f, 1.01f, 1.3f, 2.0f, 7.0f, 900.0f}) {
    Statistics s;
    s.add(normal(20000, 3));
    for (int again = 0; again < 12; ++again) {  // the first ones without rounding, the last ones with
      const std::vector<double> before = s.bins;
      const float min = s.min, max = s.max;
      const std::vector<float> ends = {min * wider, max * (wider + 0.001f)};
      s.add(ends);
      std::vector<double> expected = spread_by_parts(before, min, max, s.min, s.max);
      ++expected.front();
      ++expected.back();
      for (size_t b = 0; b < expected.size(); ++b) ASSERT_NEAR(s.bins[b], expected[b], 1e-9) << wider << " " << b;
      if (again < 8) {
        ASSERT_EQ(s.bins, expected) << wider << " " << again;
      }
    }
  }
}

TEST(Statistics, channels_are_summed_in_the_order_of_their_elements) {
  const std::vector<float> x = normal(3 * 11 * 37, 9);  // three cycles of eleven channels
  ChannelStatistics s;
  s.add(x, 11, 37);
  for (size_t c = 0; c < 11; ++c) {
    double sum = 0;
    float largest = 0;
    for (size_t cycle = 0; cycle < 3; ++cycle) {
      double total = 0;
      for (size_t i = 0; i < 37; ++i) {
        const float value = x[(cycle * 11 + c) * 37 + i];
        total += static_cast<double>(value);
        largest = std::max(largest, std::fabs(value));
      }
      sum += total;
    }
    EXPECT_EQ(s.sum[c], sum);
    EXPECT_EQ(s.largest[c], largest);
  }
}

TEST(Statistics, what_lies_below_the_floor_is_left_out) {
  Statistics s;
  std::vector<float> x = {-1e9f, -3, 2, -INFINITY};
  s.add(x, -500);
  EXPECT_EQ(s.count, 2u);
  EXPECT_EQ(s.min, -3);
}

TEST(Statistics, the_likely_range_grows_with_the_difference_between_samples) {
  Statistics s;
  for (float top : {1.0f, 2.0f, 4.0f, 3.0f}) {
    std::vector<float> x = {-1, 0, top};
    s.add(x);
  }
  EXPECT_DOUBLE_EQ(s.likely_max(), 2.5 + 5 * std::sqrt(5.0 / 3)) << "five deviations from their mean";
  EXPECT_DOUBLE_EQ(s.likely_min(), -1) << "all end there";
  for (int again = 0; again < 3; ++again)
    for (float top : {1.0f, 2.0f, 4.0f, 3.0f}) {
      std::vector<float> x = {-1, 0, top};
      s.add(x);
    }
  EXPECT_DOUBLE_EQ(s.likely_max(), 2.5 + 3.5 * std::sqrt(20.0 / 15)) << "less far where more is known";
}

TEST(Range, zero_is_always_a_code) {
  for (Range range : {Range{0.3, 7}, Range{-5, -1}, Range{-1, 0.001}, Range{0, 0}, Range{-1e-20, 1e-20}}) {
    Type type = activation_type(Precision::Int8, {1}, range);
    EXPECT_GE(type.zero_point(), -128);
    EXPECT_LE(type.zero_point(), 127);
    EXPECT_EQ(quantize_value(0.0f, type.scale(), type.zero_point(), -128, 127), type.zero_point());
  }
  EXPECT_EQ(activation_type(Precision::Int8, {1}, {0, 6}).zero_point(), -128);
  EXPECT_EQ(activation_type(Precision::Int16, {1}, {-3, 6}).zero_point(), 0);
}

// The figures are those of torchao's HistogramObserver (2048 bins, 256 levels) for these bins; test/test_quantize.py
// compares more.
TEST(Range, histogram_search_clips_a_far_outlier) {
  Statistics s;
  std::vector<float> x = normal(200000, 2);
  s.add(x);
  Range plain = histogram_range(s, 256);
  EXPECT_GT(plain.max, 3.0);
  x.push_back(60.0f);
  Statistics far;
  far.add(x);
  Range clipped = histogram_range(far, 256);
  EXPECT_LT(clipped.max, 10.0);
  EXPECT_GT(clipped.max, 2.5);
}

TEST(Range, mse_lies_between_least_error_and_what_was_measured) {
  Statistics s;
  s.add(normal(200000, 3));
  Range range = choose_range(s, Method::Mse, 0, 256);
  EXPECT_NEAR(range.max, 3.9, 0.6);  // the best clip of a normal distribution at 8 bits
  EXPECT_NEAR(range.min, -3.9, 0.6);
  Range all = choose_range(s, Method::MinMax, 0, 256);
  EXPECT_EQ(all.max, static_cast<double>(s.max));
  Range most = choose_range(s, Method::Percentile, 99, 256);
  EXPECT_NEAR(most.max, 2.33, 0.05);
}

TEST(Scope, patterns_are_those_of_the_shell_and_match_whole_names) {
  Graph graph;
  ValueId x = graph.add_input({DType::F32, {1}, {}}, "x");
  Node& node =
      graph.add_node(Op::Unary, {x}, {{DType::F32, {1}, {}}}, {{Key::Fn, std::string("tanh")}}, kNone, "tanh_7");
  auto kept = [&](const char* pattern) {
    QuantizeOptions options;
    options.keep_float = {pattern};
    return choose(graph, node, options).precision == Precision::Float;
  };
  for (const char* pattern : {"tanh_7", "tanh*", "*_7", "t?nh_*", "tanh_[0-9]"}) EXPECT_TRUE(kept(pattern)) << pattern;
  for (const char* pattern : {"tanh", "anh_7", "tanh_?7", "tanh_[!0-9]"}) EXPECT_FALSE(kept(pattern)) << pattern;
}

TEST(Scope, nodes_win_over_ops_and_ops_over_modules) {
  Graph graph;
  ValueId x = graph.add_input({DType::F32, {1}, {}}, "x");
  LocId loc = graph.intern({"net.py", 3, "", "encoder.block1.act", "ReLU"});
  Node& node = graph.add_node(Op::Unary, {x}, {{DType::F32, {1}, {}}}, {{Key::Fn, std::string("tanh")}}, loc, "tanh_7");
  QuantizeOptions options;
  EXPECT_EQ(choose(graph, node, options).precision, Precision::Int8);
  options.scopes = {{Scope::Kind::Node, "tanh_7", Precision::Int8, {}},
                    {Scope::Kind::Module, "encoder", Precision::Int16, Method::MinMax}};
  EXPECT_EQ(choose(graph, node, options).precision, Precision::Int8);
  EXPECT_EQ(choose(graph, node, options).method, Method::MinMax);
  options.scopes.erase(options.scopes.begin());
  EXPECT_EQ(choose(graph, node, options).precision, Precision::Int16);
  options.keep_float = {"encoder.*"};
  EXPECT_EQ(choose(graph, node, options).precision, Precision::Float);
  options.keep_float = {"decoder*"};
  EXPECT_EQ(choose(graph, node, options).precision, Precision::Int16);
}

}  // namespace
}  // namespace swoop
