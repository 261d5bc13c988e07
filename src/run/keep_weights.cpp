// Weights that several operations read, brought into SRAM by one transfer at the start of the stream. regor encodes
// shared weights once, but lets each operation fetch them from flash: an unrolled LSTM waits for them in every step.
#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "run/rewrite.h"

namespace swoop {

using namespace ethos;

namespace {

constexpr Cmd kBases[] = {Cmd::WEIGHT_BASE, Cmd::WEIGHT1_BASE, Cmd::WEIGHT2_BASE, Cmd::WEIGHT3_BASE};
constexpr Cmd kLengths[] = {Cmd::WEIGHT_LENGTH, Cmd::WEIGHT1_LENGTH, Cmd::WEIGHT2_LENGTH, Cmd::WEIGHT3_LENGTH};
constexpr Cmd kTransfer[] = {Cmd::DMA0_SRC_REGION, Cmd::DMA0_DST_REGION, Cmd::DMA0_SRC, Cmd::DMA0_DST, Cmd::DMA0_LEN};
constexpr int64_t kAlignment = 16;    // of where the NPU reads weights
constexpr double kWorthwhile = 0.02;  // of all cycles: less is not worth the SRAM

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

bool reads_weights(const NpuCommand& command) {
  const Cmd id = static_cast<Cmd>(command.id);
  return id == Cmd::OP_CONV || id == Cmd::OP_DEPTHWISE;
}

bool is_place_of_weights(Cmd id) {
  return id == Cmd::WEIGHT_REGION || std::ranges::find(kBases, id) != std::end(kBases);
}

// The weights of an operation: one piece of the encoded bytes for each weight decoder.
struct Piece {
  size_t decoder = 0;
  int64_t base = 0;
  int64_t bytes = 0;
  bool operator<(const Piece& other) const {
    return std::tie(decoder, base, bytes) < std::tie(other.decoder, other.base, other.bytes);
  }
};
using Pieces = std::vector<Piece>;

int64_t bytes_of(const Pieces& pieces) {
  int64_t bytes = 0;
  for (const Piece& piece : pieces) bytes += aligned(piece.bytes);
  return bytes;
}

Pieces read_pieces(Registers& registers, size_t decoders) {
  Pieces pieces;
  for (size_t i = 0; i < decoders; ++i) {
    if (!registers.is_set(kLengths[i]) || !registers.is_set(kBases[i])) continue;
    const Piece piece{i, registers.address(kBases[i]), static_cast<int64_t>(registers.payload(kLengths[i]))};
    if (piece.bytes > 0) pieces.push_back(piece);
  }
  return pieces;
}

class Keeper {
 public:
  Keeper(NpuProgram& program, int64_t sram_limit)
      : program_(program), estimates_(*program.estimates), limit_(sram_limit) {
    for (const StreamOperation& operation : program.layer_of_operation) layer_of_[operation.position] = operation.layer;
    const bool dedicated = estimates_.feature_map_memory != NpuMemory::Sram;
    region_ = dedicated ? program.scratch_fast_region : program.scratch_region;
    end_ = static_cast<int64_t>(dedicated ? program.scratch_fast_size.value_or(0) : program.scratch_size);
  }

  Result<void> run() {
    TRY_ASSIGN(DriverPayload payload, parse_payload(program_.commands));
    decoders_ = static_cast<size_t>(payload.config.cores);
    counts_rows_ = by_encoding(payload.config.target->facts().encoding, false, true);
    TRY_ASSIGN(std::vector<NpuCommand> commands, decode_commands(payload));
    if (!find_users(commands) || !choose()) return {};
    StreamWriter writer(program_.commands, payload.stream);
    write(commands, writer);
    program_.commands = writer.payload();
    for (StreamOperation& operation : program_.layer_of_operation)
      operation.position = writer.moved(operation.position);
    account();
    return {};
  }

 private:
  // False: a stream that this cannot follow.
  bool find_users(const std::vector<NpuCommand>& commands) {
    Registers registers;
    bool transfers = false;
    for (const NpuCommand& command : commands) {
      const Cmd id = static_cast<Cmd>(command.id);
      if (id == Cmd::OP_BRANCH) return false;  // an operation may be met on several ways
      if (!command_info(id).starts_work) registers.set(id, command.parameter, command.payload);
      // The registers of transfers are ours until regor's first one, which has to set them all.
      if (id == Cmd::OP_DMA_START && !std::exchange(transfers, true))
        if (!std::ranges::all_of(kTransfer, [&](Cmd needed) { return registers.is_set(needed); }) ||
            (counts_rows_ && !registers.is_set(Cmd::DMA0_SIZE0)))
          return false;
      if (reads_weights(command) && registers.is_set(Cmd::WEIGHT_REGION) &&
          static_cast<int>(registers.parameter(Cmd::WEIGHT_REGION)) == program_.weight_region)
        users_[read_pieces(registers, decoders_)].push_back(command.position);
    }
    return true;
  }

