#include "support/nearest.h"

#include <gtest/gtest.h>

#include <vector>

namespace swoop {
namespace {

const std::vector<std::string> kNames = {"conv2d", "conv2d_1", "batch_norm", "layers.0.attention"};

TEST(Nearest, finds_the_name_with_the_fewest_changes) {
  EXPECT_EQ(nearest("conv2", kNames), "conv2d");
  EXPECT_EQ(nearest("conv2d_2", kNames), "conv2d_1");
  EXPECT_EQ(nearest("bacth_norm", kNames), "batch_norm");
  EXPECT_EQ(nearest("attention", kNames), "layers.0.attention");
}

TEST(Nearest, finds_nothing_where_nothing_is_near) {
  EXPECT_EQ(nearest("softmax", kNames), "");
  EXPECT_EQ(nearest("x", {}), "");
  EXPECT_EQ(did_you_mean("softmax", kNames), "");
  EXPECT_EQ(did_you_mean("conv2", kNames), "; did you mean conv2d?");
}

}  // namespace
}  // namespace swoop
