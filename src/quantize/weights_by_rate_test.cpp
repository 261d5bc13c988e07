// Coarser steps for weights where the outputs hardly notice.
#include "quantize/weights_by_rate.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "accuracy/accuracy.h"
#include "support/check.h"

namespace swoop {
namespace {

constexpr int kSize = 32;

std::string random_matrix(uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 0.2f);
  std::string hex;
  for (int i = 0; i < kSize * kSize; ++i) {
    const float value = normal(random);
    uint8_t bytes[sizeof(value)];
    std::memcpy(bytes, &value, sizeof(value));
    for (uint8_t byte : bytes) hex += fmt::format("{:02x}", byte);
  }
  return hex;
}

// v and w are read twice: once for the output a, and, after a squash that hides the errors, for the output b.
Graph two_outputs() {
  Result<Graph> graph = parse(fmt::format(R"text(graph "net" (%x: f32[8,32] as "x")
  %v = const f32[32,32] = x"{}"
  %w = const f32[32,32] = x"{}"
  %l = linear %x, %v, _ : f32[8,32] name "l"
  %a = linear %l, %w, _ : f32[8,32] name "a"
  %t = unary %a fn="tanh" : f32[8,32] name "t"
  %b = linear %t, %w, _ : f32[8,32] name "b"
  return %a, %b
)text",
                                          random_matrix(1), random_matrix(2)));
  CHECK(graph, "{}", graph.error().message);
  return std::move(*graph);
}

Samples normal_samples(uint32_t seed, int count) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Samples made;
  for (int i = 0; i < count; ++i) {
    Tensor tensor = make_tensor(DType::F32, {8, kSize});
    for (float& x : tensor.as<float>()) x = normal(random);
    made.inputs.push_back({std::move(tensor)});
  }
  return made;
}

struct Built {
  Graph graph;
  QuantizeReport report;
};

Built built_with(const QuantizeOptions& options) {
  Graph graph = two_outputs();
  Result<QuantizeReport> report = quantize(graph, normal_samples(3, 4), options);
  CHECK(report, "{}", report.error().message);
  EXPECT_EQ(verify(graph), std::nullopt);
  return {std::move(graph), std::move(*report)};
}

std::vector<double> decibels(const Graph& quantized) {
  const Graph exact = two_outputs();
  std::vector<Noise> noise(2);
  for (const Sample& sample : normal_samples(4, 16).inputs) {
    const Result<std::vector<Tensor>> reference = execute(exact, sample), actual = execute(quantized, sample);
    CHECK(reference && actual, "it does not run");
    for (size_t i = 0; i < noise.size(); ++i) noise[i].add((*reference)[i], (*actual)[i]);
  }
  return {noise[0].db(), noise[1].db()};
}

TEST(WeightsByRate, they_are_smaller_and_no_output_loses_more_than_it_may) {
  QuantizeOptions options;
  const Built finest = built_with(options);
  EXPECT_FALSE(finest.report.smaller_weights);
  const std::vector<double> before = decibels(finest.graph);
  double bytes = encoded_bytes(finest.graph);
  for (double db : {1.0, 3.0, 6.0}) {
    options.weight_rate = db;
    const Built smaller = built_with(options);
    ASSERT_TRUE(smaller.report.smaller_weights) << db;
    EXPECT_LE(smaller.report.smaller_weights->lost_db, db);
    EXPECT_EQ(smaller.report.smaller_weights->bytes, encoded_bytes(smaller.graph));
    EXPECT_LT(encoded_bytes(smaller.graph), bytes);
    bytes = encoded_bytes(smaller.graph);
    const std::vector<double> after = decibels(smaller.graph);
    for (size_t i = 0; i < before.size(); ++i) EXPECT_GT(after[i], before[i] - db - 0.2) << "output " << i;
  }
}

