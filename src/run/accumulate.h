// Where sums start and where they go. On the U55 and U65 they start at zero and leave through the output stage; on the
// U85 they may also start from the last operation's or from a second input, and may be kept for the next operation.
#pragma once

#include "run/output.h"

namespace swoop::ethos {

struct Accumulators {
  bool wide = false;            // 40 or 48 bits instead of 32
  bool seeded = false;          // start from `values` instead of zero
  bool keep = false;            // hand the sums to the next operation
  std::vector<int64_t> values;  // when seeded or kept: one per output element

  bool plain() const { return !seeded && !keep; }
  void add(int64_t at, int64_t sum) {
    int64_t& value = values[static_cast<size_t>(at)];
    value = static_cast<int64_t>(static_cast<uint64_t>(value) + static_cast<uint64_t>(sum));
  }
};

Result<Accumulators> read_accumulators(Machine& machine, const OutputStage& stage);

// The values through the output stage, or into the machine for the next operation.
Result<void> finish_accumulators(Machine& machine, const OutputStage& stage, Accumulators accumulators);

// NPU_OP_CONV with the second input as weights (U85).
Result<void> run_matrix_product(Machine& machine);

}  // namespace swoop::ethos
