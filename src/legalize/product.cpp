#include <algorithm>
#include <cmath>
#include <numeric>

#include "legalize/common.h"

namespace swoop {

namespace {

// linear of more outputs than the core counts  ->  several of as many as it does, side by side. regor makes them of one
// as well, but each has the scales of all: a row of 4 by 4 x 131072 took 1.0 GiB and 5.6 s on U85, by 4 x 221184 2.9
// GiB and 21 s.
bool split_many_outputs(Rewriter& rw, const Node& n) {
  const int64_t most = facts_of(rw).max_axis;
  const Type out = rw.type(n.outputs[0]);
  const int64_t outputs = out.shape.back(), axis = out.rank() - 1;
  if (!on_integers(rw.graph(), n) || outputs <= most) return false;
  const int64_t count = (outputs + most - 1) / most, each = (outputs + count - 1) / count;
  std::vector<ValueId> parts;
  for (int64_t start = 0; start < outputs; start += each) {
    const int64_t end = std::min(start + each, outputs);
    std::vector<ValueId> inputs = n.inputs;
    for (size_t i = 1; i < inputs.size(); ++i)
      if (inputs[i] != kNone) inputs[i] = slice(rw, inputs[i], 0, start, end);
    Shape shape = out.shape;
    shape.back() = end - start;
    parts.push_back(rw.make(Op::Linear, std::move(inputs), n.attrs, with_shape(out, std::move(shape))));
  }
  rw.replace(n, concat(rw, std::move(parts), axis));
  return true;
}

// linear(x)  ->  a 1x1 conv, channels last, with all leading dims along the width: [1,1,M,I]. The width is where a conv
// is cheapest.
bool linear_to_conv(Rewriter& rw, const Node& n) {
  if (!on_integers(rw.graph(), n)) return false;
  const Shape in = rw.type(n.inputs[0]).shape;
  const Type out = rw.type(n.outputs[0]);
  const Shape w = rw.type(n.inputs[1]).shape;
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < in.size(); ++i) rows *= in[i];
  ValueId x = reshape(rw, n.inputs[0], {1, 1, rows, in.back()});
  ValueId weight = reshape(rw, n.inputs[1], {w[0], 1, 1, w[1]});
  Attrs attrs{{Key::Stride, Ints{1, 1}},
              {Key::Padding, Ints{0, 0, 0, 0}},
              {Key::Dilation, Ints{1, 1}},
              {Key::Groups, int64_t{1}},
              {Key::ChannelsLast, true}};
  for (Key key : {Key::ActMin, Key::ActMax})
    if (const Attr* bound = n.attrs.find(key)) attrs.set(key, *bound);
  ValueId bias = n.inputs.size() > 2 ? n.inputs[2] : kNone;
  ValueId conv = rw.make(Op::Conv, {x, weight, bias}, attrs, with_shape(out, {1, 1, rows, w[0]}));
  rw.replace(n, reshape(rw, conv, out.shape));
  return true;
}

// matmul(x, constant b[K,N])  ->  linear(x, transposed b): a conv does a multiply 100 times cheaper than a matmul on
// U55
bool constant_matmul_to_linear(Rewriter& rw, const Node& n) {
  const Value& b = rw.value(n.inputs[1]);
  if (!on_integers(rw.graph(), n) || !b.constant || b.type.dtype != DType::I8) return false;  // weights have 8 bits
  if (b.type.quant->per_channel() || b.type.zero_point() != 0) return false;
  for (int i = 0; i + 2 < b.type.rank(); ++i)
    if (b.type.shape[static_cast<size_t>(i)] != 1) return false;
  Shape matrix(b.type.shape.end() - 2, b.type.shape.end());
  ValueId weight = transpose(rw, reshape(rw, n.inputs[1], matrix), {1, 0});
  rw.replace(n, rw.make(Op::Linear, {n.inputs[0], weight, kNone}, n.attrs, rw.type(n.outputs[0])));
  return true;
}

// matmul(8 bits, 16 bits)  ->  matmul(16 bits, 16 bits) of the same numbers
bool widen_matmul_operand(Rewriter& rw, const Node& n) {
  if (!on_integers(rw.graph(), n) || !facts_of(rw).matmul_of_16_bits) return false;
  for (size_t i = 0; i < 2; ++i) {
    const Type& own = rw.type(n.inputs[i]);
    if (own.dtype != DType::I8 || own.quant->per_channel() || rw.type(n.inputs[1 - i]).dtype != DType::I16) continue;
    std::vector<ValueId> inputs = n.inputs;
    inputs[i] = rw.make(Op::Quantize, {inputs[i]}, {}, quantized(DType::I16, own.shape, own.scale(), 0));
    rw.replace(n, rw.make(Op::MatMul, inputs, n.attrs, rw.type(n.outputs[0])));
    return true;
  }
  return false;
}

constexpr double kUpperStep = 32767.0 / 127;  // of an upper half, in steps of the whole

// A value of 16 bits as two of 8: rounded to steps 258 times as large, and what that leaves.
std::vector<ValueId> halves_of(Rewriter& rw, ValueId x) {
  const Type type = rw.type(x);
  if (type.dtype == DType::I8) return {x};
  const double step = type.scale() * kUpperStep;
  const auto half = [&](double scale) {
    Type codes = quantized(DType::I8, type.shape, scale, 0);
    codes.quant->qmin = -127;
    return codes;
  };
  ValueId high = rw.make(Op::Quantize, {x}, {}, half(step));
  return {high, rw.make(Op::Sub, {x, high}, {}, half(step / 254))};
}

// The noise of leaving out the product of the lower halves, over a step of the result: each is anywhere within an upper
// step.
double lower_halves(const Type& a, const Type& b, const Type& out, double scale) {
  const double depth = static_cast<double>(a.shape.back());
  return kUpperStep * kUpperStep / 12 * a.scale() * b.scale() * std::sqrt(depth) * scale / out.scale();
}

// matmul of 16 bits, where the core has none  ->  the sum of those of the halves. The product of the two lower halves
// is left out, but where values of few codes make much of it: 16 bits of another quantizer may span far more than the
// values.
bool split_wide_matmul(Rewriter& rw, const Node& n) {
  const Type a = rw.type(n.inputs[0]), b = rw.type(n.inputs[1]), out = rw.type(n.outputs[0]);
  if (facts_of(rw).matmul_of_16_bits || !is_codes(a) || !is_codes(b) || !is_codes(out)) return false;
  auto takes = [](const Type& type) { return type.dtype == DType::I8 || type.dtype == DType::I16; };
  if (!takes(a) || !takes(b) || (a.dtype == DType::I8 && b.dtype == DType::I8)) return false;
  auto reach = [](const Type& type) { return std::max(-range_of(type).min, range_of(type).max); };
  const double scale = n.real(Key::Scale, 1.0);
  const double most = reach(a) * reach(b) * static_cast<double>(a.shape.back()) * scale;
  constexpr double kHeard = 2;  // steps: where values fill their 16 bits, it is about one
  const bool whole = lower_halves(a, b, out, scale) > kHeard;
  const Type sums = quantized(DType::I32, out.shape, most / (1 << 29), 0);
  Attrs attrs;
  if (n.has(Key::Scale)) attrs.set(Key::Scale, n.real(Key::Scale));
  const std::vector<ValueId> left = halves_of(rw, n.inputs[0]), right = halves_of(rw, n.inputs[1]);
  ValueId total = kNone;
  for (size_t i = 0; i < left.size(); ++i)
    for (size_t k = 0; k < right.size(); ++k) {
      if (i + k == 2 && !whole) continue;
      ValueId product = rw.make(Op::MatMul, {left[i], right[k]}, attrs, sums);
      total = total == kNone ? product : rw.make(Op::Add, {total, product}, {}, sums);
    }
  Attrs bounds = clamp_of(n);
  rw.replace(n, rw.make(Op::Quantize, {total}, bounds, out));
  return true;
}

// matmul(a, b)  ->  transposed matmul(transposed b, transposed a), where that has few columns instead of many
bool swap_matmul(Rewriter& rw, const Node& n) {
  constexpr int64_t kMany = 4;  // times as many
  if (!on_integers(rw.graph(), n) || !facts_of(rw).matmul_by_columns) return false;
  const Shape a = rw.type(n.inputs[0]).shape, b = rw.type(n.inputs[1]).shape;
  const int64_t rows = a[a.size() - 2];
  if (b.back() < kMany * rows) return false;
  auto swapped = [](size_t rank) {
    Ints perm(rank);
    std::iota(perm.begin(), perm.end(), 0);
    std::swap(perm[rank - 2], perm[rank - 1]);
    return perm;
  };
  auto turn = [&](ValueId x) {
    const Shape shape = rw.type(x).shape;
    const Ints perm = swapped(shape.size());
    if (rows > 1 || x == n.inputs[1]) return transpose(rw, x, perm);
    Shape column = shape;  // a row: nothing moves
    std::swap(column[shape.size() - 2], column[shape.size() - 1]);
    return reshape(rw, x, column);
  };
  const Node* turned = rw.producer(n, 1, Op::Transpose);
  const bool was_turned = turned && turned->ints(Key::Perm) == swapped(b.size());
  const Type out = rw.type(n.outputs[0]);
  Shape shape = out.shape;
  std::swap(shape[shape.size() - 2], shape[shape.size() - 1]);
  ValueId left = was_turned ? turned->inputs[0] : turn(n.inputs[1]);
  rw.replace(n, turn(rw.make(Op::MatMul, {left, turn(n.inputs[0])}, n.attrs, with_shape(out, shape))));
  return true;
}

// reshape(swapped x) that makes one of the dims before the matrix  ->  swapped reshape(x): of four dims, regor takes a
// swapped second matrix that is computed from somewhere else (U85)
ValueId matrices(Rewriter& rw, ValueId x, const Shape& shape) {
  const Node* swap = rw.graph().producer(x);
  const int rank = rw.type(x).rank();
  if (!swap || swap->op != Op::Transpose || rank < 3 || !rw.used_once(x)) return reshape(rw, x, shape);
  Ints perm(static_cast<size_t>(rank));
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[perm.size() - 2], perm.back());
  if (swap->ints(Key::Perm) != perm) return reshape(rw, x, shape);
  return transpose(rw, reshape(rw, swap->inputs[0], {shape[0], shape[2], shape[1]}), {0, 2, 1});
}

