// Matrix products, einsum and attention.
#include <algorithm>
#include <cmath>
#include <limits>

#include "import/aten.h"
#include "import/einsum.h"

namespace swoop {

namespace {

ValueId matmul(Call& c, ValueId a, ValueId b) { return c.make(Op::MatMul, {a, b}); }

Results linear(Call& c) {
  ValueId weight = c.tensor(1);
  if (c.rank(weight) != 2) unsupported("linear with a weight that is not a matrix");
  return c.linear(c.tensor(0), weight, c.tensor_or_none(2));
}

Results product(Call& c) { return matmul(c, c.tensor(0), c.tensor(1)); }

// Vectors become matrices for the time of the product.
Results matmul_any_rank(Call& c) {
  ValueId a = c.tensor(0);
  ValueId b = c.tensor(1);
  if (c.rank(a) == 0 || c.rank(b) == 0) malformed("a matrix product needs at least one dimension");
  if (c.rank(a) == 1) a = c.unsqueeze(a, 0);
  if (c.rank(b) == 1) b = c.unsqueeze(b, 1);
  return c.reshape(matmul(c, a, b), c.result().shape);
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
  return accumulated(c, matmul(c, x, w));
}

Results baddbmm(Call& c) { return accumulated(c, matmul(c, c.tensor(1), c.tensor(2))); }

Results addmv(Call& c) {
  ValueId v = c.tensor(2);
  ValueId column = c.rank(v) == 1 ? c.unsqueeze(v, 1) : v;
  return accumulated(c, c.reshape(matmul(c, c.tensor(1), column), c.result().shape));
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
    {"aten.outer.default", "self, vec2", outer},
    {"aten.ger.default", "self, vec2", outer},
    {"aten.addmm.default", "self, mat1, mat2, *, beta=1, alpha=1", addmm},
    {"aten.addmv.default", "self, mat, vec, *, beta=1, alpha=1", addmv},
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
