#include "driver/model_check.h"

#include <gtest/gtest.h>

#include <cmath>

namespace swoop {
namespace {

Graph graph_of(const std::string& text) {
  Result<Graph> graph = parse("graph \"main\" (%x: f32[8])\n" + text + "return %y\n");
  EXPECT_TRUE(graph) << (graph ? "" : graph.error().message);
  return std::move(*graph);
}

// What is said when `imported` became `reference`.
std::string said(const std::string& imported, const std::string& reference) {
  CompileOptions options;
  options.samples = "given";
  Pipeline pipeline{.options = options, .target = *parse_target("ethos-u55-128")};
  pipeline.reference = graph_of(reference);
  pipeline.quantized.emplace();
  Tensor x = make_tensor(DType::F32, {8});
  for (size_t i = 0; i < 8; ++i) x.as<float>()[i] = static_cast<float>(i) - 2.5f;
  pipeline.samples = Samples{{{x}, {x}}, "given", false};
  const Result<void> checked = check_rewriting(graph_of(imported), pipeline);
  if (checked) return "";
  return (checked.error().ours ? "ours: " : "") + checked.error().message;
}

TEST(ModelCheck, another_order_of_sums_is_the_same_model) {
  EXPECT_EQ(said("%c = const f32[] = fill 3\n%a = add %x, %c : f32[8]\n%y = mul %a, %c : f32[8]\n",
                 "%c = const f32[] = fill 3\n%n = const f32[] = fill 9\n%a = mul %x, %c : f32[8]\n"
                 "%y = add %a, %n : f32[8]\n"),
            "");
}

TEST(ModelCheck, another_function_is_a_defect) {
  EXPECT_EQ(said("%y = unary %x fn=\"abs\" : f32[8]\n", "%y = clamp %x min=0.0 : f32[8]\n"),
            "ours: the step quantize rewrites the model into another one: output 0 of the float model is 7.6 dB there, "
            "on calibration sample 0");
}

TEST(ModelCheck, what_is_nothing_but_rounding_may_be_rounded_otherwise) {
  EXPECT_EQ(said("%c = const f32[] = fill 1e7\n%a = add %x, %c : f32[8]\n%y = sub %a, %c : f32[8]\n",
                 "%c = const f32[] = fill 1\n%y = mul %x, %c : f32[8]\n"),
            "");
}

TEST(ModelCheck, a_model_that_gives_nan_is_refused) {
  EXPECT_EQ(
      said("%y = unary %x fn=\"log\" : f32[8]\n", "%y = clamp %x min=0.0 : f32[8]\n"),
      "output 0 of the float model holds NaN on calibration sample 0: where a mask hides all of a row, softmax is "
      "NaN; choose zeros there, or a mask with a finite number");
}

}  // namespace
}  // namespace swoop
