#include "accuracy/accuracy.h"

#include <gtest/gtest.h>

namespace swoop {
namespace {

Samples ramp(const Graph& graph) {
  Tensor x = make_tensor(DType::F32, graph.type(graph.inputs()[0]).shape);
  std::span<float> values = x.as<float>();
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = 4 * static_cast<float>(i) / static_cast<float>(values.size()) - 2;
  Samples samples;
  samples.inputs = {{std::move(x)}};
  return samples;
}

void set_type(Graph& graph, std::string_view name, double scale, int64_t zero_point) {
  for (NodeId id : graph.order()) {
    Value& value = graph.value(graph.node(id).outputs[0]);
    if (value.name == name) value.type = quantized(DType::I8, value.type.shape, scale, zero_point);
  }
}

Tensor tensor(std::vector<float> values) {
  Tensor made = make_tensor(DType::F32, {static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), made.as<float>().begin());
  return made;
}

TEST(Noise, is_signal_over_error_in_decibels) {
  std::vector<Tensor> exact = {tensor({3, 4})}, near = {tensor({3, 4.5f})};
  EXPECT_NEAR(sqnr_db(exact, near), 20, 1e-9);  // 25 / 0.25
  EXPECT_EQ(sqnr_db(exact, exact), 999);
  std::vector<Tensor> masked = {tensor({3, -INFINITY})}, deep = {tensor({3, -500})};
  EXPECT_EQ(sqnr_db(masked, deep), 999) << "what the model masks is not compared";
}

TEST(Accuracy, lists_the_worst_layer_first) {
  Result<Graph> graph = parse(R"(graph "g" (%x: f32[64])
  %coarse = unary %x fn="tanh" : f32[64] name "coarse"
  %fine = unary %coarse fn="sigmoid" : f32[64] name "fine"
  return %fine
)");
  ASSERT_TRUE(graph) << graph.error().message;
  Graph reference = clone(*graph);
  set_type(*graph, "coarse", 0.25, 0);
  set_type(*graph, "fine", 1.0 / 256, -128);
  Result<AccuracyReport> report = measure_accuracy(reference, *graph, ramp(*graph));
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_EQ(report->layers.size(), 2u);
  EXPECT_EQ(report->layers[0].name, "coarse") << to_text(*report);
  EXPECT_EQ(report->layers[0].op, "tanh");
  EXPECT_LT(report->layers[0].own_db, 25);
  EXPECT_EQ(report->layers[0].own_db, report->layers[0].sqnr_db) << "nothing before it is rounded";
  EXPECT_GT(report->layers[1].own_db, 45);
  EXPECT_LT(report->layers[1].sqnr_db, report->layers[1].own_db - 10) << "its operand is rounded coarsely";
  EXPECT_EQ(report->layers[1].sqnr_db, report->outputs[0].noise.db());
}

TEST(Accuracy, a_sample_without_error_does_not_lift_the_others) {
  Result<Graph> graph = parse(R"(graph "g" (%x: f32[64])
  %y = unary %x fn="tanh" : f32[64] name "y"
  return %y
)");
  ASSERT_TRUE(graph) << graph.error().message;
  Graph reference = clone(*graph);
  set_type(*graph, "y", 0.25, 0);
  Samples samples = ramp(*graph);
  samples.inputs.push_back({make_tensor(DType::F32, {64})});  // zeros
  Result<AccuracyReport> report = measure_accuracy(reference, *graph, samples);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_LT(*report->worst_db(), 30);
  EXPECT_EQ(report->worst_db(), report->outputs[0].noise.db());
}

TEST(Accuracy, numbers_the_outputs_as_the_caller_does) {
  Result<Graph> graph = parse(R"(graph "g" (%x: f32[64], %s: f32[64] state "s")
  %t = add %x, %s : f32[64] name "t"
  %y = unary %x fn="tanh" : f32[64] name "y"
  return %t state "s", %y
)");
  ASSERT_TRUE(graph) << graph.error().message;
  Graph reference = clone(*graph);
  set_type(*graph, "y", 0.25, 0);
  Samples samples = ramp(*graph);
  samples.inputs[0].push_back(make_tensor(DType::F32, {64}));
  Result<AccuracyReport> report = measure_accuracy(reference, *graph, samples);
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_EQ(report->outputs.size(), 1u);
  EXPECT_LT(report->outputs[0].noise.db(), 30) << "of y; the state is exact";
}

TEST(Accuracy, divides_zero_by_zero_as_codes_do) {
  Result<Graph> graph = parse(R"(graph "g" (%x: f32[64])
  %a = unary %x fn="tanh" : f32[64] name "a"
  %d = unary %a fn="abs" : f32[64] name "d"
  %y = div %a, %d : f32[64] name "y"
  return %y
)");
  ASSERT_TRUE(graph) << graph.error().message;
  Graph reference = clone(*graph);
  for (std::string_view name : {"a", "d", "y"}) set_type(*graph, name, 0.25, 0);
  Samples samples = ramp(*graph);
  samples.inputs[0][0].as<float>()[32] = 1e-3f;  // where the ramp has 0
  Result<AccuracyReport> report = measure_accuracy(reference, *graph, samples);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(std::isfinite(*report->worst_db()));
}

TEST(Accuracy, compares_no_scores_that_a_mask_lowered) {
  Tensor expected = make_tensor(DType::F32, {3}), actual = make_tensor(DType::F32, {3});
  const float scores[] = {1, std::numeric_limits<float>::lowest(), -INFINITY}, codes[] = {1, -40, -40};
  std::copy(std::begin(scores), std::end(scores), expected.as<float>().begin());
  std::copy(std::begin(codes), std::end(codes), actual.as<float>().begin());
  Noise noise;
  noise.add(expected, actual);
  EXPECT_EQ(noise.db(), 999);
}

TEST(Accuracy, counts_equal_elements_of_integers) {
  Result<Graph> graph = parse(R"(graph "g" (%x: f32[4,16])
  %y = unary %x fn="tanh" : f32[4,16] name "y"
  %i = argmax %y axis=1 keepdim=false : i64[4]
  return %i, %y
)");
  ASSERT_TRUE(graph) << graph.error().message;
  Graph reference = clone(*graph);
  set_type(*graph, "y", 1, 0);  // with codes so coarse, the first of many is the largest
  Result<AccuracyReport> report = measure_accuracy(reference, *graph, ramp(*graph));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_LT(report->outputs[0].equal_share(), 1.0);
  EXPECT_EQ(report->outputs[1].equal_share(), std::nullopt);
  EXPECT_EQ(report->worst_db(), report->outputs[1].noise.db()) << "integers have none";
}

TEST(Accuracy, counts_what_a_type_clips) {
  Result<Graph> graph = parse(R"(graph "g" (%x: f32[64])
  %y = clamp %x min=-10.0 max=10.0 : f32[64]
  return %y
)");
  ASSERT_TRUE(graph) << graph.error().message;
  Graph reference = clone(*graph);
  set_type(*graph, "y", 2.0 / 255, -128);  // 0 .. 2: half of -2 .. 2
  Result<AccuracyReport> report = measure_accuracy(reference, *graph, ramp(*graph));
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_EQ(report->layers.size(), 1u);
  EXPECT_EQ(report->layers[0].clipped, 0.5);
}

}  // namespace
}  // namespace swoop
