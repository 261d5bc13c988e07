// Arithmetic, comparisons and logic of two operands. Python numbers become constants of rank 0; alpha is folded in.
#include <cmath>

#include "import/aten.h"

namespace swoop {

namespace {

// bool < integers < floats
int category(DType dtype) { return dtype == DType::Bool ? 0 : is_float(dtype) ? 2 : 1; }

// PyTorch's common type of two tensors: a higher category wins, then a tensor with dims over one without, then the
// wider type.
DType common_dtype(const Type& a, const Type& b) {
  int ca = category(a.dtype);
  int cb = category(b.dtype);
  if (ca != cb) return ca > cb ? a.dtype : b.dtype;
  if (a.shape.empty() != b.shape.empty()) return a.shape.empty() ? b.dtype : a.dtype;
  if (a.dtype == b.dtype) return a.dtype;
  if (ca == 2) return a.dtype == DType::F64 || b.dtype == DType::F64 ? DType::F64 : DType::F32;
  if (byte_size(a.dtype) == byte_size(b.dtype)) return DType::I16;  // u8 with i8
  return byte_size(a.dtype) > byte_size(b.dtype) ? a.dtype : b.dtype;
}

// What comparisons and the like compute in when the result does not tell.
DType operand_dtype(Call& c) {
  if (c.is_number(0)) return c.is_number(1) ? DType::F32 : c.dtype(c.tensor(1));
  const Type a = c.type(c.tensor(0));
  if (!c.is_number(1)) return common_dtype(a, c.type(c.tensor(1)));
  bool real = std::holds_alternative<double>(c.args[1]);
  if (real && category(a.dtype) < 2) return DType::F32;
  if (!real && a.dtype == DType::Bool && !std::holds_alternative<bool>(c.args[1])) return DType::I64;
  return a.dtype;
}

Results with_alpha(Call& c, Op op, size_t first, size_t second) {
  DType dtype = c.result().dtype;
  ValueId a = c.operand(first, dtype);
  ValueId b = c.operand(second, dtype);
  if (dtype == DType::Bool) return c.make(Op::Logical, {a, b}, {{Key::Fn, std::string("or")}});
  return c.make(op, {a, c.scaled(b, c.real(2))});
}

Results add(Call& c) { return with_alpha(c, Op::Add, 0, 1); }
Results sub(Call& c) { return with_alpha(c, Op::Sub, 0, 1); }
Results rsub(Call& c) { return with_alpha(c, Op::Sub, 1, 0); }

Results mul(Call& c) {
  DType dtype = c.result().dtype;
  ValueId a = c.operand(0, dtype);
  ValueId b = c.operand(1, dtype);
  if (dtype == DType::Bool) return c.make(Op::Logical, {a, b}, {{Key::Fn, std::string("and")}});
  return c.mul(a, b);
}

template <Op op>
Results binary(Call& c) {
  DType dtype = c.result().dtype;
  ValueId a = c.operand(0, dtype);
  return c.make(op, {a, c.operand(1, dtype)});
}

ValueId divided(Call& c, std::string_view mode) {
  DType dtype = c.result().dtype;
  ValueId a = c.operand(0, dtype);
  ValueId b = c.operand(1, dtype);
  if (mode.empty()) return c.div(a, b);
  if (mode != "floor" && mode != "trunc") malformed("its rounding mode `{}` does not exist", mode);
  return c.make(Op::Div, {a, b}, {{Key::Mode, std::string(mode)}});
}

Results div(Call& c) { return divided(c, ""); }
Results div_mode(Call& c) { return divided(c, c.none(2) ? std::string_view() : c.text(2)); }
Results floor_divide(Call& c) { return divided(c, "floor"); }

// The remainder of the sizes, with the sign of a
Results fmod(Call& c) {
  DType dtype = c.result().dtype;
  ValueId a = c.operand(0, dtype);
  ValueId size = c.make(Op::Remainder, {c.unary("abs", a), c.unary("abs", c.operand(1, dtype))});
  return c.mul(c.unary("sign", a), size);
}

Results atan2(Call& c) {
  DType dtype = c.result().dtype;
  ValueId y = c.operand(0, dtype);
  return c.angle_of(y, c.operand(1, dtype));
}

Results ldexp(Call& c) {
  DType dtype = c.result().dtype;
  ValueId x = c.operand(0, dtype);
  return c.mul(x, c.unary("exp", c.scaled(c.operand(1, dtype), std::log(2.0))));
}

// base^x as a function of x alone
Results power_of_number(Call& c) {
  DType dtype = c.result().dtype;
  if (!is_float(dtype) || c.real(0) <= 0) return binary<Op::Pow>(c);
  return c.unary("exp", c.scaled(c.operand(1, dtype), std::log(c.real(0))));
}

// Of truths: a == b is not (a xor b), a > b is a and not b. The NPU compares numbers alone.
ValueId compare_truths(Call& c, ValueId a, ValueId b) {
  auto logical = [&](std::string_view fn, ValueId x, ValueId y) {
    return c.make(Op::Logical, {x, y}, {{Key::Fn, std::string(fn)}});
  };
  auto inverse = [&](ValueId x) { return c.make(Op::LogicalNot, {x}); };
  std::string_view fn = c.detail();
  if (fn == "eq") return inverse(logical("xor", a, b));
  if (fn == "ne") return logical("xor", a, b);
  if (fn == "gt") return logical("and", a, inverse(b));
  if (fn == "lt") return logical("and", inverse(a), b);
  return fn == "ge" ? logical("or", a, inverse(b)) : logical("or", inverse(a), b);
}

Results compare(Call& c) {
  DType dtype = operand_dtype(c);
  ValueId a = c.operand(0, dtype);
  ValueId b = c.operand(1, dtype);
  if (dtype == DType::Bool) return compare_truths(c, a, b);
  return c.make(Op::Compare, {a, b}, {{Key::Fn, std::string(c.detail())}});
}

// Any number other than zero is true.
ValueId truth(Call& c, size_t index) {
  ValueId x = c.tensor(index);
  if (c.dtype(x) == DType::Bool) return x;
  return c.make(Op::Compare, {x, c.scalar(0, c.dtype(x))}, {{Key::Fn, std::string("ne")}});
}

Results logical(Call& c) {
  ValueId a = truth(c, 0);
  return c.make(Op::Logical, {a, truth(c, 1)}, {{Key::Fn, std::string(c.detail())}});
}

Results logical_not(Call& c) { return c.make(Op::LogicalNot, {truth(c, 0)}); }

Results bitwise(Call& c) {
  DType dtype = c.result().dtype;
  ValueId a = c.operand(0, dtype);
  ValueId b = c.operand(1, dtype);
  return c.make(dtype == DType::Bool ? Op::Logical : Op::Bitwise, {a, b}, {{Key::Fn, std::string(c.detail())}});
}

Results bitwise_not(Call& c) {
  return c.make(c.result().dtype == DType::Bool ? Op::LogicalNot : Op::BitwiseNot, {c.tensor(0)});
}

ValueId chosen(Call& c, ValueId condition, size_t a, size_t b) {
  if (c.dtype(condition) == DType::U8) condition = c.cast(condition, DType::Bool);
  DType dtype = c.result().dtype;
  ValueId yes = c.operand(a, dtype);
  return c.make(Op::Where, {condition, yes, c.operand(b, dtype)});
}

Results where(Call& c) { return chosen(c, c.tensor(0), 1, 2); }
Results masked_fill(Call& c) { return chosen(c, c.tensor(1), 2, 0); }

// self + value * a * b, self + value * a / b
template <Op op>
Results add_combined(Call& c) {
  DType dtype = c.result().dtype;
  ValueId a = c.operand(1, dtype);
  ValueId b = c.operand(2, dtype);
  ValueId self = c.operand(0, dtype);
  return c.add(self, c.scaled(c.make(op, {a, b}), c.real(3)));
}

// start + weight * (end - start)
Results lerp(Call& c) {
  DType dtype = c.result().dtype;
  ValueId start = c.tensor(0);
  return c.add(start, c.mul(c.operand(2, dtype), c.sub(c.tensor(1), start)));
}

ValueId is_nan(Call& c, ValueId x) { return c.compare("ne", x, x); }

// The larger (smaller) one, or the one that is a number
template <Op op>
Results extreme_number(Call& c) {
  DType dtype = c.result().dtype;
  ValueId a = c.operand(0, dtype), b = c.operand(1, dtype);
  ValueId both = c.make(op, {a, b});
  if (!is_float(dtype)) return both;
  return c.where(is_nan(c, a), b, c.where(is_nan(c, b), a, both));
}

Results hypot(Call& c) {
  return c.unary("sqrt", c.add(c.unary("square", c.tensor(0)), c.unary("square", c.tensor(1))));
}

Results logaddexp(Call& c) { return c.log_add_exp(c.tensor(0), c.tensor(1)); }

Results logaddexp2(Call& c) {
  constexpr double kLogOfTwo = 0.69314718055994530942;
  return c.scaled(c.log_add_exp(c.scaled(c.tensor(0), kLogOfTwo), c.scaled(c.tensor(1), kLogOfTwo)), 1 / kLogOfTwo);
}

// |a| with the sign of b. The sign of a zero is not told apart.
Results copysign(Call& c) {
  DType dtype = c.result().dtype;
  ValueId size = c.unary("abs", c.operand(0, dtype)), b = c.operand(1, dtype);
  return c.where(c.compare("lt", b, c.scalar(0, dtype)), c.unary("neg", size), size);
}

// 0 below zero, 1 above, else the given values
Results heaviside(Call& c) {
  ValueId x = c.tensor(0), zero = c.scalar(0, c.dtype(x));
  ValueId above = c.cast(c.compare("gt", x, zero), c.dtype(x));
  return c.where(c.compare("eq", x, zero), c.tensor(1), above);
}

// |a - b| <= atol + rtol * |b|
Results isclose(Call& c) {
  DType dtype = is_float(operand_dtype(c)) ? operand_dtype(c) : DType::F32;
  ValueId a = c.operand(0, dtype), b = c.operand(1, dtype);
  ValueId allowed = c.add(c.scaled(c.unary("abs", b), c.real(2)), c.scalar(c.real(3), dtype));
  auto either = [&](ValueId x, ValueId y) { return c.make(Op::Logical, {x, y}, {{Key::Fn, std::string("or")}}); };
  ValueId close = either(c.compare("eq", a, b), c.compare("le", c.unary("abs", c.sub(a, b)), allowed));
  if (!c.flag(4)) return close;
  return either(close, c.make(Op::Logical, {is_nan(c, a), is_nan(c, b)}, {{Key::Fn, std::string("and")}}));
}

// Whether each element is among the others
Results isin(Call& c) {
  DType dtype = operand_dtype(c);
  ValueId x = c.operand(0, dtype), others = c.operand(1, dtype);
  others = c.reshape(others, {element_count(c.shape(others))});
  ValueId found = c.compare("eq", c.unsqueeze(x, c.rank(x)), others);
  found = c.reduce(Op::Any, found, {c.rank(found) - 1}, false);
  return c.flag(3) ? c.make(Op::LogicalNot, {found}) : found;
}

// self only lends its type and shape; the in-place forms are how exported programs write into buffers.
Results copy(Call& c) { return c.expand(c.cast(c.tensor(1), c.result().dtype), c.result().shape); }
Results fill(Call& c) { return c.expand(c.operand(1, c.result().dtype), c.result().shape); }
Results zero(Call& c) {
  return c.filled(c.result().dtype, c.result().shape, [](int64_t) { return int64_t{0}; });
}

constexpr std::string_view kTwo = "self, other";
constexpr std::string_view kAlphaTensor = "self, other, *, alpha=1";
constexpr std::string_view kAlphaScalar = "self, other, alpha=1";

constexpr Row kBinaryRows[] = {
    {"aten.add.Tensor", kAlphaTensor, add},
    {"aten.add.Scalar", kAlphaScalar, add},
    {"aten.sub.Tensor", kAlphaTensor, sub},
    {"aten.sub.Scalar", kAlphaScalar, sub},
    {"aten.subtract.Tensor", kAlphaTensor, sub},
    {"aten.subtract.Scalar", kAlphaScalar, sub},
    {"aten.rsub.Tensor", kAlphaTensor, rsub},
    {"aten.rsub.Scalar", kAlphaScalar, rsub},
    {"aten.mul.Tensor", kTwo, mul},
    {"aten.mul.Scalar", kTwo, mul},
    {"aten.multiply.Tensor", kTwo, mul},
    {"aten.multiply.Scalar", kTwo, mul},
    {"aten.div.Tensor", kTwo, div},
    {"aten.div.Scalar", kTwo, div},
    {"aten.div.Tensor_mode", "self, other, *, rounding_mode", div_mode},
    {"aten.div.Scalar_mode", "self, other, *, rounding_mode", div_mode},
    {"aten.divide.Tensor", kTwo, div},
    {"aten.divide.Scalar", kTwo, div},
    {"aten.divide.Tensor_mode", "self, other, *, rounding_mode", div_mode},
    {"aten.divide.Scalar_mode", "self, other, *, rounding_mode", div_mode},
    {"aten.true_divide.Scalar", kTwo, div},
    {"aten.true_divide.Tensor", kTwo, div},
    {"aten.floor_divide.default", kTwo, floor_divide},
    {"aten.floor_divide.Scalar", kTwo, floor_divide},
    {"aten.remainder.Tensor", kTwo, binary<Op::Remainder>},
    {"aten.remainder.Scalar_Tensor", kTwo, binary<Op::Remainder>},
    {"aten.fmod.Tensor", kTwo, fmod},
    {"aten.pow.Tensor_Tensor", "self, exponent", binary<Op::Pow>},
    {"aten.pow.Scalar", "self, exponent", power_of_number},
    {"aten.minimum.default", kTwo, binary<Op::Minimum>},
    {"aten.maximum.default", kTwo, binary<Op::Maximum>},
    {"aten.min.other", kTwo, binary<Op::Minimum>},
    {"aten.max.other", kTwo, binary<Op::Maximum>},
    {"aten.fmax.default", kTwo, extreme_number<Op::Maximum>},
    {"aten.fmin.default", kTwo, extreme_number<Op::Minimum>},
    {"aten.hypot.default", kTwo, hypot},
    {"aten.atan2.default", kTwo, atan2},
    {"aten.arctan2.default", kTwo, atan2},
    {"aten.ldexp.Tensor", kTwo, ldexp},
    {"aten.logaddexp.default", kTwo, logaddexp},
    {"aten.logaddexp2.default", kTwo, logaddexp2},
    {"aten.copysign.Tensor", kTwo, copysign},
    {"aten.copysign.Scalar", kTwo, copysign},
    {"aten.heaviside.default", "self, values", heaviside},
    {"aten.isclose.default", "self, other, rtol=1e-05, atol=1e-08, equal_nan=False", isclose},
    {"aten.isin.Tensor_Tensor", "elements, test_elements, *, assume_unique=False, invert=False", isin},
    {"aten.isin.Tensor_Scalar", "elements, test_element, *, assume_unique=False, invert=False", isin},
    {"aten.isin.Scalar_Tensor", "element, test_elements, *, assume_unique=False, invert=False", isin},
    {"aten.float_power.Tensor_Tensor", "self, exponent", binary<Op::Pow>},
    {"aten.float_power.Scalar", "self, exponent", power_of_number},
    {"aten.eq.Tensor", kTwo, compare, "eq"},
    {"aten.eq.Scalar", kTwo, compare, "eq"},
    {"aten.ne.Tensor", kTwo, compare, "ne"},
    {"aten.ne.Scalar", kTwo, compare, "ne"},
    {"aten.lt.Tensor", kTwo, compare, "lt"},
    {"aten.lt.Scalar", kTwo, compare, "lt"},
    {"aten.le.Tensor", kTwo, compare, "le"},
    {"aten.le.Scalar", kTwo, compare, "le"},
    {"aten.gt.Tensor", kTwo, compare, "gt"},
    {"aten.gt.Scalar", kTwo, compare, "gt"},
    {"aten.ge.Tensor", kTwo, compare, "ge"},
    {"aten.ge.Scalar", kTwo, compare, "ge"},
    {"aten.not_equal.Scalar", kTwo, compare, "ne"},
    {"aten.less.Scalar", kTwo, compare, "lt"},
    {"aten.less_equal.Scalar", kTwo, compare, "le"},
    {"aten.greater.Scalar", kTwo, compare, "gt"},
    {"aten.greater_equal.Scalar", kTwo, compare, "ge"},
    {"aten.not_equal.Tensor", kTwo, compare, "ne"},
    {"aten.less.Tensor", kTwo, compare, "lt"},
    {"aten.less_equal.Tensor", kTwo, compare, "le"},
    {"aten.greater.Tensor", kTwo, compare, "gt"},
    {"aten.greater_equal.Tensor", kTwo, compare, "ge"},
    {"aten.logical_and.default", kTwo, logical, "and"},
    {"aten.logical_or.default", kTwo, logical, "or"},
    {"aten.logical_xor.default", kTwo, logical, "xor"},
    {"aten.logical_not.default", "self", logical_not},
    {"aten.bitwise_and.Tensor", kTwo, bitwise, "and"},
    {"aten.bitwise_and.Scalar", kTwo, bitwise, "and"},
    {"aten.bitwise_or.Tensor", kTwo, bitwise, "or"},
    {"aten.bitwise_or.Scalar", kTwo, bitwise, "or"},
    {"aten.bitwise_xor.Tensor", kTwo, bitwise, "xor"},
    {"aten.bitwise_xor.Scalar", kTwo, bitwise, "xor"},
    {"aten.bitwise_left_shift.Tensor", kTwo, bitwise, "shl"},
    {"aten.bitwise_left_shift.Tensor_Scalar", kTwo, bitwise, "shl"},
    {"aten.bitwise_right_shift.Tensor", kTwo, bitwise, "shr"},
    {"aten.bitwise_right_shift.Tensor_Scalar", kTwo, bitwise, "shr"},
    {"aten.__and__.Tensor", kTwo, bitwise, "and"},
    {"aten.__and__.Scalar", kTwo, bitwise, "and"},
    {"aten.__or__.Tensor", kTwo, bitwise, "or"},
    {"aten.__or__.Scalar", kTwo, bitwise, "or"},
    {"aten.__xor__.Tensor", kTwo, bitwise, "xor"},
    {"aten.__lshift__.Scalar", kTwo, bitwise, "shl"},
    {"aten.__lshift__.Tensor", kTwo, bitwise, "shl"},
    {"aten.__rshift__.Scalar", kTwo, bitwise, "shr"},
    {"aten.__rshift__.Tensor", kTwo, bitwise, "shr"},
    {"aten.bitwise_and.Scalar_Tensor", kTwo, bitwise, "and"},
    {"aten.bitwise_or.Scalar_Tensor", kTwo, bitwise, "or"},
    {"aten.bitwise_xor.Scalar_Tensor", kTwo, bitwise, "xor"},
    {"aten.bitwise_left_shift.Scalar_Tensor", kTwo, bitwise, "shl"},
    {"aten.bitwise_right_shift.Scalar_Tensor", kTwo, bitwise, "shr"},
    {"aten.__xor__.Scalar", kTwo, bitwise, "xor"},
    {"aten.bitwise_not.default", "self", bitwise_not},
    {"aten.where.self", "condition, self, other", where},
    {"aten.where.ScalarSelf", "condition, self, other", where},
    {"aten.where.ScalarOther", "condition, self, other", where},
    {"aten.where.Scalar", "condition, self, other", where},
    {"aten.masked_fill.Scalar", "self, mask, value", masked_fill},
    {"aten.masked_fill.Tensor", "self, mask, value", masked_fill},
    {"aten.addcmul.default", "self, tensor1, tensor2, *, value=1", add_combined<Op::Mul>},
    {"aten.addcdiv.default", "self, tensor1, tensor2, *, value=1", add_combined<Op::Div>},
    {"aten.lerp.Scalar", "self, end, weight", lerp},
    {"aten.lerp.Tensor", "self, end, weight", lerp},
    {"aten.copy.default", "self, src, non_blocking=False", copy},
    {"aten.fill.Scalar", "self, value", fill},
    {"aten.fill.Tensor", "self, value", fill},
    {"aten.zero.default", "self", zero},
};

}  // namespace

std::span<const Row> binary_rows() { return kBinaryRows; }

}  // namespace swoop
