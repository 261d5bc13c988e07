// Plain integers, which are no codes: in forms that every core takes.
#include <algorithm>
#include <optional>

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

// sum, difference, product, maximum or minimum of less than 32 bits  ->  of 32, and the lowest bits of it
bool widen_arithmetic(Rewriter& rw, const Node& n) {
  const Type out = rw.type(n.outputs[0]);
  if (!is_plain_integer(out) || out.dtype == DType::I32) return false;
  const ValueId a = as_i32(rw, n.inputs[0]), b = as_i32(rw, n.inputs[1]);
  replace_narrowed(rw, n, rw.make(n.op, {a, b}, n.attrs));
  return true;
}

// comparison of less than 32 bits  ->  of 32
bool widen_comparison(Rewriter& rw, const Node& n) {
  const Type of = rw.type(n.inputs[0]);
  if (!facts_of(rw).has_booleans || !is_plain_integer(of) || of.dtype == DType::I32) return false;
  const ValueId a = as_i32(rw, n.inputs[0]), b = as_i32(rw, n.inputs[1]);
  rw.replace(n, rw.make(Op::Compare, {a, b}, n.attrs));
  return true;
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

// The one number that all elements of a constant have.
std::optional<int64_t> uniform_code(const Rewriter& rw, ValueId id) {
  if (!rw.value(id).constant) return std::nullopt;
  const std::vector<int64_t> numbers = codes_of(rw.value(id));
  bool uniform =
      !numbers.empty() && std::all_of(numbers.begin(), numbers.end(), [&](int64_t x) { return x == numbers[0]; });
  return uniform ? std::optional(numbers[0]) : std::nullopt;
}

// x >> by: bit k goes to place k - by, the sign to all places above.
ValueId shifted_right(Rewriter& rw, ValueId x, int64_t by, int64_t top) {
  if (by < 0 || by > top) by = top;
  ValueId result = shifted_left(rw, bit_of(rw, x, top), top - by);
  for (int64_t k = by; k < top; ++k) result = rw.make(Op::Sub, {result, shifted_left(rw, bit_of(rw, x, k), k - by)});
  return result;
}

// The same by a number per element. A negative one, which leaves the sign alone, counts as 31.
ValueId shifted_right(Rewriter& rw, ValueId x, ValueId by, int64_t top) {
  by = rw.make(Op::Clamp, {by}, {{Key::Min, -1.0}, {Key::Max, 31.0}});
  const ValueId negative = rw.make(Op::Clamp, {by}, {{Key::Min, -1.0}, {Key::Max, 0.0}});
  by = rw.make(Op::Sub, {by, shifted_left(rw, negative, 5)});
  auto distance = [&](int64_t k) { return rw.make(Op::Sub, {plain_number(rw, rw.type(by).rank(), k), by}); };
  auto moved = [&](ValueId bit, ValueId places) {
    places = rw.make(Op::Clamp, {places}, {{Key::Min, 0.0}, {Key::Max, static_cast<double>(top)}});
    return rw.make(Op::Bitwise, {bit, places}, {{Key::Fn, std::string("shl")}});
  };
  ValueId result = moved(bit_of(rw, x, top), distance(top));
  for (int64_t k = 0; k < top; ++k) {
    const ValueId bit = bit_of(rw, x, k), places = distance(k);
    // -1 where the bit falls out: less the larger one, 0 is left of it
    const ValueId out = rw.make(Op::Clamp, {places}, {{Key::Min, -1.0}, {Key::Max, 0.0}});
    const ValueId kept = rw.make(Op::Sub, {bit, rw.make(Op::Maximum, {bit, out})});
    result = rw.make(Op::Sub, {result, moved(kept, places)});
  }
  return result;
}

// shr, and shl of less than 32 bits  ->  bit by bit, where the core shifts 32 bits to the left alone
bool shift_by_bits(Rewriter& rw, const Node& n) {
  const Type out = rw.type(n.outputs[0]);
  const std::string fn = n.text(Key::Fn);
  if (facts_of(rw).has_bitwise || !is_plain_integer(out)) return false;
  if (fn != "shr" && (fn != "shl" || out.dtype == DType::I32)) return false;
  const auto bits = static_cast<int64_t>(8 * byte_size(out.dtype));
  const std::optional<int64_t> known = uniform_code(rw, n.inputs[1]);
  const ValueId x = as_i32(rw, n.inputs[0]), by = as_i32(rw, n.inputs[1]);
  ValueId result = kNone;
  if (fn == "shr") {
    result = known ? shifted_right(rw, x, *known, bits - 1) : shifted_right(rw, x, by, bits - 1);
  } else {  // up to the top, where what does not fit is lost, and down again
    const ValueId high = rw.make(Op::Bitwise, {x, by}, {{Key::Fn, fn}});
    result = shifted_right(rw, shifted_left(rw, high, 32 - bits), 32 - bits, int64_t{31});
  }
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

// cast(move(x) of 64 bits) to 32  ->  move(cast(x)), which the core has
bool cast_before_move(Rewriter& rw, const Node& n) {
  const Node* move = rw.graph().producer(n.inputs[0]);
  if (!move || !info(move->op).traits.movement || !rw.used_once(n.inputs[0])) return false;
  if (rw.type(n.inputs[0]).dtype != DType::I64 || rw.type(n.outputs[0]).dtype != DType::I32) return false;
  std::vector<ValueId> inputs = move->inputs;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (static_cast<int>(i) != info(move->op).traits.selector) inputs[i] = as_i32(rw, inputs[i]);
  rw.replace(n, rw.make(move->op, std::move(inputs), move->attrs));
  return true;
}

bool comes_before(const Graph& graph, NodeId first, NodeId second) {
  NodeId at = graph.node(second).prev;
  while (at != kNone && at != first) at = graph.node(at).prev;
  return at == first;
}

// cast(input), cast(input)  ->  one: 64 bits are the host's, and a model may have many tables that the same input is an
// index of
bool share_cast(Rewriter& rw, const Node& n) {
  if (rw.graph().producer(n.inputs[0]) || rw.value(n.inputs[0]).constant) return false;
  for (const Use& use : rw.value(n.inputs[0]).uses) {
    const Node* other = use.node == kNone || use.node == n.id ? nullptr : &rw.graph().node(use.node);
    if (!other || other->op != Op::Cast || rw.type(other->outputs[0]) != rw.type(n.outputs[0])) continue;
    if (!comes_before(rw.graph(), other->id, n.id)) continue;
    rw.replace(n, other->outputs[0]);
    return true;
  }
  return false;
}

}  // namespace

std::span<const Rule> integer_rules() {
  static const Rule kRules[] = {
      {"widen-arithmetic", {Op::Add, Op::Sub, Op::Mul, Op::Maximum, Op::Minimum}, widen_arithmetic},
      {"widen-comparison", {Op::Compare}, widen_comparison},
      {"bitwise-by-bits", {Op::Bitwise}, bitwise_by_bits},
      {"shift-by-bits", {Op::Bitwise}, shift_by_bits},
      {"bitwise-not-by-difference", {Op::BitwiseNot}, bitwise_not_by_difference},
      {"cast-back", {Op::Cast}, cast_back},
      {"cast-before-move", {Op::Cast}, cast_before_move},
      {"share-cast", {Op::Cast}, share_cast},
  };
  return kRules;
}

}  // namespace swoop
