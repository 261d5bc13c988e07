// Weights brought into SRAM before their turn, while earlier layers compute and flash has nothing to do. regor fetches
// ahead for the next operation at most: in MobileNetV2 flash idles for the first half and is waited for in the second.
//
// They go to bytes of the arena that hold nothing while the weights are there, and after its end as far as the caller
// allows. A transfer is cut into chunks that fit into the idle time of single operations, because regor's own transfers
// come after it.
#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "run/machine.h"
#include "run/weight_moves.h"

namespace swoop {

using namespace ethos;

namespace {

constexpr double kWorthTheCommands = 0.01;  // of all cycles
constexpr double kIdleUsed = 0.9;           // of the time in which flash idles: a device is not an estimate
constexpr int64_t kLeastChunk = 1024;       // bytes; each chunk is 40 bytes of commands
constexpr size_t kFarthest = 256;           // kernels: no weights are brought earlier
constexpr size_t kAfter = 2;                // kernels that may be under way when the next transfer begins

// Bytes [first, last) of the SRAM, none of them touching.
using Ranges = std::map<int64_t, int64_t>;

void add_range(Ranges& ranges, int64_t first, int64_t last) {
  auto at = ranges.upper_bound(first);
  if (at != ranges.begin() && std::prev(at)->second >= first) --at;
  while (at != ranges.end() && at->first <= last) {
    first = std::min(first, at->first);
    last = std::max(last, at->second);
    at = ranges.erase(at);
  }
  ranges[first] = last;
}

void add_ranges(Ranges& ranges, const Ranges& more) {
  for (const auto& [first, last] : more) add_range(ranges, first, last);
}

void remove_range(Ranges& ranges, int64_t first, int64_t last) {
  add_range(ranges, first, last);
  auto at = std::prev(ranges.upper_bound(first));
  const auto [begin, end] = *at;
  ranges.erase(at);
  if (begin < first) ranges[begin] = first;
  if (last < end) ranges[last] = end;
}

struct Kernel {
  uint32_t position = 0;
  std::optional<uint32_t> layer;
  bool ends = true;        // no chain goes on after it: a wait may follow
  int64_t slow_bytes = 0;  // that it reads itself, and that transfers bring until the next one
};

// Weights with all their readers, and what is planned for them.
struct Weights {
  Pieces pieces;
  std::vector<size_t> users;  // kernels
  size_t begin = 0;           // the kernel during which the first chunk comes
  std::optional<int64_t> place;
};

struct Chunk {
  const Weights* weights;
  int64_t first, last;  // bytes of its pieces
};

class Prefetcher {
 public:
  Prefetcher(NpuProgram& program, const SramArea& sram, int64_t most)
      : program_(program),
        estimates_(*program.estimates),
        sram_(sram),
        end_(sram.end + std::max<int64_t>(0, most - estimates_.sram_bytes())),
        traffic_(estimates_),
        layers_(estimates_.layers),
        waited_(estimates_.layers.size()),
        operations_(estimates_.layers.size()) {
    for (size_t i = 0; i < layers_.size(); ++i) {
      WeightTraffic::settle(layers_[i]);
      waited_[i] = estimates_.layers[i].cycles - layers_[i].cycles;  // for weights that are kept
    }
  }

  Result<void> run() {
    TRY_ASSIGN(DriverPayload payload, parse_payload(program_.commands));
    TRY_ASSIGN(std::vector<NpuCommand> commands, decode_commands(payload));
    if (has_branches(commands)) return {};
    TRY_ASSIGN(std::vector<OperationUse> uses, operation_uses(program_));
    find_kernels(commands, payload, uses);
    find_used(uses);
    choose();
    const int64_t cycles = planned_cycles();
    if (static_cast<double>(estimates_.total_cycles - cycles) <
        kWorthTheCommands * static_cast<double>(estimates_.total_cycles))
      return {};
    write(commands, payload);
    account();
    return {};
  }

 private:
  // ---- what there is

  void find_kernels(const std::vector<NpuCommand>& commands, const DriverPayload& payload,
                    const std::vector<OperationUse>& uses) {
    const std::map<uint32_t, uint32_t> layer_of = layers_by_operation(program_);
    std::map<Pieces, size_t> known;
    auto use = uses.begin();
    MovedStream stream(payload, program_);
    for (const NpuCommand& command : commands) {
      while (use != uses.end() && use->position < command.position) ++use;
      const bool here = use != uses.end() && use->position == command.position;
      if (here && !use->kernel && !kernels_.empty()) kernels_.back().slow_bytes += slow_bytes(*use);
      if (here && use->kernel) {
        Kernel& kernel = kernels_.emplace_back();
        kernel = {command.position, std::nullopt, !use->chained, slow_bytes(*use)};
        if (const auto layer = layer_of.find(command.position); layer != layer_of.end()) {
          kernel.layer = layer->second;
          ++operations_[layer->second];
        }
        const Pieces pieces = reads_weights(command) ? stream.pieces() : Pieces{};
        if (!pieces.empty()) {
          const auto [at, fresh] = known.try_emplace(pieces, weights_.size());
          if (fresh) weights_.push_back({pieces, {}, 0, std::nullopt});
          weights_[at->second].users.push_back(kernels_.size() - 1);
        }
      }
      stream.write(command, sram_);
    }
  }

