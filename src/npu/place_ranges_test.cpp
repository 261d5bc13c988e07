#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "npu/regor_parts.h"

namespace swoop {
namespace {

std::vector<TimedRange> some_ranges(uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](uint32_t limit) { return static_cast<int>(random() % limit); };
  std::vector<TimedRange> ranges(60);
  for (TimedRange& range : ranges) {
    range.start = below(40);
    range.end = range.start + below(10);
    range.size = 16 * (1 + below(64));
  }
  return ranges;
}

// What the HillClimbAllocator of regor 5.1.0 gives for these ranges, after so many changes of their order.
TEST(PlaceRanges, equals_regors_own_search) {
  struct Case {
    uint32_t seed;
    int changes;
    int64_t end;
    uint64_t hash;
  };
  for (const Case& c : {Case{0, 45, 7840, 14638535921737884528u}, Case{10, 2848, 6656, 10225464861074545088u},
                        Case{11, 2160, 5904, 18379300296860643712u}, Case{16, 1096, 7888, 9444754804857971792u}}) {
    std::vector<TimedRange> ranges = some_ranges(c.seed);
    EXPECT_EQ(place_ranges(ranges, 1 << 30), c.end) << c.seed;
    uint64_t hash = 0;
    for (const TimedRange& range : ranges) hash = hash * 31 + static_cast<uint64_t>(range.address);
    EXPECT_EQ(hash, c.hash) << c.seed;
  }
}

TEST(PlaceRanges, takes_ranges_that_are_never_in_use) {
  std::vector<TimedRange> ranges = {{std::numeric_limits<int>::max(), -1, 16, -1}, {0, 0, 32, -1}};
  EXPECT_EQ(place_ranges(ranges, 0), 32);
  std::vector<TimedRange> none;
  EXPECT_EQ(place_ranges(none, 0), 0);
}

}  // namespace
}  // namespace swoop
