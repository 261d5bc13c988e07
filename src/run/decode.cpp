// Words to commands, commands to text.
#include <bit>

#include "run/registers.h"

namespace swoop {

using ethos::by_encoding;
using ethos::Cmd;
using ethos::CommandInfo;
using ethos::kAbsent;
using ethos::kCommandCount;

namespace {

enum class Kind { Short, Wide };

#define OPERATION(name, kind, code, mask_u55, mask_u85) \
  CommandInfo{"NPU_OP_" #name, Kind::kind == Kind::Wide, true, code, mask_u55, mask_u85},
#define REGISTER(name, kind, code, mask_u55, mask_u85) \
  CommandInfo{"NPU_SET_" #name, Kind::kind == Kind::Wide, false, code, mask_u55, mask_u85},
constexpr CommandInfo kTable[] = {
#include "run/registers.def"
};
#undef OPERATION
#undef REGISTER
static_assert(std::size(kTable) == kCommandCount);

// Code to row of one encoding, for both lengths. Codes have 10 bits.
struct Lookup {
  std::array<uint8_t, 2048> rows;
  constexpr explicit Lookup(uint64_t CommandInfo::*mask) : rows() {
    for (uint8_t& row : rows) row = static_cast<uint8_t>(kCommandCount);
    for (size_t i = 0; i < kCommandCount; ++i) {
      size_t slot = kTable[i].code + (kTable[i].wide ? 1024u : 0u);
      if (kTable[i].*mask != kAbsent) rows[slot] = static_cast<uint8_t>(i);
    }
  }
};
constexpr Lookup kLookupU55(&CommandInfo::mask_u55), kLookupU85(&CommandInfo::mask_u85);

// The NPU that a configuration word means.
Result<const NpuTarget*> find_target(uint32_t word) {
  const uint32_t product = word >> 28;
  const int macs = 1 << (word & 0xf);
  std::string_view family;
  for (const NpuTarget& target : npu_targets()) {
    if (target.facts().product != product) continue;
    if (target.macs == macs) return &target;
    family = target.facts().name;
  }
  if (family.empty()) return error("The command stream is for product {}, which is not known.", product);
  return error("There is no {} with {} MACs per cycle (configuration word {:#010x}).", family, macs, word);
}

// Configuration words: macs per cycle (log2) in bits 0-3, product in bits 28-31; SHRAM KiB of all cores in bits 8-15
// (U55, U65), log2 of the number of weight decoders in bits 12-13 (U85). Source: config_r in regor's interface headers.
Result<NpuConfig> parse_config(uint32_t word) {
  NpuConfig config;
  TRY_ASSIGN(config.target, find_target(word));
  const NpuEncoding encoding = config.target->facts().encoding;
  const uint32_t version = word >> 4 & 0xf, known = by_encoding(encoding, 0u, 1u);
  if (version != known) return error("The command stream has version {}; version {} is known.", version, known);
  switch (encoding) {
    case NpuEncoding::U55:
      config.cores = config.target->cores;
      config.internal_bytes = (word >> 8 & 0xff) * 1024 / static_cast<uint32_t>(config.cores);
      break;
    case NpuEncoding::U85:
      config.cores = 1 << (word >> 12 & 0x3);
      config.internal_bytes = 2048;
      break;
  }
  return config;
}

}  // namespace

const CommandInfo& ethos::command_info(Cmd id) { return kTable[static_cast<size_t>(id)]; }

const CommandInfo* ethos::find_command(NpuEncoding encoding, bool wide, uint16_t code, Cmd& id) {
  uint8_t row = by_encoding(encoding, &kLookupU55, &kLookupU85)->rows[(code & 1023u) + (wide ? 1024u : 0u)];
  if (row == kCommandCount) return nullptr;
  id = static_cast<Cmd>(row);
  return &kTable[row];
}

Result<DriverPayload> parse_payload(Bytes commands) {
  constexpr uint32_t kCop1 = 0x31504f43;                  // "COP1"
  constexpr uint32_t kConfig = 1, kStream = 2, kNop = 5;  // driver actions, low byte of a word
  if (commands.size() % 4 != 0 || commands.size() < 8)
    return error("The command payload has {} bytes.", commands.size());
  auto word = [&](size_t i) { return load<uint32_t>(commands.data() + 4 * i); };
  const size_t words = commands.size() / 4;
  if (word(0) != kCop1) return error("The command payload does not begin with COP1 but with {:#010x}.", word(0));
  std::optional<NpuConfig> config;
  for (size_t i = 1; i < words;) {
    switch (word(i) & 0xff) {
      case kConfig:
        if (i + 2 >= words) return error("The command payload ends inside its configuration.");
        { TRY_ASSIGN(config, parse_config(word(i + 1))); }
        i += 3;
        break;
      case kNop: ++i; break;
      case kStream: {
        size_t length = (word(i) >> 16) | (word(i) >> 8 & 0xff) << 16;
        if (!config) return error("The command payload has a command stream before its configuration.");
        if (i + 1 + length != words)
          return error("The command stream says {} words; {} follow.", length, words - i - 1);
        return DriverPayload{*config, commands.subspan(4 * (i + 1))};
      }
      default: return error("Driver action {:#x} at word {} of the command payload is not known.", word(i) & 0xff, i);
    }
  }
  return error("The command payload has no command stream.");
}

bool NpuCommand::is_kernel() const {
  const Cmd cmd = static_cast<Cmd>(id);
  return cmd == Cmd::OP_CONV || cmd == Cmd::OP_DEPTHWISE || cmd == Cmd::OP_POOL || cmd == Cmd::OP_ELEMENTWISE ||
         cmd == Cmd::OP_RESIZE;
}

std::string_view NpuCommand::name() const { return kTable[id].name; }

Result<std::vector<NpuCommand>> decode_commands(const DriverPayload& payload) {
  const NpuFacts& facts = payload.config.target->facts();
  std::vector<NpuCommand> commands;
  const size_t words = payload.stream.size() / 4;
  commands.reserve(words / 2 + 1);
  for (size_t i = 0; i < words; ++i) {
    uint32_t first = load<uint32_t>(payload.stream.data() + 4 * i);
    uint32_t control = first >> 14 & 3;
    Cmd id = Cmd::Count;
    const CommandInfo* info =
        control > 1 ? nullptr
                    : ethos::find_command(facts.encoding, control == 1, static_cast<uint16_t>(first & 0x3ff), id);
    if (info == nullptr || (first & 0x3c00) != 0)
      return error("Word {} of the command stream, {:#010x}, is not a command of the {}.", i, first, facts.name);
    NpuCommand command{static_cast<uint32_t>(i), static_cast<uint8_t>(id), static_cast<uint16_t>(first >> 16), 0};
    if (info->wide) {
      if (++i == words) return error("The command stream ends inside {} at word {}.", info->name, command.position);
      command.payload = load<uint32_t>(payload.stream.data() + 4 * i);
    }
    uint64_t value = uint64_t{command.payload} << 16 | command.parameter;
    if (uint64_t stray = value & ~info->mask(facts.encoding))
      return error("{} at word {} has bits {:#x} set, which have no meaning there.", info->name, command.position,
                   stray);
    commands.push_back(command);
  }
  return commands;
}

std::string to_text(const NpuCommand& command) {
  const CommandInfo& info = kTable[command.id];
  std::string_view lead = info.starts_work ? "" : "  ";
  if (info.wide)
    return fmt::format("{:6}  {}{:<32} {:#x}:{:#010x}", command.position, lead, info.name, command.parameter,
                       command.payload);
  return fmt::format("{:6}  {}{:<32} {}", command.position, lead, info.name, command.parameter);
}

}  // namespace swoop
