// NPU_OP_ELEMENTWISE: one or two operands of the output's shape, with broadcast, scalars and (U85) chain buffers.
#include <algorithm>
#include <bit>
#include <limits>

#include "run/output.h"
#include "support/clones.h"
#include "support/parallel.h"

namespace swoop::ethos {

namespace {

enum class Mode : uint32_t {
  Mul = 0,
  Add = 1,
  Sub = 2,
  Min = 3,
  Max = 4,
  LeakyRelu = 5,
  Abs = 6,
  Clz = 7,
  Shr = 8,
  Shl = 9,
  Lsr = 10,
  Div = 11,
  Equal = 16,
  NotEqual = 17,
  GreaterEqual = 18,
  Greater = 19,
  And = 33,
  Or = 34,
  Xor = 35,
  Not = 36,
  AndNot = 42
};

bool is_unary(Mode mode) {
  return mode == Mode::Abs || mode == Mode::Clz || mode == Mode::Not || mode == Mode::LeakyRelu;
}

// An operand as an array with steps; a step of 0 repeats the element.
struct Operand {
  FeatureMap map;
  const char* in_memory = nullptr;  // what messages call it; null: a scalar or a chain buffer
  Shape3 shape;
  std::vector<int32_t> values;  // zero point subtracted
  int64_t step_y = 0, step_x = 0, step_c = 0;
  // How it is scaled before the operation.
  uint32_t scale = 1;
  int shift = 0;
  Rounding rounding = Rounding::Natural;
  int double_shift = 0;
  int left_shift = 0;  // U55: fixed shift of the operand that is not scaled with 32 bits

  int64_t scaled(int32_t value) const {
    if (left_shift != 0) return int64_t{value} * (int64_t{1} << left_shift);
    if (scale == 1 && shift == 0) return value;
    return scale_and_round(value, scale, shift, rounding, double_shift);
  }

