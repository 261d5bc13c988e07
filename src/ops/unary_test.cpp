// What a row of unary.def says about its formula, checked over floats of all sizes: a bound that results cross, that
// they stay away from, or that is missing fails.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "ops/ops.h"

namespace swoop {
namespace {

struct Parameters {
  float alpha, beta;
};
// Negative, fractional, even and odd; beta on both sides of alpha.
constexpr Parameters kParameters[] = {{1, 20}, {0.25f, 4}, {3, -1}, {-0.5f, 2}, {2, 0.5f}, {-3, -2}};

// Floats spread evenly in their bit patterns, the ends among them, and a dense grid where functions bend.
const std::vector<float>& sweep() {
  static const std::vector<float> kPoints = [] {
    std::vector<float> points = {INFINITY, -INFINITY};
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 16381) points.push_back(std::bit_cast<float>(uint32_t(bits)));
    for (int i = -16 * 8192; i <= 16 * 8192; ++i) points.push_back(static_cast<float>(i) / 8192);
    return points;
  }();
  return kPoints;
}

bool has_parameters(const UnaryFunction& function) {
  for (float x : {-3.0f, -0.7f, 0.3f, 0.9f, 7.5f})
    for (Parameters p : kParameters) {
      float first = function.of(x, kParameters[0].alpha, kParameters[0].beta), y = function.of(x, p.alpha, p.beta);
      if (first != y && !(std::isnan(first) && std::isnan(y))) return true;
    }
  return false;
}

void check_range(const UnaryFunction& function, Parameters p) {
  constexpr double kRounding = 1e-6;  // of float results
  constexpr double kTight = 5e-4;     // minima without a closed form have four digits
  constexpr double kFar = 1e4;        // results beyond it have no bound
  Range range = function.range(static_cast<double>(p.alpha), static_cast<double>(p.beta));
  double least = kInfinity, most = -kInfinity;
  for (float x : sweep()) {
    auto y = static_cast<double>(function.of(x, p.alpha, p.beta));
    if (std::isnan(y)) continue;
    least = std::min(least, y);
    most = std::max(most, y);
  }
  if (least > most) return;  // defined nowhere
  SCOPED_TRACE(std::string(function.name) + " with " + std::to_string(p.alpha) + " and " + std::to_string(p.beta));
  EXPECT_GE(least, range.min - kRounding * std::max(1.0, std::fabs(range.min)));
  EXPECT_LE(most, range.max + kRounding * std::max(1.0, std::fabs(range.max)));
  EXPECT_LT(least, std::isinf(range.min) ? -kFar : range.min + kTight);
  EXPECT_GT(most, std::isinf(range.max) ? kFar : range.max - kTight);
}

TEST(Unary, results_reach_the_ends_of_their_range_and_no_further) {
  for (const UnaryFunction& function : unary_functions()) {
    size_t count = has_parameters(function) ? std::size(kParameters) : 1;
    for (size_t i = 0; i < count; ++i) check_range(function, kParameters[i]);
  }
}

TEST(Unary, integers_give_what_the_same_floats_give) {
  for (const UnaryFunction& function : unary_functions()) {
    ASSERT_EQ(function.keeps_integers == nullptr, function.of_integer == nullptr) << function.name;
    if (!function.of_integer) continue;
    for (int64_t alpha : {2, 3, -5}) {
      if (!function.keeps_integers(static_cast<double>(alpha))) continue;
      for (int64_t x = -60; x <= 60; ++x)
        EXPECT_EQ(static_cast<float>(function.of_integer(x, alpha, 4)),
                  function.of(static_cast<float>(x), static_cast<float>(alpha), 4))
            << function.name << " of " << x << " with " << alpha;
    }
  }
}

TEST(Unary, integers_stay_integers_only_where_the_parameter_allows_it) {
  EXPECT_TRUE(unary_function("floor")->keeps_integers(0.5));
  EXPECT_TRUE(unary_function("remainder")->keeps_integers(-3));
  EXPECT_FALSE(unary_function("remainder")->keeps_integers(0.5));
  EXPECT_TRUE(unary_function("pow")->keeps_integers(3));
  EXPECT_FALSE(unary_function("pow")->keeps_integers(-3));
  EXPECT_EQ(unary_function("exp")->keeps_integers, nullptr);
}

Range bounds(Op op, Attrs attrs) {
  Node node;
  node.op = op;
  node.attrs = std::move(attrs);
  return bounds_of(node);
}

TEST(Bounds, follow_from_the_meaning_of_a_node) {
  auto fn = [](const char* name) { return std::pair<Key, Attr>{Key::Fn, std::string(name)}; };
  EXPECT_EQ(bounds(Op::Softmax, {}), (Range{0, 1}));
  EXPECT_EQ(bounds(Op::Add, {}), kAllReals);
  EXPECT_EQ(bounds(Op::Add, {{Key::ActMin, 0.0}}), (Range{0, kInfinity}));
  EXPECT_EQ(bounds(Op::Clamp, {{Key::Min, -2.0}, {Key::Max, 6.0}}), (Range{-2, 6}));
  EXPECT_EQ(bounds(Op::Unary, {fn("elu"), {Key::Alpha, 0.5}}), (Range{-0.5, kInfinity}));
  EXPECT_EQ(bounds(Op::Unary, {fn("atan"), {Key::ActMin, 0.0}}), (Range{0, M_PI_2}));
}

}  // namespace
}  // namespace swoop
