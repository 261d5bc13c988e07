// From names of sections to memories, clocks and the size of the arena, by the rules of Vela's front end.
#include "npu/config.h"

#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <optional>

#include "vela_ini.h"

namespace swoop {
namespace {

constexpr std::string_view kSystemPrefix = "System_Config.";
constexpr std::string_view kModePrefix = "Memory_Mode.";

template <typename T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<NpuMemory> parse_memory(std::string_view name) {
  for (size_t i = 0; i < kNpuMemoryCount; ++i) {
    if (memory_name(static_cast<NpuMemory>(i)) == name) return static_cast<NpuMemory>(i);
  }
  return std::nullopt;
}

std::vector<std::string> names_with(const std::vector<IniSection>& sections, std::string_view prefix) {
  std::vector<std::string> names;
  for (const IniSection& section : sections) {
    if (section.name.starts_with(prefix)) names.emplace_back(section.name.substr(prefix.size()));
  }
  return names;
}

const IniEntry* find_entry(const IniSection& section, std::string_view key) {
  for (const IniEntry& entry : section.entries) {
    if (entry.key == key) return &entry;
  }
  return nullptr;
}

// A section and what it inherits, nearest first.
class Chain {
 public:
  static Result<Chain> find(const std::vector<IniSection>& sections, std::string_view path, std::string_view flag,
                            std::string_view prefix, std::string_view name) {
    Chain chain;
    chain.path_ = path;
    size_t index = position(sections, std::string(prefix) + std::string(name), sections.size());
    if (index == sections.size()) {
      const auto known = names_with(sections, prefix);
      if (known.empty()) return error("{}: there is no section [{}...], which {} needs.", path, prefix, flag);
      return error("{}: there is no section [{}{}]; {} can be one of {}.", path, prefix, name.substr(0, 64), flag,
                   fmt::join(known, ", "));
    }
    for (;;) {
      const IniSection& section = sections[index];
      chain.sections_.push_back(&section);
      const IniEntry* inherit = find_entry(section, "inherit");
      if (!inherit) return chain;
      // regor resolves `inherit` while it reads: what comes later, or stands above the line, would be lost.
      if (inherit != &section.entries.front()) {
        return error("{}:{}: 'inherit' must be the first line of its section.", path, inherit->line);
      }
      const size_t parent = position(sections, inherit->value, index);
      if (parent == index || !sections[parent].name.starts_with(prefix)) {
        return error("{}:{}: [{}] inherits from '{}', and no section [{}...] of that name comes before it.", path,
                     inherit->line, section.name, inherit->value.substr(0, 80), prefix);
      }
      index = parent;
    }
  }

  const IniEntry* entry(std::string_view key) const {
    for (const IniSection* section : sections_) {
      if (const IniEntry* found = find_entry(*section, key)) return found;
    }
    return nullptr;
  }

  Result<const IniEntry*> required(std::string_view key) const {
    if (const IniEntry* found = entry(key)) return found;
    return error("{}:{}: [{}] does not say '{}'.", path_, sections_.front()->line, sections_.front()->name, key);
  }

  // Every numeric key of `System_Config`, known by its ending, so that a mistyped number is found before regor reads it
  // as 0.
  Result<void> check_numbers() const {
    for (const IniSection* section : sections_) {
      for (const IniEntry& entry : section->entries) TRY(check_number(entry));
    }
    return {};
  }

  std::string_view path() const { return path_; }

 private:
  static size_t position(const std::vector<IniSection>& sections, std::string_view name, size_t limit) {
    for (size_t i = 0; i < limit; ++i) {
      if (sections[i].name == name) return i;
    }
    return limit;
  }

  Result<void> check_number(const IniEntry& entry) const {
    const size_t underscore = entry.key.find('_');
    const std::string_view ending = underscore == std::string_view::npos ? entry.key : entry.key.substr(underscore + 1);
    if (entry.key == "core_clock" || ending == "clock_scale") {
      const auto value = parse_number<double>(entry.value);
      if (value && *value > 0 && std::isfinite(*value)) return {};
      return error("{}:{}: '{}' must be a positive number, not '{}'.", path_, entry.line, entry.key,
                   entry.value.substr(0, 40));
    }
    const bool positive = ending == "burst_length" || ending == "ports_used";
    if (positive || ending == "read_latency" || ending == "write_latency" || ending == "max_reads" ||
        ending == "max_writes") {
      const auto value = parse_number<int32_t>(entry.value);
      if (value && *value >= (positive ? 1 : 0)) return {};
      return error("{}:{}: '{}' must be a whole number of at least {}, not '{}'.", path_, entry.line, entry.key,
                   positive ? 1 : 0, entry.value.substr(0, 40));
    }
    return {};
  }

