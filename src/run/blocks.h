// Kernels block by block. The NPU cuts an output into blocks and begins a kernel while the last blocks of the one
// before are still being written: NPU_SET_BLOCKDEP says how many. A block that reads what such a block writes, or what
// an earlier block of its own kernel has overwritten, sees old or new bytes by chance.
// The model is regor's, in its mildest form, so that only streams that are wrong in every reading of it are refused:
// block i of a kernel may run beside block j (counted from the end) of the kernel before when i + j < BLOCKDEP; a block
// of a convolution reads at least 16 input channels at a time.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "run/feature_map.h"
#include "run/hazards.h"

namespace swoop::ethos {

struct Machine;

// From element `first` up to `last`, per axis.
struct Box {
  Shape3 first{0, 0, 0}, last{0, 0, 0};
};

// Which part of an operand one block of the output needs.
enum class ReadOrder {
  Window,      // the kernel's window over rows and columns, the block's channels
  DeepWindow,  // the window, and all input channels step by step
  Same,        // the block itself; axes of size 1 are broadcast
  Rows,        // second operand of a matrix product: a row per output channel, all input channels step by step
};

struct BlockRead {
  FeatureMap map;
  Shape3 shape;
  ReadOrder order = ReadOrder::Same;
  const char* what = "";
};

// Where a block's window begins and ends in the input: y * stride - before, over `reach` rows, halved when upscaled.
struct WindowAxis {
  int stride = 1, reach = 1, before = 0;
  bool upscaled = false;
};

struct KernelBlocks {
  uint32_t position = 0;
  Shape3 output, block;  // as the kernel computes it
  bool writes = false;
  FeatureMap written;
  std::array<int, 3> written_axes{0, 1, 2};  // the output's axis that each axis of the written feature map holds
  int reversed = 0;                          // 0 none, 1 height, 2 width, 3 channels of the written feature map
  WindowAxis y, x;
  std::vector<BlockRead> reads;
  Accesses accesses;
};

// May `kernel` begin before `previous` has ended, as BLOCKDEP allows? nullopt: yes, else what it would see too early.
// The answer's work is taken from the machine.
Result<std::optional<std::string>> find_overlap(Machine& machine, const KernelBlocks& previous,
                                                const KernelBlocks& kernel, int blockdep);

// May the kernel write where it reads?
Result<void> check_in_place(Machine& machine, const KernelBlocks& kernel);

}  // namespace swoop::ethos
