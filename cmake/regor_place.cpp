// Part of regor's library instead of its hillclimb_allocator.cpp: the same search, by swoop (src/npu/place_ranges.cpp).
#include "common/numeric_util.hpp"
#include "compiler/hillclimb_allocator.hpp"
#include "compiler/live_range.hpp"

namespace regor {

Address HillClimbAllocateLiveRanges(LiveRangeGraph &graph, int alignment, Address limit) {
  std::vector<swoop::TimedRange> ranges;
  for (const auto &range : graph.LiveRanges())
    ranges.push_back({range->startTime, range->endTime, RoundAway(range->size, alignment), 0});
  const Address end = swoop::place_ranges(ranges, limit);
  for (size_t i = 0; i < ranges.size(); ++i) graph.LiveRanges()[i]->SetAddress(ranges[i].address);
  return end;
}

}  // namespace regor
