#include <cmath>

#include "emit/host.h"
#include "support/check.h"

namespace swoop::emit {

namespace {

Ints swap_last_two(size_t rank) {
  Ints perm(rank);
  for (size_t i = 0; i < rank; ++i) perm[i] = static_cast<int64_t>(i);
  std::swap(perm[rank - 1], perm[rank - 2]);
  return perm;
}

// [..., rows, columns] with its leading dims broadcast to `lead`, as a batch of matrices.
int as_batch(PlanBuilder& b, int matrix, const Shape& lead) {
  Shape shape = b.tensor(matrix).shape;
  Shape wanted = lead;
  wanted.insert(wanted.end(), shape.end() - 2, shape.end());
  if (shape.size() < wanted.size()) shape.insert(shape.begin(), wanted.size() - shape.size(), 1);
  int value = b.alias(matrix, shape);
  if (shape != wanted) {
    int expanded = b.planned(b.tensor(matrix).dtype, wanted);
    b.kernel("aten::expand_copy.out", {value, b.integers(wanted), b.boolean(false)}, {expanded});
    value = expanded;
  }
  return b.alias(value, {element_count(lead), wanted[lead.size()], wanted[lead.size() + 1]});
}

// [1, C, 1, ...]
Shape per_channel_shape(int64_t channels, size_t rank) {
  Shape shape(rank, 1);
  if (rank > 1)
    shape[1] = channels;
  else
    shape[0] = channels;
  return shape;
}

int causal_mask(PlanBuilder& b, int64_t rows, int64_t columns) {
  Buffer data(static_cast<size_t>(rows * columns) * sizeof(float));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      float value = c <= r ? 0.0f : -INFINITY;
      std::memcpy(data.data() + static_cast<size_t>(r * columns + c) * sizeof(float), &value, sizeof(float));
    }
  }
  return b.constant(DType::F32, {rows, columns}, std::move(data));
}

}  // namespace

void emit_matmul(PlanBuilder& b, int a, int b_matrix, int out) {
  if (b.tensor(a).shape.size() == 2 && b.tensor(b_matrix).shape.size() == 2) {
    b.kernel("aten::mm.out", {a, b_matrix}, {out});
    return;
  }
  const Shape& shape = b.tensor(out).shape;
  Shape lead(shape.begin(), shape.end() - 2);
  int batch_out = b.alias(out, {element_count(lead), shape[lead.size()], shape[lead.size() + 1]});
  b.kernel("aten::bmm.out", {as_batch(b, a, lead), as_batch(b, b_matrix, lead)}, {batch_out});
}

// x[...,I] w[O,I]^T + b: the weight is transposed once, here, when it is a constant.
void emit_linear(HostCall& call) {
  PlanBuilder& b = call.b;
  int64_t in_size = call.x().shape.back();
  int64_t out_size = b.tensor(call.in[1]).shape[0];
  int64_t rows = in_size == 0 ? 0 : element_count(call.x().shape) / in_size;
  int x = b.alias(call.in[0], {rows, in_size});
  int out = b.alias(call.out, {rows, out_size});
  int weight = b.permute(call.in[1], {1, 0});
  int bias = call.input(2);
  if (bias == kAbsent)
    b.kernel("aten::mm.out", {x, weight}, {out});
  else
    b.kernel("aten::addmm.out", {bias, x, weight, b.integer(1), b.integer(1)}, {out});
}

void emit_prelu(HostCall& call) {
  PlanBuilder& b = call.b;
  int64_t slopes = element_count(b.tensor(call.in[1]).shape);
  const size_t rank = call.x().shape.size();
  int weight = b.alias(call.in[1], slopes == 1 ? Shape(rank, 1) : per_channel_shape(slopes, rank));
  b.where(b.greater(call.in[0], 0.0), call.in[0], b.binary("aten::mul.out", call.in[0], weight), call.out);
}

void emit_layer_norm(HostCall& call) {
  PlanBuilder& b = call.b;
  const Shape& shape = call.x().shape;
  auto axis = static_cast<size_t>(call.node.integer(Key::Axis));
  Shape statistics = shape;
  for (size_t d = axis; d < shape.size(); ++d) statistics[d] = 1;
  Ints normalized(shape.begin() + static_cast<ptrdiff_t>(axis), shape.end());
  DType dtype = call.x().dtype;
  int mean = b.planned(dtype, statistics);
  int rstd = b.planned(dtype, statistics);
  b.kernel("aten::native_layer_norm.out",
           {call.in[0], b.integers(normalized), b.or_null(call.input(1)), b.or_null(call.input(2)),
            b.real(call.node.real(Key::Eps))},
           {call.out, mean, rstd});
}

