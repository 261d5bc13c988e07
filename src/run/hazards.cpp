#include "run/hazards.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "run/memory.h"

namespace swoop::ethos {

namespace {

bool collide(const Access& a, const Access& b) {
  return (a.write || b.write) && a.range.region == b.range.region && a.range.first < b.range.last &&
         b.range.first < a.range.last;
}

}  // namespace

std::optional<Conflict> Hazards::conflict(const std::deque<Work>& queue, const Accesses& accesses, bool transfers) {
  for (const Work& other : queue)
    for (const Access& theirs : other.accesses)
      for (const Access& ours : accesses)
        if (collide(ours, theirs))
          return Conflict{
              transfers,
              fmt::format("it {} bytes {} to {} of {} while the {} at word {} may still be {} them; a wait is missing.",
                          ours.write ? "writes" : "reads", ours.range.first, ours.range.last,
                          Memory::region_name(ours.range.region), transfers ? "transfer" : "operation", other.position,
                          theirs.write ? "writing" : "reading")};
  return std::nullopt;
}

std::optional<Conflict> Hazards::conflict_of_kernel(const Accesses& accesses) const {
  std::optional<Conflict> found = conflict(transfers_, accesses, true);
  if (found) return found;
  Accesses ahead;
  std::ranges::copy_if(accesses, std::back_inserter(ahead), [](const Access& access) {
    return std::string_view(access.what) == kWeights || std::string_view(access.what) == kScales;
  });
  return conflict(kernels_, ahead, false);
}

std::optional<Conflict> Hazards::conflict_of_transfer(const Accesses& accesses) const {
  std::optional<Conflict> found = conflict(transfers_, accesses, true);
  return found ? found : conflict(kernels_, accesses, false);
}

void Hazards::add_kernel(uint32_t position, Accesses accesses, bool chained) {
  if (chain_open_ && !kernels_.empty()) {
    Accesses& whole = kernels_.back().accesses;
    whole.insert(whole.end(), accesses.begin(), accesses.end());
  } else {
    kernels_.push_back({position, std::move(accesses)});
    trim(kernels_, max_kernels_);
  }
  chain_open_ = chained;
}

void Hazards::add_transfer(uint32_t position, Accesses accesses) {
  transfers_.push_back({position, std::move(accesses)});
  trim(transfers_, max_transfers_);
}

}  // namespace swoop::ethos
