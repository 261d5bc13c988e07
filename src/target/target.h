// The NPUs: their names and sizes, and one row of facts per family. Rules, limits, npu/, run/ and driver/ ask for the
// fact they mean (`facts.has_resize`) and never for a family, so that a new one cannot pass for an old one.
// Invariant: the families are named in this room alone (tools/check_rooms.py), and a new one does not compile until
// every line of facts.def has its value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "support/result.h"

namespace swoop {

enum class NpuFamily { U55, U65, U85 };

// How a command stream and its weights are written, by the first core that has it. A reader (run/) switches over it
// without `default`.
enum class NpuEncoding { U55, U85 };

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

struct NpuFacts {
#define FACT(type, name, u55, u65, u85) type name;
#include "target/facts.def"
#undef FACT
};

const NpuFacts& facts_of(NpuFamily family);

// [heads, rows, depth] by [heads, depth, channels], both computed.
struct MatrixProduct {
  int64_t heads = 1, rows = 1, depth = 1, channels = 1;
};

struct NpuTarget {
  std::string_view name;  // "ethos-u55-128"
  NpuFamily family;
  int macs;                   // per cycle, all cores together: the number in the name
  int cores;                  // 2 for ethos-u65-512, else 1
  bool plain_stream = false;  // as asked for: the NPU writes no weights itself
  int64_t staging_bytes = 0;  // of SRAM for feature maps, where those are in DRAM; 0: they are in SRAM

  const NpuFacts& facts() const { return facts_of(family); }

  // Outputs that the MAC array of a U55 or U65 computes at once.
  int microblock_outputs() const { return macs == 32 ? 4 : 8; }

  // Whether any product of two computed matrices can be a convolution. Two cores would need two streams of weights.
  bool can_write_weights() const { return facts().matmul_by_columns && cores == 1 && !plain_stream; }

  // Whether such a product is a convolution whose weights the NPU writes itself (stream/computed_weights.h).
  bool writes_weights(const MatrixProduct& product) const;
};

// All of them, in the order of their names and sizes.
std::span<const NpuTarget> npu_targets();

// The families of npu_targets(), each once.
std::vector<NpuFamily> npu_families();

// The error lists the known names.
Result<NpuTarget> parse_target(std::string_view name);

}  // namespace swoop