  std::string path_;
  std::vector<const IniSection*> sections_;
};

// The memory that "Axi0" or "Axi1" is connected to.
Result<NpuMemory> memory_of(const Chain& mode, const Chain& system, std::string_view key) {
  TRY_ASSIGN(const IniEntry* area, mode.required(key));
  if (area->value != "Axi0" && area->value != "Axi1") {
    return error("{}:{}: '{}' must be Axi0 or Axi1, not '{}'.", mode.path(), area->line, key,
                 area->value.substr(0, 40));
  }
  TRY_ASSIGN(const IniEntry* port, system.required(area->value == "Axi0" ? "axi0_port" : "axi1_port"));
  const auto memory = parse_memory(port->value);
  if (!memory) {
    return error("{}:{}: '{}' must be Sram, Dram, OnChipFlash or OffChipFlash, not '{}'.", system.path(), port->line,
                 port->key, port->value.substr(0, 40));
  }
  return *memory;
}

}  // namespace

std::string_view config_text(const NpuOptions& options) {
  return options.config.empty() ? kVelaIni : std::string_view(options.config);
}

std::string_view config_name(const NpuOptions& options) {
  if (options.config.empty()) return "vela.ini";
  return options.config_path.empty() ? "the configuration" : std::string_view(options.config_path);
}

Result<std::vector<std::string>> system_configs(const NpuOptions& options) {
  TRY_ASSIGN(const auto sections, parse_ini(config_text(options), config_name(options)));
  return names_with(sections, kSystemPrefix);
}

Result<std::vector<std::string>> memory_modes(const NpuOptions& options) {
  TRY_ASSIGN(const auto sections, parse_ini(config_text(options), config_name(options)));
  return names_with(sections, kModePrefix);
}

std::string_view system_config_name(const NpuTarget& target, const NpuOptions& options) {
  return options.system_config.empty() ? target.facts().system_config : std::string_view(options.system_config);
}

std::string_view memory_mode_name(const NpuTarget& target, const NpuOptions& options) {
  return options.memory_mode.empty() ? target.facts().memory_mode : std::string_view(options.memory_mode);
}

Result<NpuSystem> resolve_system(const NpuTarget& target, const NpuOptions& options) {
  const std::string_view path = config_name(options);
  TRY_ASSIGN(const auto sections, parse_ini(config_text(options), path));
  NpuSystem system;
  system.system_config = system_config_name(target, options);
  system.memory_mode = memory_mode_name(target, options);
  TRY_ASSIGN(const Chain config, Chain::find(sections, path, "--system-config", kSystemPrefix, system.system_config));
  TRY_ASSIGN(const Chain mode, Chain::find(sections, path, "--memory-mode", kModePrefix, system.memory_mode));
  TRY(config.check_numbers());

  system.clock_hz = 1;  // what Vela assumes when the section does not say
  if (const IniEntry* clock = config.entry("core_clock")) system.clock_hz = *parse_number<double>(clock->value);

  TRY_ASSIGN(system.constants, memory_of(mode, config, "const_mem_area"));
  TRY_ASSIGN(system.feature_maps, memory_of(mode, config, "arena_mem_area"));
  TRY_ASSIGN(system.staging, memory_of(mode, config, "cache_mem_area"));
  const auto area = [&](std::string_view key) { return mode.entry(key)->value; };
  if (system.constants == NpuMemory::Sram && area("const_mem_area") == area("arena_mem_area") &&
      area("const_mem_area") == area("cache_mem_area")) {
    system.constants = NpuMemory::OnChipFlash;
  }
  const auto refuse = [&](std::string_view what, NpuMemory memory, std::string_view allowed) {
    return error(
        "{}: the memory mode {} puts {} into {} of {}, but it must be {}. Choose another --memory-mode or "
        "--system-config.",
        path, system.memory_mode, what, memory_name(memory), system.system_config, allowed);
  };
  if (system.constants == NpuMemory::Sram)
    return refuse("constants", system.constants, "Dram, OnChipFlash or OffChipFlash");
  if (system.feature_maps != NpuMemory::Sram && system.feature_maps != NpuMemory::Dram) {
    return refuse("feature maps", system.feature_maps, "Sram or Dram");
  }
  if (system.staging != NpuMemory::Sram) return refuse("the cache", system.staging, "Sram");

  const auto reads = [&](NpuMemory memory) {
    const auto number = [&](std::string_view key, double otherwise) {
      const IniEntry* said = config.entry(std::string(memory_name(memory)) + std::string(key));
      return said ? *parse_number<double>(said->value) : otherwise;
    };
    const double ports = number("_ports_used", 1);
    return MemoryReads{number("_read_latency", 0), number("_burst_length", 0) * number("_max_reads", 0) * ports,
                       number("_clock_scale", 1) * ports};
  };
  system.constants_reads = reads(system.constants);
  system.staging_reads = reads(system.staging);

  // All of the address space when nobody says less.
  const int64_t address_space = int64_t{1} << target.facts().address_bits;
  system.arena_cache_size = address_space;
  if (const IniEntry* size = mode.entry("arena_cache_size")) {
    const auto value = parse_number<int64_t>(size->value);
    if (!value || *value < 0 || *value > address_space) {
      return error("{}:{}: arena_cache_size must be a number of bytes from 0 to {}, not '{}'.", path, size->line,
                   address_space, size->value.substr(0, 40));
    }
    system.arena_cache_size = *value;
  }
  if (options.arena_cache_size) {
    if (*options.arena_cache_size > static_cast<uint64_t>(address_space)) {
      return error("An arena cache of {} bytes is more than {} can address ({} bytes).", *options.arena_cache_size,
                   target.name, address_space);
    }
    system.arena_cache_size = static_cast<int64_t>(*options.arena_cache_size);
  }
  return system;
}

Result<void> check_npu_options(const NpuTarget& target, const NpuOptions& options) {
  TRY_ASSIGN(const NpuSystem system, resolve_system(target, options));
  if (!(options.timeout_seconds > 0)) return error("The time limit for regor must be a positive number of seconds.");
  return {};
}

Result<int64_t> staging_bytes(const NpuTarget& target, const NpuOptions& options) {
  TRY_ASSIGN(const NpuSystem system, resolve_system(target, options));
  return system.feature_maps == NpuMemory::Dram ? system.arena_cache_size : 0;
}

Result<Optimise> parse_optimise(std::string_view name) {
  if (name == "Performance") return Optimise::Performance;
  if (name == "Size") return Optimise::Size;
  return error("'{}' is not known; optimise for Performance or Size.", name.substr(0, 64));
}

}  // namespace swoop
