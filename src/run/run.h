// An Ethos-U NPU in software: decodes the command stream that regor emits for U55, U65 and U85 and executes it bit for
// bit on host memory. Why: every build is checked on the file that ships, without a board or a licensed simulator.
// Invariants: a command, register bit or value that is not known is an Error that names it and its word, never ignored;
// nothing a stream says can make the executor read or write outside its regions, run for ever or allocate without
// bound.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stream/stream.h"
#include "support/bytes.h"
#include "support/result.h"
#include "target/target.h"

namespace swoop {

// ---- decoding
// ------------------------------------------------------------------------------------------------------------------

// The NPU a stream was made for, from the configuration word of its driver payload.
struct NpuConfig {
  const NpuTarget* target = nullptr;  // one of npu_targets()
  int cores = 1;                      // U65: 1 or 2. U85: weight decoders (1, 2 or 4)
  uint32_t internal_bytes =
      0;  // SHRAM of one core (U55, U65) or look-up table RAM (U85); look-up tables are its last 2 KiB
  std::string name() const { return std::string(target->name); }
};

struct DriverPayload {
  NpuConfig config;
  Bytes stream;  // the register commands, 32-bit words
};

// "COP1" payloads: header, configuration, no-operations, one command stream.
Result<DriverPayload> parse_payload(Bytes commands);

struct NpuCommand {
  uint32_t position = 0;  // word in the stream
  uint8_t id = 0;         // row of the command table
  uint16_t parameter = 0;
  uint32_t payload = 0;  // second word of a wide command

  std::string_view name() const;  // "NPU_SET_IFM_BASE0"
  bool is_kernel() const;         // an operation that computes: not a transfer, a wait, a branch or the stop
};

// Checks every word: known commands, no stray bits, wide commands complete.
Result<std::vector<NpuCommand>> decode_commands(const DriverPayload& payload);

// One line: "  123  NPU_SET_IFM_REGION   1".
std::string to_text(const NpuCommand& command);

// For whom a transfer works: of each NPU_OP_DMA_START the operation that first uses what it brings (weights, scales, a
// feature map, a look-up table), both as words in the stream; else the operation after it.
struct TransferUse {
  uint32_t transfer = 0;
  uint32_t user = 0;
};
std::vector<TransferUse> transfer_uses(const std::vector<NpuCommand>& commands);

// ---- executing
// -----------------------------------------------------------------------------------------------------------------

constexpr int kNpuRegionCount = 8;
constexpr int kInternalRegion = -1;  // SHRAM / look-up table RAM, as a destination of a transfer

struct NpuRange {
  int region = 0;
  uint64_t first = 0, last = 0;  // bytes [first, last)
};

// Where a feature map is in memory: up to four tiles, NHWC or bricks of 16 channels (NHCWB16), strides of any sign.
struct NpuPlace {
  int region = 0;
  int64_t base[4] = {};
  int height0 = 1, height1 = 1, width0 = 1;
  int64_t stride_x = 0, stride_y = 0, stride_c = 0;
  bool bricks = false;