// x * rsqrt(mean(x^2) + eps) * w
void emit_rms_norm(HostCall& call) {
  PlanBuilder& b = call.b;
  int x = call.in[0];
  Shape statistics = call.x().shape;
  Ints axes;
  for (auto d = static_cast<size_t>(call.node.integer(Key::Axis)); d < statistics.size(); ++d) {
    statistics[d] = 1;
    axes.push_back(static_cast<int64_t>(d));
  }
  int mean = b.planned(b.tensor(x).dtype, statistics);
  b.kernel("aten::mean.out", {b.binary("aten::mul.out", x, x), b.integers(axes), b.boolean(true), b.null()}, {mean});
  int factor = b.unary("aten::rsqrt.out", b.add_scalar(mean, call.node.real(Key::Eps)));
  int weight = call.input(1);
  if (weight == kAbsent)
    b.binary("aten::mul.out", x, factor, call.out);
  else
    b.binary("aten::mul.out", b.binary("aten::mul.out", x, factor), weight, call.out);
}

void emit_group_norm(HostCall& call) {
  PlanBuilder& b = call.b;
  const Shape& shape = call.x().shape;
  int64_t groups = call.node.integer(Key::Groups);
  int64_t area = 1;
  for (size_t d = 2; d < shape.size(); ++d) area *= shape[d];
  int mean = b.planned(call.x().dtype, {shape[0], groups});
  int rstd = b.planned(call.x().dtype, {shape[0], groups});
  b.kernel("aten::native_group_norm.out",
           {call.in[0], b.or_null(call.input(1)), b.or_null(call.input(2)), b.integer(shape[0]), b.integer(shape[1]),
            b.integer(area), b.integer(groups), b.real(call.node.real(Key::Eps))},
           {call.out, mean, rstd});
}

void emit_batch_norm(HostCall& call) {
  PlanBuilder& b = call.b;
  int mean = b.planned(call.x().dtype, {0});  // the kernel saves nothing here
  int variance = b.planned(call.x().dtype, {0});
  b.kernel("aten::_native_batch_norm_legit_no_training.out",
           {call.in[0], b.or_null(call.input(1)), b.or_null(call.input(2)), call.in[3], call.in[4], b.real(0.1),
            b.real(call.node.real(Key::Eps))},
           {call.out, mean, variance});
}

// softmax(q k^T * scale + mask) v
void emit_attention(HostCall& call) {
  PlanBuilder& b = call.b;
  int q = call.in[0];
  int k = call.in[1];
  int mask = call.input(3);
  const Shape& q_shape = b.tensor(q).shape;
  int64_t rows = q_shape[q_shape.size() - 2];
  int64_t columns = b.tensor(k).shape[b.tensor(k).shape.size() - 2];
  double scale = call.node.real(Key::Scale);
  int keys = b.permute(k, swap_last_two(b.tensor(k).shape.size()));
  Shape scores_shape = b.tensor(call.out).shape;
  scores_shape.back() = columns;
  int scores = b.planned(DType::F32, scores_shape);
  emit_matmul(b, b.mul_scalar(q, scale), keys, scores);
  if (mask != kAbsent && b.tensor(mask).dtype == DType::Bool) {
    float lowest = -INFINITY;
    Buffer bytes(sizeof(float));
    std::memcpy(bytes.data(), &lowest, sizeof(float));
    scores = b.where(mask, scores, b.constant(DType::F32, {}, std::move(bytes)));
  } else if (mask != kAbsent) {
    scores = b.add(scores, mask);
  }
  if (call.node.flag(Key::Causal)) scores = b.add(scores, causal_mask(b, rows, columns));
  int weights = b.like(scores);
  b.kernel("aten::_softmax.out", {scores, b.integer(static_cast<int64_t>(scores_shape.size()) - 1), b.boolean(false)},
           {weights});
  emit_matmul(b, weights, call.in[2], call.out);
}

}  // namespace swoop::emit
