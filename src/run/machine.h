// The state of the NPU between two commands, and the operations as functions on it. One file per family of operations.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "run/blocks.h"
#include "run/feature_map.h"
#include "run/memory.h"
#include "run/registers.h"

namespace swoop::ethos {

// Decoded weights, [output channel][kernel y][kernel x][input channel], 9 bits used.
struct Weights {
  int out = 0, kernel_h = 0, kernel_w = 0, in = 0;
  std::vector<int16_t> values;  // of a depthwise convolution
  std::vector<int16_t> packed;  // of any other: for the matrix kernel (gemm.h)
};

}  // namespace swoop::ethos

namespace swoop {

// Stripes of a cascade, and runs on many samples, use the same weights again and again. Keyed by the encoded bytes and
// everything that decides their order.
struct NpuRunCache {
  std::map<std::array<uint64_t, 4>, std::shared_ptr<const ethos::Weights>> weights;
  uint64_t values = 0;  // in all of them
};

}  // namespace swoop

namespace swoop::ethos {

// A chain buffer of the U85: what one operation hands to the next without memory between.
struct ChainBuffer {
  bool filled = false;
  Shape3 shape;
  std::vector<int32_t> values;
};
constexpr int kChainBuffers = 8;

// What an operation or a transfer touches.
struct OperationUse {
  uint32_t position = 0;
  bool kernel = false;   // else a transfer
  bool chained = false;  // the next kernel belongs to the same piece of work
  Accesses accesses;
};

// Of each one, in the order of the stream, without computing.
Result<std::vector<OperationUse>> operation_uses(const NpuProgram& program);

struct Machine {
  NpuConfig config;
  Registers registers;
  Memory memory;
  uint64_t work_left = 0;
  uint32_t position = 0;           // of the command
  bool rehearsal = false;          // everything but the numbers: arrays of values stay empty
  std::vector<NpuFault> faults;    // of a rehearsal
  std::vector<OperationUse> uses;  // of a rehearsal
  bool wants_summary = false;
  std::string summary;
  bool wants_block = false;
  std::optional<NpuBlock> block;  // of the last operation

  std::array<ChainBuffer, kChainBuffers> chains;  // U85
  Shape3 accumulator_shape{0, 0, 0};              // U85: accumulators kept for the next operation
  std::vector<int64_t> accumulators;

  bool result_flag =
      false;  // U85: what NPU_OP_BRANCH looks at: the last element written by the last operation was not zero
  bool chain_open = false;  // the last operation wrote to a chain buffer

  KernelBlocks blocks;  // of the operation under way

  std::shared_ptr<NpuRunCache> cache;

  NpuEncoding encoding() const { return config.target->facts().encoding; }

  // A bound on time has to know that an element that is moved or activated costs more than a multiply-accumulate.
  static constexpr uint64_t kElementCost = 32;
  Result<void> spend_elements(int64_t elements) { return spend(static_cast<uint64_t>(elements) * kElementCost); }

  // Takes the cost of an operation from what is left; an Error when a stream asks for more than the caller allows.
  Result<void> spend(uint64_t work) {
    if (work > work_left) return error("The command stream asks for more work than allowed.");
    work_left -= work;
    return {};
  }
  // An Error when a register was used that the stream never set.
  Result<void> check_registers() {
    Cmd missing = registers.take_missing();
    if (missing == Cmd::Count) return {};
    return error("{} was never set.", command_info(missing).name);
  }
};

// Elements of large feature maps that are loaded, computed and stored at a time: they stay in the cache.
constexpr int64_t kStripElements = 4096;

// Bound on the elements of one feature map: what a stream may make us allocate.
constexpr int64_t kMaxElements = int64_t{1} << 26;

Result<void> run_convolution(Machine& machine, bool depthwise, uint32_t parameter);
Result<void> run_pooling(Machine& machine, uint32_t mode);
Result<void> run_elementwise(Machine& machine, uint32_t mode);
Result<void> run_resize(Machine& machine, uint32_t mode);
Result<void> run_transfer(Machine& machine);

}  // namespace swoop::ethos
