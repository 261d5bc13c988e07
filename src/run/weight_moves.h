// Weights that operations read in SRAM instead of where regor put them: what keep_weights.cpp and prefetch_weights.cpp
// share. The registers, the transfers and the estimates. Scales stay: regor's estimate counts them in flash even where
// its own transfers bring them.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "run/rewrite.h"

namespace swoop::ethos {

constexpr int64_t kWeightAlignment = 16;  // of where the NPU reads them
inline int64_t aligned(int64_t bytes) { return (bytes + kWeightAlignment - 1) / kWeightAlignment * kWeightAlignment; }

// A run of encoded bytes that an operation reads: the weights of one decoder.
struct Piece {
  int64_t from = 0;
  int64_t bytes = 0;
  Cmd base = Cmd::WEIGHT_BASE;  // the register that names it
  bool operator<(const Piece& other) const {
    return std::tie(from, bytes, base) < std::tie(other.from, other.bytes, other.base);
  }
};
using Pieces = std::vector<Piece>;  // by address, each of a multiple of the alignment
int64_t bytes_of(const Pieces& pieces);

bool reads_weights(const NpuCommand& command);
bool has_branches(const std::vector<NpuCommand>& commands);  // then an operation may be met on several ways
std::map<uint32_t, uint32_t> layers_by_operation(const NpuProgram& program);
using BytesByLayer = std::map<uint32_t, int64_t>;

// The SRAM that a program's feature maps are in, or the dedicated one.
struct SramArea {
  int region = 0;
  int64_t end = 0;                                      // of what regor uses there
  void grow(NpuProgram& program, int64_t bytes) const;  // at its end, and what the estimates say of it
};

// nullopt: weights are in SRAM already, or nothing is.
std::optional<SramArea> sram_area(const NpuProgram& program);

// What regor's estimate becomes when bytes are read elsewhere: each memory at the speed that it has in the rest of the
// program. A layer takes what its slowest part takes, as in regor.
class WeightTraffic {
 public:
  explicit WeightTraffic(const Estimates& estimates);
  int64_t slow_cycles(int64_t bytes) const;  // of flash or DRAM
  int64_t sram_cycles(int64_t bytes) const;
  int64_t slow_bytes(int64_t cycles) const;  // that it brings in so many cycles

  int64_t& slow_of(Layer& layer) const { return layer.access_cycles[static_cast<size_t>(memory_)]; }
  void read_in_sram(Layer& layer, int64_t bytes) const;  // of its weights
  void transfer_during(Layer& layer, int64_t bytes) const;
  static void settle(Layer& layer);                                                        // its cycles, by its parts
  int64_t saved_cycles(const std::vector<Layer>& layers, const BytesByLayer& read) const;  // were that read in SRAM

  // `read` bytes in SRAM that were read in the slow memory, and `brought` by transfers.
  void account(Estimates& estimates, int64_t read, int64_t brought) const;

 private:
  static double cycles_per_byte(const Estimates& estimates, NpuMemory memory);

  NpuMemory memory_;
  double slow_, sram_;  // cycles per byte
};

// Layers as they are now, and the totals that follow from them.
void replace_layers(Estimates& estimates, std::vector<Layer> layers);

// Writes a stream again. Registers that name places of weights, and those of transfers, are set when an operation needs
// them, so that commands of our own may use them in between.
class MovedStream {
 public:
  MovedStream(const DriverPayload& payload, const NpuProgram& program);

  // What an operation about to be written reads in the slow memory, as regor's registers name it; empty: nothing.
  Pieces pieces();

  // A register is remembered; an operation is written, with its weights at `place` in SRAM where that is given.
  void write(const NpuCommand& command, const SramArea& sram, std::optional<int64_t> place = {});

  // [first, last) of the pieces, laid out one after the other, to `place` and on.
  void add_transfers(const Pieces& pieces, const SramArea& sram, int64_t place, int64_t first, int64_t last);
  void add_wait(Cmd wait, uint16_t allowed) { writer_.add(wait, allowed); }

  void finish(NpuProgram& program) const;  // its commands, and the positions of its operations

 private:
  bool deferred(Cmd id) const;
  void set(Cmd id, int64_t value);
  void set_as_read(Cmd id, std::optional<int64_t> instead = {});

  const NpuProgram& program_;
  size_t decoders_;
  bool counts_rows_;     // a transfer of the U85 has a number of rows, even of one
  Registers registers_;  // as regor sets them
  Registers written_;
  StreamWriter writer_;
};

}  // namespace swoop::ethos
