#include "run/output.h"

#include <algorithm>
#include <cstring>

#include "support/clones.h"

namespace swoop::ethos {

namespace {

__extension__ typedef __int128 Wide;  // 48-bit accumulators times 32-bit scales do not fit 64 bits

template <typename T>
T rounding_term(bool negative, int shift, Rounding rounding, int double_shift) {
  const T half = shift > 0 ? T{1} << (shift - 1) : T{0};
  const T first = shift > 31 - double_shift && double_shift <= 30 ? T{1} << (30 - double_shift) : T{0};
  switch (rounding) {
    case Rounding::Natural: return half;
    case Rounding::DoubleSymmetric: return half + (negative ? -first : first);
    case Rounding::DoubleAsymmetric: return half + first;
    case Rounding::Symmetric: return shift > 0 && negative ? half - 1 : half;
    case Rounding::TruncateToZero: return negative ? (T{1} << shift) - 1 : T{0};
    case Rounding::TruncateToLower: return T{0};
  }
  return T{0};
}

// A rehearsal takes down which transfer comes too early, and goes on as if it came later.
Result<const std::byte*> find_table(Machine& machine, int64_t first, uint64_t size) {
  TRY_ASSIGN(const std::byte* table,
             machine.memory.readable(kInternalRegion, first, size, "The activation's look-up table"));
  const std::optional<uint32_t> overwritten = machine.memory.read_table(first, size);
  if (!overwritten) return table;
  std::string what =
      fmt::format("The activation's look-up table was overwritten by the transfer at word {}.", *overwritten);
  if (!machine.rehearsal) return Error{std::move(what)};
  machine.faults.push_back(
      {*overwritten, command_info(Cmd::OP_DMA_START).name, NpuRepair::StartLater, std::move(what), machine.position});
  return table;
}

Result<void> read_table_u55(Machine& machine, OutputStage& stage, uint32_t function, uint32_t clip_range) {
  constexpr uint32_t kRelu = 0, kTable0 = 16, kTable7 = 23;  // activation_function
  constexpr uint32_t kOfmPrecision = 0, kForceInt8 = 3;      // activation_clip_range
  if (clip_range != kOfmPrecision && !(clip_range == kForceInt8 && stage.map.type.bytes == 4))
    return error("NPU_SET_ACTIVATION clips to range {}, which nobody emits for {}-byte output.", clip_range,
                 stage.map.type.bytes);
  if (function == kRelu) return {};
  if (function < kTable0 || function > kTable7)
    return error("NPU_SET_ACTIVATION names function {}, which is not supported.", function);
  uint64_t size = 0;
  switch (stage.map.type.bytes) {
    case 1:
      stage.table = Table::Bytes;
      size = 256;
      break;
    case 2:
      stage.table = Table::Interpolated16;
      size = 2048;
      break;
    case 4:
      stage.table = Table::BytesTo32;
      size = 1024;
      break;
    default: return error("NPU_SET_ACTIVATION uses a look-up table for 64-bit output.");
  }
  stage.table_signed = stage.map.type.is_signed || stage.map.type.bytes != 1;
  // Tables live in slots of 256 bytes in the last 2 KiB of the internal memory.
  int64_t first = int64_t{machine.config.internal_bytes} - 2048 + 256 * int64_t{function - kTable0};
  TRY_ASSIGN(stage.table_data, find_table(machine, first, size));
  return {};
}

Result<void> read_table_u85(Machine& machine, OutputStage& stage, uint32_t function, uint32_t index) {
  uint64_t size = 0;
  switch (function) {  // activation_function
    case 0: return {};
    case 1:
      stage.table = Table::Bytes;
      stage.table_signed = false;
      size = 256;
      break;
    case 4:
      stage.table = Table::Bytes;
      size = 256;
      break;
    case 5:
      stage.table = Table::BytesTo16;
      size = 512;
      break;
    case 7:
      stage.table = Table::BytesTo32;
      size = 1024;
      break;
    case 8:
      stage.table = Table::Interpolated16;
      size = 2048;
      break;
    case 9:
      stage.table = Table::Interpolated32;
      size = 2048;
      break;
    default: return error("NPU_SET_ACTIVATION names function {}, which is not supported.", function);
  }
  TRY_ASSIGN(stage.table_data, find_table(machine, static_cast<int64_t>(index * size), size));
  return {};
}

// Axes of the result for each transpose: which axis of the operation (0 height, 1 width, 2 channels) each of them is.
bool transpose_axes(int transpose, int axes[3]) {
  constexpr int kAxes[8][3] = {{0, 1, 2},    {1, 0, 2},    {0, 2, 1}, {1, 2, 0},
                               {-1, -1, -1}, {-1, -1, -1}, {2, 0, 1}, {2, 1, 0}};
  std::copy_n(kAxes[transpose & 7], 3, axes);
  return axes[0] >= 0;
}

// Keeps what is put out for an observer that asked for it.
template <typename T>
void note_block(Machine& machine, const OutputStage& stage, Shape3 shape, const std::vector<T>& values) {
  if (!machine.wants_block) return;
  NpuBlock& block = machine.block.emplace(NpuBlock{shape.h, shape.w, shape.c, stage.map.type.bytes, {}, {}, false});
  const auto bytes = static_cast<size_t>(stage.map.type.bytes);
  block.codes.resize(values.size() * bytes);
  for (size_t i = 0; i < values.size(); ++i)
    std::memcpy(block.codes.data() + i * bytes, &values[i], std::min(bytes, sizeof(T)));
  if (stage.chain < 0) block.place = stage.map;
}

template <typename T>
Result<void> put(Machine& machine, const OutputStage& stage, const std::vector<T>& values) {
  machine.blocks.writes = true;
  machine.blocks.written = stage.map;
  if (stage.transpose == 0 && stage.reverse == 0) {
    if (machine.rehearsal) return touch_written(machine.memory, stage.map, stage.shape, "The output");
    note_block(machine, stage, stage.shape, values);
    return store_feature_map(machine.memory, stage.map, stage.shape, values.data(), "The output");
  }
  int axes[3];
  if (!transpose_axes(stage.transpose, axes))
    return error("NPU_SET_OFM_PRECISION names transpose {}.", stage.transpose);
  const int size[3] = {stage.shape.h, stage.shape.w, stage.shape.c};
  const int64_t step[3] = {int64_t{stage.shape.w} * stage.shape.c, stage.shape.c, 1};
  Shape3 shape{size[axes[0]], size[axes[1]], size[axes[2]]};
  machine.blocks.written_axes = {axes[0], axes[1], axes[2]};
  machine.blocks.reversed = stage.reverse;
  if (machine.rehearsal) return touch_written(machine.memory, stage.map, shape, "The output");
  std::vector<T> moved(values.size());
  size_t at = 0;
  for (int y = 0; y < shape.h; ++y)
    for (int x = 0; x < shape.w; ++x)
      for (int c = 0; c < shape.c; ++c) {
        int from_y = stage.reverse == 1 ? shape.h - 1 - y : y;
        int from_x = stage.reverse == 2 ? shape.w - 1 - x : x;
        int from_c = stage.reverse == 3 ? shape.c - 1 - c : c;
        moved[at++] =
            values[static_cast<size_t>(from_y * step[axes[0]] + from_x * step[axes[1]] + from_c * step[axes[2]])];
      }
  note_block(machine, stage, shape, moved);
  if (machine.block) machine.block->turned = true;
  return store_feature_map(machine.memory, stage.map, shape, moved.data(), "The output");
}

}  // namespace

int64_t scale_and_round(int64_t value, uint32_t scale, int shift, Rounding rounding, int double_shift) {
  const bool negative = value < 0;
  if (shift < 62 && scale < (1u << 31) && value >= INT32_MIN && value <= INT32_MAX) {
    const int64_t term = rounding_term<int64_t>(negative, shift, rounding, double_shift);
    const int64_t product = value * static_cast<int64_t>(scale);
    // |product| < 2^62 and |term| < 2^62: no overflow.
    return (product + term) >> shift;
  }
  const Wide product = static_cast<Wide>(value) * scale;
  return static_cast<int64_t>((product + rounding_term<Wide>(negative, shift, rounding, double_shift)) >> shift);
}

int32_t OutputStage::activate(int64_t value) const {
  value = static_cast<int64_t>(static_cast<uint64_t>(value) + static_cast<uint64_t>(int64_t{map.zero_point}));
  if (clip) value = std::clamp(value, clip_low, clip_high);
  return look_up(value);
}

int32_t OutputStage::look_up(int64_t value) const {
  switch (table) {
    case Table::None: break;
    case Table::Bytes: {
      int64_t index = std::clamp<int64_t>(table_signed ? value + 128 : value, 0, 255);
      return table_signed ? static_cast<int8_t>(table_data[index]) : static_cast<int32_t>(table_data[index]);
    }
    case Table::BytesTo16: return load<int16_t>(table_data + 2 * std::clamp<int64_t>(value + 128, 0, 255));
    case Table::BytesTo32: return load<int32_t>(table_data + 4 * std::clamp<int64_t>(value + 128, 0, 255));
    case Table::Interpolated16:
    case Table::Interpolated32: {
      // 512 words: base in the low half, slope in the high half; the low 7 bits of the value interpolate between two
      // bases.
      int64_t index = std::clamp<int64_t>(value + 32768, 0, 65535);
      uint32_t word = load<uint32_t>(table_data + 4 * (index >> 7));
      int32_t base = static_cast<int16_t>(word & 0xffff), slope = static_cast<int16_t>(word >> 16);
      int32_t exact = base * 128 + slope * static_cast<int32_t>(index & 127);
      return table == Table::Interpolated32 ? exact : (exact + 64) >> 7;
    }
  }
  return static_cast<int32_t>(value);
}

void OutputStage::look_up_all(int32_t* values, int64_t count) const {
  if (table == Table::None) return;
  for (int64_t i = 0; i < count; ++i) values[i] = look_up(values[i]);
}

namespace {

// The common case of int8 networks: rounded naturally and clipped. A signed number is shifted as an unsigned one, which
// AVX2 can. False: a number does not fit, and `out` means nothing.
SWOOP_CLONES bool finish_channels(const int32_t* sums, const ChannelScale* scales, int64_t count, int64_t zero_point,
                                  int64_t low, int64_t high, int32_t* out) {
  constexpr uint64_t kSign = uint64_t{1} << 63;
  uint64_t beyond = 0;  // 32 bits, or a shift of 61
  for (int64_t c = 0; c < count; ++c) {
    const ChannelScale& s = scales[c];
    const int64_t value = sums[c] + s.bias;
    beyond |= (static_cast<uint64_t>(value) + (uint64_t{1} << 31)) >> 32;
    beyond |= s.scale >> 31 | static_cast<uint32_t>(61 - s.shift) >> 31;
    const int64_t product = int64_t{static_cast<int32_t>(value)} * static_cast<int32_t>(s.scale);
    const uint64_t half = uint64_t{1} << (s.shift & 63) >> 1;
    const uint64_t shifted =
        ((static_cast<uint64_t>(product) + half + kSign) >> (s.shift & 63)) - (kSign >> (s.shift & 63));
    int64_t scaled = static_cast<int64_t>(shifted) + zero_point;
    scaled = scaled < low ? low : scaled;
    out[c] = static_cast<int32_t>(scaled > high ? high : scaled);
  }
  return beyond == 0;
}

}  // namespace

void OutputStage::finish_row(const int32_t* accumulators, int32_t* out, int channels_in_row) const {
  if (per_channel && clip && rounding == Rounding::Natural &&
      finish_channels(accumulators, channels.data(), channels_in_row, map.zero_point, clip_low, clip_high, out))
    return look_up_all(out, channels_in_row);
  for (int c = 0; c < channels_in_row; ++c) out[c] = finish(accumulators[c], c);
}

void OutputStage::finish_same_scale(const int64_t* accumulators, int32_t* out, int64_t count) const {
  const auto offset = static_cast<uint64_t>(int64_t{map.zero_point});
  if (global.scale == 1 && global.shift == 0 && global.bias == 0 && (table == Table::None || clip)) {
    // Sums and products that are only stored, and what needs no more than a zero point: no rounding to do.
    const int64_t low = clip ? clip_low : INT64_MIN, high = clip ? clip_high : INT64_MAX;
    for (int64_t i = 0; i < count; ++i)
      out[i] = static_cast<int32_t>(
          std::clamp(static_cast<int64_t>(static_cast<uint64_t>(accumulators[i]) + offset), low, high));
    return look_up_all(out, count);
  }
  if (rounding == Rounding::Natural && clip && global.bias == 0 && global.scale < (1u << 31) && global.shift > 0 &&
      global.shift < 62) {
    const int64_t scale = global.scale, half = int64_t{1} << (global.shift - 1);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t value = accumulators[i];
      const bool fits = value >= INT32_MIN && value <= INT32_MAX;
      const int64_t scaled =
          fits ? (value * scale + half) >> global.shift : scale_and_round(value, global.scale, global.shift, rounding);
      const auto moved = static_cast<int64_t>(static_cast<uint64_t>(scaled) + offset);
      out[i] = static_cast<int32_t>(std::clamp(moved, clip_low, clip_high));
    }
    return look_up_all(out, count);
  }
  for (int64_t i = 0; i < count; ++i) out[i] = finish(accumulators[i], 0);
}

