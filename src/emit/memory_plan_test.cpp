#include "emit/memory_plan.h"

#include <gtest/gtest.h>

#include "emit/plan_builder.h"

namespace swoop::emit {
namespace {

void expect_apart(const Plan& plan) {
  for (size_t i = 0; i < plan.storages.size(); ++i) {
    const Storage& a = plan.storages[i];
    EXPECT_EQ(a.offset % kArenaAlignment, 0);
    EXPECT_LE(a.offset + a.bytes, plan.arena_bytes);
    for (size_t j = i + 1; j < plan.storages.size(); ++j) {
      const Storage& b = plan.storages[j];
      bool together = a.first <= b.last && b.first <= a.last;
      bool apart = a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset;
      EXPECT_TRUE(!together || apart) << "storages " << i << " and " << j;
    }
  }
}

Plan random_plan(uint32_t seed, int count, int length) {
  Plan plan;
  uint32_t state = seed;
  auto next = [&] {
    state = state * 1664525u + 1013904223u;
    return static_cast<int>(state >> 8);
  };
  for (int i = 0; i < count; ++i) {
    Storage storage;
    storage.bytes = next() % 5000;
    storage.first = next() % length;
    storage.last = storage.first + next() % 6;
    plan.storages.push_back(storage);
  }
  return plan;
}

TEST(MemoryPlan, never_overlaps_and_stays_near_the_bound) {
  double worst = 1.0;
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    Plan plan = random_plan(seed, 60, 40);
    place_storages(plan);
    expect_apart(plan);
    worst = std::max(worst, static_cast<double>(plan.arena_bytes) / static_cast<double>(live_bytes_bound(plan)));
  }
  EXPECT_LT(worst, 1.05);  // 1.03 when written, 1.001 on average
}

TEST(MemoryPlan, sweeps_long_programs) {
  Plan plan = random_plan(7, 3000, 3000);
  place_storages(plan);
  expect_apart(plan);
  EXPECT_LT(plan.arena_bytes, 2 * live_bytes_bound(plan));
}

TEST(MemoryPlan, keeps_what_a_loop_reads) {
  PlanBuilder b;
  int before = b.planned(DType::F32, {4});
  int out = b.planned(DType::F32, {4});
  int later = b.planned(DType::F32, {4});
  b.plan.inputs = {before};
  int again = b.position();
  b.unary("aten::abs.out", before, out);  // read at the loop's start
  b.unary("aten::abs.out", out, later);   // must not take the place of `before`, which the next turn reads
  b.jump_false(b.boolean(false), again);
  find_lifetimes(b.plan);
  place_storages(b.plan);
  EXPECT_EQ(b.plan.storages[0].last, 2);
  expect_apart(b.plan);
  EXPECT_NE(b.plan.storages[0].offset, b.plan.storages[2].offset);
}

}  // namespace
}  // namespace swoop::emit
