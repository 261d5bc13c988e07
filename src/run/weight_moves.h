// Weights and scales that operations read in SRAM instead of where regor put them: what keep_weights.cpp and
// prefetch_weights.cpp share. The registers, the transfers and the estimates.
#pragma once

#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "run/rewrite.h"

namespace swoop::ethos {

constexpr int64_t kWeightAlignment = 16;  // of where the NPU reads them
inline int64_t aligned(int64_t bytes) { return (bytes + kWeightAlignment - 1) / kWeightAlignment * kWeightAlignment; }

// A run of encoded bytes that an operation reads: the weights of one decoder, or scales.
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

// What an operation reads in the slow memory; either may be empty. Scales are few bytes, but each block of a result
// waits for its own. Operations that share weights need not share scales.
struct Constants {
  Pieces weights, scales;
};

// Where they are, by register.
using Places = std::map<Cmd, int64_t>;
void add_places(Places& places, const Pieces& pieces, int64_t place);  // one after the other

bool reads_weights(const NpuCommand& command);
bool has_branches(const std::vector<NpuCommand>& commands);  // then an operation may be met on several ways
std::map<uint32_t, uint32_t> layers_by_operation(const NpuProgram& program);

// The SRAM that a program's feature maps are in, or the dedicated one.
struct SramArea {
  int region = 0;
  int64_t end = 0;                                      // of what regor uses there
  void grow(NpuProgram& program, int64_t bytes) const;  // at its end, and what the estimates say of it
};

// nullopt: weights are in SRAM already, or nothing is.
std::optional<SramArea> sram_area(const NpuProgram& program);

// What became of a layer's reads.
struct Moved {
  double weights = 0, scales = 0;  // the share that is read in SRAM
  int64_t transferred = 0;         // bytes that come meanwhile, for others

  Moved operator+(const Moved& more) const {
    return {weights + more.weights, scales + more.scales, transferred + more.transferred};
  }
};

// The bytes that the operations of each layer read, and which share of it one operation's are.
class LayerReads {
 public:
  void add(uint32_t layer, const Constants& constants);
  Moved weights(uint32_t layer, const Pieces& pieces) const { return {part(weights_, layer, pieces), 0, 0}; }
  Moved scales(uint32_t layer, const Pieces& pieces) const { return {0, part(scales_, layer, pieces), 0}; }

 private:
  using Bytes = std::map<uint32_t, int64_t>;
  static double part(const Bytes& all, uint32_t layer, const Pieces& pieces);
  Bytes weights_, scales_;
};

// Cycles for a byte in SRAM, at the speed that it has in the rest of the program; 0: it is not used.
double sram_cycles_per_byte(const Estimates& estimates);

// What regor's estimate becomes when bytes are read elsewhere. A layer takes what its slowest part takes, as in regor.
class WeightTraffic {
 public:
  explicit WeightTraffic(const Estimates& estimates);
  bool known() const { return transfer_ > 0; }
  bool channels_apart() const { return apart_; }
  int64_t transfer_cycles(int64_t bytes) const;  // from the slow memory
  int64_t transfer_bytes(int64_t cycles) const;  // that come in so many cycles
  int64_t slow_of(const Layer& layer) const { return layer.access_cycles[static_cast<size_t>(memory_)]; }
  Layer estimate(Layer layer, const Moved& moved) const;

  // `read` bytes in SRAM that were read in the slow memory, and `brought` by transfers.
  void account(Estimates& estimates, int64_t read, int64_t brought) const;

 private:
  NpuMemory memory_;
  bool apart_;
  double latency_, transfer_, sram_;  // cycles; the last two per byte
};

// The cycles of a layer, by its parts.
int64_t slowest_part(const Layer& layer);

// Layers as they are now, and the totals that follow from them.
void replace_layers(Estimates& estimates, std::vector<Layer> layers);

// Writes a stream again. Registers that name places of weights, and those of transfers, are set when an operation needs
// them, so that commands of our own may use them in between.
class MovedStream {
 public:
  MovedStream(const DriverPayload& payload, const NpuProgram& program);

  // What an operation about to be written reads in the slow memory, as regor's registers name it.
  Constants constants();

  // A register is remembered; an operation is written, with what has a place in SRAM read there.
  void write(const NpuCommand& command, const SramArea& sram, const Places& places = {});

  // [first, last) of the pieces, laid out one after the other, to `place` and on.
  void add_transfers(const Pieces& pieces, const SramArea& sram, int64_t place, int64_t first, int64_t last);
  void add_wait(Cmd wait, uint16_t allowed) { writer_.add(wait, allowed); }

  void finish(NpuProgram& program) const;  // its commands, and the positions of its operations

 private:
  Pieces pieces(Cmd region, std::span<const StreamRegisters> streams);
  bool deferred(Cmd id) const;
  void set(Cmd id, int64_t value);
  void set_as_read(Cmd id, std::optional<int64_t> instead = {});

  const NpuProgram& program_;
  size_t decoders_, scale_streams_;
  bool counts_rows_;     // a transfer of the U85 has a number of rows, even of one
  Registers registers_;  // as regor sets them
  Registers written_;
  StreamWriter writer_;
};

}  // namespace swoop::ethos
