// The finished NPU program as a type: what regor made of one region, the block format in which the device runtime finds
// it inside a .pte (executorch's `vela_bin_stream`), and its estimated cost.
// Why here: npu/ makes it, emit/, run/ and report/ read it, and none of them may see another.
// Invariants: an NpuProgram from compile_npu() or unpack() has every tensor inside its memory area; a figure nobody
// knows is nullopt.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/bytes.h"
#include "support/result.h"

namespace swoop {

// ---- estimates ----

// The memories a vela.ini can name.
enum class NpuMemory { Sram, Dram, OnChipFlash, OffChipFlash };
constexpr size_t kNpuMemoryCount = 4;
std::string_view memory_name(NpuMemory memory);  // "Sram", ... as in vela.ini

struct MemoryEstimate {
  int64_t bytes_used = 0;     // peak; what Vela's summary calls <memory>_memory_used
  int64_t access_cycles = 0;  // cycles_<memory>_access
  int64_t feature_map_read_bytes = 0;
  int64_t feature_map_write_bytes = 0;
  int64_t weight_read_bytes = 0;
  int64_t weight_write_bytes = 0;
  int64_t total_bytes = 0;  // all traffic, scales and look-up tables included
};

// Cycles that the weights' memory takes for a layer, by what is read there. Weights that regor brings into SRAM itself
// count as other things.
struct SlowReads {
  int64_t weight_cycles = 0;
  int64_t scale_cycles = 0;
  int64_t other_cycles = 0;
  int64_t weight_bytes = 0;      // with what is read more than once
  int64_t scale_npu_cycles = 0;  // of npu_cycles: each block waits until its scales have come
};

// One scheduled operation. Operations that are fused into or chained to another follow it with zero cycles.
struct Layer {
  std::string name;               // the TOSA tensor it writes
  std::string tosa_op;            // "CONV2D", as regor spells the source operator
  std::string npu_op;             // "Conv2D"
  std::optional<int> tosa_index;  // position of the source operator in its TOSA block
  int64_t cycles = 0;             // max of NPU cycles and the busiest memory
  int64_t npu_cycles = 0;
  int64_t macs = 0;
  int64_t staging_bytes = 0;                             // SRAM held while it runs
  std::array<int64_t, kNpuMemoryCount> access_cycles{};  // by NpuMemory
  SlowReads slow;
  double utilisation = 0;  // share of the MACs that could have been done in `cycles`, 0..1; 1 when cycles is 0
};

// Weights that operations read in SRAM, where regor's program reads them in flash or DRAM. Its estimate is changed by
// what the operations no longer wait for.
struct WeightsInSram {
  int64_t bytes = 0;
  int64_t operations = 0;     // that read them
  int64_t cycles_before = 0;  // of the whole program
};

struct Estimates {
  int64_t macs = 0;
  int64_t npu_cycles = 0;
  int64_t total_cycles = 0;
  double clock_hz = 0;
  double inference_ms = 0;
  std::array<std::optional<MemoryEstimate>, kNpuMemoryCount>
      memories;  // nullopt: the memory mode does not use this memory
  std::optional<NpuMemory> staging_memory;
  int64_t staging_peak_bytes = 0;  // of staging_memory, constants included when they share it
  int64_t arena_cache_size = 0;    // the limit the scheduler worked with
  NpuMemory weights_memory = NpuMemory::OffChipFlash;
  NpuMemory feature_map_memory = NpuMemory::Sram;
  int64_t original_weight_bytes = 0;
  int64_t encoded_weight_bytes = 0;
  int64_t operations = 0;  // scheduled, before and after cascading
  int64_t operations_after_cascading = 0;
  int macs_per_cycle = 0;
  double transfer_latency = 0;          // cycles until a transfer from weights_memory begins to arrive
  double transfer_cycles_per_byte = 0;  // then; 0: not known
  bool channels_apart = false;          // weights, scales and transfers do not wait for each other (U85)
  int64_t products = 0;                 // of two computed matrices, whose weights the NPU writes itself
  std::optional<WeightsInSram> kept;    // read again and again; transfers are counted in full, as if nothing ran beside
  std::optional<WeightsInSram> ahead;   // brought while earlier layers run, as far as those leave the memory idle
  std::vector<Layer> layers;            // in execution order

