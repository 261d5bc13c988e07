#include "driver/boards.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "support/check.h"
#include "support/nearest.h"

namespace swoop {

namespace {

std::vector<Board> read_table() {
  std::vector<Board> list;
  auto add = [&](std::string_view board, BoardMemory memory) {
    CHECK(!list.empty() && list.back().name == board, "boards.def: {} is not after its board", memory.name);
    list.back().memories.push_back(memory);
  };
#define BOARD(name, text, target, system_config, memory_mode, source) \
  list.push_back({name, text, target, system_config, memory_mode, source, {}});
#define MEMORY(board, kind, name, bytes, source) add(board, {NpuMemory::kind, name, int64_t{bytes}, source});
#include "driver/boards.def"
#undef BOARD
#undef MEMORY
  return list;
}

// The memories that a program is held against; a board's flash is one, on the chip or off it.
enum class Place { Sram, Dram, Flash };
constexpr std::string_view kPlaces[] = {"SRAM", "DRAM", "flash"};

Place place_of(NpuMemory memory) {
  switch (memory) {
    case NpuMemory::Sram: return Place::Sram;
    case NpuMemory::Dram: return Place::Dram;
    case NpuMemory::OnChipFlash:
    case NpuMemory::OffChipFlash: return Place::Flash;
  }
  CHECK(false, "memory {}", static_cast<int>(memory));
}

}  // namespace

const std::vector<Board>& boards() {
  static const std::vector<Board> list = read_table();
  return list;
}

Result<const Board*> find_board(std::string_view name) {
  std::vector<std::string> names;
  for (const Board& board : boards()) {
    if (board.name == name) return &board;
    names.emplace_back(board.name);
  }
  return error("There is no board called '{}'; the known ones are {}{}", name.substr(0, 64), fmt::join(names, ", "),
               did_you_mean(name, names));
}

BoardFit fit_board(const Board& board, const Summary& s) {
  BoardFit fit{std::string(board.name), std::string(board.text), {}};
  for (std::string_view name : kPlaces) fit.memories.emplace_back().memory = name;
  auto need = [&](Place place, int64_t bytes) {
    MemoryFit& memory = fit.memories[static_cast<size_t>(place)];
    memory.needed += bytes;
    memory.largest = std::max(memory.largest, bytes);
  };
  // Without regions, everything runs on the core.
  const Estimates usual;
  const Estimates& estimates = s.regions.empty() ? usual : s.regions.front().estimates;
  need(place_of(estimates.weights_memory), s.pte_bytes);
  need(place_of(estimates.feature_map_memory), s.temp_bytes);
  need(Place::Sram, s.fast_bytes);
  need(Place::Sram, s.planned_bytes);
  need(Place::Sram, s.method_bytes);
  for (const BoardMemory& memory : board.memories) {
    MemoryFit& line = fit.memories[static_cast<size_t>(place_of(memory.kind))];
    line.there = line.there.value_or(0) + memory.bytes;
    line.within = std::max(line.within.value_or(0), memory.bytes);
    line.sources.push_back(fmt::format("{}: {}", memory.name, memory.source));
  }
  std::erase_if(fit.memories, [](const MemoryFit& memory) { return memory.needed == 0 && !memory.there; });
  return fit;
}

}  // namespace swoop
