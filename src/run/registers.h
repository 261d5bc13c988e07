// The command table (registers.def) as an enum with names, codes and the bits that mean something, and the register
// file. Why: one row per command is the only place that knows a code; a word without a row cannot be decoded.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "run/run.h"
#include "support/check.h"

namespace swoop::ethos {

constexpr uint64_t kAbsent = ~uint64_t{0};  // no such command in this encoding

// What differs between the encodings. A third one does not compile until every caller gives its part.
template <typename T>
T by_encoding(NpuEncoding encoding, T u55, T u85) {
  switch (encoding) {
    case NpuEncoding::U55: return u55;
    case NpuEncoding::U85: return u85;
  }
  CHECK(false, "encoding {}", static_cast<int>(encoding));
}

enum class Cmd : uint8_t {
#define OPERATION(name, kind, code, mask_u55, mask_u85) OP_##name,
#define REGISTER(name, kind, code, mask_u55, mask_u85) name,
#include "run/registers.def"
#undef OPERATION
#undef REGISTER
  Count
};
constexpr size_t kCommandCount = static_cast<size_t>(Cmd::Count);

struct CommandInfo {
  std::string_view name;  // "NPU_SET_IFM_BASE0"
  bool wide;
  bool starts_work;  // NPU_OP_*
  uint16_t code;
  uint64_t mask_u55;  // payload << 16 | parameter
  uint64_t mask_u85;

  uint64_t mask(NpuEncoding encoding) const { return by_encoding(encoding, mask_u55, mask_u85); }
};

const CommandInfo& command_info(Cmd id);

// Where an encoded stream is; of weights, one for each decoder, and of scales, one for each core (U85: one).
struct StreamRegisters {
  Cmd base, length;
};
inline constexpr StreamRegisters kWeightStreams[] = {{Cmd::WEIGHT_BASE, Cmd::WEIGHT_LENGTH},
                                                     {Cmd::WEIGHT1_BASE, Cmd::WEIGHT1_LENGTH},
                                                     {Cmd::WEIGHT2_BASE, Cmd::WEIGHT2_LENGTH},
                                                     {Cmd::WEIGHT3_BASE, Cmd::WEIGHT3_LENGTH}};
inline constexpr StreamRegisters kScaleStreams[] = {{Cmd::SCALE_BASE, Cmd::SCALE_LENGTH},
                                                    {Cmd::SCALE1_BASE, Cmd::SCALE1_LENGTH}};

// Row for a code, or nullptr.
const CommandInfo* find_command(NpuEncoding encoding, bool wide, uint16_t code, Cmd& id);

// What the stream has set so far. Reading a register that was never set is remembered, and the operation that did it
// fails.
class Registers {
 public:
  void set(Cmd id, uint16_t parameter, uint32_t payload) {
    Entry& entry = entries_[static_cast<size_t>(id)];
    entry = {true, parameter, payload};
  }
  bool is_set(Cmd id) const { return entries_[static_cast<size_t>(id)].set; }

  uint32_t parameter(Cmd id) { return read(id).parameter; }
  uint32_t payload(Cmd id) { return read(id).payload; }
  uint32_t bits(Cmd id, int first, int count) { return (read(id).parameter >> first) & ((1u << count) - 1); }
  int64_t address(Cmd id) {  // 40 bits
    const Entry& entry = read(id);
    return static_cast<int64_t>(uint64_t{entry.parameter & 0xffu} << 32 | entry.payload);
  }
  int64_t stride(Cmd id) {  // 40 bits with sign: mirrored feature maps walk backwards
    int64_t value = address(id);
    return value >= (int64_t{1} << 39) ? value - (int64_t{1} << 40) : value;
  }

  // The first register that was read before it was set, since the last call; Count if none.
  Cmd take_missing() {
    Cmd id = missing_;
    missing_ = Cmd::Count;
    return id;
  }

 private:
  struct Entry {
    bool set = false;
    uint16_t parameter = 0;
    uint32_t payload = 0;
  };
  const Entry& read(Cmd id) {
    const Entry& entry = entries_[static_cast<size_t>(id)];
    if (!entry.set && missing_ == Cmd::Count) missing_ = id;
    return entry;
  }
  std::array<Entry, kCommandCount> entries_{};
  Cmd missing_ = Cmd::Count;
};

}  // namespace swoop::ethos
