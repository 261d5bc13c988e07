// Elementwise functions that the cores do not have, from those they have.
#include <algorithm>
#include <cmath>

#include "legalize/kernel.h"

namespace swoop {

namespace {

// The one real number that a constant of one element stands for, also where it still waits for its rank.
std::optional<double> constant_scalar(const Rewriter& rw, ValueId id) {
  const Node* producer = rw.graph().producer(id);
  const Value& value = rw.value(producer && producer->op == Op::Reshape ? producer->inputs[0] : id);
  if (!value.constant || element_count(value.type.shape) != 1) return std::nullopt;
  return real_at(value, 0);
}

// prelu(x, w)  ->  max or min of x and w * x, each a depthwise 1x1 into the result's own type; leaky_relu for a single
// w
bool expand_prelu(Rewriter& rw, const Node& n) {
  if (!computes_on_codes(rw, n) || !rw.value(n.inputs[1]).constant) return false;
  const Type out = rw.type(n.outputs[0]);
  const Value& w = rw.value(n.inputs[1]);
  int64_t count = element_count(w.type.shape);
  if (count == 1) {
    Attrs attrs = clamp_of(n);
    attrs.set(Key::Alpha, real_at(w, 0));
    rw.replace(n, unary(rw, "leaky_relu", n.inputs[0], out, attrs));
    return true;
  }
  if (out.rank() < 2 || count != out.shape[1]) return false;
  std::vector<double> slope, one(static_cast<size_t>(count), 1.0);
  for (int64_t i = 0; i < count; ++i) slope.push_back(real_at(w, i));
  bool flat = std::all_of(slope.begin(), slope.end(), [](double s) { return s <= 1; });
  bool steep = std::all_of(slope.begin(), slope.end(), [](double s) { return s >= 1; });
  ValueId x = n.inputs[0];
  if (flat || steep) {
    ValueId straight = scale_axis_1(rw, x, one, {}, out);
    ValueId bent = scale_axis_1(rw, x, slope, {}, out);
    rw.replace(n, rw.make(flat ? Op::Maximum : Op::Minimum, {straight, bent}, clamp_of(n), out));
    return true;
  }
  // Slopes on both sides of 1: the halves are added.
  ValueId zero = scalar(rw, rw.type(x).dtype, rw.type(x).rank(), 0, rw.type(x).scale());
  ValueId above = rw.make(Op::Maximum, {x, zero}, {}, rw.type(x));
  ValueId below = scale_axis_1(rw, rw.make(Op::Minimum, {x, zero}, {}, rw.type(x)), slope, {}, out);
  rw.replace(n, rw.make(Op::Add, {scale_axis_1(rw, above, one, {}, out), below}, clamp_of(n), out));
  return true;
}

// x / c  ->  x * (1/c), with the factor in the scale of a constant one
bool divide_by_constant(Rewriter& rw, const Node& n) {
  std::optional<double> divisor = constant_scalar(rw, n.inputs[1]);
  if (!divisor || *divisor == 0 || !computes_on_codes(rw, n) || n.has(Key::Mode)) return false;
  ValueId factor = scalar(rw, rw.type(n.inputs[0]).dtype, rw.type(n.outputs[0]).rank(), *divisor < 0 ? -1 : 1,
                          1.0 / std::fabs(*divisor));
  rw.replace(n, rw.make(Op::Mul, {n.inputs[0], factor}, clamp_of(n), rw.type(n.outputs[0])));
  return true;
}

// x * c with one c for all  ->  x * 1, with the factor in the scale: c is exact however it was quantized
bool exact_factor(Rewriter& rw, const Node& n) {
  if (!is_codes(rw.type(n.outputs[0]))) return false;
  for (size_t i = 0; i < 2; ++i) {
    std::optional<double> factor = constant_scalar(rw, n.inputs[i]);
    if (!factor || *factor == 0 || !is_codes(rw.type(n.inputs[i])) || !is_codes(rw.type(n.inputs[1 - i]))) continue;
    if (std::fabs(*factor) == rw.type(n.inputs[i]).scale()) continue;  // it is one step already
    if (rw.type(n.inputs[i]).dtype == DType::I32 || rw.value(n.inputs[1 - i]).constant) continue;
    int rank = rw.type(n.outputs[0]).rank();
    rw.set_input(n, i, scalar(rw, rw.type(n.inputs[i]).dtype, rank, *factor < 0 ? -1 : 1, std::fabs(*factor)));
    return true;
  }
  return false;
}

// The numbers of a constant that has one for each index along an axis, and which axis of `rank` that is.
struct Vector {
  std::vector<double> numbers;
  int64_t axis = 0;
};
std::optional<Vector> constant_vector(const Rewriter& rw, ValueId id, int rank) {
  const Value& value = rw.value(id);
  if (!value.constant || !is_codes(value.type) || value.type.rank() > rank) return std::nullopt;
  Vector vector;
  for (int i = 0; i < value.type.rank(); ++i) {
    const int64_t size = value.type.shape[static_cast<size_t>(i)];
    if (size == 1) continue;
    if (!vector.numbers.empty()) return std::nullopt;
    vector.axis = rank - value.type.rank() + i;
    for (int64_t k = 0; k < size; ++k) vector.numbers.push_back(real_at(value, k));
  }
  return vector.numbers.empty() ? std::nullopt : std::optional(vector);
}

// A product of matrices, which are its last axes: heads in front of them are no channels, and turning them costs more
// than a constant operand (scores of 2 heads, 16 x 16: 329 -> 77 kcycles on U55-128).
bool is_product(const Rewriter& rw, ValueId id) {
  const Node* n = rw.graph().producer(id);
  while (n && info(n->op).traits.movement && n->inputs.size() == 1) n = rw.graph().producer(n->inputs[0]);
  return n && n->op == Op::MatMul;
}

// x + c, x - c, x * c with a number per channel  ->  a depthwise 1x1 conv: weights are read once, a constant operand
// with every element (8 -> 0.5 cycles per element on U55-128)
bool vector_by_conv(Rewriter& rw, const Node& n) {
  const Type out = rw.type(n.outputs[0]);
  if (facts_of(rw).chains_elementwise || !on_integers(rw.graph(), n) || out.rank() < 2) return false;
  for (size_t i = 0; i < 2; ++i) {
    const Type& x = rw.type(n.inputs[i]);
    if (!is_codes(x) || !is_codes(out) || x.dtype == DType::I32 || out.dtype == DType::I32) return false;
    std::optional<Vector> c = constant_vector(rw, n.inputs[1 - i], out.rank());
    if (!c || x.shape != out.shape || element_count(x.shape) == static_cast<int64_t>(c->numbers.size())) continue;
    const bool last = c->axis == out.rank() - 1;
    if (!last && (c->axis != 1 || is_product(rw, n.inputs[i]))) continue;
    std::vector<double> gain(c->numbers.size(), n.op == Op::Sub && i == 1 ? -1.0 : 1.0), offset = c->numbers;
    if (n.op == Op::Mul) std::swap(gain, offset), offset.clear();
    if (n.op == Op::Sub && i == 0)
      for (double& number : offset) number = -number;
    if (!last) {
      rw.replace(n, scale_axis_1(rw, n.inputs[i], gain, offset, out, clamp_of(n)));
      return true;
    }
    const auto length = static_cast<int64_t>(gain.size());
    ValueId rows = reshape(rw, n.inputs[i], rows_shape(rw, element_count(x.shape) / length, length));
    rw.replace(n, reshape(rw, scale_channels(rw, rows, gain, offset, out, clamp_of(n)), out.shape));
    return true;
  }
  return false;
}

// The widest value of 1/x over the codes of x but zero.
double largest_reciprocal(const Type& type) {
  Range reals = range_of(type);
  double least = reals.min > 0 ? reals.min : reals.max < 0 ? -reals.max : type.scale();
  return 1.0 / least;
}

// a / b of 8 bits into 8 bits  ->  a * (1/b), the reciprocal from a 16-bit table, whose 128th is exact: 0.4 % of the
// quotient at most. Where 16 bits are involved, lower/ normalises the divisor.
bool divide_by_table(Rewriter& rw, const Node& n) {
  const Type& b = rw.type(n.inputs[1]);
  if (!computes_on_codes(rw, n) || !is_codes(b) || b.dtype != DType::I8 || n.has(Key::Mode)) return false;
  if (rw.type(n.inputs[0]).dtype != DType::I8 || rw.type(n.outputs[0]).dtype != DType::I8) return false;
  double most = largest_reciprocal(b);
  ValueId a = n.inputs[0];
  ValueId share = unary(rw, "reciprocal", n.inputs[1], i16_type(b.shape, most / 32767),
                        {{Key::ActMin, -most}, {Key::ActMax, most}});
  Type wide = i16_type(rw.type(a).shape, rw.type(a).scale() / 128);  // both operands of a product of one width
  a = rw.make(Op::Mul, {a, scalar(rw, DType::I8, rw.type(a).rank(), 1, 1.0)}, {}, wide);
  rw.replace(n, rw.make(Op::Mul, {a, share}, clamp_of(n), rw.type(n.outputs[0])));
  return true;
}

// pow(x, c)  ->  a table; remainder(x, c) likewise
bool function_of_one(Rewriter& rw, const Node& n) {
  std::optional<double> exponent = constant_scalar(rw, n.inputs[1]);
  if (!exponent || !computes_on_codes(rw, n)) return false;
  Attrs attrs = clamp_of(n);
  attrs.set(Key::Alpha, *exponent);
  rw.replace(n, unary(rw, n.op == Op::Pow ? "pow" : "remainder", n.inputs[0], rw.type(n.outputs[0]), attrs));
  return true;
}

// cumsum(x)  ->  a linear layer with a triangle of ones, along the last axis
bool cumsum_by_conv(Rewriter& rw, const Node& n) {
  if (!computes_on_codes(rw, n)) return false;
  const Type out = rw.type(n.outputs[0]);
  int64_t axis = n.integer(Key::Axis), last = out.rank() - 1;
  int64_t length = out.shape[static_cast<size_t>(axis)];
  constexpr int64_t kLongest = 2048;  // the triangle has the square of it
  if (length > kLongest) return false;
  Ints perm;
  for (int64_t i = 0; i <= last; ++i)
    if (i != axis) perm.push_back(i);
  perm.push_back(axis);
  std::vector<int64_t> triangle(static_cast<size_t>(length * length), 0);
  for (int64_t o = 0; o < length; ++o)
    for (int64_t i = 0; i <= o; ++i) triangle[static_cast<size_t>(o * length + i)] = 1;
  ValueId weight = codes(rw, quantized(DType::I8, {length, length}, 1.0, 0), triangle, "triangle");
  ValueId x = axis == last ? n.inputs[0] : transpose(rw, n.inputs[0], perm);
  ValueId y = rw.make(Op::Linear, {x, weight, kNone}, clamp_of(n), with_shape(out, rw.type(x).shape));
  rw.replace(n, axis == last ? y : transpose(rw, y, inverse(perm)));
  return true;
}

// argmax as 64 bits, along any axis  ->  along the last one as 32 bits, then a cast that stays with the host
bool narrow_argmax(Rewriter& rw, const Node& n) {
  const Type& x = rw.type(n.inputs[0]);
  const Type out = rw.type(n.outputs[0]);
  if (!is_codes(x) || out.dtype != DType::I64) return false;
  int64_t axis = n.integer(Key::Axis), last = x.rank() - 1;
  const NpuFacts& facts = facts_of(rw);
  bool fits = x.dtype == DType::I8 && x.shape[static_cast<size_t>(axis)] <= facts.argmax_depth;  // u55.c10
  if (!facts.any_argmax && !fits) return false;
  Ints perm;
  for (int64_t i = 0; i <= last; ++i)
    if (i != axis) perm.push_back(i);
  perm.push_back(axis);
  ValueId from = axis == last ? n.inputs[0] : transpose(rw, n.inputs[0], perm);
  Shape kept = rw.type(from).shape;
  if (kept.size() > 4) {  // regor takes no more
    from = reshape(rw, from, rows_shape(rw, element_count(kept) / kept.back(), kept.back()));
    kept = rw.type(from).shape;
    last = 3;
  }
  kept.back() = 1;
  ValueId index = rw.make(Op::ArgMax, {from}, {{Key::Axis, last}, {Key::Keepdim, true}}, Type{DType::I32, kept, {}});
  rw.replace(n, rw.make(Op::Cast, {reshape(rw, index, out.shape)}, {{Key::DType, DType::I64}}, out));
  return true;
}

// argmin(x)  ->  argmax(-x); the codes -1 - q are exact, and so is -q of 16 bits
bool argmin_to_argmax(Rewriter& rw, const Node& n) {
  Type type = rw.type(n.inputs[0]);
  if (is_codes(type) && type.dtype == DType::I16 && type.zero_point() == 0) {
    ValueId zero = scalar(rw, DType::I16, type.rank(), 0, type.scale());
    ValueId negative = rw.make(Op::Sub, {zero, n.inputs[0]}, {}, type);
    rw.replace(n, rw.make(Op::ArgMax, {negative}, n.attrs, rw.type(n.outputs[0])));
    return true;
  }
  if (!is_codes(type) || type.dtype != DType::I8) return false;
  type.quant = Quant{{type.scale()}, {-1 - type.zero_point()}, -1, -128, 127};
  rw.replace(n, rw.make(Op::ArgMax, {unary(rw, "neg", n.inputs[0], type)}, n.attrs, rw.type(n.outputs[0])));
  return true;
}

// where(constant mask, a, b)  ->  max(min(a, high), low) where b is one number; the masks as constants of the result's
// type
bool where_constant_mask(Rewriter& rw, const Node& n) {
  if (facts_of(rw).has_booleans || !rw.value(n.inputs[0]).constant) return false;
  const Type out = rw.type(n.outputs[0]);
  if (!is_codes(out) || out.dtype == DType::I32) return false;
  for (size_t keep = 1; keep < 3; ++keep) {
    std::optional<double> other = constant_scalar(rw, n.inputs[3 - keep]);
    if (!other || !is_codes(rw.type(n.inputs[keep])) || rw.type(n.inputs[keep]).shape != out.shape) continue;
    std::vector<int64_t> mask = codes_of(rw.value(n.inputs[0]));
    int64_t code =
        quantize_value(static_cast<float>(*other), out.scale(), out.zero_point(), out.quant->qmin, out.quant->qmax);
    std::vector<int64_t> low, high;
    for (int64_t m : mask) {
      bool kept = (m != 0) == (keep == 1);
      low.push_back(kept ? out.quant->qmin : code);
      high.push_back(kept ? out.quant->qmax : code);
    }
    Type bounds = with_shape(out, rw.type(n.inputs[0]).shape);
    ValueId x = n.inputs[keep];
    if (rw.type(x).quant != out.quant) x = rw.make(Op::Quantize, {x}, {}, out);
    if (code != out.quant->qmax) x = rw.make(Op::Minimum, {x, codes(rw, bounds, high, "high")}, {}, out);
    if (code != out.quant->qmin) x = rw.make(Op::Maximum, {x, codes(rw, bounds, low, "low")}, {}, out);
    rw.replace(n, x);
    return true;
  }
  return false;
}

// where(mask, x, number)  ->  max(min(x, where(mask, highest, number)), where(mask, lowest, number)): the host chooses
// among constants, as soon as it has the mask, and x stays on the NPU
bool where_mask_of_bounds(Rewriter& rw, const Node& n) {
  const Type& mask = rw.type(n.inputs[0]);
  if (facts_of(rw).has_booleans || rw.value(n.inputs[0]).constant) return false;
  const Type out = rw.type(n.outputs[0]);
  if (!is_codes(out) || out.dtype == DType::I32) return false;
  for (size_t keep = 1; keep < 3; ++keep) {
    std::optional<double> other = constant_scalar(rw, n.inputs[3 - keep]);
    ValueId x = n.inputs[keep];
    if (!other || rw.value(x).constant || !is_codes(rw.type(x)) || rw.type(x).shape != out.shape) continue;
    int64_t code =
        quantize_value(static_cast<float>(*other), out.scale(), out.zero_point(), out.quant->qmin, out.quant->qmax);
    Type one = with_shape(out, Shape(mask.shape.size(), 1));
    auto bound = [&](int64_t open, std::string_view name) {
      std::vector<ValueId> operands = {n.inputs[0], codes(rw, one, {&open, 1}, name),
                                       codes(rw, one, {&code, 1}, "otherwise")};
      if (keep == 2) std::swap(operands[1], operands[2]);
      return rw.make(Op::Where, operands, {}, with_shape(out, mask.shape));
    };
    if (rw.type(x).quant != out.quant) x = rw.make(Op::Quantize, {x}, {}, out);
    if (code != out.quant->qmax) x = rw.make(Op::Minimum, {x, bound(out.quant->qmax, "highest")}, {}, out);
    if (code != out.quant->qmin) x = rw.make(Op::Maximum, {x, bound(out.quant->qmin, "lowest")}, {}, out);
    rw.replace(n, x);
    return true;
  }
  return false;
}

// where(x > c, x, d) of 8 bits  ->  threshold(x), one table; where(x > 0, x, ...) in PyTorch's other spellings are
// maxima
bool where_to_threshold(Rewriter& rw, const Node& n) {
  const Node* compare = rw.producer(n, 0, Op::Compare);
  if (!compare || compare->text(Key::Fn) != "gt" || compare->inputs[0] != n.inputs[1]) return false;
  std::optional<double> bound = constant_scalar(rw, compare->inputs[1]), other = constant_scalar(rw, n.inputs[2]);
  const Type& x = rw.type(n.inputs[1]);
  const Type out = rw.type(n.outputs[0]);
  if (!bound || !other || !is_codes(x) || !is_codes(out) || x.dtype != DType::I8 || x.shape != out.shape) return false;
  rw.replace(n, unary(rw, "threshold", n.inputs[1], out, {{Key::Alpha, *bound}, {Key::Beta, *other}}));
  return true;
}

// quantize(x) of a few codes  ->  x * 1 into that type: a product has no fixed cost, where a requantize is a pool (64
// elements on U55-128: 64 against 272 cycles). In SRAM it costs less for many elements, too: 24 x 24 x 16 on U55-128
// take 7.4 instead of 9.6 kcycles, on U85-256 2.4 instead of 5.9.
bool requantize_by_product(Rewriter& rw, const Node& n) {
  constexpr int64_t kFew = 4096;
  constexpr int kLeastMacs = 128;  // a product takes three cycles on U55-32, a requantize two
  const ValueId x = n.inputs[0];
  if (!computes_on_codes(rw, n)) return false;
  // Of what something else reads, too, the requantize cannot become part of what computes it.
  const bool gains = target_of(rw).macs >= kLeastMacs && is_near(rw, x) && is_shared(rw, x, true);
  if (element_count(rw.type(x).shape) > kFew && !gains) return false;
  rw.replace(n, times_one(rw, n.inputs[0], {}, rw.type(n.outputs[0])));
  return true;
}

}  // namespace

std::span<const Rule> arithmetic_rules() {
  static const Rule kRules[] = {
      {"expand-prelu", {Op::Prelu}, expand_prelu},
      {"divide-by-constant", {Op::Div}, divide_by_constant},
      {"divide-by-table", {Op::Div}, divide_by_table},
      {"exact-factor", {Op::Mul}, exact_factor},
      {"vector-by-conv", {Op::Add, Op::Sub, Op::Mul}, vector_by_conv},
      {"requantize-by-product", {Op::Quantize}, requantize_by_product},
      {"function-of-one", {Op::Pow, Op::Remainder}, function_of_one, {0, 2e-3}},
      {"cumsum-by-conv", {Op::CumSum}, cumsum_by_conv},
      {"narrow-argmax", {Op::ArgMax}, narrow_argmax},
      {"argmin-to-argmax", {Op::ArgMin}, argmin_to_argmax},
      {"where-to-threshold", {Op::Where}, where_to_threshold},
      {"where-constant-mask", {Op::Where}, where_constant_mask},
      {"where-mask-of-bounds", {Op::Where}, where_mask_of_bounds},
  };
  return kRules;
}

}  // namespace swoop