  // ---- what it costs

  // As all that the program reads and writes there.
  int64_t access_cycles(NpuMemory memory, int64_t bytes) const {
    const std::optional<MemoryEstimate>& use = estimates_.memory(memory);
    if (!use || use->total_bytes == 0) return 0;
    return std::llround(static_cast<double>(bytes) * static_cast<double>(use->access_cycles) /
                        static_cast<double>(use->total_bytes));
  }

  // Nothing is overlapped with it: it waits for flash and then for SRAM.
  int64_t transfer_cycles(int64_t bytes) const {
    return access_cycles(estimates_.weights_memory, bytes) + access_cycles(NpuMemory::Sram, bytes);
  }

  // With so many bytes of its weights in SRAM.
  Layer moved(Layer layer, int64_t bytes) const {
    int64_t& slow = layer.access_cycles[static_cast<size_t>(estimates_.weights_memory)];
    slow = std::max<int64_t>(0, slow - access_cycles(estimates_.weights_memory, bytes));
    layer.access_cycles[static_cast<size_t>(NpuMemory::Sram)] += access_cycles(NpuMemory::Sram, bytes);
    layer.cycles = std::max(layer.npu_cycles, std::ranges::max(layer.access_cycles));
    return layer;
  }

  std::map<uint32_t, int64_t> bytes_by_layer(const Pieces& pieces) const {
    std::map<uint32_t, int64_t> bytes;
    for (uint32_t user : users_.at(pieces))
      if (const auto layer = layer_of_.find(user); layer != layer_of_.end()) bytes[layer->second] += bytes_of(pieces);
    return bytes;
  }

  int64_t saved_cycles(const Pieces& pieces) const {
    int64_t cycles = -transfer_cycles(bytes_of(pieces));
    for (const auto& [layer, bytes] : bytes_by_layer(pieces))
      cycles += estimates_.layers[layer].cycles - moved(estimates_.layers[layer], bytes).cycles;
    return cycles;
  }

  // Those that save most per byte, as long as there is room. False: nothing is worth it.
  bool choose() {
    std::vector<std::pair<int64_t, const Pieces*>> worth;  // cycles that it saves
    for (const auto& [pieces, users] : users_)
      if (const int64_t saved = users.size() > 1 && !pieces.empty() ? saved_cycles(pieces) : 0; saved > 0)
        worth.emplace_back(saved, &pieces);
    std::ranges::stable_sort(worth, std::greater(), [](const auto& one) {
      return static_cast<double>(one.first) / static_cast<double>(bytes_of(*one.second));
    });
    int64_t place = aligned(end_), saved = 0;
    for (const auto& [cycles, pieces] : worth) {
      if (estimates_.sram_bytes() + place - end_ + bytes_of(*pieces) > limit_) continue;
      kept_.emplace(*pieces, place);
      place += bytes_of(*pieces);
      saved += cycles;
    }
    grown_ = place - end_;
    return static_cast<double>(saved) >= kWorthwhile * static_cast<double>(estimates_.total_cycles) && saved > 0;
  }

  // ---- the stream

  void write(const std::vector<NpuCommand>& commands, StreamWriter& writer) const {
    for (const auto& [pieces, place] : kept_) {
      int64_t to = place;
      for (const Piece& piece : pieces) {
        writer.add(Cmd::DMA0_SRC_REGION, static_cast<uint16_t>(program_.weight_region));
        writer.add(Cmd::DMA0_DST_REGION, static_cast<uint16_t>(region_));
        writer.add_address(Cmd::DMA0_SRC, piece.base);
        writer.add_address(Cmd::DMA0_DST, to);
        writer.add_address(Cmd::DMA0_LEN, piece.bytes);
        if (counts_rows_) writer.add(Cmd::DMA0_SIZE0, 1);
        writer.add(Cmd::OP_DMA_START, 0);
        writer.add(Cmd::OP_DMA_WAIT, 0);
        to += aligned(piece.bytes);
      }
    }
    Registers registers;  // as regor sets them
    Registers written;
    for (const NpuCommand& command : commands) {
      const Cmd id = static_cast<Cmd>(command.id);
      if (!command_info(id).starts_work) registers.set(id, command.parameter, command.payload);
      if (is_place_of_weights(id)) continue;  // it is set before the operation that reads them
      if (reads_weights(command)) set_place(registers, written, writer);
      writer.copy(command);
    }
  }

  void set_place(Registers& registers, Registers& written, StreamWriter& writer) const {
    if (!registers.is_set(Cmd::WEIGHT_REGION)) return;
    const auto region = static_cast<int>(registers.parameter(Cmd::WEIGHT_REGION));
    const Pieces pieces = read_pieces(registers, decoders_);
    const auto kept = region == program_.weight_region ? kept_.find(pieces) : kept_.end();
    const bool is_kept = kept != kept_.end();
    int64_t place = is_kept ? kept->second : 0;
    set(Cmd::WEIGHT_REGION, is_kept ? region_ : region, written, writer);
    for (const Piece& piece : pieces) {
      set(kBases[piece.decoder], is_kept ? place : piece.base, written, writer);
      place += aligned(piece.bytes);
    }
  }

