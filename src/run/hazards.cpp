#include "run/hazards.h"

#include "run/memory.h"

namespace swoop::ethos {

Result<void> Hazards::check(const std::deque<Work>& queue, const Work& work, const char* kind) {
  for (const Work& other : queue)
    for (const Access& theirs : other.accesses)
      for (const Access& ours : work.accesses)
        if ((ours.write || theirs.write) && ours.range.region == theirs.range.region &&
            ours.range.first < theirs.range.last && theirs.range.first < ours.range.last)
          return error("it {} bytes {} to {} of {} while the {} at word {} may still be {} them; a wait is missing.",
                       ours.write ? "writes" : "reads", ours.range.first, ours.range.last,
                       Memory::region_name(ours.range.region), kind, other.position,
                       theirs.write ? "writing" : "reading");
  return {};
}

Result<void> Hazards::add_kernel(uint32_t position, Accesses accesses, bool chained) {
  Work work{position, std::move(accesses)};
  TRY(check(transfers_, work, "transfer"));
  if (chain_open_ && !kernels_.empty()) {
    Accesses& whole = kernels_.back().accesses;
    whole.insert(whole.end(), work.accesses.begin(), work.accesses.end());
  } else {
    kernels_.push_back(std::move(work));
    trim(kernels_, max_kernels_);
  }
  chain_open_ = chained;
  return {};
}

Result<void> Hazards::add_transfer(uint32_t position, Accesses accesses) {
  Work work{position, std::move(accesses)};
  TRY(check(transfers_, work, "transfer"));
  TRY(check(kernels_, work, "operation"));
  transfers_.push_back(std::move(work));
  trim(transfers_, max_transfers_);
  return {};
}

}  // namespace swoop::ethos