// matmul of any rank  ->  rank 3, [batch, M, K] x [batch, K, N], batch dims broadcast by repeating
bool matmul_to_rank_3(Rewriter& rw, const Node& n) {
  if (!on_integers(rw.graph(), n)) return false;
  const Type out = rw.type(n.outputs[0]);
  if (rw.type(n.inputs[0]).rank() == 3 && rw.type(n.inputs[1]).rank() == 3 &&
      rw.type(n.inputs[0]).shape[0] == rw.type(n.inputs[1]).shape[0])
    return false;
  Shape batch(out.shape.begin(), out.shape.end() - 2);
  int64_t count = element_count(batch);
  auto flat = [&](ValueId x) {
    Shape shape = rw.type(x).shape;
    Shape full(batch.size() + 2 - shape.size(), 1);
    full.insert(full.end(), shape.begin(), shape.end());
    x = reshape(rw, x, full);
    Ints multiples(full.size(), 1);
    bool repeats = false;
    for (size_t i = 0; i < batch.size(); ++i) {
      multiples[i] = batch[i] / full[i];
      repeats |= multiples[i] != 1;
    }
    if (repeats) x = rw.make(Op::Repeat, {x}, {{Key::Multiples, multiples}});
    return matrices(rw, x, {count, full[full.size() - 2], full.back()});
  };
  ValueId product = rw.make(Op::MatMul, {flat(n.inputs[0]), flat(n.inputs[1])}, n.attrs,
                            with_shape(out, {count, out.shape[out.shape.size() - 2], out.shape.back()}));
  rw.replace(n, reshape(rw, product, out.shape));
  return true;
}