Result<OutputStage> read_output_stage(Machine& machine) {
  Registers& r = machine.registers;
  OutputStage stage;
  stage.shape = {static_cast<int>(r.parameter(Cmd::OFM_HEIGHT_M1)) + 1,
                 static_cast<int>(r.parameter(Cmd::OFM_WIDTH_M1)) + 1,
                 static_cast<int>(r.parameter(Cmd::OFM_DEPTH_M1)) + 1};
  machine.blocks.output = stage.shape;
  machine.blocks.block = {static_cast<int>(r.parameter(Cmd::OFM_BLK_HEIGHT_M1)) + 1,
                          static_cast<int>(r.parameter(Cmd::OFM_BLK_WIDTH_M1)) + 1,
                          static_cast<int>(r.parameter(Cmd::OFM_BLK_DEPTH_M1)) + 1};
  stage.per_channel = r.bits(Cmd::OFM_PRECISION, 8, 1) == 0;
  uint32_t storage = 0;
  switch (machine.encoding()) {
    case NpuEncoding::U55: {
      uint32_t mode = r.bits(Cmd::OFM_PRECISION, 14, 2);
      if (mode > 2) return error("NPU_SET_OFM_PRECISION names rounding mode {}, which is not known.", mode);
      constexpr Rounding kModes[] = {Rounding::DoubleSymmetric, Rounding::TruncateToZero, Rounding::Natural};
      stage.rounding = kModes[mode];
      break;
    }
    case NpuEncoding::U85: {
      storage = r.bits(Cmd::OFM_PRECISION, 14, 2);  // activation_storage: tiles 2x2, tiles 3x1, chained, none
      stage.reverse = static_cast<int>(r.bits(Cmd::OFM_PRECISION, 9, 2));
      stage.transpose = static_cast<int>(r.bits(Cmd::OFM_PRECISION, 11, 3));
      if (storage == 1) return error("NPU_SET_OFM_PRECISION asks for 3x1 tiles, which nobody emits.");
      if (stage.reverse != 0 && stage.transpose != 0)
        return error("NPU_SET_OFM_PRECISION asks for a transpose and a reverse.");
      uint32_t mode = r.bits(Cmd::OFM_SCALE, 13, 3);
      if (mode > 5) return error("NPU_SET_OFM_SCALE names rounding mode {}, which is not known.", mode);
      constexpr Rounding kModes[] = {Rounding::DoubleSymmetric, Rounding::Natural,        Rounding::DoubleAsymmetric,
                                     Rounding::Symmetric,       Rounding::TruncateToZero, Rounding::TruncateToLower};
      stage.rounding = kModes[mode];
      stage.double_shift = static_cast<int>(r.bits(Cmd::OFM_SCALE, 6, 5));
      break;
    }
  }
  if (storage == 2) {
    TRY_ASSIGN(stage.map, read_map_type(r, kOfmRegisters));
    stage.chain = static_cast<int>(r.parameter(Cmd::OFM_REGION));
  } else if (storage == 3) {
    TRY_ASSIGN(stage.map, read_map_type(r, kOfmRegisters));
    stage.discard = true;
  } else {
    TRY_ASSIGN(stage.map, read_feature_map(r, machine.encoding(), kOfmRegisters));
  }
  if (!stage.per_channel) stage.global = {0, r.payload(Cmd::OFM_SCALE), static_cast<int>(r.bits(Cmd::OFM_SCALE, 0, 6))};

  uint32_t function = r.bits(Cmd::ACTIVATION, 0, 5);
  auto bound = [&](Cmd id) -> int64_t {
    uint32_t bits = r.parameter(id);
    return stage.map.type.is_signed ? static_cast<int16_t>(bits) : static_cast<int64_t>(bits);
  };
  switch (machine.encoding()) {
    case NpuEncoding::U55:
      TRY(read_table_u55(machine, stage, function, r.bits(Cmd::ACTIVATION, 12, 3)));
      stage.clip = stage.map.type.bytes <= 2 || stage.table != Table::None;
      break;
    case NpuEncoding::U85:
      TRY(read_table_u85(machine, stage, function, r.bits(Cmd::ACTIVATION, 5, 3)));
      stage.clip = r.bits(Cmd::ACTIVATION, 12, 1) == 0;
      break;
  }
  stage.clip_low = bound(Cmd::ACTIVATION_MIN);
  stage.clip_high = bound(Cmd::ACTIVATION_MAX);
  if (stage.clip && stage.clip_low > stage.clip_high)
    return error("The activation clips to an empty range, {} to {}.", stage.clip_low, stage.clip_high);
  // Without clipping the low bits are kept (left shifts rely on it); with it, values never leave the output's type.
  if (stage.clip && stage.map.type.bytes <= 2 && stage.table == Table::None) {
    stage.clip_low = std::max(stage.clip_low, stage.map.type.lowest());
    stage.clip_high = std::min(stage.clip_high, stage.map.type.highest());
    if (stage.clip_low > stage.clip_high) return error("The activation clips outside the output's type.");
  }
  TRY(machine.check_registers());
  if (stage.shape.elements() > kMaxElements || int64_t{stage.shape.h} * stage.shape.w > kMaxElements)
    return error("The output ({} x {} x {}) is too large.", stage.shape.h, stage.shape.w, stage.shape.c);
  TRY(machine.spend_elements(stage.shape.elements()));  // before anybody allocates it
  return stage;
}

