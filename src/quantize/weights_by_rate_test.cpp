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
