#include <gtest/gtest.h>

#include "accuracy/accuracy.h"

namespace swoop {
namespace {

Tensor numbers(Shape shape, std::vector<float> values) {
  Tensor made = make_tensor(DType::F32, std::move(shape));
  std::copy(values.begin(), values.end(), made.as<float>().begin());
  return made;
}

TEST(Groups, parts_are_found_behind_movement_and_the_flat_one_comes_first) {
  Result<Graph> graph = parse(R"(graph "g" (%x: f32[1,2], %s: f32[1,2])
  %boxes = unary %x fn="exp" : f32[1,2] name "boxes"
  %scores = unary %s fn="sigmoid" : f32[1,2] name "scores"
  %both = concat %boxes, %scores axis=0 : f32[2,2]
  %turned = transpose %both perm=[1,0] : f32[2,2]
  return %turned
)");
  ASSERT_TRUE(graph) << graph.error().message;
  Result<OutputGroups> groups = OutputGroups::of(*graph);
  ASSERT_TRUE(groups) << groups.error().message;
  // Columns: boxes, scores.
  groups->add(0, numbers({2, 2}, {300, 0.2f, 500, 0.7f}), numbers({2, 2}, {300, 0.5f, 501, 0.5f}));
  std::vector<GroupAccuracy> parts = groups->worst_first();
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].name, "scores");
  EXPECT_TRUE(parts[0].flat);
  EXPECT_LT(parts[0].sqnr_db, 10);
  EXPECT_EQ(parts[1].name, "boxes");
  EXPECT_FALSE(parts[1].flat);
  EXPECT_GT(parts[1].sqnr_db, 50);
}

TEST(Groups, a_channel_of_a_head_that_is_flat_in_the_file_is_found) {
  Result<Graph> graph = parse(R"(graph "g" (%x: f32[2,1])
  %w = const f32[3,1] = [1000,1,5]
  %y = linear %x, %w : f32[2,3] name "y"
  %turned = transpose %y perm=[1,0] : f32[3,2]
  return %turned
)");
  ASSERT_TRUE(graph) << graph.error().message;
  Result<OutputGroups> groups = OutputGroups::of(*graph);
  ASSERT_TRUE(groups) << groups.error().message;
  groups->add(0, numbers({3, 2}, {1000, 500, 1, 0.5f, 5, 5.01f}), numbers({3, 2}, {1000, 504, 0, 0, 4, 4}));
  std::vector<GroupAccuracy> parts = groups->worst_first();
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_FALSE(parts[0].flat);
  EXPECT_GT(parts[0].sqnr_db, 40) << "which says nothing of the second channel";
  EXPECT_EQ(parts[0].flat_channels, std::vector<size_t>{1}) << "the third hardly moves";
  ASSERT_TRUE(parts[0].worst_channel);
  EXPECT_EQ(parts[0].worst_channel->first, 1u);
  EXPECT_LT(parts[0].worst_channel->second, 1);
}

TEST(Groups, a_channel_may_be_flat_where_the_figure_of_the_group_tells_of_it) {
  Result<Graph> graph = parse(R"(graph "g" (%x: f32[2,1])
  %w = const f32[2,1] = [1,1]
  %y = linear %x, %w : f32[2,2] name "y"
  return %y
)");
  ASSERT_TRUE(graph) << graph.error().message;
  auto flat = [&](float first, float second) {  // the file's second channel stays at 3
    Result<OutputGroups> groups = OutputGroups::of(*graph);
    EXPECT_TRUE(groups);
    groups->add(0, numbers({2, 2}, {1, 3.0f, 2, 3.001f}), numbers({2, 2}, {first, 3, second, 3}));
    return groups->worst_first()[0].flat_channels.size();
  };
  EXPECT_EQ(flat(1.1f, 1.9f), 0u) << "the channel that moves is worse";
  EXPECT_EQ(flat(1, 2), 0u) << "its level is right";
}

TEST(Groups, what_is_constant_in_float_may_be_constant) {
  Result<Graph> graph = parse(R"(graph "g" (%x: f32[2])
  %y = unary %x fn="relu" : f32[2]
  return %y
)");
  ASSERT_TRUE(graph) << graph.error().message;
  Result<OutputGroups> groups = OutputGroups::of(*graph);
  ASSERT_TRUE(groups);
  groups->add(0, numbers({2}, {0, 0}), numbers({2}, {0, 0}));
  EXPECT_FALSE(groups->worst_first()[0].flat);
}

TEST(Groups, what_moves_by_less_than_a_step_of_8_bits_may_be_constant) {
  Result<Graph> graph = parse(R"(graph "g" (%x: f32[2])
  %y = unary %x fn="sigmoid" : f32[2]
  return %y
)");
  ASSERT_TRUE(graph) << graph.error().message;
  auto flat = [&](float first, float second, float file) {
    Result<OutputGroups> groups = OutputGroups::of(*graph);
    EXPECT_TRUE(groups);
    groups->add(0, numbers({2}, {first, second}), numbers({2}, {file, file}));
    return groups->worst_first()[0].flat;
  };
  EXPECT_FALSE(flat(0.9996f, 0.9999f, 1));
  EXPECT_TRUE(flat(0.99f, 1, 1));
  EXPECT_TRUE(flat(0.0001f, 0.0002f, 0)) << "small, but it doubles";
}

}  // namespace
}  // namespace swoop
