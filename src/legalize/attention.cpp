// Attention without the division of the big matrix: (exp(scores - max) . v) / sum, so that the matrix of L x S weights
// is written once, with its largest code in every row, and the quotient is taken on L x V values. Scores are 16 bits
// wide: a mask is then a code far below every score and costs no precision, and on U55 and U85 an elementwise op takes
// 16 bits as fast as 8.
#include <algorithm>
#include <cmath>

#include "legalize/compose.h"

namespace swoop {

namespace {

constexpr double kNothing = 12;  // exp(-12) is below half a code of 16 bits

// Leading dims as one: what several ops read must not be reshaped between them, which would be a copy.
ValueId as_matrices(Rewriter& rw, ValueId x) {
  const Shape& shape = rw.type(x).shape;
  return reshape(
      rw, x, {element_count(shape) / (shape.back() * shape[shape.size() - 2]), shape[shape.size() - 2], shape.back()});
}

// exp(x - max x) . v / sum(exp(x - max x)), with 8-bit x or 16-bit x
ValueId weighted_mean(Rewriter& rw, ValueId x, ValueId v, Type out, const Attrs& attrs) {
  const Shape out_shape = out.shape;
  if (element_count(out_shape) / out_shape[out_shape.size() - 2] ==
      element_count(rw.type(v).shape) / rw.type(v).shape[rw.type(v).shape.size() - 2]) {
    x = as_matrices(rw, x);
    v = as_matrices(rw, v);
    out.shape = {rw.type(x).shape[0], rw.type(x).shape[1], rw.type(v).shape[2]};
  }
  const Shape shape = rw.type(x).shape;
  double step = rw.type(x).scale();
  // 8 bits hold every difference of two 8-bit codes when zero is the highest one; of 16-bit codes those that exp() can
  // tell from nothing.
  constexpr double kNothingIn8Bits = 6.25;  // exp(-6.25) * 255 < 0.5
  if (rw.type(x).dtype == DType::I16) step = kNothingIn8Bits / 255;
  Type below = quantized(DType::I8, shape, step, 127);
  ValueId max = max_of_rows(rw, x);
  ValueId e = unary(rw, "exp", rw.make(Op::Sub, {x, max}, {}, below), quantized(DType::I8, shape, 1.0 / 255, -128));
  ValueId sum = reduce(rw, Op::Sum, e, {rw.type(x).rank() - 1}, i32_type({}, 1.0 / 255));
  // Where more are added up evenly, 16 bits have under 64 codes for 1 / sum: rounding is 0.8 % of it, and the product
  // with the largest total leaves 32 bits.
  constexpr int64_t kMostShares = 512;
  const bool many = shape.back() > kMostShares;
  ValueId by = many ? sum : unary(rw, "reciprocal", sum, i16_type(rw.type(sum).shape, 1.0 / 32767));
  ValueId total = rw.make(Op::MatMul, {e, v}, {}, i32_type(out.shape, rw.type(v).scale() / 255));
  return reshape(rw, rw.make(many ? Op::Div : Op::Mul, {total, by}, attrs, std::move(out)), out_shape);
}

// What the scores may be: measured, or six deviations of a product of numbers that use a third of their range.
Range score_range(const Rewriter& rw, const Node& n, double scale) {
  if (n.has(Key::Inner) && n.doubles(Key::Inner).size() >= 2) {
    const Doubles& inner = n.doubles(Key::Inner);
    double room = 0.1 * (inner[1] - inner[0]) + 1e-6;
    return {inner[0] - room, inner[1] + room};
  }
  auto reach = [&](size_t i) {
    Range reals = range_of(rw.type(n.inputs[i]));
    return std::max(-reals.min, reals.max) / 3;
  };
  double most = 6 * scale * reach(0) * reach(1) * std::sqrt(static_cast<double>(rw.type(n.inputs[0]).shape.back()));
  return {-most, most};
}

// The reals of a constant mask; booleans say where to look.
std::optional<std::vector<double>> constant_mask(const Rewriter& rw, ValueId mask) {
  const Value& value = rw.value(mask);
  if (!value.constant) return std::nullopt;
  std::vector<double> list(static_cast<size_t>(element_count(value.type.shape)));
  for (size_t i = 0; i < list.size(); ++i) {
    double real = real_at(value, static_cast<int64_t>(i));
    list[i] = value.type.dtype == DType::Bool ? (real != 0 ? 0.0 : -INFINITY) : real;
  }
  return list;
}

// Whether a mask does nothing but hide: what is not zero is twice as deep as all scores.
bool hides_only(std::span<const double> mask, double reach) {
  return std::all_of(mask.begin(), mask.end(), [=](double m) { return m == 0 || m <= -2 * reach; });
}

// The largest number that scores with a mask of rows of `columns` need: the highest sum; or what takes the highest
// score below all that count, the lowest of which is in the row whose mask is lowest at its highest place.
double reach_with_mask(const Range& scores, std::span<const double> mask, int64_t columns) {
  double highest = -INFINITY, lowest = INFINITY;
  for (size_t row = 0; row < mask.size(); row += static_cast<size_t>(columns)) {
    const auto numbers = mask.subspan(row, static_cast<size_t>(columns));
    const double most = *std::max_element(numbers.begin(), numbers.end());
    highest = std::max(highest, most);
    lowest = std::min(lowest, most);
  }
  return std::max(scores.max + highest, scores.max - scores.min - lowest + kNothing);
}

// Adds constants of the last two dims (or more) to 16-bit scores: what is far below becomes the lowest code.
ValueId add_mask(Rewriter& rw, ValueId scores, std::span<const double> mask, Shape shape, bool hides) {
  const Type type = rw.type(scores);
  shape.insert(shape.begin(), static_cast<size_t>(type.rank()) - shape.size(), 1);
  double scale = type.scale();
  std::vector<int64_t> values;
  for (double m : mask) {
    double code = std::clamp(m / scale, -32767.0, 32767.0);
    values.push_back(hides ? (m == 0 ? 32767 : -32767) : static_cast<int64_t>(std::nearbyint(code)));
  }
  ValueId constant = codes(rw, i16_type(shape, scale), values, "mask");
  return rw.make(hides ? Op::Minimum : Op::Add, {scores, constant}, {}, type);
}

// attention(q, k, v)  ->  weighted_mean(q . k^T * scale + mask, v); of 16 bits, softmax(the same) . v
bool expand_attention(Rewriter& rw, const Node& n) {
  bool narrow = true;
  for (size_t i = 0; i < 3; ++i) {
    const Type& type = rw.type(n.inputs[i]);
    if (!is_codes(type) || (type.dtype != DType::I8 && type.dtype != DType::I16)) return false;
    narrow = narrow && type.dtype == DType::I8;
  }
  const Type out = rw.type(n.outputs[0]);
  if (!out.quantized() || is_float(out.dtype)) return false;
  ValueId q = n.inputs[0], k = n.inputs[1], v = n.inputs[2];
  ValueId mask = n.inputs.size() > 3 ? n.inputs[3] : kNone;
  std::optional<std::vector<double>> hidden;
  Shape hidden_shape;
  Shape scores_shape = out.shape;
  int64_t rows = out.shape[out.shape.size() - 2], columns = rw.type(k).shape[rw.type(k).shape.size() - 2];
  scores_shape.back() = columns;
  if (mask != kNone) {
    hidden = constant_mask(rw, mask);
    if (!hidden) return false;
    hidden_shape = rw.type(mask).shape;
  } else if (n.flag(Key::Causal)) {
    hidden.emplace(static_cast<size_t>(rows * columns), 0.0);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = i + 1; j < columns; ++j) (*hidden)[static_cast<size_t>(i * columns + j)] = -INFINITY;
    hidden_shape = {rows, columns};
  }
  double scale = n.real(Key::Scale);
  Range range = score_range(rw, n, scale);
  // A masked score is kNothing below the lowest one.
  double most = std::max(range.max, -(range.min - (hidden ? kNothing : 0)));
  const bool hides = hidden && hides_only(*hidden, most);
  if (hidden && !hides) most = std::max(most, reach_with_mask(range, *hidden, hidden_shape.back()));
  Ints swap;
  for (int i = 0; i < rw.type(k).rank(); ++i) swap.push_back(i);
  std::swap(swap[swap.size() - 1], swap[swap.size() - 2]);
  Type scores_type = i16_type(scores_shape, most / 32767);
  ValueId scores = rw.make(Op::MatMul, {q, transpose(rw, k, swap)}, {{Key::Scale, scale}}, scores_type);
  if (hidden) scores = add_mask(rw, scores, *hidden, hidden_shape, hides);
  if (narrow) {
    rw.replace(n, weighted_mean(rw, scores, v, out, {}));
    return true;
  }
  ValueId weights = rw.make(Op::Softmax, {scores}, {{Key::Axis, int64_t{scores_type.rank() - 1}}},
                            i16_type(scores_shape, 1.0 / 32767));
  rw.replace(n, rw.make(Op::MatMul, {weights, v}, {}, out));
  return true;
}

// matmul(softmax(x), v)  ->  weighted_mean(x, v), when nothing else reads the weights
bool fuse_softmax_into_matmul(Rewriter& rw, const Node& n) {
  const Node* softmax = rw.producer(n, 0, Op::Softmax);
  if (!softmax || reader_as_weights(rw, *softmax) != &n) return false;
  rw.replace(n, weighted_mean(rw, softmax->inputs[0], n.inputs[1], rw.type(n.outputs[0]), n.attrs));
  return true;
}

}  // namespace

const Node* reader_as_weights(Rewriter& rw, const Node& softmax) {
  const std::vector<Use>& uses = rw.value(softmax.outputs[0]).uses;
  if (uses.size() != 1 || uses[0].node == kNone || uses[0].index != 0 || !computes_on_codes(rw, softmax))
    return nullptr;
  const Node& reader = rw.graph().node(uses[0].node);
  if (reader.op != Op::MatMul || reader.has(Key::Scale) || !computes_on_codes(rw, reader)) return nullptr;
  const Value& v = rw.value(reader.inputs[1]);
  bool narrow = rw.type(softmax.inputs[0]).dtype == DType::I8 && v.type.quantized() && v.type.dtype == DType::I8;
  return narrow && !v.constant && softmax.integer(Key::Axis) == rw.type(softmax.outputs[0]).rank() - 1 ? &reader
                                                                                                       : nullptr;
}

std::span<const Rule> attention_rules() {
  static const Rule kRules[] = {
      {"expand-attention", {Op::Attention}, expand_attention, {1e-2, 5e-4}},
      {"fuse-softmax-into-matmul", {Op::MatMul}, fuse_softmax_into_matmul, {1e-2, 0}},
  };
  return kRules;
}

}  // namespace swoop
