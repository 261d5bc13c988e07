#include "partition/partition.h"

#include <gtest/gtest.h>

namespace swoop {
namespace {

NpuTarget target(std::string_view name) { return *parse_target(name); }

Graph parsed(std::string_view text) {
  Result<Graph> graph = parse(text);
  EXPECT_TRUE(graph) << graph.error().message;
  return std::move(*graph);
}

TEST(Partition, puts_everything_between_the_borders_into_one_region) {
  Graph graph = parsed(R"text(graph "g" (%x: f32[1,4])
  %q = quantize %x : i8[1,4] q(0.5, 0)
  %a = add %q, %q : i8[1,4] q(0.5, 1)
  %b = clamp %a min=0.0 : i8[1,4] q(0.5, 1)
  %y = dequantize %b : f32[1,4]
  return %y
)text");
  Partition result = partition(graph, target("ethos-u55-128"));
  ASSERT_EQ(result.regions.size(), 1u);
  EXPECT_EQ(result.regions[0]->node_count(), 2u);
  EXPECT_TRUE(result.host.empty());
  EXPECT_EQ(graph.node_count(), 3u);
  EXPECT_EQ(verify(graph), std::nullopt);
  EXPECT_EQ(verify(*result.regions[0]), std::nullopt);
}

// Two NPU chains around one host node: what does not depend on the host node runs before it, in the same region.
TEST(Partition, joins_pieces_that_need_not_wait_for_the_host) {
  Graph graph = parsed(R"text(graph "g" (%x: f32[1,4])
  %q = quantize %x : i8[1,4] q(0.5, 0)
  %a = add %q, %q : i8[1,4] q(0.5, 1)
  %s = opaque %a args=s["%0"] overload="" target="aten::sort" : f32[1,4]
  %r = quantize %s : i8[1,4] q(0.5, 0)
  %b = mul %q, %q : i8[1,4] q(0.5, 2)
  %c = add %r, %b : i8[1,4] q(0.5, 3)
  %y = dequantize %c : f32[1,4]
  return %y
)text");
  Partition result = partition(graph, target("ethos-u55-128"));
  ASSERT_EQ(result.regions.size(), 2u);
  EXPECT_EQ(result.regions[0]->node_count(), 2u);  // a and b
  EXPECT_EQ(result.regions[1]->node_count(), 1u);
  ASSERT_EQ(result.host.size(), 1u);
  EXPECT_EQ(result.host[0].op, "aten::sort");
  EXPECT_EQ(result.host[0].rule, "all.c1");
  EXPECT_EQ(verify(graph), std::nullopt);
}

// Positions that are counted before they are looked up: as a region they would come before that of the codes.
TEST(Partition, leaves_integers_that_the_host_reads_to_the_host) {
  constexpr std::string_view kCounted = R"text(graph "g" (%x: i8[4] q(0.5, 0), %i: i32[4])
  %a = mul %i, %i : i32[4]
  %b = cast %a dtype=i64 : i64[4]
  %c = cast %b dtype=i32 : i32[4]
  %d = gather %x, %c axis=0 : i8[4] q(0.5, 0)
  return %d
)text";
  Graph graph = parsed(kCounted);
  EXPECT_EQ(partition(graph, target("ethos-u85-256")).regions.size(), 1u);
  EXPECT_EQ(verify(graph), std::nullopt);
  Graph integers = parsed(R"text(graph "g" (%i: i32[4])
  %a = mul %i, %i : i32[4]
  %b = cast %a dtype=i64 : i64[4]
  return %b
)text");
  EXPECT_EQ(partition(integers, target("ethos-u85-256")).regions.size(), 1u);  // all that the model computes
}

TEST(Partition, begins_a_region_with_a_node_or_leaves_it_on_the_host_when_told_so) {
  constexpr std::string_view kText = R"text(graph "g" (%x: i8[1,4] q(0.5, 0))
  %a = add %x, %x : i8[1,4] q(0.5, 1)
  %b = mul %a, %a : i8[1,4] q(0.5, 2)
  %c = add %b, %a : i8[1,4] q(0.5, 3)
  %d = add %a, %x : i8[1,4] q(0.5, 4)
  return %c, %d
)text";
  Graph cut = parsed(kText);
  Partition two = partition(cut, target("ethos-u55-128"), {{"b", {false, "why"}}});
  ASSERT_EQ(two.regions.size(), 2u);
  EXPECT_EQ(two.regions[0]->node_count(), 2u);  // a and d
  EXPECT_EQ(two.regions[1]->node_count(), 2u);  // b and c
  EXPECT_TRUE(two.host.empty());
  EXPECT_EQ(cut.op_count(Op::Dequantize), 0u);
  EXPECT_EQ(verify(cut), std::nullopt);

