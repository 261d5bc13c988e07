// Weights and scales brought into SRAM before their turn, while earlier layers compute and flash has nothing to do.
// regor fetches ahead for the next operation at most: in MobileNetV2 flash idles for the first half and is waited for
// in the second. On the U85 each block of a result waits for its scales, 500 cycles if they are in DRAM.
//
// They go to bytes of the arena that hold nothing while the weights are there, and after its end as far as the caller
// allows. A transfer is cut into chunks that fit into the idle time of single operations, because regor's own transfers
// come after it.
#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "run/machine.h"
#include "run/weight_moves.h"

namespace swoop {

using namespace ethos;

namespace {

constexpr double kWorthTheCommands = 0.01;  // of all cycles
constexpr double kWorthTheSram = 0.01;      // of all cycles, for a program that then takes more SRAM
constexpr double kIdleUsed = 0.9;           // of the time in which flash idles: a device is not an estimate
constexpr int64_t kLeastChunk = 1024;       // bytes; each chunk is 40 bytes of commands
constexpr int64_t kLeastSaved = 100;        // cycles, for the commands
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
  bool ends = true;            // no chain goes on after it: a wait may follow
  int64_t read_bytes = 0;      // that it reads itself in the slow memory
  int64_t transfer_bytes = 0;  // that transfers bring until the next one
};

// Weights or scales with all their readers, and what is planned for them.
struct Item {
  Pieces pieces;
  bool scales = false;
  std::vector<size_t> users;  // kernels
  size_t begin = 0;           // the kernel during which the first chunk comes
  std::optional<int64_t> place;
};

struct Chunk {
  const Item* item;
  int64_t first, last;  // bytes of its pieces
};

class Prefetcher {
 public:
  Prefetcher(NpuProgram& program, const SramArea& sram, int64_t grow)
      : program_(program),
        estimates_(*program.estimates),
        sram_(sram),
        end_(sram.end + grow),
        traffic_(estimates_),
        layers_(estimates_.layers),
        moved_(estimates_.layers.size()),
        waited_(estimates_.layers.size()),
        operations_(estimates_.layers.size()) {
    for (size_t i = 0; i < layers_.size(); ++i) {  // keep_weights() may have added what its transfers take
      const int64_t cycles = slowest_part(layers_[i]);
      waited_[i] = layers_[i].cycles - cycles;
      layers_[i].cycles = cycles;
    }
  }

  // Cycles that the plan takes, which write() then carries out. nullopt: nothing is worth it.
  Result<std::optional<int64_t>> plan() {
    if (!traffic_.known()) return std::optional<int64_t>();
    TRY_ASSIGN(payload_, parse_payload(program_.commands));
    TRY_ASSIGN(commands_, decode_commands(*payload_));
    if (has_branches(commands_)) return std::optional<int64_t>();
    TRY_ASSIGN(std::vector<OperationUse> uses, operation_uses(program_));
    find_kernels(uses);
    find_used(uses);
    choose();
    const int64_t cycles = planned_cycles();
    if (static_cast<double>(estimates_.total_cycles - cycles) <
        kWorthTheCommands * static_cast<double>(estimates_.total_cycles))
      return std::optional<int64_t>();
    return std::optional(cycles);
  }

  void write() {
    write_stream();
    account();
  }

 private:
  // ---- what there is

