// Plain integers, which are no codes: in forms that every core takes.
#include "legalize/compose.h"

namespace swoop {

namespace {

ValueId plain_number(Rewriter& rw, int rank, int64_t value) {
  return codes(rw, Type{DType::I32, Shape(static_cast<size_t>(rank), 1), {}}, {&value, 1}, "number");
}

ValueId shifted_left(Rewriter& rw, ValueId x, int64_t by) {
  if (by == 0) return x;
  return rw.make(Op::Bitwise, {x, plain_number(rw, rw.type(x).rank(), by)}, {{Key::Fn, std::string("shl")}});
}

// Bit k of x, as 0 or -1: at the top it is the sign.
ValueId bit_of(Rewriter& rw, ValueId x, int64_t k) {
  return rw.make(Op::Clamp, {shifted_left(rw, x, 31 - k)}, {{Key::Min, -1.0}, {Key::Max, 0.0}});
}

void replace_narrowed(Rewriter& rw, const Node& n, ValueId result) {
  const Type out = rw.type(n.outputs[0]);
  rw.replace(n, out.dtype == DType::I32 ? result : rw.make(Op::Cast, {result}, {{Key::DType, out.dtype}}));
}

// and, or, xor  ->  bit by bit, where the core only shifts. Of bits that are 0 or -1, `and` is the larger one and `or`
// the smaller one.
bool bitwise_by_bits(Rewriter& rw, const Node& n) {
  const Type out = rw.type(n.outputs[0]);
  const std::string fn = n.text(Key::Fn);
  if (facts_of(rw).has_bitwise || !is_plain_integer(out) || fn == "shl" || fn == "shr") return false;
  const ValueId a = as_i32(rw, n.inputs[0]), b = as_i32(rw, n.inputs[1]);
  const auto top = static_cast<int64_t>(8 * byte_size(out.dtype)) - 1;
  auto of_bit = [&](int64_t k) {
    const ValueId x = bit_of(rw, a, k), y = bit_of(rw, b, k);
    if (fn == "and") return rw.make(Op::Maximum, {x, y});
    const ValueId either = rw.make(Op::Minimum, {x, y});
    return fn == "or" ? either : rw.make(Op::Sub, {either, rw.make(Op::Maximum, {x, y})});
  };
  // The top bit counts below zero, as it does here; the others above.
  ValueId result = shifted_left(rw, of_bit(top), top);
  for (int64_t k = 0; k < top; ++k) result = rw.make(Op::Sub, {result, shifted_left(rw, of_bit(k), k)});
  replace_narrowed(rw, n, result);
  return true;
}

// bitwise_not(x)  ->  -1 - x
bool bitwise_not_by_difference(Rewriter& rw, const Node& n) {
  const Type out = rw.type(n.outputs[0]);
  if (facts_of(rw).has_bitwise || !is_plain_integer(out)) return false;
  const ValueId x = as_i32(rw, n.inputs[0]);
  replace_narrowed(rw, n, rw.make(Op::Sub, {plain_number(rw, out.rank(), -1), x}));
  return true;
}

// cast(cast(x) to more bits) back to x's type  ->  x
bool cast_back(Rewriter& rw, const Node& n) {
  const Node* wider = rw.producer(n, 0, Op::Cast);
  if (!wider) return false;
  const Type &from = rw.type(wider->inputs[0]), &between = rw.type(n.inputs[0]);
  if (!is_plain_integer(from) || from != rw.type(n.outputs[0]) || is_float(between.dtype) || between.quantized())
    return false;
  if (byte_size(between.dtype) <= byte_size(from.dtype)) return false;
  rw.replace(n, wider->inputs[0]);
  return true;
}

}  // namespace

std::span<const Rule> integer_rules() {
  static const Rule kRules[] = {
      {"bitwise-by-bits", {Op::Bitwise}, bitwise_by_bits},
      {"bitwise-not-by-difference", {Op::BitwiseNot}, bitwise_not_by_difference},
      {"cast-back", {Op::Cast}, cast_back},
  };
  return kRules;
}

}  // namespace swoop
