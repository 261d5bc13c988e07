// Weights that several operations read, brought into SRAM by one transfer at the start of the stream. regor
// encodes shared weights once, but lets each operation fetch them from flash: an unrolled LSTM waits for them in every
// step.
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
    if (has_branches(commands) || !traffic_.known()) return {};
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
      if (reads_weights(command)) {
        const Constants constants = stream.constants();
        if (!constants.weights.empty()) users_[constants.weights].push_back(command.position);
        if (const auto layer = layer_of_.find(command.position); layer != layer_of_.end())
          reads_.add(layer->second, constants);
      }
      stream.write(command, sram_);
    }
  }

  // ---- what it costs

  // By layer, what is read in SRAM when these are there.
  std::map<uint32_t, Moved> moved(const Pieces& pieces) const {
    std::map<uint32_t, Moved> moved;
    for (uint32_t user : users_.at(pieces))
      if (const auto layer = layer_of_.find(user); layer != layer_of_.end())
        moved[layer->second] = moved[layer->second] + reads_.weights(layer->second, pieces);
    return moved;
  }

  // With the scales in SRAM too, before and after: prefetch_weights() brings those, step by step.
  int64_t saved_cycles(const Pieces& pieces) const {
    int64_t cycles = -traffic_.transfer_cycles(bytes_of(pieces));
    for (const auto& [at, share] : moved(pieces)) {
      const Layer& layer = estimates_.layers[at];
      const Moved scales{0, share.weights, 0};
      cycles += traffic_.estimate(layer, scales).cycles - traffic_.estimate(layer, share + scales).cycles;
    }
    return cycles;
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
      const auto kept = reads_weights(command) ? kept_.find(stream.constants().weights) : kept_.end();
      Places places;
      if (kept != kept_.end()) add_places(places, kept->first, kept->second);
      stream.write(command, sram_, places);
    }
    stream.finish(program_);
  }

  // ---- the figures

  void account() {
    int64_t operations = 0, brought = 0, read = 0;
    std::vector<Layer> layers = estimates_.layers;
    std::map<uint32_t, Moved> all;
    std::map<uint32_t, int64_t> waits;
    for (const auto& [pieces, place] : kept_) {
      const std::vector<uint32_t>& users = users_.at(pieces);
      operations += static_cast<int64_t>(users.size());
      brought += bytes_of(pieces);
      read += bytes_of(pieces) * static_cast<int64_t>(users.size());
      for (const auto& [layer, share] : moved(pieces)) all[layer] = all[layer] + share;
      if (const auto first = layer_of_.find(users.front()); first != layer_of_.end())
        waits[first->second] += traffic_.transfer_cycles(bytes_of(pieces));
    }
    for (const auto& [layer, share] : all) layers[layer] = traffic_.estimate(layers[layer], share);
    for (const auto& [layer, cycles] : waits) layers[layer].cycles += cycles;
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
  LayerReads reads_;
  std::map<Pieces, int64_t> kept_;  // where, in SRAM
};

}  // namespace

Result<void> keep_weights(NpuProgram& program, int64_t sram_limit) {
  const std::optional<SramArea> sram = sram_area(program);
  if (!sram) return {};
  return Keeper(program, *sram, std::min(sram_limit, program.estimates->arena_cache_size)).run();
}

}  // namespace swoop