  // Row y of the output's shape: broadcast, then scaled.
  void expand_row(int y, Shape3 output, int64_t* out) const {
    const int32_t* from = values.data() + y * step_y;
    const int64_t count = int64_t{output.w} * output.c;
    if (shape.w == output.w && shape.c == output.c) {
      std::copy_n(from, count, out);
    } else {
      int64_t* to = out;
      for (int x = 0; x < output.w; ++x, from += step_x, to += output.c) {
        if (shape.c == output.c)
          std::copy_n(from, output.c, to);
        else
          std::fill_n(to, output.c, from[0]);
      }
    }
    if (left_shift == 0 && scale == 1 && shift == 0) return;
    for (int64_t i = 0; i < count; ++i) out[i] = scaled(static_cast<int32_t>(out[i]));
  }
};

void set_steps(Operand& operand) {
  operand.step_c = operand.shape.c > 1 ? 1 : 0;
  operand.step_x = operand.shape.w > 1 ? operand.shape.c : 0;
  operand.step_y = operand.shape.h > 1 ? int64_t{operand.shape.w} * operand.shape.c : 0;
}

// broadcast: bits height, width, channels. scalar: the constant instead of memory. chain: buffer index or -1.
Result<Operand> read_operand(Machine& machine, const MapRegisters& names, Shape3 output, uint32_t broadcast,
                             bool scalar, int32_t constant, int chain) {
  Registers& r = machine.registers;
  Operand operand;
  if (scalar || chain >= 0) {
    TRY_ASSIGN(operand.map, read_map_type(r, names));
  } else {
    TRY_ASSIGN(operand.map, read_feature_map(r, machine.encoding(), names));
  }
  TRY(machine.check_registers());
  if (operand.map.type.bytes > 4) return error("{} has 64-bit elements.", command_info(names.precision).name);
  operand.shape = {(broadcast & 1) != 0 ? 1 : output.h, (broadcast & 2) != 0 ? 1 : output.w,
                   (broadcast & 4) != 0 ? 1 : output.c};
  const int zero_point = operand.map.zero_point;
  if (scalar) {
    operand.shape = {1, 1, 1};
    operand.values = {static_cast<int32_t>(static_cast<uint32_t>(constant) - static_cast<uint32_t>(zero_point))};
  } else if (chain >= 0) {
    ChainBuffer& buffer = machine.chains[static_cast<size_t>(chain)];
    if (!buffer.filled) return error("Chain buffer {} is read before it is filled.", chain);
    if (buffer.shape != operand.shape)
      return error("Chain buffer {} holds {} x {} x {}, not {} x {} x {}.", chain, buffer.shape.h, buffer.shape.w,
                   buffer.shape.c, operand.shape.h, operand.shape.w, operand.shape.c);
    operand.values = std::move(buffer.values);
    buffer.filled = false;
    for (int32_t& value : operand.values)
      value = static_cast<int32_t>(static_cast<uint32_t>(value) - static_cast<uint32_t>(zero_point));
  } else {
    TRY(machine.spend_elements(operand.shape.elements()));
    machine.blocks.reads.push_back({operand.map, operand.shape, ReadOrder::Same, names.what});
    operand.in_memory = names.what;
    if (machine.rehearsal) TRY(touch_read(machine.memory, operand.map, operand.shape, names.what));
  }
  set_steps(operand);
  return operand;
}

// The part of an operand that the pixels [x, x + width) of the output's row y take: at most as many elements.
Result<void> load_part(const Machine& machine, const Operand& operand, int y, int x, int width, int32_t* out) {
  const Shape3 part{1, operand.shape.w > 1 ? width : 1, operand.shape.c};
  return load_feature_map(machine.memory,
                          from_pixel(operand.map, operand.shape.h > 1 ? y : 0, operand.shape.w > 1 ? x : 0), part,
                          operand.map.zero_point, out, int64_t{part.w} * part.c, part.c, operand.in_memory);
}

Result<void> load_all(const Machine& machine, Operand& operand) {
  if (!operand.in_memory) return {};
  operand.values.resize(static_cast<size_t>(operand.shape.elements()));
  return load_feature_map(machine.memory, operand.map, operand.shape, operand.map.zero_point, operand.values.data(),
                          int64_t{operand.shape.w} * operand.shape.c, operand.shape.c, operand.in_memory);
}

// How the U55 and U65 scale the operands of ADD and SUB: both with 16 bits, or one with 32 bits and a shift while the
// other is shifted left by a fixed amount (8-bit elements: 19, 16-bit: 14, half of TFLite's 2^20 and 2^15).
Result<void> read_scales_u55(Machine& machine, Operand& a, Operand& b) {
  Registers& r = machine.registers;
  const uint32_t mode = r.bits(Cmd::IFM_PRECISION, 8, 2), rounding = r.bits(Cmd::IFM_PRECISION, 14, 2);
  const uint32_t scale_a = r.payload(Cmd::OPA_SCALE), scale_b = r.payload(Cmd::OPB_SCALE) & 0xffff;
  const int shift_a = static_cast<int>(r.bits(Cmd::OPA_SCALE, 0, 6));
  TRY(machine.check_registers());
  if (mode == 0) {
    a.scale = scale_a & 0xffff;
    b.scale = scale_b;
    return {};
  }
  if (mode > 2) return error("NPU_SET_IFM_PRECISION names scale mode {}, which is not known.", mode);
  Operand& scaled = mode == 1 ? a : b;
  Operand& shifted = mode == 1 ? b : a;
  if (scaled.map.type.bytes > 2)
    return error("NPU_SET_IFM_PRECISION scales a 32-bit operand with 32 bits, which is not known.");
  const int left_shift = scaled.map.type.bytes == 1 ? 19 : 14;
  // The hardware ignores operand B's scale here. A stream that needs another one than the fixed shift would go wrong on
  // a device.
  if (scale_b != ((1u << left_shift) & 0xffff))
    return error(
        "NPU_SET_OPB_SCALE is {}, but in 32-bit mode the core shifts the other operand left by {} and ignores it.",
        scale_b, left_shift);
  constexpr Rounding kModes[] = {Rounding::DoubleSymmetric, Rounding::TruncateToZero, Rounding::Natural};
  if (rounding > 2) return error("NPU_SET_IFM_PRECISION names rounding mode {}, which is not known.", rounding);
  if (rounding == 0 && shift_a > 31 - left_shift - 1)
    return error("The operand is scaled with double rounding and shift {}; where the core rounds first is not known.",
                 shift_a);
  scaled.scale = scale_a;
  scaled.shift = shift_a;
  scaled.rounding = kModes[rounding];
  shifted.left_shift = left_shift;
  return {};
}

Result<void> read_scale_u85(Machine& machine, Cmd id, Operand& operand) {
  Registers& r = machine.registers;
  operand.scale = r.payload(id);
  operand.shift = static_cast<int>(r.bits(id, 0, 6));
  operand.double_shift = static_cast<int>(r.bits(id, 6, 5));
  operand.rounding = r.bits(id, 13, 1) == 0 ? Rounding::DoubleSymmetric : Rounding::Natural;
  return machine.check_registers();
}

struct Operands {
  Operand a, b;
  bool binary = false;
};

Result<Operands> read_operands_u55(Machine& machine, Mode mode, Shape3 output) {
  Registers& r = machine.registers;
  Operands operands;
  TRY_ASSIGN(operands.a, read_operand(machine, kIfmRegisters, output, 0, false, 0, -1));
  if (is_unary(mode)) return operands;
  operands.binary = true;
  const uint32_t broadcast = r.parameter(Cmd::IFM2_BROADCAST);
  const bool constant = (broadcast >> 7 & 1) != 0, swapped = (broadcast >> 6 & 1) != 0;
  int32_t scalar = 0;
  if (constant) {
    uint32_t bits = r.parameter(Cmd::IFM2_SCALAR);
    scalar = r.bits(Cmd::IFM2_PRECISION, 0, 1) != 0 ? static_cast<int16_t>(bits) : static_cast<int32_t>(bits);
  }
  TRY_ASSIGN(operands.b, read_operand(machine, kIfm2Registers, output, broadcast & 7, constant, scalar, -1));
  if (swapped) std::swap(operands.a, operands.b);
  if (mode == Mode::Add || mode == Mode::Sub) TRY(read_scales_u55(machine, operands.a, operands.b));
  return operands;
}

Result<Operands> read_operands_u85(Machine& machine, Mode mode, Shape3 output) {
  Registers& r = machine.registers;
  Operands operands;
  constexpr uint32_t kScalar = 8;                   // broadcast_mode
  constexpr uint32_t kChained = 2, kNoStorage = 3;  // activation_storage
  auto read = [&](const MapRegisters& names, Cmd broadcast_id) -> Result<Operand> {
    const uint32_t broadcast = r.bits(broadcast_id, 0, 4), storage = r.bits(names.precision, 14, 2);
    if (broadcast > kScalar)
      return error("{} names mode {}, which is not known.", command_info(broadcast_id).name, broadcast);
    if (storage == 1) return error("{} asks for 3x1 tiles, which nobody emits.", command_info(names.precision).name);
    const bool scalar = broadcast == kScalar;
    if (scalar != (storage == kNoStorage))
      return error("{} and its storage disagree about a scalar.", command_info(broadcast_id).name);
    const int32_t constant = scalar ? static_cast<int32_t>(r.payload(Cmd::OP_SCALAR)) : 0;
    const int chain = storage == kChained ? static_cast<int>(r.parameter(names.region)) : -1;
    return read_operand(machine, names, output, broadcast & 7, scalar, constant, chain);
  };
  TRY_ASSIGN(operands.a, read(kIfmRegisters, Cmd::IFM_BROADCAST));
  TRY(read_scale_u85(machine, Cmd::IFM_SCALE, operands.a));
  if (is_unary(mode)) return operands;
  operands.binary = true;
  TRY_ASSIGN(operands.b, read(kIfm2Registers, Cmd::IFM2_BROADCAST));
  TRY(read_scale_u85(machine, Cmd::IFM2_SCALE, operands.b));
  return operands;
}

int64_t shift_left(int64_t a, int64_t b) {
  return b < 0 || b > 31 ? 0 : static_cast<int32_t>(static_cast<uint32_t>(a) << b);
}

int64_t truncated_quotient(int64_t a, int64_t b) { return b == 0 ? 0 : a / b; }

int64_t compute(Mode mode, int64_t a, int64_t b, Rounding rounding, int bits) {
  switch (mode) {
    case Mode::Mul: return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    case Mode::Add: return a + b;
    case Mode::Sub: return a - b;
    case Mode::Min: return std::min(a, b);
    case Mode::Max: return std::max(a, b);
    case Mode::Abs: return a < 0 ? -a : a;
    case Mode::Clz: return std::countl_zero(static_cast<uint32_t>(a));
    case Mode::Shr: return scale_and_round(a, 1, static_cast<int>(std::clamp<int64_t>(b, 0, 63)), rounding);
    case Mode::Shl: return shift_left(a, b);
    case Mode::Lsr: {
      const uint64_t mask = (uint64_t{1} << bits) - 1;
      return b < 0 || b > 63 ? 0 : static_cast<int64_t>((static_cast<uint64_t>(a) & mask) >> b);
    }
    case Mode::Div: return truncated_quotient(a, b);
    case Mode::Equal: return a == b ? -1 : 0;
    case Mode::NotEqual: return a != b ? -1 : 0;
    case Mode::GreaterEqual: return a >= b ? -1 : 0;
    case Mode::Greater: return a > b ? -1 : 0;
    case Mode::And: return a & b;
    case Mode::Or: return a | b;
    case Mode::Xor: return a ^ b;
    case Mode::Not: return ~a;
    case Mode::AndNot: return a & ~b;
    case Mode::LeakyRelu: break;
  }
  return 0;
}

// left = left op right, over a row. The frequent modes have loops of their own, which vectorise.
void compute_row(Mode mode, int64_t* left, const int64_t* right, int64_t count, Rounding rounding, int bits) {
  switch (mode) {
    case Mode::Mul:
      for (int64_t i = 0; i < count; ++i)
        left[i] = static_cast<int64_t>(static_cast<uint64_t>(left[i]) * static_cast<uint64_t>(right[i]));
      return;
    case Mode::Add:
      for (int64_t i = 0; i < count; ++i) left[i] += right[i];
      return;
    case Mode::Sub:
      for (int64_t i = 0; i < count; ++i) left[i] -= right[i];
      return;
    default:
      for (int64_t i = 0; i < count; ++i) left[i] = compute(mode, left[i], right[i], rounding, bits);
  }
}

SWOOP_CLONES void multiply_row(const int32_t* left, const int32_t* right, int32_t* out, int64_t count, int32_t add) {
  for (int64_t i = 0; i < count; ++i)
    out[i] = static_cast<int32_t>(static_cast<uint32_t>(left[i]) * static_cast<uint32_t>(right[i]) +
                                  static_cast<uint32_t>(add));
}

// Products of bytes that are stored as 32 bits, as in the matrix products of the U55: nothing is scaled.
bool is_plain_product(const Machine& machine, Mode mode, const Operands& operands, const OutputStage& stage) {
  const auto fits = [&](const Operand& operand) {
    return operand.in_memory && operand.map.type.bytes == 1 && operand.scale == 1 && operand.shift == 0 &&
           operand.left_shift == 0 && operand.shape.c == stage.shape.c && in_one_tile(operand.map, operand.shape) &&
           !may_overlap(operand.map, operand.shape, stage.map, stage.shape);
  };
  return mode == Mode::Mul && operands.binary && takes_strips(machine, stage) && stage.map.type.bytes == 4 &&
         !stage.clip && stage.table == Table::None && stage.global.scale == 1 && stage.global.shift == 0 &&
         stage.global.bias == 0 && fits(operands.a) && fits(operands.b);
}

Result<void> multiply_bytes(Machine& machine, const Operands& operands, const OutputStage& stage) {
  const int c = stage.shape.c, step = static_cast<int>(std::max<int64_t>(1, kStripElements / c));
  const auto elements = static_cast<size_t>(step) * static_cast<size_t>(c);
  std::vector<int32_t> left(elements), right(elements), out(elements);
  const auto load = [&](const Operand& operand, int y, int x, int width, int32_t* to) -> Result<void> {
    const bool repeats = operand.shape.w == 1;
    if (repeats && x > 0) return {};  // as for the first pixels of the row
    TRY(load_part(machine, operand, y, x, width, to));
    for (int i = 1; repeats && i < width; ++i) std::copy_n(to, c, to + int64_t{i} * c);
    return {};
  };
  for (int y = 0; y < stage.shape.h; ++y)
    for (int x = 0; x < stage.shape.w; x += step) {
      const int width = std::min(step, stage.shape.w - x);
      TRY(load(operands.a, y, x, width, left.data()));
      TRY(load(operands.b, y, x, width, right.data()));
      multiply_row(left.data(), right.data(), out.data(), int64_t{width} * c, stage.map.zero_point);
      TRY(write_strip(machine, stage, y, x, width, out.data()));
    }
  return {};
}

Result<void> check_mode(const Machine& machine, uint32_t bits) {
  constexpr uint64_t kU55 = 0x3ff, kU85 = 0x41e000f0fff;  // bit i: mode i. U85: 0-11, 16-19, 33-36, 42
  const uint64_t modes = by_encoding(machine.encoding(), kU55, kU85);
  if (bits > 63 || (modes >> bits & 1) == 0)
    return error("NPU_OP_ELEMENTWISE names mode {}, which the core does not have.", bits);
  if (static_cast<Mode>(bits) == Mode::LeakyRelu)
    return error("NPU_OP_ELEMENTWISE asks for LRELU, which is made from TFLite only.");
  return {};
}

}  // namespace

Result<void> run_elementwise(Machine& machine, uint32_t mode_bits) {
  TRY(check_mode(machine, mode_bits));
  const Mode mode = static_cast<Mode>(mode_bits);
  TRY_ASSIGN(OutputStage stage, read_output_stage(machine));
  if (stage.per_channel) {  // MIN, MAX, CLZ and shifts of the U55 have no scale
    if (by_encoding(machine.encoding(), mode <= Mode::Sub || mode == Mode::Abs, true))
      return error("The elementwise operation has a scale per channel.");
    stage.per_channel = false;
    stage.global = {};
  }
  auto read = by_encoding(machine.encoding(), read_operands_u55, read_operands_u85)(machine, mode, stage.shape);
  if (!read) return read.error();
  const Operand& a = read->a;
  const Operand& b = read->binary ? read->b : read->a;
  if (read->binary && a.map.type.bytes != b.map.type.bytes)
    return error("The operands have {}- and {}-byte elements.", a.map.type.bytes, b.map.type.bytes);
  const bool rounds_twice = by_encoding(machine.encoding(), false, true);
  if (mode == Mode::Shr && stage.rounding == Rounding::DoubleSymmetric && !rounds_twice)
    return error(
        "A right shift asks for double rounding; what the core does then is not known (TOSA's shift without "
        "rounding).");
  TRY(machine.spend_elements(2 * stage.shape.elements()));
  if (machine.wants_summary)
    machine.summary = fmt::format("mode {} {}, {} -> {}", mode_bits, describe(a.map, a.shape),
                                  read->binary ? describe(b.map, b.shape) : "-", describe(stage.map, stage.shape));

  const bool wide = stage.map.type.bytes == 8;
  if (machine.rehearsal) return wide ? write_output64(machine, stage, {}) : write_output(machine, stage, {});
  if (is_plain_product(machine, mode, *read, stage)) return multiply_bytes(machine, *read, stage);
  TRY(load_all(machine, read->a));
  TRY(load_all(machine, read->b));
  const Shape3 shape = stage.shape;
  std::vector<int32_t> values(wide ? 0 : static_cast<size_t>(shape.elements()));
  std::vector<int64_t> values64(wide ? static_cast<size_t>(shape.elements()) : 0);
  const int bits = 8 * a.map.type.bytes;
  const int64_t row_size = int64_t{shape.w} * shape.c;
  parallel_for(static_cast<size_t>(shape.h), static_cast<size_t>(1 + 32768 / row_size), [&](size_t first, size_t last) {
    std::vector<int64_t> left(static_cast<size_t>(row_size)), right(static_cast<size_t>(row_size));
    for (size_t row = first; row < last; ++row) {
      a.expand_row(static_cast<int>(row), shape, left.data());
      if (read->binary) b.expand_row(static_cast<int>(row), shape, right.data());
      compute_row(mode, left.data(), right.data(), row_size, stage.rounding, bits);
      const size_t at = row * static_cast<size_t>(row_size);
      if (!wide)
        stage.finish_same_scale(left.data(), values.data() + at, row_size);
      else
        for (int64_t i = 0; i < row_size; ++i)
          values64[at + static_cast<size_t>(i)] = stage.finish64(left[static_cast<size_t>(i)], 0);
    }
  });
  if (wide) return write_output64(machine, stage, values64);
  return write_output(machine, stage, std::move(values));
}

}  // namespace swoop::ethos
