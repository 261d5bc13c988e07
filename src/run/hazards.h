// Operations and transfers that are under way at the same time. The NPU runs them side by side until the stream waits;
// one that touches what another still writes (or writes what another still reads) sees old or new bytes by chance.
// Kernels among themselves are ordered by NPU_SET_BLOCKDEP (see blocks.h), but for the weights and scales that they
// read: those are constants for regor, and are fetched ahead.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "run/run.h"

namespace swoop::ethos {

// Operands that a kernel fetches as soon as it is queued, whatever NPU_SET_BLOCKDEP says.
constexpr const char* kWeights = "The weights";
constexpr const char* kScales = "The scales";

struct Access {
  NpuRange range;
  bool write = false;
  const char* what = "";  // the operand, a literal compared by address: ranges of different operands are not merged
  uint64_t touched = 0;   // bytes; fewer than the range has: there are gaps in it

  bool whole() const { return touched >= range.last - range.first; }
};
using Accesses = std::vector<Access>;

struct Conflict {
  bool with_transfer = false;  // else with a kernel
  std::string what;            // a sentence
};

class Hazards {
 public:
  explicit Hazards(const NpuFacts& facts)
      : max_transfers_(facts.transfers_under_way), max_kernels_(facts.kernels_under_way) {}

  void wait_for_transfers(size_t allowed) { trim(transfers_, allowed); }
  void wait_for_kernels(size_t allowed) { trim(kernels_, allowed); }

  // What touches the same bytes and is still under way; nullopt: nothing does.
  std::optional<Conflict> conflict_of_kernel(const Accesses& accesses) const;
  std::optional<Conflict> conflict_of_transfer(const Accesses& accesses) const;

  // chained: the next kernel belongs to the same piece of work.
  void add_kernel(uint32_t position, Accesses accesses, bool chained);
  void add_transfer(uint32_t position, Accesses accesses);

 private:
  struct Work {
    uint32_t position = 0;
    Accesses accesses;
  };
  static std::optional<Conflict> conflict(const std::deque<Work>& queue, const Accesses& accesses, bool transfers);
  static void trim(std::deque<Work>& queue, size_t allowed) {
    while (queue.size() > allowed) queue.pop_front();
  }

  std::deque<Work> transfers_, kernels_;
  size_t max_transfers_, max_kernels_;
  bool chain_open_ = false;
};

}  // namespace swoop::ethos