// Whether an operation of the NPU computes it, past movement: then it keeps to the codes of its type.
bool is_computed(const Rewriter& rw, ValueId x) {
  const Node* producer = rw.graph().producer(x);
  while (producer && policy_of(*producer) == Policy::SameAsInput && producer->inputs.size() == 1)
    producer = rw.graph().producer(producer->inputs[0]);
  return producer && on_integers(rw.graph(), *producer) &&
         rw.type(producer->outputs[0]).quant->qmin > dtype_min(rw.type(x).dtype);
}

// matmul(a, b)  ->  matmul(a, clamped b), where b becomes weights, which have no code -128
bool bound_second_matrix(Rewriter& rw, const Node& n) {
  if (!on_integers(rw.graph(), n) || rw.type(n.outputs[0]).rank() != 3) return false;
  const Shape &a = rw.type(n.inputs[0]).shape, &product = rw.type(n.outputs[0]).shape;
  if (!target_of(rw).writes_weights({product[0], product[1], a.back(), product[2]})) return false;
  const Type type = rw.type(n.inputs[1]);
  if (!is_codes(type) || type.dtype != DType::I8 || type.zero_point() != 0) return false;
  if (type.quant->qmin <= dtype_min(type.dtype)) return false;  // it may be in use
  if (rw.value(n.inputs[1]).constant || is_computed(rw, n.inputs[1])) return false;
  rw.replace(n, rw.make(Op::MatMul, {n.inputs[0], rw.make(Op::Clamp, {n.inputs[1]}, {}, type)}, n.attrs,
                        rw.type(n.outputs[0])));
  return true;
}

}  // namespace

std::span<const Rule> product_rules() {
  static const Rule kRules[] = {
      {"constant-matmul-to-linear", {Op::MatMul}, constant_matmul_to_linear},
      {"split-many-outputs", {Op::Linear}, split_many_outputs},
      {"linear-to-conv", {Op::Linear}, linear_to_conv},
      {"widen-matmul-operand", {Op::MatMul}, widen_matmul_operand},  // what is left after constants
      {"split-wide-matmul", {Op::MatMul}, split_wide_matmul},
      {"swap-matmul", {Op::MatMul}, swap_matmul},
      {"matmul-to-rank-3", {Op::MatMul}, matmul_to_rank_3},
      {"bound-second-matrix", {Op::MatMul}, bound_second_matrix},
  };
  return kRules;
}

}  // namespace swoop
