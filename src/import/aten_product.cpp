// Matrix products, einsum and attention.
#include <algorithm>
#include <cmath>
#include <limits>

#include "import/aten.h"
#include "import/einsum.h"

namespace swoop {

namespace {

Results linear(Call& c) {
  ValueId weight = c.tensor(1);
  if (c.rank(weight) != 2) unsupported("linear with a weight that is not a matrix");
  return c.linear(c.tensor(0), weight, c.tensor_or_none(2));
}

Results product(Call& c) { return c.matmul(c.tensor(0), c.tensor(1)); }

// Vectors become matrices for the time of the product.
Results matmul_any_rank(Call& c) {
  ValueId a = c.tensor(0);
  ValueId b = c.tensor(1);
  if (c.rank(a) == 0 || c.rank(b) == 0) malformed("a matrix product needs at least one dimension");
  if (c.rank(a) == 1) a = c.unsqueeze(a, 0);
  if (c.rank(b) == 1) b = c.unsqueeze(b, 1);
  return c.reshape(c.matmul(a, b), c.result().shape);
}

Results outer(Call& c) {
  ValueId a = c.tensor(0);
  ValueId b = c.tensor(1);
  if (c.rank(a) != 1 || c.rank(b) != 1) malformed("an outer product needs two vectors");
  return c.mul(c.unsqueeze(a, 1), b);
}

// beta * self + alpha * (a @ b)
ValueId accumulated(Call& c, ValueId product) {
  ValueId scaled = c.scaled(product, c.real(4));
  if (c.real(3) == 0) return scaled;
  return c.add(c.scaled(c.tensor(0), c.real(3)), scaled);
}

// addmm(bias, x, transpose(w)) is what is left of linear after decompositions.
Results addmm(Call& c) {
  ValueId bias = c.tensor(0);
  ValueId x = c.tensor(1);
  ValueId w = c.tensor(2);
  const Node* transpose = c.graph.producer(w);
  if (c.real(3) == 1 && c.real(4) == 1 && c.rank(bias) == 1 && c.rank(w) == 2 && c.shape(bias)[0] == c.shape(w)[1] &&
      transpose && transpose->op == Op::Transpose)
    return c.linear(x, transpose->inputs[0], bias);
  return accumulated(c, c.matmul(x, w));
}

Results baddbmm(Call& c) { return accumulated(c, c.matmul(c.tensor(1), c.tensor(2))); }
Results addbmm(Call& c) { return accumulated(c, c.reduce(Op::Sum, c.matmul(c.tensor(1), c.tensor(2)), {0}, false)); }
Results addr(Call& c) { return accumulated(c, c.mul(c.unsqueeze(c.tensor(1), 1), c.tensor(2))); }

Results addmv(Call& c) {
  ValueId v = c.tensor(2);
  ValueId column = c.rank(v) == 1 ? c.unsqueeze(v, 1) : v;
  return accumulated(c, c.reshape(c.matmul(c.tensor(1), column), c.result().shape));
}

// The sum over pairs of axes, as one product of matrices
ValueId contracted(Call& c, ValueId a, ValueId b, Ints axes_a, Ints axes_b) {
  if (axes_a.size() != axes_b.size()) malformed("it sums over {} and {} axes", axes_a.size(), axes_b.size());
  auto others = [&](ValueId x, Ints& axes) {
    Ints rest;
    for (int64_t& axis : axes) axis = normalised_axis(axis, c.rank(x));
    for (int64_t d = 0; d < c.rank(x); ++d)
      if (std::find(axes.begin(), axes.end(), d) == axes.end()) rest.push_back(d);
    return rest;
  };
  Ints left = others(a, axes_a), right = others(b, axes_b);
  for (size_t i = 0; i < axes_a.size(); ++i) {  // one element stands for all
    int64_t size = c.dim(a, axes_a[i]), other = c.dim(b, axes_b[i]);
    if (size == 1 && other != 1) b = c.reduce(Op::Sum, b, {axes_b[i]}, true);
    if (other == 1 && size != 1) a = c.reduce(Op::Sum, a, {axes_a[i]}, true);
  }
  int64_t inner = 1, rows = 1, columns = 1;
  for (int64_t axis : axes_a) inner *= c.dim(a, axis);
  for (int64_t axis : left) rows *= c.dim(a, axis);
  for (int64_t axis : right) columns *= c.dim(b, axis);
  left.insert(left.end(), axes_a.begin(), axes_a.end());
  axes_b.insert(axes_b.end(), right.begin(), right.end());
  ValueId x = c.reshape(c.transpose(a, left), {rows, inner}), y = c.reshape(c.transpose(b, axes_b), {inner, columns});
  return c.reshape(c.matmul(x, y), c.result().shape);
}

Results tensordot(Call& c) { return contracted(c, c.tensor(0), c.tensor(1), c.ints(2), c.ints(3)); }

Results inner(Call& c) {
  ValueId a = c.tensor(0), b = c.tensor(1);
  if (c.rank(a) == 0 || c.rank(b) == 0) return c.mul(a, b);
  return contracted(c, a, b, {-1}, {-1});
}

Results vecdot(Call& c) {
  ValueId product = c.mul(c.tensor(0), c.tensor(1));
  return c.reduce(Op::Sum, product, {c.axis(2, c.rank(product))}, false);
}

// Every element of a times all of b: axes of a and b take turns.
Results kron(Call& c) {
  ValueId a = c.tensor(0), b = c.tensor(1);
  auto rank = static_cast<size_t>(std::max(c.rank(a), c.rank(b)));
  auto spread = [&](ValueId x, size_t turn) {
    Shape shape = c.shape(x), wide(2 * rank, 1);
    shape.insert(shape.begin(), rank - shape.size(), 1);
    for (size_t d = 0; d < rank; ++d) wide[2 * d + turn] = shape[d];
    return c.reshape(c.cast(x, c.result().dtype), std::move(wide));
  };
  return c.reshape(c.mul(spread(a, 0), spread(b, 1)), c.result().shape);
}

// a x b over an axis of three elements
ValueId cross(Call& c, int64_t axis) {
  auto turned = [&](ValueId x, int64_t by) {
    x = c.expand(x, c.result().shape);
    return c.concat({c.slice(x, axis, by, 3), c.slice(x, axis, 0, by)}, axis);
  };
  ValueId a = c.tensor(0), b = c.tensor(1);
  return c.sub(c.mul(turned(a, 1), turned(b, 2)), c.mul(turned(a, 2), turned(b, 1)));
}

Results linalg_cross(Call& c) { return cross(c, c.axis(2, c.result().rank())); }

Results cross_first_of_three(Call& c) {
  const Shape& shape = c.result().shape;
  if (!c.none(2)) return cross(c, c.axis(2, c.result().rank()));
  return cross(c, std::find(shape.begin(), shape.end(), 3) - shape.begin());
}

// a . w[o] . b, for each output o
Results bilinear(Call& c) {
  ValueId a = c.tensor(0), b = c.tensor(1), w = c.tensor(2);
  if (c.rank(w) != 3) malformed("its weight has {} dimensions", c.rank(w));
  if (c.rank(a) == 1) {
    a = c.unsqueeze(a, 0);
    b = c.unsqueeze(b, 0);
  }
  ValueId half = c.matmul(a, c.reshape(c.swap(w, 0, 1), {c.dim(w, 1), c.dim(w, 0) * c.dim(w, 2)}));
  Shape shape(c.shape(a).begin(), c.shape(a).end() - 1);
  shape.insert(shape.end(), {c.dim(w, 0), c.dim(w, 2)});
  ValueId y = c.mul(c.reshape(half, std::move(shape)), c.unsqueeze(b, c.rank(b) - 1));
  y = c.reduce(Op::Sum, y, {c.rank(y) - 1}, false);
  return c.reshape(c.none(3) ? y : c.add(y, c.tensor(3)), c.result().shape);
}

// The product of three tensors, each with new axes of size 1, summed over some
Results trilinear(Call& c) {
  ValueId product = kNone;
  for (size_t i = 0; i < 3; ++i) {
    ValueId x = c.tensor(i);
    Ints added = c.ints(i + 3);
    std::sort(added.begin(), added.end());
    for (int64_t axis : added) x = c.unsqueeze(x, axis);
    product = i == 0 ? x : c.mul(product, x);
  }
  return c.reduce(Op::Sum, product, c.ints(6), false);
}

Results chain_of_products(Call& c) {
  std::vector<ValueId> list = c.tensors(0);
  if (list.size() < 2 || std::count(list.begin(), list.end(), kNone) != 0) malformed("it needs matrices");
  ValueId x = list[0];
  if (c.rank(x) == 1) x = c.unsqueeze(x, 0);
  if (c.rank(list.back()) == 1) list.back() = c.unsqueeze(list.back(), 1);
  for (size_t i = 1; i < list.size(); ++i) x = c.matmul(x, list[i]);
  return c.reshape(x, c.result().shape);
}

Results einsum(Call& c) { return make_einsum(c, c.text(0), c.tensors(1)); }

// Grouped queries: each head of k and v serves several heads of q.
ValueId repeat_heads(Call& c, ValueId x, int64_t heads) {
  Shape shape = c.shape(x);
  size_t axis = shape.size() - 3;
  if (shape[axis] == 0 || heads % shape[axis] != 0) malformed("its {} heads cannot serve {}", shape[axis], heads);
  if (shape[axis] == heads) return x;
  Shape wide = shape;
  wide.insert(wide.begin() + static_cast<std::ptrdiff_t>(axis) + 1, heads / shape[axis]);
  x = c.expand(c.unsqueeze(x, static_cast<int64_t>(axis) + 1), wide);
  shape[axis] = heads;
  return c.reshape(x, std::move(shape));
}

ValueId attention(Call& c, size_t mask_at, size_t causal_at, size_t scale_at, bool grouped) {
  ValueId q = c.tensor(0);
  ValueId k = c.tensor(1);
  ValueId v = c.tensor(2);
  if (c.rank(q) < 2 || c.rank(k) < 2 || c.rank(v) < 2)
    malformed("attention needs queries, keys and values with two dimensions");
  if (grouped && c.rank(q) > 2 && c.rank(k) > 2 && c.rank(v) > 2) {
    int64_t heads = c.dim(q, c.rank(q) - 3);
    k = repeat_heads(c, k, heads);
    v = repeat_heads(c, v, heads);
  }
  ValueId mask = c.tensor_or_none(mask_at);
  if (mask != kNone && c.dtype(mask) == DType::Bool)
    mask = c.make(Op::Where,
                  {mask, c.scalar(0, c.dtype(q)), c.scalar(-std::numeric_limits<double>::infinity(), c.dtype(q))});
  auto width = static_cast<double>(std::max<int64_t>(c.dim(q, c.rank(q) - 1), 1));
  double scale = c.real_or_none(scale_at).value_or(1 / std::sqrt(width));
  return c.make(Op::Attention, {q, k, v, mask}, {{Key::Scale, scale}, {Key::Causal, c.flag(causal_at)}});
}

Results scaled_dot_product_attention(Call& c) {
  if (c.real(4) != 0) unsupported("attention with dropout");
  return attention(c, 3, 5, 6, c.flag(7));
}

Results flash_attention(Call& c) {
  if (c.real(3) != 0 || c.wants(1)) unsupported("attention with dropout or with its statistics used");
  return std::vector<ValueId>{attention(c, 5, 4, 6, false), kNone};
}

constexpr std::string_view kMats = "self, mat2";

constexpr Row kProductRows[] = {
    {"aten.linear.default", "input, weight, bias=None", linear},
    {"aten.mm.default", kMats, product},
    {"aten.bmm.default", kMats, product},
    {"aten.matmul.default", "self, other", matmul_any_rank},
    {"aten.linalg_matmul.default", "self, other", matmul_any_rank},
    {"aten.mv.default", "self, vec", matmul_any_rank},
    {"aten.dot.default", "self, tensor", matmul_any_rank},
    {"aten.vdot.default", "self, other", matmul_any_rank},
    {"aten.linalg_vecdot.default", "x, y, *, dim=-1", vecdot},
    {"aten.inner.default", "self, other", inner},
    {"aten.tensordot.default", "self, other, dims_self, dims_other", tensordot},
    {"aten.kron.default", "self, other", kron},
    {"aten.cross.default", "self, other, dim=None", cross_first_of_three},
    {"aten.linalg_cross.default", "self, other, *, dim=-1", linalg_cross},
    {"aten.bilinear.default", "input1, input2, weight, bias=None", bilinear},
    {"aten._trilinear.default", "i1, i2, i3, expand1, expand2, expand3, sumdim, unroll_dim=1", trilinear},
    {"aten.chain_matmul.default", "matrices", chain_of_products},
    {"aten.linalg_multi_dot.default", "tensors", chain_of_products},
    {"aten.outer.default", "self, vec2", outer},
    {"aten.ger.default", "self, vec2", outer},
    {"aten.addmm.default", "self, mat1, mat2, *, beta=1, alpha=1", addmm},
    {"aten.addmv.default", "self, mat, vec, *, beta=1, alpha=1", addmv},
    {"aten.addbmm.default", "self, batch1, batch2, *, beta=1, alpha=1", addbmm},
    {"aten.addr.default", "self, vec1, vec2, *, beta=1, alpha=1", addr},
    {"aten.baddbmm.default", "self, batch1, batch2, *, beta=1, alpha=1", baddbmm},
    {"aten.einsum.default", "equation, tensors, *, path=None", einsum},
    {"aten.scaled_dot_product_attention.default",
     "query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False",
     scaled_dot_product_attention},
    {"aten._scaled_dot_product_flash_attention_for_cpu.default",
     "query, key, value, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None", flash_attention},
};

}  // namespace

std::span<const Row> product_rows() { return kProductRows; }

}  // namespace swoop
