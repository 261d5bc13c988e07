#include <algorithm>

#include "legalize/common.h"

namespace swoop {

namespace {

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
  if (!on_integers(rw.graph(), n) || !b.constant || b.type.quant->per_channel() || b.type.zero_point() != 0)
    return false;
  for (int i = 0; i + 2 < b.type.rank(); ++i)
    if (b.type.shape[static_cast<size_t>(i)] != 1) return false;
  Shape matrix(b.type.shape.end() - 2, b.type.shape.end());
  ValueId weight = transpose(rw, reshape(rw, n.inputs[1], matrix), {1, 0});
  rw.replace(n, rw.make(Op::Linear, {n.inputs[0], weight, kNone}, n.attrs, rw.type(n.outputs[0])));
  return true;
}

// matmul(8 bits, 16 bits)  ->  matmul(16 bits, 16 bits) of the same numbers
bool widen_matmul_operand(Rewriter& rw, const Node& n) {
  if (!on_integers(rw.graph(), n)) return false;
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
    return reshape(rw, x, {count, full[full.size() - 2], full.back()});
  };
  ValueId product = rw.make(Op::MatMul, {flat(n.inputs[0]), flat(n.inputs[1])}, n.attrs,
                            with_shape(out, {count, out.shape[out.shape.size() - 2], out.shape.back()}));
  rw.replace(n, reshape(rw, product, out.shape));
  return true;
}

}  // namespace

std::span<const Rule> product_rules() {
  static const Rule kRules[] = {
      {"constant-matmul-to-linear", {Op::MatMul}, constant_matmul_to_linear},
      {"linear-to-conv", {Op::Linear}, linear_to_conv},
      {"widen-matmul-operand", {Op::MatMul}, widen_matmul_operand},  // what is left after constants
      {"matmul-to-rank-3", {Op::MatMul}, matmul_to_rank_3},
  };
  return kRules;
}

}  // namespace swoop