  static void set(Cmd id, int64_t value, Registers& written, StreamWriter& writer) {
    const bool wide = command_info(id).wide;
    if (written.is_set(id) && (wide ? written.address(id) : int64_t{written.parameter(id)}) == value) return;
    const auto parameter = static_cast<uint16_t>(wide ? value >> 32 : value);
    written.set(id, parameter, static_cast<uint32_t>(value));
    writer.add(id, parameter, static_cast<uint32_t>(value));
  }

  // ---- the figures

  void account() {
    int64_t operations = 0, brought = 0, read = 0;
    std::map<uint32_t, int64_t> in_sram, transferred;  // bytes, by layer
    for (const auto& [pieces, place] : kept_) {
      const std::vector<uint32_t>& users = users_.at(pieces);
      operations += static_cast<int64_t>(users.size());
      brought += bytes_of(pieces);
      read += bytes_of(pieces) * static_cast<int64_t>(users.size());
      for (const auto& [layer, bytes] : bytes_by_layer(pieces)) in_sram[layer] += bytes;
      if (const auto first = layer_of_.find(users.front()); first != layer_of_.end())
        transferred[first->second] += bytes_of(pieces);
    }
    std::vector<Layer> layers = estimates_.layers;
    for (const auto& [layer, bytes] : in_sram) layers[layer] = moved(layers[layer], bytes);
    for (const auto& [layer, bytes] : transferred) layers[layer].cycles += transfer_cycles(bytes);
    int64_t cycles = estimates_.total_cycles;
    for (size_t i = 0; i < layers.size(); ++i) {
      cycles += layers[i].cycles - estimates_.layers[i].cycles;
      layers[i].staging_bytes += grown_;
      const int64_t possible = layers[i].cycles * estimates_.macs_per_cycle;
      if (possible > 0) layers[i].utilisation = static_cast<double>(layers[i].macs) / static_cast<double>(possible);
    }
    const int64_t slow_cycles = access_cycles(estimates_.weights_memory, read - brought);
    const int64_t sram_cycles = access_cycles(NpuMemory::Sram, read + brought);

    MemoryEstimate& slow = *estimates_.memories[static_cast<size_t>(estimates_.weights_memory)];
    slow.access_cycles -= slow_cycles;
    slow.weight_read_bytes -= read - brought;
    slow.total_bytes -= read - brought;
    MemoryEstimate& sram = *estimates_.memories[static_cast<size_t>(NpuMemory::Sram)];
    sram.bytes_used += grown_;
    sram.access_cycles += sram_cycles;
    sram.weight_read_bytes += read;
    sram.weight_write_bytes += brought;
    sram.total_bytes += read + brought;
    if (estimates_.staging_memory == NpuMemory::Sram) estimates_.staging_peak_bytes += grown_;
    estimates_.layers = std::move(layers);
    estimates_.kept = {brought, operations, std::exchange(estimates_.total_cycles, cycles)};
    estimates_.inference_ms = 1e3 * static_cast<double>(cycles) / estimates_.clock_hz;
    if (region_ == program_.scratch_region)
      program_.scratch_size += static_cast<uint64_t>(grown_);
    else
      program_.scratch_fast_size = program_.scratch_fast_size.value_or(0) + static_cast<uint64_t>(grown_);
  }

  NpuProgram& program_;
  Estimates& estimates_;
  int64_t limit_;
  int region_ = 0;     // of the SRAM
  int64_t end_ = 0;    // of what regor uses there
  int64_t grown_ = 0;  // by what is kept
  size_t decoders_ = 1;
  bool counts_rows_ = false;                       // a transfer of the U85 has a number of rows, even of one
  std::map<uint32_t, uint32_t> layer_of_;          // by operation
  std::map<Pieces, std::vector<uint32_t>> users_;  // operations, as words
  std::map<Pieces, int64_t> kept_;                 // where, in SRAM
};

}  // namespace

Result<void> keep_weights(NpuProgram& program, int64_t sram_limit) {
  if (!program.estimates) return {};
  const Estimates& estimates = *program.estimates;
  const bool has_sram = estimates.feature_map_memory == NpuMemory::Sram || estimates.staging_memory == NpuMemory::Sram;
  if (!has_sram || estimates.weights_memory == NpuMemory::Sram) return {};
  if (!estimates.memory(NpuMemory::Sram) || !estimates.memory(estimates.weights_memory)) return {};
  return Keeper(program, std::min(sram_limit, estimates.arena_cache_size)).run();
}

}  // namespace swoop
