// Small integers that a model computes itself: ranks, places, members of a set. PyTorch gives them 64 bits; as exact
// codes of 16 bits the NPU adds, compares and chooses them.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "legalize/compose.h"

namespace swoop {

namespace {

constexpr int64_t kLargestCount = 32767;

// The least and the greatest that an integer can be.
struct Extremes {
  int64_t low, high;
};

std::optional<Extremes> counted(int64_t low, int64_t high) {
  if (low < -kLargestCount || high > kLargestCount) return std::nullopt;
  return Extremes{low, high};
}

Type count_type(Shape shape, Extremes of) {
  Type type = i16_type(std::move(shape), 1.0);
  type.quant->qmin = of.low;
  type.quant->qmax = of.high;
  return type;
}

bool is_count(const Type& type) {
  return is_codes(type) && type.scale() == 1 && type.zero_point() == 0 &&
         (type.dtype == DType::I8 || type.dtype == DType::I16);
}

bool is_integer_type(const Type& type) {
  return is_plain_integer(type) || (type.dtype == DType::I64 && !type.quantized());
}

bool is_place(const Node& n) { return n.op == Op::ArgMax || n.op == Op::ArgMin; }

bool is_moved(const Node& n) { return info(n.op).traits.movement && n.inputs.size() == 1 && n.op != Op::Pad; }

bool is_gathered(const Node& n) { return n.op == Op::Gather || n.op == Op::GatherElements; }

std::optional<Extremes> extremes_of(const Rewriter& rw, ValueId id);

std::optional<Extremes> joined(std::optional<Extremes> a, std::optional<Extremes> b) {
  if (!a || !b) return std::nullopt;
  return Extremes{std::min(a->low, b->low), std::max(a->high, b->high)};
}

std::optional<Extremes> extremes_of_pad(const Rewriter& rw, const Node& n) {
  const std::optional<Extremes> of = extremes_of(rw, n.inputs[0]);
  if (n.text(Key::Mode) != "constant") return of;
  const auto with = static_cast<int64_t>(n.real(Key::Value));
  return joined(of, counted(with, with));
}

// An end that is missing is that of the operand.
std::optional<Extremes> extremes_of_clamp(const Rewriter& rw, const Node& n) {
  const std::optional<Extremes> of = extremes_of(rw, n.inputs[0]);
  if (!of && !(n.has(Key::Min) && n.has(Key::Max))) return std::nullopt;
  int64_t low = of ? of->low : -kLargestCount, high = of ? of->high : kLargestCount;
  if (n.has(Key::Min)) low = std::max(low, static_cast<int64_t>(n.real(Key::Min)));
  if (n.has(Key::Min)) high = std::max(high, low);
  if (n.has(Key::Max)) high = std::min(high, static_cast<int64_t>(n.real(Key::Max)));
  return counted(std::min(low, high), high);
}

std::optional<Extremes> extremes_of_concat(const Rewriter& rw, const Node& n) {
  std::optional<Extremes> all = extremes_of(rw, n.inputs[0]);
  for (ValueId input : n.inputs) all = joined(all, all ? extremes_of(rw, input) : all);
  return all;
}

std::optional<Extremes> extremes_of_cast(const Rewriter& rw, const Node& n) {
  const Type& from = rw.type(n.inputs[0]);
  if (from.dtype == DType::Bool) return Extremes{0, 1};
  if (is_count(from)) return counted(from.quant->qmin, from.quant->qmax);
  return byte_size(rw.type(n.outputs[0]).dtype) > 1 ? extremes_of(rw, n.inputs[0]) : std::nullopt;
}

std::optional<Extremes> extremes_of_constant(const Value& constant) {
  const std::vector<int64_t> numbers = codes_of(constant);
  if (numbers.empty()) return std::nullopt;
  const auto [low, high] = std::minmax_element(numbers.begin(), numbers.end());
  return counted(*low, *high);
}

// An integer that comes from elsewhere and that rows of a table are read by: there is no other row.
std::optional<Extremes> extremes_of_index(const Rewriter& rw, ValueId id) {
  for (const Use& use : rw.value(id).uses) {
    if (use.node == kNone) continue;
    const Node& reader = rw.graph().node(use.node);
    std::optional<Extremes> found;
    if (reader.op == Op::Gather && use.index == 1) {
      const int64_t rows = rw.type(reader.inputs[0]).shape[static_cast<size_t>(reader.integer(Key::Axis))];
      found = counted(-rows, rows - 1);
    } else if (reader.op == Op::Reshape || (reader.op == Op::Cast && is_integer_type(rw.type(reader.outputs[0])) &&
                                            byte_size(rw.type(reader.outputs[0]).dtype) >= 4)) {
      found = extremes_of_index(rw, reader.outputs[0]);
    }
    if (found) return found;
  }
  return std::nullopt;
}

// Nothing for an integer that comes from elsewhere, or that may have more than 16 bits.
std::optional<Extremes> extremes_of(const Rewriter& rw, ValueId id) {
  if (!is_integer_type(rw.type(id))) return std::nullopt;
  if (rw.value(id).constant) return extremes_of_constant(rw.value(id));
  const Node* n = rw.graph().producer(id);
  if (!n) return extremes_of_index(rw, id);
  if (n->op == Op::Cast) return extremes_of_cast(rw, *n);
  if (n->op == Op::Clamp) return extremes_of_clamp(rw, *n);
  if (is_place(*n) && is_codes(rw.type(n->inputs[0])))
    return counted(0, rw.type(n->inputs[0]).shape[static_cast<size_t>(n->integer(Key::Axis))] - 1);
  if (is_moved(*n)) return extremes_of(rw, n->inputs[0]);
  if (n->op == Op::Pad) return extremes_of_pad(rw, *n);
  if (n->op == Op::Concat) return extremes_of_concat(rw, *n);
  if (is_gathered(*n)) return extremes_of(rw, n->inputs[1]) ? extremes_of(rw, n->inputs[0]) : std::nullopt;
  const bool chooses = n->op == Op::Where;
  if (n->op != Op::Add && n->op != Op::Sub && n->op != Op::Mul && !chooses) return std::nullopt;
  const std::optional<Extremes> a = extremes_of(rw, n->inputs[chooses ? 1 : 0]);
  const std::optional<Extremes> b = a ? extremes_of(rw, n->inputs[chooses ? 2 : 1]) : std::nullopt;
  if (!b) return std::nullopt;
  if (n->op == Op::Add) return counted(a->low + b->low, a->high + b->high);
  if (n->op == Op::Sub) return counted(a->low - b->high, a->high - b->low);
  if (chooses) return joined(a, b);
  const auto [low, high] = std::minmax({a->low * b->low, a->low * b->high, a->high * b->low, a->high * b->high});
  return counted(low, high);
}

// The codes that an integer was cast from, kNone if it was not.
ValueId codes_before(const Rewriter& rw, ValueId id) {
  const Node* n = rw.graph().producer(id);
  return n && n->op == Op::Cast && is_count(rw.type(n->inputs[0])) ? n->inputs[0] : kNone;
}

// The same number as codes. extremes_of() knows it.
ValueId as_count(Rewriter& rw, ValueId id) {
  const Type type = count_type(rw.type(id).shape, *extremes_of(rw, id));
  if (rw.value(id).constant) return codes(rw, type, codes_of(rw.value(id)), rw.value(id).name);
  if (!rw.graph().producer(id)) return rw.make(Op::Cast, {id}, {{Key::DType, DType::F32}}, type);
  const Node& n = *rw.graph().producer(id);
  const Op op = n.op;
  const Attrs attrs = n.attrs;
  const std::vector<ValueId> inputs = n.inputs;
  if (op == Op::Cast) {
    if (codes_before(rw, id) != kNone) return inputs[0];
    if (rw.type(inputs[0]).dtype != DType::Bool) return as_count(rw, inputs[0]);
    Type flags = quantized(DType::I8, type.shape, 1.0, 0);
    flags.quant->qmin = 0;
    flags.quant->qmax = 1;
    return rw.make(Op::Cast, inputs, {{Key::DType, DType::F32}}, flags);
  }
  if (is_place(n)) return rw.make(Op::Cast, {id}, {{Key::DType, DType::F32}}, type);
  if (op == Op::Clamp) {
    if (ValueId before = codes_before(rw, inputs[0]); before != kNone) return rw.make(op, {before}, attrs, type);
    if (extremes_of(rw, inputs[0])) return rw.make(op, {as_count(rw, inputs[0])}, attrs, type);
    return rw.make(Op::Cast, {id}, {{Key::DType, DType::F32}}, type);  // its operand may be anything
  }
  if (op == Op::Where) return rw.make(op, {inputs[0], as_count(rw, inputs[1]), as_count(rw, inputs[2])}, attrs, type);
  if (is_gathered(n)) {
    const ValueId from = as_count(rw, inputs[0]);
    return rw.make(op, {from, inputs[1]}, attrs, with_shape(rw.type(from), type.shape));
  }
  const bool keeps_type = is_moved(n);
  std::vector<ValueId> counts;
  for (ValueId input : inputs) {
    ValueId count = as_count(rw, input);
    if (op == Op::Pad || op == Op::Concat) {  // all that there is has the type of the result
      const Type wide = with_shape(type, rw.type(count).shape);
      if (rw.type(count) != wide) count = rw.make(Op::Quantize, {count}, {}, wide);
    }
    counts.push_back(count);
  }
  return rw.make(op, counts, attrs, keeps_type ? with_shape(rw.type(counts[0]), type.shape) : type);
}

// Not for the NPU as it is: it has 64 bits, or no sign, or the core compares codes alone.
bool needs_codes(const Rewriter& rw, ValueId id) {
  const DType dtype = rw.type(id).dtype;
  return dtype == DType::I64 || dtype == DType::U8 || !facts_of(rw).has_booleans;
}

// sum of small integers  ->  of codes
bool sum_counts(Rewriter& rw, const Node& n) {
  const Type out = rw.type(n.outputs[0]);
  const std::optional<Extremes> each = rw.value(n.inputs[0]).constant ? std::nullopt : extremes_of(rw, n.inputs[0]);
  if (!each) return false;
  Shape kept = rw.type(n.inputs[0]).shape;
  int64_t length = 1;
  for (int64_t axis : n.ints(Key::Axes)) {
    length *= kept[static_cast<size_t>(axis)];
    kept[static_cast<size_t>(axis)] = 1;
  }
  const std::optional<Extremes> all =
      counted(std::min(each->low, int64_t{0}) * length, std::max(each->high, int64_t{0}) * length);
  if (length > kLargestCount || !all) return false;
  Attrs attrs = n.attrs;
  attrs.set(Key::Keepdim, true);
  ValueId sum = rw.make(Op::Sum, {as_count(rw, n.inputs[0])}, attrs, count_type(kept, *all));
  rw.replace(n, rw.make(Op::Cast, {reshape(rw, sum, out.shape)}, {{Key::DType, out.dtype}}, out));
  return true;
}

// largest or smallest of small integers  ->  of codes
bool extreme_of_counts(Rewriter& rw, const Node& n) {
  const ValueId x = n.inputs[0];
  if (rw.value(x).constant || !needs_codes(rw, x) || !extremes_of(rw, x)) return false;
  const Type out = rw.type(n.outputs[0]);
  const ValueId count = as_count(rw, x);
  const ValueId extreme = rw.make(n.op, {count}, n.attrs, with_shape(rw.type(count), out.shape));
  rw.replace(n, rw.make(Op::Cast, {extreme}, {{Key::DType, out.dtype}}, out));
  return true;
}

// running sum of small integers  ->  of codes
bool cumsum_counts(Rewriter& rw, const Node& n) {
  const Type out = rw.type(n.outputs[0]);
  const std::optional<Extremes> each = rw.value(n.inputs[0]).constant ? std::nullopt : extremes_of(rw, n.inputs[0]);
  const int64_t length = out.shape[static_cast<size_t>(n.integer(Key::Axis))];
  if (!each || length > kLargestCount) return false;
  const std::optional<Extremes> all =
      counted(std::min(each->low, int64_t{0}) * length, std::max(each->high, int64_t{0}) * length);
  if (!all) return false;
  ValueId sums = rw.make(Op::CumSum, {as_count(rw, n.inputs[0])}, n.attrs, count_type(out.shape, *all));
  rw.replace(n, rw.make(Op::Cast, {sums}, {{Key::DType, out.dtype}}, out));
  return true;
}

// An operand of a division: integers of 8 bits are small wherever they come from.
std::optional<Extremes> extremes_of_operand(const Rewriter& rw, ValueId id) {
  if (std::optional<Extremes> known = extremes_of(rw, id)) return known;
  return is_plain_integer(rw.type(id)) && rw.type(id).dtype == DType::I8 ? counted(-128, 127) : std::nullopt;
}

ValueId operand_as_count(Rewriter& rw, ValueId id) {
  if (extremes_of(rw, id)) return as_count(rw, id);
  return rw.make(Op::Cast, {id}, {{Key::DType, DType::F32}},
                 count_type(rw.type(id).shape, *extremes_of_operand(rw, id)));
}

void replace_by_cast(Rewriter& rw, const Node& n, ValueId count) {
  const Type out = rw.type(n.outputs[0]);
  rw.replace(n, rw.make(Op::Cast, {count}, {{Key::DType, out.dtype}}, out));
}

// quotient of small integers, rounded  ->  of codes
bool divide_counts(Rewriter& rw, const Node& n) {
  const Type out = rw.type(n.outputs[0]);
  if (!n.has(Key::Mode) || !is_integer_type(out)) return false;
  const std::optional<Extremes> a = extremes_of_operand(rw, n.inputs[0]), b = extremes_of_operand(rw, n.inputs[1]);
  if (!a || !b) return false;
  const int64_t most = std::max(-a->low, a->high);
  const Extremes of = a->low >= 0 && b->low > 0 ? Extremes{0, a->high / b->low} : Extremes{-most, most};
  const ValueId x = operand_as_count(rw, n.inputs[0]), y = operand_as_count(rw, n.inputs[1]);
  replace_by_cast(rw, n, rw.make(Op::Div, {x, y}, n.attrs, count_type(out.shape, of)));
  return true;
}

// remainder of small integers by a number  ->  of codes
bool remainder_of_counts(Rewriter& rw, const Node& n) {
  const Type out = rw.type(n.outputs[0]);
  const std::string fn = n.text(Key::Fn);
  if ((fn != "remainder" && fn != "fmod") || !is_integer_type(out)) return false;
  const std::optional<Extremes> a = extremes_of_operand(rw, n.inputs[0]);
  const double by = n.real(Key::Alpha);
  if (!a || std::fabs(by) > kLargestCount || !has_multiples(count_type(out.shape, *a), by)) return false;
  const auto most = static_cast<int64_t>(std::fabs(by)) - 1;
  const ValueId x = operand_as_count(rw, n.inputs[0]);
  replace_by_cast(rw, n, rw.make(Op::Unary, {x}, n.attrs, count_type(out.shape, {-most, most})));
  return true;
}

// An integer that is only compared with small ones: where it is beyond `within`, it may be any other that is beyond the
// same end. Such an integer enters as codes whatever it is, because codes are cut off at their ends.
struct Held {
  ValueId id;
  Extremes within;
};

// Both operands of a sum or a difference as held integers, for a result that is held; nothing if neither is small.
std::optional<std::array<Held, 2>> held_operands(const Rewriter& rw, const Node& n, Extremes within) {
  const ValueId a = n.inputs[0], b = n.inputs[1];
  const bool adds = n.op == Op::Add;
  if (const std::optional<Extremes> other = extremes_of(rw, b)) {
    const int64_t low = adds ? -other->high : other->low, high = adds ? -other->low : other->high;
    const std::optional<Extremes> left = counted(within.low + low, within.high + high);
    return left ? std::optional(std::array{Held{a, *left}, Held{b, *other}}) : std::nullopt;
  }
  const std::optional<Extremes> other = extremes_of(rw, a);
  if (!other) return std::nullopt;
  const std::optional<Extremes> right = adds ? counted(within.low - other->high, within.high - other->low)
                                             : counted(other->low - within.high, other->high - within.low);
  return right ? std::optional(std::array{Held{a, *other}, Held{b, *right}}) : std::nullopt;
}

bool is_compared(const Type& type) { return is_integer_type(type) || (type.dtype == DType::U8 && !type.quantized()); }

bool keeps_numbers(const Type& from, const Type& to) {
  if (!is_compared(from) || !is_compared(to)) return false;
  return from.dtype == to.dtype || byte_size(from.dtype) < byte_size(to.dtype);
}

// What is known of an operand of a comparison: of its value, or of its type.
std::optional<Extremes> extremes_of_compared(const Rewriter& rw, ValueId id) {
  if (std::optional<Extremes> known = extremes_of(rw, id)) return known;
  const DType dtype = rw.type(id).dtype;
  if (dtype == DType::I8) return counted(-128, 127);
  if (dtype == DType::U8) return counted(0, 255);
  const Node* n = rw.graph().producer(id);
  const bool same = n && (is_moved(*n) || (n->op == Op::Cast && keeps_numbers(rw.type(n->inputs[0]), rw.type(id))));
  return same ? extremes_of_compared(rw, n->inputs[0]) : std::nullopt;
}

ValueId as_codes(Rewriter& rw, Held held) {
  const ValueId id = held.id;
  if (extremes_of(rw, id)) return as_count(rw, id);
  const Type type = count_type(rw.type(id).shape, {-kLargestCount, kLargestCount});
  const Node* n = rw.graph().producer(id);
  if (n && n->op == Op::Cast && keeps_numbers(rw.type(n->inputs[0]), rw.type(id)))
    return as_codes(rw, {n->inputs[0], held.within});
  if (n && (is_moved(*n) || n->op == Op::Concat)) {
    const Op op = n->op;
    const Attrs attrs = n->attrs;
    std::vector<ValueId> parts;
    for (const ValueId input : std::vector(n->inputs)) {
      const ValueId part = as_codes(rw, {input, held.within});
      const Type wide = with_shape(type, rw.type(part).shape);
      parts.push_back(rw.type(part) == wide ? part : rw.make(Op::Quantize, {part}, {}, wide));
    }
    return rw.make(op, parts, attrs, type);
  }
  if (n && (n->op == Op::Add || n->op == Op::Sub)) {
    const Op op = n->op;
    const Attrs attrs = n->attrs;
    if (const std::optional<std::array<Held, 2>> operands = held_operands(rw, *n, held.within)) {
      const ValueId a = as_codes(rw, (*operands)[0]), b = as_codes(rw, (*operands)[1]);
      return rw.make(op, {a, b}, attrs, type);
    }
  }
  return rw.make(Op::Cast, {id}, {{Key::DType, DType::F32}}, type);
}

// comparison with small integers  ->  of codes
bool compare_counts(Rewriter& rw, const Node& n) {
  const ValueId a = n.inputs[0], b = n.inputs[1];
  if (rw.value(a).constant && rw.value(b).constant) return false;
  if (!is_compared(rw.type(a)) || !is_compared(rw.type(b)) || !needs_codes(rw, a)) return false;
  const std::optional<Extremes> of_a = extremes_of_compared(rw, a), of_b = extremes_of_compared(rw, b);
  const std::optional<Extremes> small = of_b ? of_b : of_a;
  const std::optional<Extremes> within = small ? counted(small->low - 1, small->high + 1) : std::nullopt;
  if (!within) return false;
  rw.replace(n, rw.make(Op::Compare, {as_codes(rw, {a, *within}), as_codes(rw, {b, *within})}, n.attrs));
  return true;
}

// choice, join or selection of small integers  ->  of codes
bool choose_counts(Rewriter& rw, const Node& n) {
  const Type out = rw.type(n.outputs[0]);
  if (out.dtype != DType::I64 || out.quantized() || !extremes_of(rw, n.outputs[0])) return false;
  rw.replace(n, rw.make(Op::Cast, {as_count(rw, n.outputs[0])}, {{Key::DType, out.dtype}}, out));
  return true;
}

void replace_by_codes(Rewriter& rw, const Node& n, ValueId integer) {
  const Type out = rw.type(n.outputs[0]);
  const ValueId count = as_count(rw, integer);
  rw.replace(n, rw.type(count) == out ? count : rw.make(Op::Quantize, {count}, {}, out));
}

// quantize(cast of a small integer to a real number)  ->  its codes, requantized
bool quantize_count(Rewriter& rw, const Node& n) {
  const Node* cast = rw.producer(n, 0, Op::Cast);
  if (!cast || !is_float(rw.type(n.inputs[0]).dtype) || rw.type(n.inputs[0]).quantized()) return false;
  if (!is_codes(rw.type(n.outputs[0])) || !extremes_of(rw, cast->inputs[0])) return false;
  replace_by_codes(rw, n, cast->inputs[0]);
  return true;
}

// By arithmetic of integers, which may have been moved since.
bool is_computed(const Rewriter& rw, ValueId id) {
  const Node* n = rw.graph().producer(id);
  while (n && is_moved(*n)) n = rw.graph().producer(n->inputs[0]);
  if (n && n->op == Op::Clamp) return codes_before(rw, n->inputs[0]) != kNone || extremes_of(rw, n->inputs[0]);
  if (!n) return false;
  const bool arithmetic = n->op == Op::Add || n->op == Op::Sub || n->op == Op::Mul;
  return arithmetic || n->op == Op::Where || n->op == Op::Concat || n->op == Op::Pad || is_gathered(*n);
}

// a small integer as codes  ->  its own codes, requantized; as another integer  ->  a cast of its codes
bool cast_count(Rewriter& rw, const Node& n) {
  const Type out = rw.type(n.outputs[0]);
  const Node* before = rw.graph().producer(n.inputs[0]);
  if (!before || !needs_codes(rw, n.inputs[0])) return false;
  if (is_codes(out)) {
    if (!extremes_of(rw, n.inputs[0])) return false;
    const bool clamped =
        before->op == Op::Clamp && codes_before(rw, before->inputs[0]) == kNone && !extremes_of(rw, before->inputs[0]);
    if (clamped || is_place(*before)) return false;  // this is how it enters
    replace_by_codes(rw, n, n.inputs[0]);
    return true;
  }
  if (!is_integer_type(out) || out.dtype == DType::I64) return false;
  ValueId count = codes_before(rw, n.inputs[0]);
  if (count == kNone && (!is_computed(rw, n.inputs[0]) || !extremes_of(rw, n.inputs[0]))) return false;
  if (count == kNone) count = as_count(rw, n.inputs[0]);
  rw.replace(n, rw.make(Op::Cast, {count}, n.attrs, out));
  return true;
}

// integers of whole numbers  ->  of their codes
bool cast_whole(Rewriter& rw, const Node& n) {
  const Node* reals = rw.producer(n, 0, Op::Dequantize);
  const Type out = rw.type(n.outputs[0]);
  if (!reals || !is_integer_type(out) || !is_count(rw.type(reals->inputs[0]))) return false;
  rw.replace(n, rw.make(Op::Cast, {reals->inputs[0]}, n.attrs, out));
  return true;
}

// argmax that the core does not have  ->  length - place where x is the largest of its row, otherwise 0; the largest of
// these is that of the first place
bool argmax_by_maximum(Rewriter& rw, const Node& n) {
  const Type from = rw.type(n.inputs[0]), out = rw.type(n.outputs[0]);
  const NpuFacts& facts = facts_of(rw);
  if (!is_codes(from) || facts.any_argmax || out.dtype != DType::I64) return false;
  const int64_t axis = n.integer(Key::Axis), last = from.rank() - 1, length = from.shape[static_cast<size_t>(axis)];
  const bool has = from.dtype == DType::I8 && length <= facts.argmax_depth;
  if (has || length >= kLargestCount || (from.dtype != DType::I8 && from.dtype != DType::I16)) return false;
  Ints perm;
  for (int64_t i = 0; i <= last; ++i)
    if (i != axis) perm.push_back(i);
  perm.push_back(axis);
  const Shape shape = rows_shape(rw, element_count(from.shape) / length, length);
  ValueId x = reshape(rw, axis == last ? n.inputs[0] : transpose(rw, n.inputs[0], perm), shape);
  const Type codes_of_x = i16_type(shape, from.scale());
  if (from.dtype == DType::I8) x = rw.make(Op::Quantize, {x}, {}, codes_of_x);
  auto step = [&](int64_t code) { return scalar(rw, DType::I16, 4, code, from.scale()); };
  ValueId below = rw.make(Op::Sub, {x, max_of_rows(rw, x)}, {}, codes_of_x);
  ValueId largest =
      rw.make(Op::Add, {rw.make(Op::Maximum, {below, step(-1)}, {}, codes_of_x), step(1)}, {}, codes_of_x);
  std::vector<int64_t> left(static_cast<size_t>(length));
  for (int64_t i = 0; i < length; ++i) left[static_cast<size_t>(i)] = length - i;
  ValueId places = codes(rw, i16_type({1, 1, 1, length}, 1 / from.scale()), left, "places");
  ValueId first = max_of_rows(rw, rw.make(Op::Mul, {largest, places}, {}, count_type(shape, {0, length})));
  ValueId index = rw.make(Op::Sub, {scalar(rw, DType::I16, 4, length, 1.0), first}, {},
                          count_type(rw.type(first).shape, {0, length - 1}));
  rw.replace(n, rw.make(Op::Cast, {reshape(rw, index, out.shape)}, {{Key::DType, out.dtype}}, out));
  return true;
}

}  // namespace

std::span<const Rule> count_rules() {
  static const Rule kRules[] = {
      {"sum-counts", {Op::Sum}, sum_counts},
      {"extreme-of-counts", {Op::ReduceMax, Op::ReduceMin}, extreme_of_counts},
      {"cumsum-counts", {Op::CumSum}, cumsum_counts},
      {"divide-counts", {Op::Div}, divide_counts},
      {"remainder-of-counts", {Op::Unary}, remainder_of_counts},
      {"compare-counts", {Op::Compare}, compare_counts},
      {"choose-counts", {Op::Where, Op::Concat, Op::Gather, Op::GatherElements}, choose_counts},
      {"cast-count", {Op::Cast}, cast_count},
      {"cast-whole", {Op::Cast}, cast_whole},
      {"quantize-count", {Op::Quantize}, quantize_count},
      {"argmax-by-maximum", {Op::ArgMax}, argmax_by_maximum},
  };
  return kRules;
}

}  // namespace swoop