  void find_kernels(const std::vector<OperationUse>& uses) {
    const std::map<uint32_t, uint32_t> layer_of = layers_by_operation(program_);
    std::map<Pieces, size_t> known;
    auto add_user = [&](const Pieces& pieces, bool scales) {
      if (pieces.empty()) return;
      const auto [at, fresh] = known.try_emplace(pieces, items_.size());
      if (fresh) items_.push_back({pieces, scales, {}, 0, std::nullopt});
      items_[at->second].users.push_back(kernels_.size() - 1);
    };
    auto use = uses.begin();
    MovedStream stream(*payload_, program_);
    for (const NpuCommand& command : commands_) {
      while (use != uses.end() && use->position < command.position) ++use;
      const bool here = use != uses.end() && use->position == command.position;
      if (here && !use->kernel && !kernels_.empty()) kernels_.back().transfer_bytes += slow_bytes(*use);
      if (here && use->kernel) {
        Kernel& kernel = kernels_.emplace_back();
        kernel = {command.position, std::nullopt, !use->chained, slow_bytes(*use), 0};
        const Constants constants = reads_weights(command) ? stream.constants() : Constants{};
        if (const auto layer = layer_of.find(command.position); layer != layer_of.end()) {
          kernel.layer = layer->second;
          ++operations_[layer->second];
          reads_.add(layer->second, constants);
        }
        add_user(constants.weights, false);
        add_user(constants.scales, true);
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

  // What regor's program touches of the SRAM around each kernel, and what the kernel and those after it count on. That
  // is kept for the kernels that are asked about: there may be 50,000 kernels, each with a thousand ranges.
  void find_used(const std::vector<OperationUse>& uses) {
    Ranges live;
    auto stays = [&](const std::vector<NpuTensor>& tensors) {
      for (const NpuTensor& tensor : tensors)
        if (tensor.region == sram_.region) add_range(live, tensor.offset, tensor.offset + tensor.byte_size());
    };
    stays(program_.outputs);
    stays(program_.variables);
    touched_.resize(kernels_.size() + 1);
    for (const Item& item : items_) live_[after_last_reader(item)];
    size_t kernel = kernels_.size();  // transfers belong to the kernel after them
    const auto keep = [&] {
      if (const auto asked = live_.find(kernel); asked != live_.end()) asked->second = live;
    };
    keep();
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
      keep();
    }
  }

  size_t after_last_reader(const Item& item) const { return std::min(item.users.back() + kAfter, kernels_.size()); }

  // ---- what is worth it

  static int64_t share(int64_t cycles, int64_t operations) { return cycles / std::max<int64_t>(1, operations); }

  // Bytes that can be brought while a kernel runs, beside what is brought already.
  int64_t idle_bytes(size_t at) const {
    const Kernel& kernel = kernels_[at];
    if (!kernel.layer || !kernel.ends) return 0;
    const Layer& layer = layers_[*kernel.layer];
    const int64_t operations = operations_[*kernel.layer];
    int64_t idle = share(layer.cycles, operations);
    if (traffic_.channels_apart()) {
      idle -= traffic_.transfer_cycles(kernel.transfer_bytes);
    } else {
      idle -= traffic_.transfer_cycles(kernel.read_bytes + kernel.transfer_bytes);
      idle = std::min(idle, share(layer.cycles - traffic_.slow_of(layer), operations));
    }
    const int64_t bytes = traffic_.transfer_bytes(static_cast<int64_t>(kIdleUsed * static_cast<double>(idle)));
    return bytes / kWeightAlignment * kWeightAlignment;
  }

  // A place outside of `taken`, and of what others have between two kernels.
  std::optional<int64_t> find_place(Ranges taken, int64_t bytes, size_t begin, size_t end) const {
    for (const Item& other : items_)
      if (other.place && begin <= other.users.back() && other.begin <= end)
        add_range(taken, *other.place, *other.place + bytes_of(other.pieces));
    int64_t place = 0;
    for (const auto& [first, last] : taken) {
      if (place + bytes <= first) return place;
      place = std::max(place, aligned(last));
    }
    return place + bytes <= end_ ? std::optional(place) : std::nullopt;
  }

  // What the program touches while the item is read, and what it counts on afterwards.
  Ranges taken_by_readers(const Item& item) const {
    const size_t begin = item.users.front(), after = after_last_reader(item);
    Ranges taken = live_.at(after);
    for (size_t at = begin; at <= after; ++at) add_ranges(taken, touched_[at]);
    return taken;
  }

  // By layer, what is read in SRAM when these are there.
  std::map<uint32_t, Moved> moved(const Item& item) const {
    std::map<uint32_t, Moved> moved;
    for (size_t user : item.users)
      if (const auto layer = kernels_[user].layer)
        moved[*layer] =
            moved[*layer] + (item.scales ? reads_.scales(*layer, item.pieces) : reads_.weights(*layer, item.pieces));
    return moved;
  }

  Layer estimate(uint32_t layer, const Moved& more) const {
    return traffic_.estimate(estimates_.layers[layer], moved_[layer] + more);
  }

  void move(uint32_t layer, const Moved& more) {
    moved_[layer] = moved_[layer] + more;
    layers_[layer] = estimate(layer, {});
  }

  // `weights`: what is counted as read in SRAM beside it.
  int64_t saved_cycles(const Item& item, double weights = 0) const {
    int64_t cycles = 0;
    for (const auto& [layer, share] : moved(item))
      cycles += estimate(layer, {weights, 0, 0}).cycles - estimate(layer, Moved{weights, 0, 0} + share).cycles;
    return cycles;
  }

  // Where each block waits for its scales, nothing is saved by weights that are near as long as the scales are far:
  // scales first, then weights. Elsewhere weights first: they need room, and scales find a gap.
  void choose() {
    if (traffic_.channels_apart()) {
      for (Item& item : items_)
        if (item.scales) plan_item(item, saved_cycles(item), std::max(saved_cycles(item), saved_cycles(item, 1)));
      choose_among([](const Item&) { return true; });
    } else {
      choose_among([](const Item& item) { return !item.scales; });
      choose_among([](const Item& item) { return item.scales; });
    }
  }

  // What saves most per byte first. What is read in SRAM leaves flash idle for others: until nothing is found.
  void choose_among(bool (*may)(const Item&)) {
    std::vector<std::pair<double, Item*>> open;  // cycles saved per byte
    for (Item& item : items_)
      if (const int64_t saved = may(item) && !item.place ? saved_cycles(item) : 0; saved > 0)
        open.emplace_back(static_cast<double>(saved) / static_cast<double>(bytes_of(item.pieces)), &item);
    std::ranges::stable_sort(open, std::greater(), [](const auto& one) { return one.first; });
    for (bool again = true; again;)
      again = std::erase_if(open, [&](const auto& one) {
                const int64_t saved = saved_cycles(*one.second);
                return plan_item(*one.second, saved, saved);
              }) > 0;
  }

  // From the reader backwards, as long as there is a place for them. It may take as many cycles of its own as it saves
  // at once; `later` is what it saves in the end. False: it saves nothing.
  bool plan_item(Item& item, int64_t saved, int64_t later) {
    if (later < kLeastSaved) return false;
    const int64_t bytes = bytes_of(item.pieces);
    int64_t left = bytes;
    std::vector<std::pair<size_t, int64_t>> parts;  // of the bytes, by kernel
    std::optional<int64_t> place;
    const size_t user = item.users.front(), end = item.users.back();
    Ranges taken = taken_by_readers(item);
    for (size_t at = user; at-- > 0 && left > 0 && user - at <= kFarthest;) {
      add_ranges(taken, touched_[at]);
      const std::optional<int64_t> found = find_place(taken, bytes, at, end);
      if (!found) break;
      int64_t part = std::min(left, idle_bytes(at));
      if (part < std::min(left, kLeastChunk)) {
        const bool next_to_reader = at + 1 == user && kernels_[at].ends && kernels_[at].layer;
        if (!next_to_reader) continue;
        part = 0;
      }
      parts.emplace_back(at, part);
      left -= part;
      place = found;
    }
    if (user == 0) place = find_place(taken, bytes, 0, end);  // before all kernels
    if (!place) return false;
    // The rest is waited for, before the reader.
    const int64_t waits = traffic_.transfer_cycles(left);
    if (waits > 0 ? saved - waits < kLeastSaved : saved < 0) return false;

    for (const auto& [at, part] : parts) {
      const uint32_t layer = *kernels_[at].layer;
      const bool first = moved_[layer].transferred == 0 && traffic_.channels_apart();
      move(layer, {0, 0, part + (first ? kernels_[at].transfer_bytes : 0)});  // regor's transfers have the same channel
      kernels_[at].transfer_bytes += part;
    }
    for (const auto& [layer, share] : moved(item)) move(layer, share);
    for (size_t reader : item.users) kernels_[reader].read_bytes -= bytes;
    if (const auto layer = kernels_[user].layer) waited_[*layer] += waits;
    item.begin = parts.empty() ? 0 : parts.back().first;
    item.place = place;
    int64_t first = 0;
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
      const int64_t last = std::next(part) == parts.rend() ? bytes : first + part->second;
      if (first < last) chunks_[kernels_[part->first].position].push_back({&item, first, last});
      first = last;
    }
    if (parts.empty()) at_start_.push_back({&item, 0, bytes});
    return true;
  }

  int64_t planned_cycles() const {
    int64_t cycles = estimates_.total_cycles;
    for (size_t i = 0; i < layers_.size(); ++i) cycles += layers_[i].cycles + waited_[i] - estimates_.layers[i].cycles;
    return cycles;
  }

  // ---- the stream

  void write_stream() {
    std::map<uint32_t, Places> moved;  // by reader
    for (const Item& item : items_)
      if (item.place)
        for (size_t user : item.users) add_places(moved[kernels_[user].position], item.pieces, *item.place);
    MovedStream stream(*payload_, program_);
    auto bring = [&](const std::vector<Chunk>& chunks) {
      for (const auto& [item, first, last] : chunks)
        stream.add_transfers(item->pieces, sram_, *item->place, first, last);
    };
    bring(at_start_);
    for (const NpuCommand& command : commands_) {
      const auto places = moved.find(command.position);
      const bool is_moved = command.is_kernel() && places != moved.end();
      if (is_moved) stream.add_wait(Cmd::OP_DMA_WAIT, 0);
      stream.write(command, sram_, is_moved ? places->second : Places{});
      const auto chunks = chunks_.find(command.position);
      if (!command.is_kernel() || chunks == chunks_.end()) continue;
      stream.add_wait(Cmd::OP_KERNEL_WAIT, 1);  // what read the place before is done, and this kernel runs
      bring(chunks->second);
    }
    stream.finish(program_);
  }

  // ---- the figures

  void account() {
    WeightsInSram ahead{0, 0, estimates_.total_cycles};
    int64_t read = 0, end = sram_.end;
    std::set<size_t> readers;
    for (const Item& item : items_) {
      if (!item.place) continue;
      const int64_t bytes = bytes_of(item.pieces);
      end = std::max(end, *item.place + bytes);
      ahead.bytes += bytes;
      readers.insert(item.users.begin(), item.users.end());
      read += bytes * static_cast<int64_t>(item.users.size());
      std::set<uint32_t> holding;  // layers
      for (size_t at = item.begin; at <= item.users.back(); ++at)
        if (kernels_[at].layer) holding.insert(*kernels_[at].layer);
      for (uint32_t layer : holding) layers_[layer].staging_bytes += bytes;
    }
    ahead.operations = static_cast<int64_t>(readers.size());
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
  std::optional<DriverPayload> payload_;
  std::vector<NpuCommand> commands_;
  std::vector<Layer> layers_;        // with what is planned
  std::vector<Moved> moved_;         // by layer
  std::vector<int64_t> waited_;      // cycles for transfers that nothing hides, by layer
  std::vector<int64_t> operations_;  // by layer
  LayerReads reads_;
  std::vector<Kernel> kernels_;
  std::vector<Ranges> touched_;    // by kernel, and one more for the end
  std::map<size_t, Ranges> live_;  // the same, where an item asks
  std::vector<Item> items_;
  std::vector<Chunk> at_start_;
  std::map<uint32_t, std::vector<Chunk>> chunks_;  // by kernel, as a word
};

}  // namespace

Result<void> prefetch_weights(NpuProgram& program, std::optional<int64_t> sram_limit) {
  const std::optional<SramArea> sram = sram_area(program);
  if (!sram) return {};
  const Estimates& estimates = *program.estimates;
  const bool dedicated = sram->region != program.scratch_region;
  const int64_t limit =
      std::min(sram_limit.value_or(dedicated ? estimates.arena_cache_size : 0), estimates.arena_cache_size);
  const int64_t grow = std::max<int64_t>(0, limit - estimates.sram_bytes());
  Prefetcher within(program, *sram, 0), beyond(program, *sram, grow);
  TRY_ASSIGN(const std::optional<int64_t> usual, within.plan());
  std::optional<int64_t> grown;
  if (grow > 0) {
    TRY_ASSIGN(grown, beyond.plan());
  }
  const int64_t otherwise = usual.value_or(estimates.total_cycles);
  const auto worth = static_cast<int64_t>(kWorthTheSram * static_cast<double>(estimates.total_cycles));
  if (grown && *grown + worth <= otherwise)
    beyond.write();
  else if (usual)
    within.write();
  return {};
}

}  // namespace swoop
