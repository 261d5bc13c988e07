#include <algorithm>
#include <cmath>

#include "lower/lowering.h"

namespace swoop {

namespace {

bool is_quantized(const Type& type) { return type.quantized(); }

// The common scale of an addition. U55's adder takes two forms as one op: equal scales as they are, or the larger
// operand times 2^19 (8 bits) or 2^14 (16 bits). Other whole numbers would fuse too, but the core ignores the second
// operand's scale there and the sum comes out wrong: the NPU in software refuses such streams. Both forms keep the sum
// inside 32 bits.
double addition_unit(const Type& a, const Type& b) {
  double larger = std::max(a.scale(), b.scale());
  if (a.scale() == b.scale()) return larger;
  bool wide = a.dtype != DType::I8 || b.dtype != DType::I8;
  return larger / static_cast<double>(wide ? 1 << 14 : 1 << 19);
}

// The common scale of a maximum: the finer one, unless the other operand's codes would leave 32 bits.
double extreme_unit(const Type& a, const Type& b) {
  double larger = std::max(a.scale(), b.scale());
  bool wide = a.dtype != DType::I8 || b.dtype != DType::I8;
  return std::max(std::min(a.scale(), b.scale()), larger / static_cast<double>(wide ? 1 << 14 : 1 << 21));
}

// The common scale of a comparison. Between different scales it is far finer than both: a number that lies between two
// codes of the other operand must stay on its side of them.
double comparison_unit(const Type& a, const Type& b) {
  double larger = std::max(a.scale(), b.scale());
  if (a.scale() == b.scale()) return larger;
  bool wide = a.dtype != DType::I8 || b.dtype != DType::I8;
  return larger / static_cast<double>(wide ? 1 << 14 : 1 << 21);
}

}  // namespace

Result<tosa::TensorId> Lowering::add_sub(const Node& n) {
  tosa::Op op = n.op == Op::Add ? tosa::Op::Add : tosa::Op::Sub;
  const Type& left = in(n, 0);
  const Type& right = in(n, 1);
  if (!is_quantized(left) || !is_quantized(right)) return b.binary(op, operand(n.inputs[0]), operand(n.inputs[1]));
  bool wide = left.dtype == DType::I32 || right.dtype == DType::I32;
  double unit = wide ? out(n).scale() : addition_unit(left, right);
  return narrow(b.binary(op, widen(n, 0, left.scale() / unit), widen(n, 1, right.scale() / unit)),
                unit / out(n).scale(), n);
}

Result<tosa::TensorId> Lowering::mul(const Node& n) {
  const Type& left = in(n, 0);
  const Type& right = in(n, 1);
  if (!is_quantized(left) || !is_quantized(right)) return b.mul(operand(n.inputs[0]), operand(n.inputs[1]));
  double scale = left.scale() * right.scale() / out(n).scale();
  // An image / 255, say: the codes stay, only their scale is another one.
  const Value& factor = graph_.value(n.inputs[1]);
  if (factor.constant && element_count(right.shape) == 1 && left.shape == out(n).shape &&
      left.quant->zero_point == out(n).quant->zero_point && left.dtype == out(n).dtype &&
      keeps_codes(left.scale() * to_tensor(factor).as<float>()[0] / out(n).scale(), tosa_dtype(left.dtype)))
    return activate(operand(n.inputs[0]), n);
  // A square gets two rescales too: one with two readers would not be merged into the product.
  Id a = widen(n, 0, 1.0), c = widen(n, 1, 1.0);
  // Where the factors could make more than 32 bits together, the lowest go: a total times the inverse of its sum, whose
  // product has 30 bits in truth, keeps 22 of them.
  const tosa::CodeRange left_codes = bounds_.of(a), right_codes = bounds_.of(c);
  int8_t drop = 0;
  while (std::ldexp(left_codes.magnitude() * right_codes.magnitude(), -drop) > 0x1p31 - 1) ++drop;
  return narrow(b.mul(a, c, drop), std::ldexp(scale, drop), n);
}

Result<tosa::TensorId> Lowering::min_max(const Node& n) {
  tosa::Op op = n.op == Op::Maximum ? tosa::Op::Maximum : tosa::Op::Minimum;
  const Type& left = in(n, 0);
  const Type& right = in(n, 1);
  if (!is_quantized(left) || !is_quantized(right)) return b.binary(op, operand(n.inputs[0]), operand(n.inputs[1]));
  double unit = extreme_unit(left, right);
  return narrow(b.binary(op, widen(n, 0, left.scale() / unit), widen(n, 1, right.scale() / unit)),
                unit / out(n).scale(), n);
}

Result<tosa::TensorId> Lowering::compare(const Node& n) {
  const Type& left = in(n, 0);
  const Type& right = in(n, 1);
  Id a = operand(n.inputs[0]);
  Id c = operand(n.inputs[1]);
  if (is_quantized(left) && is_quantized(right)) {
    double unit = comparison_unit(left, right);
    a = widen(n, 0, left.scale() / unit);
    c = widen(n, 1, right.scale() / unit);
  }
  const std::string& fn = n.text(Key::Fn);
  if (fn == "eq") return b.equal(a, c);
  if (fn == "ne") return b.logical_not(b.equal(a, c));
  if (fn == "gt") return b.greater(a, c);
  if (fn == "ge") return b.greater_equal(a, c);
  if (fn == "lt") return b.greater(c, a);
  if (fn == "le") return b.greater_equal(c, a);
  return cannot(n, "its comparison is unknown");
}

Result<tosa::TensorId> Lowering::where(const Node& n) {
  Id on_true = operand(n.inputs[1]);
  Id on_false = operand(n.inputs[2]);
  if (is_quantized(out(n))) {
    on_true = requantize(on_true, in(n, 1), out(n));
    on_false = requantize(on_false, in(n, 2), out(n));
  }
  return b.select(operand(n.inputs[0]), on_true, on_false);
}

Result<tosa::TensorId> Lowering::boolean(const Node& n) {
  Id a = operand(n.inputs[0]);
  if (n.op == Op::LogicalNot) return b.logical_not(a);
  if (n.op == Op::BitwiseNot) return out(n).dtype == DType::Bool ? b.logical_not(a) : b.unary(tosa::Op::BitwiseNot, a);
  Id c = operand(n.inputs[1]);
  const std::string& fn = n.text(Key::Fn);
  bool logical = out(n).dtype == DType::Bool;
  if (fn == "and") return b.binary(logical ? tosa::Op::LogicalAnd : tosa::Op::BitwiseAnd, a, c);
  if (fn == "or") return b.binary(logical ? tosa::Op::LogicalOr : tosa::Op::BitwiseOr, a, c);
  if (fn == "xor") return b.binary(logical ? tosa::Op::LogicalXor : tosa::Op::BitwiseXor, a, c);
  if (fn == "shl") return b.binary(tosa::Op::LogicalLeftShift, a, c);
  if (fn == "shr") return b.arithmetic_right_shift(a, c, false);
  return cannot(n, "its function is unknown");
}

// Unsigned codes exist at the model's ports only. Their top bit is flipped by a table: what regor 5.1.0 makes of an
// unsigned RESCALE gives other numbers than TOSA's.
tosa::TensorId Lowering::flip_sign(Id x) {
  std::vector<int64_t> flipped(256);
  for (int64_t i = 0; i < 256; ++i)
    flipped[static_cast<size_t>(i)] = i < 128 ? i : i - 256;  // of the codes from -128 on
  return b.table(x, b.constant(tosa::DType::I8, {256}, flipped, "flip_sign"));
}

Result<tosa::TensorId> Lowering::quantize(const Node& n) { return requantize(n, in(n, 0), out(n)); }

// Integers that become quantized are codes of scale 1: a camera's bytes.
// Codes 0 and 1 that leave as booleans: a boolean at a port is a byte.
bool Lowering::is_boolean_byte(const Node& n) const {
  const Type& from = in(n, 0);
  return n.op == Op::Cast && out(n).dtype == DType::Bool && from.quantized() && from.dtype == DType::I8 &&
         from.quant->zero_point[0] == 0 && from.quant->qmin == 0 && from.quant->qmax == 1;
}

// A boolean that comes from outside and becomes codes at once
bool Lowering::is_boolean_byte(ValueId input) const {
  const Value& value = graph_.value(input);
  return value.type.dtype == DType::Bool && std::all_of(value.uses.begin(), value.uses.end(), [&](const Use& use) {
           return use.node != kNone && graph_.node(use.node).op == Op::Cast && out(graph_.node(use.node)).quantized();
         });
}

Result<tosa::TensorId> Lowering::cast(const Node& n) {
  const Type& from = in(n, 0);
  if (from.dtype == DType::Bool && out(n).quantized()) {
    Id x = operand(n.inputs[0]);
    if (b.dtype(x) == tosa::DType::Bool) x = b.cast(x, tosa::DType::I8);
    return activate(requantize(x, quantized(DType::I8, from.shape, 1.0, 0), out(n)), n);
  }
  if (out(n).quantized()) return requantize(n, quantized(from.dtype, from.shape, 1.0, 0), out(n));
  if (is_boolean_byte(n)) return operand(n.inputs[0]);
  return b.cast(operand(n.inputs[0]), tosa_dtype(out(n).dtype));
}

Result<tosa::TensorId> Lowering::requantize(const Node& n, Type from, Type to) {
  Id x = operand(n.inputs[0]);
  if (from.quant->per_channel() || to.quant->per_channel()) return cannot(n, "it requantizes per channel");
  if (from.dtype == DType::U8) {
    x = flip_sign(x);
    from = signed_twin(from);
  }
  if (to.dtype != DType::U8) return activate(requantize(x, from, to), n, to);
  to = signed_twin(to);
  return flip_sign(activate(requantize(x, from, to), n, to));
}

Result<tosa::TensorId> Lowering::clamp(const Node& n) {
  const Type& type = out(n);
  if (!type.quantized()) {
    int64_t low = n.has(Key::Min) ? static_cast<int64_t>(n.real(Key::Min)) : dtype_min(type.dtype);
    int64_t high = n.has(Key::Max) ? static_cast<int64_t>(n.real(Key::Max)) : dtype_max(type.dtype);
    Id x = operand(n.inputs[0]);
    if (type.dtype != DType::I32) return b.clamp(x, low, high);
    return b.minimum(b.maximum(x, number(low, x)), number(high, x));  // CLAMP takes 8 and 16 bits
  }
  const Quant& quant = *type.quant;
  auto code = [&](Key key, int64_t otherwise) {
    if (!n.has(key)) return otherwise;
    return quantize_value(static_cast<float>(n.real(key)), type.scale(), type.zero_point(), quant.qmin, quant.qmax);
  };
  Id x = requantize(operand(n.inputs[0]), in(n, 0), type);
  int64_t low = code(Key::Min, quant.qmin);
  int64_t high = code(Key::Max, quant.qmax);
  if (low <= dtype_min(type.dtype) && high >= dtype_max(type.dtype)) return x;
  return b.clamp(x, low, std::max(low, high));
}

}  // namespace swoop