Result<void> write_output(Machine& machine, const OutputStage& stage, std::vector<int32_t> values) {
  if (stage.discard) return {};
  machine.chain_open = stage.chain >= 0;
  if (!values.empty()) machine.result_flag = values.back() != 0;
  if (stage.chain >= 0) {
    note_block(machine, stage, stage.shape, values);
    machine.chains[static_cast<size_t>(stage.chain)] = {true, stage.shape, std::move(values)};
    return {};
  }
  return put(machine, stage, values);
}

bool takes_strips(const Machine& machine, const OutputStage& stage) {
  return !machine.rehearsal && !machine.wants_block && !stage.discard && stage.chain < 0 && stage.transpose == 0 &&
         stage.reverse == 0 && stage.map.type.bytes <= 4 && in_one_tile(stage.map, stage.shape);
}

Result<void> write_strip(Machine& machine, const OutputStage& stage, int y, int x, int width, const int32_t* values) {
  machine.chain_open = false;
  machine.blocks.writes = true;
  machine.blocks.written = stage.map;
  machine.result_flag = values[int64_t{width} * stage.shape.c - 1] != 0;
  return store_feature_map(machine.memory, from_pixel(stage.map, y, x), {1, width, stage.shape.c}, values,
                           "The output");
}

Result<void> write_output64(Machine& machine, const OutputStage& stage, const std::vector<int64_t>& values) {
  if (stage.discard) return {};
  if (stage.chain >= 0) return error("A chain buffer cannot hold 64-bit values.");
  return put(machine, stage, values);
}

std::string describe(const FeatureMap& map, Shape3 shape) {
  return fmt::format("{}{}[{},{},{}]{} r{}+{:#x} zp {}", map.type.is_signed ? 'i' : 'u', 8 * map.type.bytes, shape.h,
                     shape.w, shape.c, map.bricks ? "b16" : "", map.region, map.base[0], map.zero_point);
}

}  // namespace swoop::ethos
