// Which values get int16 because that is nearly free.
#include "quantize/cheap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "quantize/noise.h"

namespace swoop {
namespace {

// x -> a -> b -> c, which is the output
Graph chain() {
  Result<Graph> graph = parse(R"text(graph "net" (%x: f32[1,64] as "x")
  %a = add %x, %x : f32[1,64] name "a"
  %b = add %a, %a : f32[1,64] name "b"
  %c = add %b, %b : f32[1,64] name "c"
  return %c
)text");
  EXPECT_TRUE(graph) << graph.error().message;
  return std::move(*graph);
}

Samples samples() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  Samples made;
  for (int i = 0; i < 4; ++i) {
    Tensor tensor = make_tensor(DType::F32, {1, 64});
    for (float& x : tensor.as<float>()) x = normal(random);
    made.inputs.push_back({std::move(tensor)});
  }
  return made;
}

// As if each node computed for 100 cycles, and from 16 bits for 200, and b waited for its weights for 1,000.
Cost cost_of(const Graph& graph) {
  Cost cost{.bytes = {{"flash", 1e6}}, .programs = 1};
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op != Op::Add) continue;
    const std::string& name = name_in_model(graph.value(node.outputs[0]));
    const double computes = graph.type(node.inputs[0]).dtype == DType::I16 ? 200 : 100;
    cost.each[name] = name == "b" ? 1000 : computes;
    cost.wide[name] = name == "b" ? 0 : computes;
    cost.value += cost.each[name];
  }
  return cost;
}

using Names = std::vector<std::string>;

Names raised(const QuantizeOptions& options) {
  Graph graph = chain();
  Result<QuantizeReport> report = quantize(graph, samples(), options);
  EXPECT_TRUE(report) << report.error().message;
  EXPECT_EQ(verify(graph), std::nullopt);
  Names names;
  for (const Candidate& candidate : report->cheap.candidates) names.push_back(candidate.name);
  std::sort(names.begin(), names.end());
  return names;
}

QuantizeOptions within(double budget, std::function<std::optional<Cost>(const Graph&)> cost = cost_of) {
  QuantizeOptions options;
  options.int16_budget = budget;
  options.cost = std::move(cost);
  return options;
}

TEST(Cheap, raises_what_a_waiting_layer_reads_and_the_output) {
  EXPECT_EQ(raised(within(0.01)), (Names{"a", "c"}));
  EXPECT_EQ(raised(within(0.2)).size(), 3u);
  EXPECT_EQ(raised(within(1)).size(), 4u);
  EXPECT_EQ(raised(within(0)), Names{});
}

TEST(Cheap, leaves_what_somebody_chose_and_what_the_caller_has_the_type_of) {
  QuantizeOptions options = within(0.01);
  options.raises_outputs = false;
  EXPECT_EQ(raised(options), Names{"a"});
  options.scopes.push_back({.kind = Scope::Kind::Node, .pattern = "a", .precision = Precision::Int8});
  EXPECT_EQ(raised(options), Names{});
  options = within(1);
  options.raises_inputs = false;
  EXPECT_EQ(raised(options), (Names{"a", "b", "c"}));
}

TEST(Cheap, leaves_out_what_turns_out_to_be_expensive) {
  auto surprising = [](const Graph& graph) {  // the output costs something after all
    Cost cost = cost_of(graph);
    const Node& dequantize = *graph.producer(graph.outputs()[0]);
    if (graph.type(dequantize.inputs[0]).dtype == DType::I16) cost.value += 50, cost.each["c"] += 50;
    return cost;
  };
  EXPECT_EQ(raised(within(0.01, surprising)), Names{"a"});
}

TEST(Cheap, raises_nothing_that_takes_memory_or_another_piece) {
  auto has_wide = [](const Graph& graph) {
    return std::ranges::any_of(graph.order(),
                               [&](NodeId id) { return graph.type(graph.node(id).outputs[0]).dtype == DType::I16; });
  };
  EXPECT_EQ(raised(within(0.01,
                          [&](const Graph& graph) {
                            Cost cost = cost_of(graph);
                            cost.bytes["SRAM"] = has_wide(graph) ? 2 : 1;
                            return cost;
                          })),
            Names{});
  EXPECT_EQ(raised(within(0.01,
                          [&](const Graph& graph) {
                            Cost cost = cost_of(graph);
                            if (has_wide(graph)) cost.on_host.insert("gather y");
                            return cost;
                          })),
            Names{});
}

// Every trial is a run of regor.
TEST(Cheap, compiles_nothing_that_is_too_large_and_tries_outputs_where_it_sees_no_reason) {
  int runs = 0;
  auto small = [&](const Graph& graph) {
    ++runs;
    Cost cost = cost_of(graph);
    cost.bytes["SRAM"] = 128;  // two values of 64 bytes
    return cost;
  };
  EXPECT_EQ(raised(within(0.01, small)), Names{});
  EXPECT_EQ(runs, 1);
  runs = 0;
  auto shared = [&](const Graph& graph) {  // 16 bits at `a` have a price in flash that no value tells
    ++runs;
    Cost cost = cost_of(graph);
    for (ValueId id = 0; id < graph.value_slots(); ++id)
      if (graph.value(id).name == "a" && graph.type(id).dtype == DType::I16) cost.bytes["flash"] += 1e5;
    return cost;
  };
  EXPECT_EQ(raised(within(0.01, shared)), Names{"c"});
  EXPECT_EQ(runs, 3);
}

TEST(Cheap, min_sqnr_goes_on_from_there) {
  QuantizeOptions options = within(0.01);
  options.min_sqnr = 200;
  Graph graph = chain();
  Result<QuantizeReport> report = quantize(graph, samples(), options);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->cheap.candidates.size(), 2u);
  EXPECT_EQ(report->raised, 2u);
}

// A sum passes noise on as it is, a mean over 64 elements a 64th of it.
TEST(Cheap, noise_is_followed_to_the_outputs) {
  Result<Graph> graph = parse(R"text(graph "net" (%x: f32[1,64] as "x", %y: f32[1,64] as "y")
  %a = unary %x fn="tanh" : f32[1,64] name "a"
  %b = unary %y fn="tanh" : f32[1,64] name "b"
  %m = mean %a axes=[1] keepdim=true : f32[1,1] name "m"
  %s = add %m, %b : f32[1,64] name "s"
  return %s
)text");
  ASSERT_TRUE(graph) << graph.error().message;
  Samples two = samples();
  for (std::vector<Tensor>& sample : two.inputs) sample.push_back(sample[0]);
  Result<Measured> measured = calibrate(*graph, two);
  ASSERT_TRUE(measured) << measured.error().message;
  Graph typed = clone(*graph);
  const QuantizeOptions options;
  choose_types(typed, {options, *measured});
  const NoiseShares noise = noise_of_outputs(*graph, typed, *measured);
  const auto of = [&](std::string_view name) {
    for (ValueId id = 0; id < graph->value_slots(); ++id)
      if (graph->value(id).name == name) return noise.values[id];
    return -1.0;
  };
  EXPECT_GT(of("b"), 0);
  EXPECT_NEAR(of("a") / of("b"), 1.0 / 64, 1e-3);
}

}  // namespace
}  // namespace swoop
