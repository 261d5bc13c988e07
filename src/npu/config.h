// vela.ini: which memories a system has and how fast they are, and where a memory mode puts constants, feature maps and
// staging.
// Why parsed here: regor reads such text itself, but stops silently at the first line it does not understand. Both
// Vela's front end and regor must agree on what a file says; what only one would accept is an error with a line number.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "npu/npu.h"

namespace swoop {

struct IniEntry {
  std::string_view key;
  std::string_view value;
  int line = 0;
};

struct IniSection {
  std::string_view name;
  int line = 0;
  std::vector<IniEntry> entries;
};

// Views into `text`. `path` is for messages.
Result<std::vector<IniSection>> parse_ini(std::string_view text, std::string_view path);

// How a memory is read. 0: the section does not say.
struct MemoryReads {
  double latency = 0;          // cycles until what is read begins to come
  double bytes_under_way = 0;  // at most
  double width = 0;            // widths of the bus per cycle, at most
};

// What one choice of system config and memory mode comes to.
struct NpuSystem {
  std::string system_config;
  std::string memory_mode;
  double clock_hz = 0;
  NpuMemory constants = NpuMemory::OffChipFlash;  // OnChipFlash when everything lives in one SRAM, as Vela reports it
  NpuMemory feature_maps = NpuMemory::Sram;
  NpuMemory staging = NpuMemory::Sram;
  int64_t arena_cache_size = 0;
  MemoryReads constants_reads;
  MemoryReads staging_reads;
};

Result<NpuSystem> resolve_system(const NpuTarget& target, const NpuOptions& options);

// The config in use and its name for messages.
std::string_view config_text(const NpuOptions& options);
std::string_view config_name(const NpuOptions& options);

}  // namespace swoop