  const std::optional<MemoryEstimate>& memory(NpuMemory which) const { return memories[static_cast<size_t>(which)]; }
  int64_t sram_bytes() const;  // 0 when SRAM is not used
  int64_t dram_bytes() const;
  int64_t flash_bytes() const;  // on-chip and off-chip
};

// The table of `vela --verbose-performance`, column for column and digit for digit.
std::string layers_csv(const Estimates& estimates);

// The totals as they travel in a .pte, as the delegate's compile spec kEstimatesKey:
// "swoop 0.1.0; total_cycles=1234; npu_cycles=...; macs=...; sram_bytes=...; flash_bytes=...; dram_bytes=...".
constexpr std::string_view kEstimatesKey = "swoop";
struct EstimateFigures {
  std::string version;  // of the program that made the file
  int64_t total_cycles = 0;
  int64_t npu_cycles = 0;
  int64_t macs = 0;
  int64_t sram_bytes = 0;
  int64_t flash_bytes = 0;
  int64_t dram_bytes = 0;
};
std::string estimates_text(const Estimates& estimates, std::string_view version);
// nullopt: not such a text, or a figure is missing. Figures that a later version adds are passed over.
std::optional<EstimateFigures> parse_estimates_text(std::string_view text);

// ---- layers ----

// An operation of a command stream, and the layer that it computes or is a part of.
struct StreamOperation {
  uint32_t position = 0;  // word of the NPU_OP_* command
  uint32_t layer = 0;     // index in a list of layers
  bool result = true;     // it writes the layer's result, or some of it; else something that the layer needs
  bool operator==(const StreamOperation&) const = default;
};

// One value of a region: where it came from, and what its bytes mean.
struct MappedLayer {
  struct Move {
    bool transpose = false;   // else a reshape
    std::vector<int64_t> to;  // perm or shape
    bool operator==(const Move&) const = default;
  };
  std::string name;                                 // of the exported node
  std::string op;                                   // "conv"
  std::string source;                               // "net.py:31"; may be empty
  std::string dtype = "i8";                         // "i8", "i16", "i32", ...
  std::vector<int64_t> shape;                       // as the NPU has it
  std::optional<std::pair<double, int64_t>> quant;  // scale and zero point; nullopt: plain integers
  std::string value;               // of the model, that it holds; empty: nothing that the model has a name for
  std::vector<Move> moves;         // that lead from the model's value to this one
  std::optional<uint32_t> inside;  // no operation writes it: the layer that it is computed in
  bool operator==(const MappedLayer&) const = default;
};

struct LayerMap {
  std::vector<MappedLayer> layers;          // in execution order
  std::vector<StreamOperation> operations;  // positions ascend
  bool operator==(const LayerMap&) const = default;
};

// As it travels in a .pte, as the delegate's compile spec kLayersKey: tables of what repeats, a column of numbers per
// field, deflated.
constexpr std::string_view kLayersKey = "swoop_layers";
std::string pack_layers(const LayerMap& map);  // empty when there is more than anybody would read
// The bytes may come from anywhere. Shapes are positive, moves keep the number of elements, indices are in range.
Result<LayerMap> unpack_layers(std::string_view bytes);

// ---- the program ----

struct NpuTensor {
  std::array<int32_t, 6> shape{1, 1, 1, 1, 1, 1};  // left-padded with 1
  int32_t elem_size = 1;                           // bytes
  int32_t region = 1;
  int64_t offset = 0;  // inside the region

  int64_t byte_size() const;
  bool operator==(const NpuTensor&) const = default;
};

// Which base address a region number means to the driver (base_addr[i] of ethosu_invoke).
constexpr int kWeightRegion = 0;
constexpr int kScratchRegion = 1;
constexpr int kScratchFastRegion = 2;

struct NpuProgram {
  Buffer commands;  // driver payload: "COP1", driver actions, then the register commands
  Buffer weights;   // encoded weights, scales and biases, look-up tables
  int weight_region = kWeightRegion;
  uint64_t scratch_size = 0;  // the arena; holds inputs and outputs
  int scratch_region = kScratchRegion;
  std::optional<uint64_t>
      scratch_fast_size;  // dedicated SRAM, 0 when none is used; the block format does not record it
  int scratch_fast_region = kScratchFastRegion;
  std::vector<NpuTensor> inputs;
  std::vector<NpuTensor> outputs;
  std::vector<NpuTensor> variables;
  std::optional<Estimates> estimates;               // nullopt after unpack()
  std::vector<StreamOperation> layer_of_operation;  // layer: of estimates->layers. In order; empty after unpack()
};

// That every input, output and variable is inside the arena. Holds for what compile_npu() and unpack() return.
Result<void> check_tensors(const NpuProgram& program);

// The bytes of the delegate in a .pte. Fails when a size does not fit the format's 32-bit fields, or when there are
// variables (the format has no place for them).
Result<Buffer> pack(const NpuProgram& program);

// The reverse, with every check of the device runtime and bounds for all of it; the bytes may come from anywhere and at
// any alignment.
Result<NpuProgram> unpack(Bytes blob);

}  // namespace swoop

#include "stream/computed_weights.h"
