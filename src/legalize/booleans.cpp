// Booleans on cores that have none: codes 0 and 1. A node is rewritten where its numbers are on the NPU; casts between
// booleans and codes meet and cancel, and what is left of them stands where the host begins.
#include <algorithm>

#include "legalize/compose.h"

namespace swoop {

namespace {

Type flags(Shape shape) {
  Type type = quantized(DType::I8, std::move(shape), 1.0, 0);
  type.quant->qmin = 0;
  type.quant->qmax = 1;
  return type;
}
Type wide_flags(Shape shape) { return i16_type(std::move(shape), 1.0); }

bool is_number_on_npu(const Rewriter& rw, ValueId id) {
  const Type& type = rw.type(id);
  return type.quantized() && !type.quant->per_channel() && (type.dtype == DType::I8 || type.dtype == DType::I16);
}

// The codes that a boolean was cast from, or none.
ValueId codes_behind(const Rewriter& rw, ValueId boolean) {
  const Node* cast = rw.graph().producer(boolean);
  bool cancels = cast && cast->op == Op::Cast && rw.type(cast->inputs[0]) == flags(rw.type(boolean).shape);
  return cancels ? cast->inputs[0] : kNone;
}

const std::vector<Op> kFlagMoves = {Op::Reshape, Op::Transpose, Op::Slice, Op::Expand, Op::Repeat};

// What moves a boolean that is of use as codes only, or null.
const Node* move_behind(const Rewriter& rw, ValueId boolean) {
  const Node* move = rw.graph().producer(boolean);
  return move && std::find(kFlagMoves.begin(), kFlagMoves.end(), move->op) != kFlagMoves.end() ? move : nullptr;
}

// It comes from the NPU, or from the caller, whatever moved it since: as codes it costs nothing.
bool is_at_hand(const Rewriter& rw, ValueId boolean) {
  while (const Node* move = move_behind(rw, boolean)) boolean = move->inputs[0];
  const std::vector<ValueId>& inputs = rw.graph().inputs();
  return codes_behind(rw, boolean) != kNone || std::find(inputs.begin(), inputs.end(), boolean) != inputs.end();
}

ValueId as_flags(Rewriter& rw, ValueId boolean) {
  ValueId behind = codes_behind(rw, boolean);
  if (behind != kNone) return behind;
  const Type type = flags(rw.type(boolean).shape);
  if (const Node* move = move_behind(rw, boolean); move && is_at_hand(rw, boolean)) {
    const Op op = move->op;
    const Attrs attrs = move->attrs;
    return rw.make(op, {as_flags(rw, move->inputs[0])}, attrs, type);
  }
  return rw.make(Op::Cast, {boolean}, {{Key::DType, DType::F32}}, type);
}

void replace_by_flags(Rewriter& rw, const Node& n, ValueId result) {
  rw.replace(n, rw.make(Op::Cast, {result}, {{Key::DType, DType::Bool}}, rw.type(n.outputs[0])));
}

ValueId negated(Rewriter& rw, ValueId x) {
  const Type type = rw.type(x);
  return rw.make(Op::Sub, {scalar(rw, type.dtype, type.rank(), 1, 1.0), x}, {}, type);
}

// 1 where a > b: their difference, cut off below 0 and above one step. Between different scales the step is far finer
// than both: a number that lies between two codes of the other operand stays on its side of them.
ValueId greater(Rewriter& rw, ValueId a, ValueId b, const Shape& shape) {
  const double one_step = rw.type(a).scale(), other = rw.type(b).scale();
  double step = one_step == other ? one_step / 4 : std::max(one_step, other) / (1 << 12);
  ValueId cut = rw.make(Op::Sub, {a, b}, {{Key::ActMin, 0.0}, {Key::ActMax, step}}, i16_type(shape, step));
  ValueId one = scalar(rw, DType::I16, static_cast<int>(shape.size()), 1, 1 / step);
  return rw.make(Op::Mul, {cut, one}, {}, flags(shape));
}

// compare(a, b)  ->  differences that are cut off
bool compare_by_difference(Rewriter& rw, const Node& n) {
  ValueId a = n.inputs[0], b = n.inputs[1];
  if (facts_of(rw).has_booleans || !is_number_on_npu(rw, a) || !is_number_on_npu(rw, b)) return false;
  if (rw.value(a).constant && rw.value(b).constant) return false;
  const Shape shape = rw.type(n.outputs[0]).shape;
  const std::string fn = n.text(Key::Fn);
  if (fn == "lt" || fn == "ge") std::swap(a, b);
  ValueId result = greater(rw, a, b, shape);
  if (fn == "eq" || fn == "ne") result = rw.make(Op::Maximum, {result, greater(rw, b, a, shape)}, {}, flags(shape));
  if (fn == "eq" || fn == "le" || fn == "ge") result = negated(rw, result);
  replace_by_flags(rw, n, result);
  return true;
}

// and, or, xor  ->  the smaller one, the larger one, the size of the difference
bool logic_by_extremes(Rewriter& rw, const Node& n) {
  if (facts_of(rw).has_booleans) return false;
  if (!is_at_hand(rw, n.inputs[0]) && !is_at_hand(rw, n.inputs[1])) return false;
  ValueId a = as_flags(rw, n.inputs[0]), b = as_flags(rw, n.inputs[1]);
  const Type type = flags(rw.type(n.outputs[0]).shape);
  if (n.text(Key::Fn) == "xor") {
    ValueId more = rw.make(Op::Sub, {a, b}, {}, type), less = rw.make(Op::Sub, {b, a}, {}, type);
    a = more;
    b = less;
  }
  replace_by_flags(rw, n, rw.make(n.text(Key::Fn) == "and" ? Op::Minimum : Op::Maximum, {a, b}, {}, type));
  return true;
}

// logical_not(x)  ->  1 - x
bool not_by_difference(Rewriter& rw, const Node& n) {
  if (facts_of(rw).has_booleans || !is_at_hand(rw, n.inputs[0])) return false;
  replace_by_flags(rw, n, negated(rw, as_flags(rw, n.inputs[0])));
  return true;
}

// a move of booleans that are codes  ->  of the codes
bool move_flags(Rewriter& rw, const Node& n) {
  if (facts_of(rw).has_booleans || rw.type(n.outputs[0]).dtype != DType::Bool) return false;
  ValueId behind = codes_behind(rw, n.inputs[0]);
  if (behind == kNone) return false;
  replace_by_flags(rw, n, rw.make(n.op, {behind}, n.attrs, flags(rw.type(n.outputs[0]).shape)));
  return true;
}

// any, all  ->  the largest one, the smallest one
bool any_by_maximum(Rewriter& rw, const Node& n) {
  if (facts_of(rw).has_booleans || !is_at_hand(rw, n.inputs[0])) return false;
  ValueId x = as_flags(rw, n.inputs[0]);
  Op op = n.op == Op::Any ? Op::ReduceMax : Op::ReduceMin;
  const Shape shape = rw.type(n.outputs[0]).shape;
  Shape kept = rw.type(x).shape;
  for (int64_t axis : n.ints(Key::Axes)) kept[static_cast<size_t>(axis)] = 1;
  Attrs attrs = n.attrs;
  attrs.set(Key::Keepdim, true);
  replace_by_flags(rw, n, reshape(rw, rw.make(op, {x}, attrs, flags(kept)), shape));
  return true;
}

// where(c, a, b)  ->  c * a + (1 - c) * b, in 16 bits
bool where_by_products(Rewriter& rw, const Node& n) {
  const Type out = rw.type(n.outputs[0]);
  if (facts_of(rw).has_booleans || !is_number_on_npu(rw, n.outputs[0])) return false;
  if (!is_number_on_npu(rw, n.inputs[1]) || !is_number_on_npu(rw, n.inputs[2])) return false;
  for (ValueId input : n.inputs)
    if (rw.type(input).rank() != out.rank()) return false;  // match-ranks' first
  const Shape shape = rw.type(n.inputs[0]).shape;
  ValueId yes = rw.make(Op::Quantize, {as_flags(rw, n.inputs[0])}, {}, wide_flags(shape));
  auto chosen = [&](ValueId flag, ValueId x) {
    Shape both = rw.type(x).shape;  // one may be a row of the other
    for (size_t d = 0; d < both.size(); ++d) both[d] = std::max(both[d], shape[d]);
    ValueId wide = rw.make(Op::Quantize, {x}, {}, i16_type(rw.type(x).shape, out.scale()));
    return rw.make(Op::Mul, {flag, wide}, {}, i16_type(both, out.scale()));
  };
  ValueId a = chosen(yes, n.inputs[1]);
  rw.replace(n, rw.make(Op::Add, {a, chosen(negated(rw, yes), n.inputs[2])}, {}, out));
  return true;
}

// a cast of a boolean to numbers  ->  its codes, requantized. What comes from the caller as it is has this cast
// already.
bool cast_of_flags(Rewriter& rw, const Node& n) {
  if (facts_of(rw).has_booleans || !is_number_on_npu(rw, n.outputs[0])) return false;
  if (rw.type(n.inputs[0]).dtype != DType::Bool || !is_at_hand(rw, n.inputs[0])) return false;
  if (codes_behind(rw, n.inputs[0]) == kNone && !move_behind(rw, n.inputs[0])) return false;
  const Type out = rw.type(n.outputs[0]);
  ValueId behind = as_flags(rw, n.inputs[0]);
  rw.replace(n, rw.type(behind) == out ? behind : rw.make(Op::Quantize, {behind}, {}, out));
  return true;
}

}  // namespace

std::span<const Rule> boolean_rules() {
  static const Rule kRules[] = {
      {"compare-by-difference", {Op::Compare}, compare_by_difference},
      {"logic-by-extremes", {Op::Logical}, logic_by_extremes},
      {"not-by-difference", {Op::LogicalNot}, not_by_difference},
      {"move-flags", kFlagMoves, move_flags},
      {"any-by-maximum", {Op::Any, Op::All}, any_by_maximum},
      {"where-by-products", {Op::Where}, where_by_products},
      {"cast-of-flags", {Op::Cast}, cast_of_flags},
  };
  return kRules;
}

}  // namespace swoop
