#include "driver/fault.h"

#include <gtest/gtest.h>

#include "lower/lower.h"
#include "support/sanitized.h"

namespace swoop {
namespace {

struct LoweredRegion {
  Graph graph;
  tosa::Program program;
};

LoweredRegion lowered(std::string_view text) {
  Result<Graph> graph = parse(text);
  EXPECT_TRUE(graph) << graph.error().message;
  Result<tosa::Program> program = lower(*graph);
  EXPECT_TRUE(program) << program.error().message;
  return {std::move(*graph), std::move(*program)};
}

Culprit culprit_of(const LoweredRegion& region, const RegionFault& fault) {
  CompileOptions options;
  Pipeline pipeline{.options = options};
  pipeline.target = *parse_target("ethos-u55-128");
  return find_culprit(fault, region.graph, region.program, pipeline);
}

class Fault : public testing::Test {
#if SWOOP_SANITIZED
  void SetUp() override { GTEST_SKIP() << "regor does not end well in a process that is built with the sanitizers"; }
#endif
};

TEST_F(Fault, is_found_where_regor_refuses_a_node) {
  LoweredRegion region = lowered(R"text(graph "region0" (%x: i8[1,4,4,8] q(0.5, 0))
  %a = add %x, %x : i8[1,4,4,8] q(0.5, 0)
  %b = maximum %a, %x : i8[1,4,4,8] q(0.5, 0)
  %c = compare %b, %x fn="gt" : bool[1,4,4,8]
  %d = where %c, %a, %x : i8[1,4,4,8] q(0.5, 0)
  %e = minimum %d, %x : i8[1,4,4,8] q(0.5, 0)
  return %e
)text");
  Culprit culprit = culprit_of(region, {0, "refused", {}, {}});
  EXPECT_EQ(culprit.value, "c");
  EXPECT_FALSE(culprit.first);
}

TEST(Lower, names_the_node_that_has_no_form) {
  Result<Graph> graph = parse(R"text(graph "region0" (%x: i8[1,8] q(0.5, 0))
  %a = add %x, %x : i8[1,8] q(0.5, 0)
  %b = softmax %a axis=1 : i8[1,8] q(0.00390625, -128)
  return %b
)text");
  ASSERT_TRUE(graph) << graph.error().message;
  std::string culprit;
  EXPECT_FALSE(lower(*graph, &culprit));
  EXPECT_EQ(culprit, "b");
}

// A product of some rows of its operand, which regor takes for all of them (docs/regor-defects.md).
TEST_F(Fault, is_found_where_a_node_computes_other_numbers) {
  LoweredRegion region = lowered(R"text(graph "region0" (%x: i8[8,64,16] q(0.5, 0), %y: i8[8,16,16] q(0.5, 0))
  %s = slice %x axis=1 end=64 start=32 step=1 : i8[8,32,16] q(0.5, 0)
  %p = matmul %s, %y : i8[8,32,16] q(20.0, 0)
  %z = add %p, %p : i8[8,32,16] q(40.0, 0)
  return %z
)text");
  std::vector<tosa::TensorData> inputs;
  for (tosa::TensorId id : region.program.bodies[0].inputs) {
    const tosa::Tensor& tensor = region.program.bodies[0].tensors[id];
    inputs.push_back({tensor.dtype, tensor.shape, Buffer(static_cast<size_t>(tosa::element_count(tensor.shape)))});
    for (size_t i = 0; i < inputs.back().data.size(); ++i) inputs.back().data[i] = static_cast<std::byte>(i * 37 % 251);
  }
  EXPECT_EQ(culprit_of(region, {0, "differs", inputs, {}}).value, "p");
}

}  // namespace
}  // namespace swoop
