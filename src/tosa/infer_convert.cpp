// Rules of the operators that turn one integer type or scale into another.
#include "support/check.h"
#include "tosa/infer.h"

namespace swoop::tosa {

namespace {

Result<void> check_rescale_zero_point(const Operands& x, size_t i, DType dtype, bool is_unsigned) {
  TRY_ASSIGN(int64_t zp, x.zero_point(i, dtype, is_unsigned));
  if (dtype == DType::I8 || zp == 0) return {};
  if (dtype == DType::I16 && is_unsigned && zp == 32768) return {};
  return x.fail("the zero point {} is not allowed for {}{}", zp, is_unsigned ? "unsigned " : "", name(dtype));
}

Result<Types> infer_rescale(const Operands& x) {
  const auto& a = x.attributes<RescaleAttributes>();
  TRY(x.need_type(0, {DType::I8, DType::I16, DType::I32, DType::I48}));
  TRY(x.need_type(4, {DType::I8, DType::I16, DType::I32}));
  DType from = x.in(0).dtype;
  DType to = x.in(4).dtype;
  if (a.scale32 && from == DType::I48) return x.fail("i48 needs 16-bit multipliers (scale32 = false)");
  if (!a.scale32 && a.rounding == Rounding::Double) return x.fail("double rounding needs 32-bit multipliers");
  if (a.input_unsigned && a.output_unsigned) return x.fail("input and output are both unsigned");
  bool wide_input = from == DType::I32 || from == DType::I48;
  if (wide_input && (a.input_unsigned || a.output_unsigned))
    return x.fail("{} cannot go with unsigned values", name(from));
  if (to == DType::I32 && (a.input_unsigned || a.output_unsigned)) return x.fail("i32 cannot go with unsigned values");
  TRY(check_rescale_zero_point(x, 3, from, a.input_unsigned));
  TRY(check_rescale_zero_point(x, 4, to, a.output_unsigned));
  if (a.per_channel && x.in(0).shape.empty()) return x.fail("a scalar has no channels");
  int32_t count = a.per_channel ? x.in(0).shape.back() : 1;
  DType multiplier_type = a.scale32 ? DType::I32 : DType::I16;
  for (size_t i : {1, 2}) {
    DType type = i == 1 ? multiplier_type : DType::I8;
    const Tensor& tensor = x.in(i);
    if (!tensor.is_const || tensor.dtype != type || tensor.shape != Shape{count}) {
      return x.fail("the {} '{}' must be a constant {}[{}]", i == 1 ? "multiplier" : "shift", tensor.name, name(type),
                    count);
    }
  }
  for (size_t c = 0; c < static_cast<size_t>(count); ++c) {
    int64_t multiplier = read_element(x.in(1), c);
    int64_t shift = read_element(x.in(2), c);
    if (multiplier < 0) return x.fail("multiplier {} is {}; it must not be negative", c, multiplier);
    if (shift < 2 || shift > 62) return x.fail("shift {} is {}; it must be in [2, 62]", c, shift);
  }
  return Types{{to, x.in(0).shape}};
}

Result<Types> infer_cast(const Operands& x) {
  TRY(x.need_type(0, {DType::Bool, DType::I8, DType::I16, DType::I32}));
  DType to = x.attributes<CastAttributes>().to;
  bool known = to == DType::Bool || to == DType::I8 || to == DType::I16 || to == DType::I32;
  if (!known || to == x.in(0).dtype) return x.fail("{} cannot be cast to {}", name(x.in(0).dtype), name(to));
  return Types{{to, x.in(0).shape}};
}

Result<Types> infer_table(const Operands& x) {
  TRY(x.need_type(0, {DType::I8, DType::I16}));
  bool is_i8 = x.in(0).dtype == DType::I8;
  Shape expected{is_i8 ? 256 : 513};
  const Tensor& table = x.in(1);
  if (!table.is_const || table.dtype != x.in(0).dtype || table.shape != expected)
    return x.fail("the table '{}' must be a constant {}{}", table.name, name(x.in(0).dtype), text(expected));
  for (size_t i = 0; !is_i8 && i + 1 < 513; ++i) {
    int64_t slope = read_element(table, i + 1) - read_element(table, i);
    if (slope < INT16_MIN || slope > INT16_MAX)
      return x.fail("the table jumps by {} at {}; a step must fit i16", slope, i);
  }
  return Types{{is_i8 ? DType::I8 : DType::I32, x.in(0).shape}};
}

Result<Types> infer_clamp(const Operands& x) {
  TRY(x.need_type(0, {DType::I8, DType::I16}));
  const auto& [low, high] = x.attributes<ClampAttributes>();
  int64_t limit = x.in(0).dtype == DType::I8 ? 128 : 32768;
  if (low > high || low < -limit || high >= limit)
    return x.fail("the range [{}, {}] is not a range of {}", low, high, name(x.in(0).dtype));
  return Types{x.type(0)};
}

Result<Types> infer_negate(const Operands& x) {
  TRY(x.need_type(0, {DType::I8, DType::I16, DType::I32}));
  for (size_t i : {1, 2}) {
    TRY_ASSIGN(int64_t zp, x.zero_point(i, x.in(0).dtype));
    if (x.in(0).dtype != DType::I8 && zp != 0)
      return x.fail("the zero point of {} is {}; it must be 0", name(x.in(0).dtype), zp);
  }
  return Types{x.type(0)};
}

}  // namespace

Result<Types> infer_convert(const Operands& x) {
  if (x.op.op == Op::Rescale) return infer_rescale(x);
  if (x.op.op == Op::Cast) return infer_cast(x);
  if (x.op.op == Op::Table) return infer_table(x);
  if (x.op.op == Op::Clamp) return infer_clamp(x);
  CHECK(x.op.op == Op::Negate, "no rule for {}", name(x.op.op));
  return infer_negate(x);
}

}  // namespace swoop::tosa
