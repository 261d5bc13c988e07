// Weights that several operations read, brought into SRAM by one transfer at the start of the stream. regor encodes
// shared weights once, but lets each operation fetch them from flash: an unrolled LSTM waits for them in every step.
#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "run/weight_moves.h"

namespace swoop {

using namespace ethos;

namespace {

constexpr double kWorthTheSram = 0.02;  // of all cycles: less is not worth the SRAM

class Keeper {
 public:
  Keeper(NpuProgram& program, const SramArea& sram, int64_t sram_limit)
      : program_(program),
        estimates_(*program.estimates),
        sram_(sram),
        traffic_(estimates_),
        limit_(sram_limit),
        layer_of_(layers_by_operation(program)) {}

  Result<void> run() {
    TRY_ASSIGN(DriverPayload payload, parse_payload(program_.commands));
    TRY_ASSIGN(std::vector<NpuCommand> commands, decode_commands(payload));
    if (has_branches(commands)) return {};
    find_users(commands, payload);
    if (!choose()) return {};
    write(commands, payload);
    account();
    return {};
  }

 private:
  void find_users(const std::vector<NpuCommand>& commands, const DriverPayload& payload) {
    MovedStream stream(payload, program_);
    for (const NpuCommand& command : commands) {
      if (reads_weights(command))
        if (const Pieces pieces = stream.pieces(); !pieces.empty()) users_[pieces].push_back(command.position);
      stream.write(command, sram_);
    }
  }

  // ---- what it costs

  // Nothing is overlapped with it: it waits for flash and then for SRAM.
  int64_t transfer_cycles(int64_t bytes) const { return traffic_.slow_cycles(bytes) + traffic_.sram_cycles(bytes); }

  BytesByLayer bytes_by_layer(const Pieces& pieces) const {
    BytesByLayer bytes;
    for (uint32_t user : users_.at(pieces))
      if (const auto layer = layer_of_.find(user); layer != layer_of_.end()) bytes[layer->second] += bytes_of(pieces);
    return bytes;
  }

  int64_t saved_cycles(const Pieces& pieces) const {
    return traffic_.saved_cycles(estimates_.layers, bytes_by_layer(pieces)) - transfer_cycles(bytes_of(pieces));
  }

  // Those that save most per byte, as long as there is room. False: nothing is worth it.
  bool choose() {
    std::vector<std::pair<int64_t, const Pieces*>> worth;  // cycles that it saves
    for (const auto& [pieces, users] : users_)
      if (const int64_t saved = users.size() > 1 ? saved_cycles(pieces) : 0; saved > 0)
        worth.emplace_back(saved, &pieces);
    std::ranges::stable_sort(worth, std::greater(), [](const auto& one) {
      return static_cast<double>(one.first) / static_cast<double>(bytes_of(*one.second));
    });
    int64_t place = aligned(sram_.end), saved = 0;
    for (const auto& [cycles, pieces] : worth) {
      if (estimates_.sram_bytes() + place - sram_.end + bytes_of(*pieces) > limit_) continue;
      kept_.emplace(*pieces, place);
      place += bytes_of(*pieces);
      saved += cycles;
    }
    grown_ = place - sram_.end;
    return static_cast<double>(saved) >= kWorthTheSram * static_cast<double>(estimates_.total_cycles) && saved > 0;
  }

  void write(const std::vector<NpuCommand>& commands, const DriverPayload& payload) {
    MovedStream stream(payload, program_);
    for (const auto& [pieces, place] : kept_) {
      stream.add_transfers(pieces, sram_, place, 0, bytes_of(pieces));
      stream.add_wait(Cmd::OP_DMA_WAIT, 0);
    }
    for (const NpuCommand& command : commands) {
      const auto kept = reads_weights(command) ? kept_.find(stream.pieces()) : kept_.end();
      stream.write(command, sram_, kept != kept_.end() ? std::optional(kept->second) : std::nullopt);
    }
    stream.finish(program_);
  }

  // ---- the figures

  void account() {
    int64_t operations = 0, brought = 0, read = 0;
    BytesByLayer in_sram, transferred;
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
    for (const auto& [layer, bytes] : in_sram) traffic_.read_in_sram(layers[layer], bytes);
    for (const auto& [layer, bytes] : transferred) layers[layer].cycles += transfer_cycles(bytes);
    for (Layer& layer : layers) layer.staging_bytes += grown_;
    traffic_.account(estimates_, read, brought);
    sram_.grow(program_, grown_);
    estimates_.kept = {brought, operations, estimates_.total_cycles};
    replace_layers(estimates_, std::move(layers));
  }

  NpuProgram& program_;
  Estimates& estimates_;
  const SramArea sram_;
  const WeightTraffic traffic_;
  int64_t limit_;
  int64_t grown_ = 0;                              // by what is kept
  std::map<uint32_t, uint32_t> layer_of_;          // by operation
  std::map<Pieces, std::vector<uint32_t>> users_;  // operations, as words
  std::map<Pieces, int64_t> kept_;                 // where, in SRAM
};

}  // namespace

Result<void> keep_weights(NpuProgram& program, int64_t sram_limit) {
  const std::optional<SramArea> sram = sram_area(program);
  if (!sram) return {};
  return Keeper(program, *sram, std::min(sram_limit, program.estimates->arena_cache_size)).run();
}

}  // namespace swoop