  Graph host = parsed(kText);
  Partition around = partition(host, target("ethos-u55-128"), {{"b", {true, "regor crashed"}}});
  ASSERT_EQ(around.regions.size(), 2u);
  EXPECT_EQ(around.regions[1]->node_count(), 1u);  // c
  ASSERT_EQ(around.host.size(), 1u);
  EXPECT_EQ(around.host[0].op, "mul");
  EXPECT_EQ(around.host[0].reason, "regor crashed");
  EXPECT_EQ(host.op_count(Op::Mul), 1u);
  EXPECT_EQ(verify(host), std::nullopt);
}

TEST(Partition, dequantizes_around_what_stays_on_the_host_and_says_why) {
  Graph graph = parsed(R"text(graph "g" (%x: i8[1,4] q(0.5, 0), %y: i8[1,4] q(0.5, 0))
  %m = compare %x, %y fn="gt" : bool[1,4] @ "net.py":7 "x > y" "head" "Head" name "gt"
  %w = where %m, %x, %y : i8[1,4] q(0.5, 0)
  return %w
)text");
  Partition result = partition(graph, target("ethos-u55-128"));
  EXPECT_TRUE(result.regions.empty());
  ASSERT_EQ(result.host.size(), 2u);
  EXPECT_EQ(to_text(result.host[0].loc), "net.py:7");
  EXPECT_EQ(graph.op_count(Op::Dequantize), 4u);
  EXPECT_EQ(graph.op_count(Op::Quantize), 1u);
  EXPECT_EQ(verify(graph), std::nullopt);

  Graph again = parsed(R"text(graph "g" (%x: i8[1,4] q(0.5, 0), %y: i8[1,4] q(0.5, 0))
  %m = compare %x, %y fn="gt" : bool[1,4]
  %w = where %m, %x, %y : i8[1,4] q(0.5, 0)
  return %w
)text");
  EXPECT_EQ(partition(again, target("ethos-u85-256")).regions.size(), 1u);
}

TEST(Partition, compiles_branches_apart_where_the_core_has_none) {
  constexpr std::string_view kText = R"text(graph "g" (%p: bool[], %x: i8[1,4] q(0.5, 0))
  %c = cond %p, %x : i8[1,4] q(0.5, 0) {
    graph "then" (%a: i8[1,4] q(0.5, 0))
      %b = add %a, %a : i8[1,4] q(0.5, 0)
      return %b
  } {
    graph "else" (%a: i8[1,4] q(0.5, 0))
      %b = mul %a, %a : i8[1,4] q(0.5, 0)
      return %b
  }
  return %c
)text";
  Graph small = parsed(kText);
  EXPECT_EQ(partition(small, target("ethos-u55-128")).regions.size(), 2u);
  EXPECT_EQ(small.op_count(Op::Cond), 1u);
  Graph large = parsed(kText);
  EXPECT_EQ(partition(large, target("ethos-u85-256")).regions.size(), 1u);
  EXPECT_EQ(large.op_count(Op::Cond), 0u);
}

}  // namespace
}  // namespace swoop
