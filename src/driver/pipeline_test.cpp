// Parts of the pipeline: which steps apply to which models, and that a price is that of the program which ships.
#include "driver/pipeline.h"

#include <gtest/gtest.h>

#include <tuple>

#include "accuracy/accuracy.h"
#include "driver/compile.h"
#include "driver/cost.h"
#include "driver/graphs_for_tests.h"
#include "support/file.h"
#include "support/sanitized.h"

namespace swoop {
namespace {

const StepStats& stats_of(const Pipeline& pipeline, std::string_view step) {
  for (const StepStats& stats : pipeline.stats)
    if (stats.name == step) return stats;
  ADD_FAILURE() << "step " << step << " was not run";
  return pipeline.stats[0];
}

constexpr std::string_view kQuotient = R"text(graph "net" (%x: i8[4] q(0.5, 0) as "x")
  %c = const f32[1] = x"00008040"
  %t = unary %x fn="tanh" : i8[4] q(0.01, 0) name "t"
  %f = dequantize %t : f32[4] name "f"
  %y = div %f, %c : f32[4] name "y"
  return %y
)text";

TEST(Pipeline, a_model_that_came_quantized_is_not_prepared) {
  Graph graph = parsed(kQuotient);
  CompileOptions options;
  Pipeline pipeline{.options = options, .target = *parse_target(options.target)};
  ASSERT_TRUE(run_steps(graph, pipeline, {}, "quantize"));
  EXPECT_TRUE(stats_of(pipeline, "prepare").skipped);
  EXPECT_EQ(graph.op_count(Op::Div), 1u);
  EXPECT_FALSE(pipeline.reference);
}

TEST(Pipeline, a_model_with_samples_is_prepared_before_it_is_quantized) {
  Graph graph = parsed(R"text(graph "net" (%x: f32[4] as "x")
  %c = const f32[1] = x"00008040"
  %y = div %x, %c : f32[4] name "y"
  return %y
)text");
  CompileOptions options;
  options.samples = "random:0";
  Pipeline pipeline{.options = options, .target = *parse_target(options.target)};
  ASSERT_TRUE(run_steps(graph, pipeline, {}, "quantize"));
  EXPECT_EQ(stats_of(pipeline, "prepare").hits, 1u);
  EXPECT_EQ(graph.op_count(Op::Div), 0u);
}

TEST(Pipeline, runs_the_named_part_alone) {
  Graph graph = parsed(kQuotient);
  CompileOptions options;
  Pipeline pipeline{.options = options, .target = *parse_target(options.target)};
  std::vector<std::pair<size_t, std::string>> ran;
  ASSERT_TRUE(run_steps(graph, pipeline, "types", "prepare", [&](size_t number, std::string_view name) {
    ran.emplace_back(number, name);
    return Result<void>();
  }));
  EXPECT_EQ(ran, (std::vector<std::pair<size_t, std::string>>{
                     {2, "types"}, {3, "carry"}, {4, "infinities"}, {5, "prepare"}}));
}

TEST(PipelineDeathTest, knows_its_steps) {
  Graph graph = parsed(kQuotient);
  CompileOptions options;
  Pipeline pipeline{.options = options, .target = *parse_target(options.target)};
  EXPECT_EXIT(std::ignore = run_steps(graph, pipeline, "lunch"), testing::ExitedWithCode(2), "there is no step lunch");
}

// What prepare rewrote computes what it did, and each of its layers is compared with its own value: here a convolution
// between reshapes stands for the batch norm.
TEST(Pipeline, a_prepared_batch_norm_is_compared_with_itself) {
  constexpr std::string_view kText = R"text(graph "net" (%x: f32[4,2] as "x")
  %m = const f32[2] = x"0000003f00000000"
  %v = const f32[2] = x"0000804000008040"
  %t = unary %x fn="tanh" : f32[4,2] name "t"
  %y = batch_norm %t, _, _, %m, %v eps=0.001 : f32[4,2] name "y"
  return %y
)text";
  Graph graph = parsed(kText);
  CompileOptions options;
  options.samples = "random:0";
  Pipeline pipeline{.options = options, .target = *parse_target(options.target)};
  ASSERT_TRUE(run_steps(graph, pipeline, {}, "quantize"));
  EXPECT_EQ(graph.op_count(Op::Conv), 1u);
  const Graph original = parsed(kText);
  for (const std::vector<Tensor>& sample : pipeline.samples->inputs) {
    Result<std::vector<Tensor>> before = execute(original, sample), after = execute(*pipeline.reference, sample);
    ASSERT_TRUE(before && after);
    for (size_t i = 0; i < 8; ++i) EXPECT_NEAR((*before)[0].as<float>()[i], (*after)[0].as<float>()[i], 1e-6);
  }
  Result<AccuracyReport> report = measure_accuracy(*pipeline.reference, graph, *pipeline.samples);
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_FALSE(report->layers.empty());
  for (const LayerAccuracy& layer : report->layers) EXPECT_GT(layer.sqnr_db, 30) << to_text(*report);
}