  int64_t pixel_address(int y, int x) const {  // of channel 0
    bool right = x >= width0;
    int rows = right ? height1 : height0;
    bool low = y >= rows;
    return base[(low ? 2 : 0) + (right ? 1 : 0)] + (low ? y - rows : y) * stride_y +
           (right ? x - width0 : x) * stride_x;
  }
};

// What an operation put out.
struct NpuBlock {
  int height = 1, width = 1, depth = 1;
  int bytes = 1;                  // of an element
  Buffer codes;                   // dense: [height][width][depth]
  std::optional<NpuPlace> place;  // nullopt: a chain buffer, for the next operation alone
  bool turned =
      false;  // transposed or reversed on the way out: `place` is not in the order in which the operation computed it
};

// One operation that was carried out.
struct NpuStep {
  uint32_t position = 0;          // word of the NPU_OP_* command
  std::string_view operation;     // "NPU_OP_CONV"
  bool kernel = false;            // else a transfer
  std::string summary;            // shapes, types, addresses
  std::vector<NpuRange> writes;   // smallest range around what was written, per region
  std::optional<NpuBlock> block;  // of a kernel, when the observer wants blocks
};

// A tensor of `size` bytes from blocks in the order in which they were written: the whole of it, slices of its
// channels, or stripes of a cascade whose memory is used again at once. `depth` is the size of its innermost dim. The
// error says what is missing.
Result<Buffer> assemble(std::span<const NpuBlock> pieces, int64_t size, int64_t depth);

// Gives a block that went into a chain buffer its place. The operations of a chain go over the same elements, so the
// result of each has the same place in its own tensor as the result of the last one, `end`.
void place_like(NpuBlock& block, const NpuBlock& end);

class NpuObserver {
 public:
  virtual ~NpuObserver() = default;
  virtual bool wants_blocks() const { return false; }
  // A delegate of a .pte begins; index among the NPU's delegates of its method. Programs alone do not call it.
  virtual void on_call(int /*delegate*/) {}
  // Called after each operation; regions[i] is empty when the program has no region i.
  virtual void on_step(const NpuStep& step, const std::array<Bytes, kNpuRegionCount>& regions) = 0;
};

// What one run works out and the next can use: decoded weights. For one thread at a time.
struct NpuRunCache;
std::shared_ptr<NpuRunCache> make_run_cache();

struct NpuRunOptions {
  std::optional<NpuTarget> target;                  // refuse a stream made for another NPU
  uint64_t max_work = uint64_t{1} << 42;            // bound on multiply-accumulates plus elements touched
  uint64_t scratch_fast_bytes = uint64_t{1} << 22;  // when the program does not record the size of its fast scratch
  NpuObserver* observer = nullptr;
  std::shared_ptr<NpuRunCache> cache = {};  // shared by runs of one program
};

// Runs the program once. inputs[i] holds the bytes of program.inputs[i]; outputs are resized to program.outputs[i].
Result<void> execute_npu(const NpuProgram& program, std::span<const Bytes> inputs, std::vector<Buffer>& outputs,
                         const NpuRunOptions& options = {});

// ---- changing
// -----------------------------------------------------------------------------------------------------------------

// What a stream lets happen too early, and what keeps it in order.
enum class NpuRepair {
  NoOverlap,         // NPU_SET_BLOCKDEP 0 around the operation
  WaitForKernels,    // NPU_OP_KERNEL_WAIT 0 before it
  WaitForTransfers,  // NPU_OP_DMA_WAIT 0 before it
  StartLater,        // a transfer, after an operation that still reads what it overwrites
};

struct NpuFault {
  uint32_t position = 0;       // word of the NPU_OP_* command
  std::string_view operation;  // "NPU_OP_ELEMENTWISE"
  NpuRepair repair = NpuRepair::NoOverlap;
  std::string what;    // a sentence
  uint32_t after = 0;  // of StartLater: the operation
};

// Goes through the stream without computing: every address, block dependency and wait is checked. An Error: the stream
// is wrong, and no repair of these kinds helps.
Result<std::vector<NpuFault>> rehearse_npu(const NpuProgram& program);

// Repairs what rehearse_npu() finds, and returns it. Positions, in the faults and in layer_of_operation, are those of
// the repaired stream. Nothing found, or an Error: nothing changed.
Result<std::vector<NpuFault>> repair_npu(NpuProgram& program);

// What a copy of bytes costs that puts weights in order: so much for itself, and for each byte.
struct CopyCycles {
  double each = 0, element = 0;
};

// Writes the weights of `products` into a stream that regor made with room for them (stream/computed_weights.h), and
// what that costs into the estimates. An Error: an operation is not what was expected, and the program is of no use.
Result<void> write_computed_weights(NpuProgram& program, std::span<const ComputedWeights> products,
                                    const CopyCycles& cycles);

// Of weights that several operations fetch from flash or DRAM, brings into SRAM what saves cycles by the estimates, as
// long as the program takes no more than `sram_limit` bytes there; the operations read it in SRAM. No result changes;
// the estimates say what does. A stream that this cannot follow, or an Error: nothing changed.
Result<void> keep_weights(NpuProgram& program, int64_t sram_limit);

// Brings weights and scales into SRAM while earlier layers compute, where the program would wait for flash or DRAM
// later: into bytes that it does not use at that time; and, where that saves more, as long as it takes no more than
// `sram_limit` bytes, or than the SRAM has that is the NPU's alone. No result changes; the estimates say what does. A
// stream that this cannot follow, or an Error: nothing changed.
Result<void> prefetch_weights(NpuProgram& program, std::optional<int64_t> sram_limit);

}  // namespace swoop