  int64_t slow_bytes(const OperationUse& use) const {
    int64_t bytes = 0;
    for (const Access& access : use.accesses)
      if (access.range.region == program_.weight_region)
        bytes += static_cast<int64_t>(access.range.last - access.range.first);
    return bytes;
  }

  // What regor's program touches of the SRAM around each kernel, and what the kernel and those after it count on.
  void find_used(const std::vector<OperationUse>& uses) {
    Ranges live;
    auto stays = [&](const std::vector<NpuTensor>& tensors) {
      for (const NpuTensor& tensor : tensors)
        if (tensor.region == sram_.region) add_range(live, tensor.offset, tensor.offset + tensor.byte_size());
    };
    stays(program_.outputs);
    stays(program_.variables);
    touched_.resize(kernels_.size() + 1);
    live_.resize(kernels_.size() + 1);
    size_t kernel = kernels_.size();  // transfers belong to the kernel after them
    live_[kernel] = live;
    for (auto use = uses.rbegin(); use != uses.rend(); ++use) {
      if (use->kernel) --kernel;
      auto each = [&](auto visit) {
        for (const Access& access : use->accesses)
          if (access.range.region == sram_.region)
            visit(access, static_cast<int64_t>(access.range.first), static_cast<int64_t>(access.range.last));
      };
      each([&](const Access& access, int64_t first, int64_t last) {
        add_range(touched_[kernel], first, last);
        if (access.write && access.whole()) remove_range(live, first, last);
      });
      each([&](const Access& access, int64_t first, int64_t last) {
        if (!access.write || !access.whole()) add_range(live, first, last);  // around a gap, something may be kept
      });
      live_[kernel] = live;
    }
  }

  // ---- what is worth it

  static int64_t share(int64_t cycles, int64_t operations) { return cycles / std::max<int64_t>(1, operations); }

  // Bytes that can be brought while a kernel runs, beside what is brought already.
  int64_t idle_bytes(size_t at) {
    const Kernel& kernel = kernels_[at];
    if (!kernel.layer || !kernel.ends) return 0;
    Layer& layer = layers_[*kernel.layer];
    const int64_t operations = operations_[*kernel.layer];
    const int64_t by_layer = share(layer.cycles - traffic_.slow_of(layer), operations);
    const int64_t by_kernel = share(layer.cycles, operations) - traffic_.slow_cycles(kernel.slow_bytes);
    const double idle = kIdleUsed * static_cast<double>(std::min(by_layer, by_kernel));
    return idle <= 0 ? 0 : traffic_.slow_bytes(static_cast<int64_t>(idle)) / kWeightAlignment * kWeightAlignment;
  }

  // A place outside of `taken`, and of what other weights have between two kernels.
  std::optional<int64_t> find_place(Ranges taken, int64_t bytes, size_t begin, size_t end) const {
    for (const Weights& other : weights_)
      if (other.place && begin <= other.users.back() && other.begin <= end)
        add_range(taken, *other.place, *other.place + bytes_of(other.pieces));
    int64_t place = 0;
    for (const auto& [first, last] : taken) {
      if (place + bytes <= first) return place;
      place = std::max(place, aligned(last));
    }
    return place + bytes <= end_ ? std::optional(place) : std::nullopt;
  }

  // What the program touches while kernels `begin` to `end` are under way, and what it counts on afterwards.
  Ranges taken_between(size_t begin, size_t end) const {
    const size_t after = std::min(end + kAfter, kernels_.size());
    Ranges taken = live_[after];
    for (size_t at = begin; at <= after; ++at) add_ranges(taken, touched_[at]);
    return taken;
  }

  BytesByLayer bytes_by_layer(const Weights& weights) const {
    BytesByLayer bytes;
    for (size_t user : weights.users)
      if (kernels_[user].layer) bytes[*kernels_[user].layer] += bytes_of(weights.pieces);
    return bytes;
  }

  int64_t saved_cycles(const Weights& weights) const { return traffic_.saved_cycles(layers_, bytes_by_layer(weights)); }

  // Those that save most per byte first. What is read in SRAM leaves flash idle for others: until nothing is found.
  void choose() {
    std::vector<std::pair<double, Weights*>> open;  // cycles saved per byte
    for (Weights& weights : weights_)
      if (const int64_t saved = saved_cycles(weights); saved > 0)
        open.emplace_back(static_cast<double>(saved) / static_cast<double>(bytes_of(weights.pieces)), &weights);
    std::ranges::stable_sort(open, std::greater(), [](const auto& one) { return one.first; });
    for (bool again = true; again;) again = std::erase_if(open, [&](const auto& one) { return plan(*one.second); }) > 0;
  }