// The outputs with some values in 16 bits, and with 8 bits alone.
class Confirming : public testing::Test {
 protected:
  Confirming() {
    options_.weight_rate = 1;
    Result<Measured> measured = calibrate(graph_, samples_, nullptr);
    CHECK(measured, "{}", measured.error().message);
    measured_ = std::move(*measured);
    const TypeRequest narrow{.options = options_, .measured = measured_, .weight_rate = 0};
    Result<std::vector<Noise>> plain = noise_to_judge(graph_, samples_, typed(graph_, narrow), narrow);
    CHECK(plain, "{}", plain.error().message);
    plain_ = std::move(*plain);
  }

  Confirmed confirmed(std::set<std::string> raised, std::vector<Noise> plain, Spending spending = Spending::Little) {
    TypeRequest request{.options = options_, .measured = measured_, .raised = std::move(raised)};
    request.plain = std::move(plain);
    Result<Confirmed> result = confirm_weight_rate(graph_, samples_, request, spending);
    CHECK(result, "{}", result.error().message);
    return std::move(*result);
  }

  QuantizeOptions options_;
  Graph graph_ = two_outputs();
  Samples samples_ = normal_samples(3, 4);
  Measured measured_;
  std::vector<Noise> plain_;
};

TEST_F(Confirming, what_is_clearly_worse_than_8_bits_is_not_taken) {
  EXPECT_TRUE(confirmed({}, plain_).smaller);
  std::vector<Noise> better = plain_;
  for (Noise& noise : better) noise.error /= 2;  // 3 dB
  const Confirmed refused = confirmed({}, better);
  EXPECT_FALSE(refused.smaller);
  EXPECT_NEAR(refused.below_plain, 3.01, 0.01);
}

TEST_F(Confirming, gains_of_16_bits_are_spent_as_far_as_8_bits_would_be_worse) {
  const std::set<std::string> raised = {"x", "l", "a", "t", "b"};
  const Confirmed little = confirmed(raised, plain_), much = confirmed(raised, plain_, Spending::Gains);
  ASSERT_TRUE(much.smaller);
  EXPECT_GT(much.smaller->lost_db, options_.weight_rate);
  EXPECT_EQ(much.below_plain, 0);
  EXPECT_LT(encoded_bytes(much.graph), encoded_bytes(little.graph));
}

// Here a program takes as long as its weights, and 16 bits take no time. With them all noise is that of the weights, so
// that nearly none may be added.
TEST(WeightsByRate, both_smaller_weights_and_16_bits_where_a_part_of_their_gain_is_enough) {
  QuantizeOptions options;
  options.weight_rate = 2;
  options.int16_budget = 0.01;
  options.cost = [](const Graph& graph) {
    return std::optional<Cost>({.value = encoded_bytes(graph), .bytes = {{"flash", 1e6}}, .programs = 1});
  };
  const Built both = built_with(options);
  EXPECT_FALSE(both.report.cheap.candidates.empty());
  EXPECT_TRUE(both.report.smaller_weights);
  options.weight_rate = 0;
  const Built finest = built_with(options);
  options.int16_budget = 0;
  const std::vector<double> plain = decibels(built_with(options).graph), after = decibels(both.graph);
  EXPECT_LT(encoded_bytes(both.graph), 0.95 * encoded_bytes(finest.graph));
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_GT(after[i], plain[i] - 0.3) << "output " << i;
}

TEST(WeightsByRate, shared_weights_stay_shared) {
  QuantizeOptions options;
  options.weight_rate = 2;
  const Built smaller = built_with(options);
  std::set<ValueId> weights;
  for (NodeId id : smaller.graph.order())
    if (const Node& node = smaller.graph.node(id); node.op == Op::Linear) weights.insert(node.inputs[1]);
  EXPECT_EQ(weights.size(), 2u);
}

TEST(WeightsByRate, weights_of_4_bits_stay_as_they_are) {
  QuantizeOptions options;
  options.weight_bits = 4;
  const std::string before = print(built_with(options).graph, {.constant_data = true});
  options.weight_rate = 6;
  EXPECT_EQ(print(built_with(options).graph, {.constant_data = true}), before);
}

}  // namespace
}  // namespace swoop