// Norms, softmax, windows and products that stay in float are the runtime's to compute, as they are.
TEST(Pipeline, legalize_leaves_floats_alone) {
  constexpr std::string_view kText = R"text(graph "net" (%x: f32[1,8,6,6] as "x")
  %w = const f32[1,8,1,1] = x"0000003f0000003f0000003f0000003f0000003f0000003f0000003f0000003f"
  %g = const f32[6] = x"000000400000004000000040000000400000004000000040"
  %c = conv %x, %w, _ stride=[1,1] padding=[0,0,0,0] dilation=[1,1] groups=1 : f32[1,1,6,6] name "c"
  %p = max_pool %c kernel=[3,3] stride=[1,1] padding=[1,1,1,1] dilation=[1,1] : f32[1,1,6,6] name "p"
  %n = layer_norm %p, %g, _ axis=3 eps=0.001 : f32[1,1,6,6] name "n"
  %s = softmax %n axis=3 : f32[1,1,6,6] name "s"
  %m = matmul %s, %n : f32[1,1,6,6] name "m"
  %t = unary %m fn="tanh" : f32[1,1,6,6] name "t"
  %y = div %t, %x : f32[1,8,6,6] name "y"
  return %y
)text";
  Graph graph = parsed(kText);
  const std::string before = print(graph, {true, true});
  CompileOptions options;
  for (const char* target : {"ethos-u55-128", "ethos-u85-256"}) {
    Pipeline pipeline{.options = options, .target = *parse_target(target)};
    ASSERT_TRUE(run_steps(graph, pipeline, "expand", "branches"));
    EXPECT_EQ(print(graph, {true, true}), before);
  }
}

// An input that is quantized twice alike enters the NPU twice, unless the program takes codes: another program, at
// another price.
TEST(Pipeline, a_price_is_that_of_the_program_that_ships) {
#if SWOOP_SANITIZED
  GTEST_SKIP() << "regor is not built with the sanitizers and does not end well in a process that is";
#endif
  constexpr std::string_view kText = R"text(graph "net" (%x: f32[1,16,16,16] as "x")
  %a = quantize %x : i8[1,16,16,16] q(0.05, 0) name "a"
  %b = quantize %x : i8[1,16,16,16] q(0.05, 0) name "b"
  %c = max_pool %a kernel=[3,3] stride=[1,1] padding=[1,1,1,1] dilation=[1,1] : i8[1,16,16,16] q(0.05, 0) name "c"
  %s = add %b, %c : i8[1,16,16,16] q(0.1, 0) name "s"
  %y = dequantize %s : f32[1,16,16,16] name "y"
  return %y
)text";
  const std::string folder = testing::TempDir();
  double cycles[2];
  for (bool integer_io : {false, true}) {
    CompileOptions options;
    options.model = folder + "/priced.ir";
    options.output = folder + "/priced.pte";
    options.verify = false;
    if (integer_io) options.ports = {PortNumbers::Codes, PortNumbers::Codes, {}};
    ASSERT_TRUE(write_file(options.model, bytes_of(kText)));
    Graph graph = parsed(kText);
    Pipeline pipeline{.options = options, .target = *parse_target(options.target)};
    ASSERT_TRUE(run_steps(graph, pipeline, {}, "quantize"));
    graph.mark_origins();
    std::optional<Cost> cost = npu_cost(graph, pipeline);
    ASSERT_TRUE(cost);
    EXPECT_GT(cost->wide["s"], 0) << "a sum has no weights to wait for";
    Result<CompileResult> shipped = compile(options);
    ASSERT_TRUE(shipped) << shipped.error().message;
    cycles[integer_io] = 0;
    for (const RegionSummary& region : shipped->summary.regions)
      cycles[integer_io] += static_cast<double>(region.estimates.total_cycles);
    EXPECT_EQ(cost->value, cycles[integer_io]);
  }
  EXPECT_NE(cycles[0], cycles[1]) << "this case shows nothing";
}

}  // namespace
}  // namespace swoop