  // From the reader backwards, as long as there is a place for them. False: it saves nothing.
  bool plan(Weights& weights) {
    const int64_t bytes = bytes_of(weights.pieces);
    int64_t left = bytes;
    std::vector<std::pair<size_t, int64_t>> parts;  // of the bytes, by kernel
    std::optional<int64_t> place;
    const size_t user = weights.users.front(), end = weights.users.back();
    Ranges taken = taken_between(user, end);
    for (size_t at = user; at-- > 0 && left > 0 && user - at <= kFarthest;) {
      add_ranges(taken, touched_[at]);
      const std::optional<int64_t> found = find_place(taken, bytes, at, end);
      if (!found) break;
      const int64_t part = std::min(left, idle_bytes(at));
      if (part < std::min(left, kLeastChunk)) continue;
      parts.emplace_back(at, part);
      left -= part;
      place = found;
    }
    // The rest is waited for, before the reader. It takes as long as the reader itself would have waited.
    const int64_t saved = saved_cycles(weights) - traffic_.slow_cycles(left);
    if (parts.empty() || saved < kLeastChunk) return false;
    parts.front().second += left;
    for (const auto& [at, part] : parts) {
      const int64_t hidden = part - (at == parts.front().first ? left : 0);
      traffic_.transfer_during(layers_[*kernels_[at].layer], hidden);
      kernels_[at].slow_bytes += hidden;
    }
    for (const auto& [layer, read] : bytes_by_layer(weights)) traffic_.read_in_sram(layers_[layer], read);
    for (size_t reader : weights.users) kernels_[reader].slow_bytes -= bytes;
    if (const auto layer = kernels_[user].layer) waited_[*layer] += traffic_.slow_cycles(left);
    weights.begin = parts.back().first;
    weights.place = place;
    int64_t first = 0;
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
      chunks_[kernels_[part->first].position].push_back({&weights, first, first + part->second});
      first += part->second;
    }
    return true;
  }

  int64_t planned_cycles() const {
    int64_t cycles = estimates_.total_cycles;
    for (size_t i = 0; i < layers_.size(); ++i) cycles += layers_[i].cycles + waited_[i] - estimates_.layers[i].cycles;
    return cycles;
  }

  // ---- the stream

  void write(const std::vector<NpuCommand>& commands, const DriverPayload& payload) {
    std::map<uint32_t, const Weights*> moved;  // by reader
    for (const Weights& weights : weights_)
      if (weights.place)
        for (size_t user : weights.users) moved[kernels_[user].position] = &weights;
    MovedStream stream(payload, program_);
    for (const NpuCommand& command : commands) {
      const auto weights = moved.find(command.position);
      const bool is_moved = command.is_kernel() && weights != moved.end();
      if (is_moved) stream.add_wait(Cmd::OP_DMA_WAIT, 0);
      stream.write(command, sram_, is_moved ? weights->second->place : std::nullopt);
      const auto chunks = chunks_.find(command.position);
      if (!command.is_kernel() || chunks == chunks_.end()) continue;
      stream.add_wait(Cmd::OP_KERNEL_WAIT, 1);  // what read the place before is done, and this kernel runs
      for (const Chunk& chunk : chunks->second)
        stream.add_transfers(chunk.weights->pieces, sram_, *chunk.weights->place, chunk.first, chunk.last);
    }
    stream.finish(program_);
  }

  // ---- the figures

  void account() {
    WeightsInSram ahead{0, 0, estimates_.total_cycles};
    int64_t read = 0, end = sram_.end;
    for (const Weights& weights : weights_) {
      if (!weights.place) continue;
      const int64_t bytes = bytes_of(weights.pieces);
      end = std::max(end, *weights.place + bytes);
      ahead.bytes += bytes;
      ahead.operations += static_cast<int64_t>(weights.users.size());
      read += bytes * static_cast<int64_t>(weights.users.size());
      std::map<uint32_t, bool> held;
      for (size_t at = weights.begin; at <= weights.users.back(); ++at)
        if (kernels_[at].layer && !std::exchange(held[*kernels_[at].layer], true))
          layers_[*kernels_[at].layer].staging_bytes += bytes;
    }
    for (size_t i = 0; i < layers_.size(); ++i) layers_[i].cycles += waited_[i];
    traffic_.account(estimates_, read, ahead.bytes);
    sram_.grow(program_, end - sram_.end);
    estimates_.ahead = ahead;
    replace_layers(estimates_, std::move(layers_));
  }

  NpuProgram& program_;
  Estimates& estimates_;
  const SramArea sram_;
  const int64_t end_;  // of what may be used of it
  const WeightTraffic traffic_;
  std::vector<Layer> layers_;        // with what is planned
  std::vector<int64_t> waited_;      // cycles for transfers that nothing hides, by layer
  std::vector<int64_t> operations_;  // by layer
  std::vector<Kernel> kernels_;
  std::vector<Ranges> touched_, live_;  // by kernel, and one more for the end
  std::vector<Weights> weights_;
  std::map<uint32_t, std::vector<Chunk>> chunks_;  // by kernel, as a word
};

}  // namespace

Result<void> prefetch_weights(NpuProgram& program, int64_t sram_limit) {
  const std::optional<SramArea> sram = sram_area(program);
  if (!sram) return {};
  return Prefetcher(program, *sram, std::min(sram_limit, program.estimates->arena_cache_size)).run();
}

}  // namespace swoop
