// Operations and transfers that are under way at the same time. The NPU runs them side by side until the stream waits;
// one that touches what another still writes (or writes what another still reads) sees old or new bytes by chance. Here
// that is an Error. Kernels among themselves are ordered by NPU_SET_BLOCKDEP: see blocks.h.
#pragma once

#include <deque>
#include <vector>

#include "run/run.h"

namespace swoop::ethos {

struct Access {
  NpuRange range;
  bool write = false;
  const char* what = "";  // the operand, a literal compared by address: ranges of different operands are not merged
};
using Accesses = std::vector<Access>;

class Hazards {
 public:
  explicit Hazards(const NpuFacts& facts)
      : max_transfers_(facts.transfers_under_way), max_kernels_(facts.kernels_under_way) {}

  void wait_for_transfers(size_t allowed) { trim(transfers_, allowed); }
  void wait_for_kernels(size_t allowed) { trim(kernels_, allowed); }

  // chained: the next kernel belongs to the same piece of work.
  Result<void> add_kernel(uint32_t position, Accesses accesses, bool chained);
  Result<void> add_transfer(uint32_t position, Accesses accesses);

 private:
  struct Work {
    uint32_t position = 0;
    Accesses accesses;
  };
  static void trim(std::deque<Work>& queue, size_t allowed) {
    while (queue.size() > allowed) queue.pop_front();
  }
  static Result<void> check(const std::deque<Work>& queue, const Work& work, const char* kind);

  std::deque<Work> transfers_, kernels_;
  size_t max_transfers_, max_kernels_;
  bool chain_open_ = false;
};

}  // namespace swoop::ethos
