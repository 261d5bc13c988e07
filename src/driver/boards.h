// The boards of --board: NPU, configuration, memories, and whether a program fits them. The table is boards.def.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "report/report.h"
#include "stream/stream.h"
#include "support/result.h"

namespace swoop {

struct BoardMemory {
  NpuMemory kind;
  std::string_view name;
  int64_t bytes;
  std::string_view source;
};

struct Board {
  std::string_view name;
  std::string_view text;
  std::string_view target;
  std::string_view system_config, memory_mode;  // empty: the target's usual ones
  std::string_view target_source;
  std::vector<BoardMemory> memories;
};

const std::vector<Board>& boards();
Result<const Board*> find_board(std::string_view name);  // the error lists the known ones

// What a finished program needs of each memory, beside what the board has.
BoardFit fit_board(const Board& board, const Summary& summary);

}  // namespace swoop
