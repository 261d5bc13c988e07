#include "target/target.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace swoop {
namespace {

TEST(Target, knows_every_npu_by_name) {
  std::set<std::string_view> names;
  for (const NpuTarget& target : npu_targets()) {
    names.insert(target.name);
    const auto found = parse_target(target.name);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->name, target.name);
    EXPECT_TRUE(target.name.ends_with("-" + std::to_string(target.macs))) << target.name;
  }
  EXPECT_EQ(names.size(), 11u);
  EXPECT_EQ(parse_target("ethos-u65-512")->cores, 2);
}

TEST(Target, lists_the_known_names_when_asked_for_another) {
  for (std::string_view name : {"", "ethos-u55", "ethos-u55-129", "Ethos-U55-128", "ethos-u55-128 "}) {
    const auto target = parse_target(name);
    ASSERT_FALSE(target) << name;
    EXPECT_NE(target.error().message.find("ethos-u55-128, ethos-u55-256, ethos-u65-256"), std::string::npos);
  }
}

// Facts of a row that hang together: rules read one of them and mean the others.
TEST(Facts, of_a_family_agree_with_each_other) {
  std::set<std::string_view> names, regor_names;
  std::set<uint32_t> products;
  for (NpuFamily family : npu_families()) {
    const NpuFacts& facts = facts_of(family);
    EXPECT_TRUE(names.insert(facts.name).second) << facts.name;
    EXPECT_TRUE(regor_names.insert(facts.regor_name).second) << facts.regor_name;
    EXPECT_TRUE(products.insert(facts.product).second) << facts.product;
    EXPECT_EQ(facts.any_argmax, facts.argmax_depth == kNoLimit) << facts.name;
    EXPECT_LE(facts.first_sum_height, facts.max_conv_height) << facts.name;
    EXPECT_LE(facts.max_conv_height, facts.max_conv_area) << facts.name;
    EXPECT_LE(facts.max_pool_height, facts.max_pool_area) << facts.name;
    EXPECT_LE(facts.max_padded_average, facts.max_pool_height) << facts.name;
    EXPECT_EQ(facts.brick % facts.channels_at_once, 0) << facts.name;
    EXPECT_TRUE(facts.has_resize || !facts.resize_only_shifts) << facts.name;
    EXPECT_TRUE(facts.has_booleans || !facts.has_branches) << facts.name;  // what a branch looks at
  }
  EXPECT_EQ(names.size(), 3u);
}

}  // namespace
}  // namespace swoop
