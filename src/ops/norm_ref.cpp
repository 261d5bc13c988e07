// Softmax, normalisations and attention in their stable forms: the largest value is taken off before exp, variances are
// sums of squared distances to the mean.
#include <algorithm>
#include <cmath>

#include "ops/gemm.h"
#include "ops/infer.h"
#include "ops/kernels.h"
#include "ops/lanes.h"
#include "ops/ref.h"
#include "ops/vmath.h"
#include "support/clones.h"
#include "support/parallel.h"

namespace swoop {

namespace {

// A row that is minus infinity throughout gives NaN, as in PyTorch; attention asks for zeros instead.
SWOOP_CLONES void softmax_rows(const float* x, float* out, int64_t rows, int64_t length, bool log,
                               bool zero_when_masked) {
  for (int64_t r = 0; r < rows; ++r, x += length, out += length) {
    float largest = max_of(x, length);
    if (zero_when_masked && largest == -INFINITY) {
      for (int64_t i = 0; i < length; ++i) out[i] = 0;
      continue;
    }
    if (log) {
      auto offset =
          static_cast<float>(std::log(sum_of(x, length, [largest](float v) { return vmath::exp(v - largest); })));
      for (int64_t i = 0; i < length; ++i) out[i] = x[i] - largest - offset;
      continue;
    }
    for (int64_t i = 0; i < length; ++i) out[i] = vmath::exp(x[i] - largest);
    auto scale = static_cast<float>(1.0 / sum_of(out, length));
    for (int64_t i = 0; i < length; ++i) out[i] *= scale;
  }
}

void softmax(const float* x, float* out, int64_t rows, int64_t length, bool log, bool zero_when_masked) {
  parallel_for(static_cast<size_t>(rows), kGrain / 4 / static_cast<size_t>(std::max<int64_t>(1, length)) + 1,
               [=](size_t first, size_t last) {
                 int64_t at = static_cast<int64_t>(first) * length;
                 softmax_rows(x + at, out + at, static_cast<int64_t>(last - first), length, log, zero_when_masked);
               });
}

// How rows are normalised: out = (x - mean) / sqrt(max(var, least) + eps); by the root mean square when not `centred`.
struct Normal {
  double eps;
  double least;
  bool centred;
};
Normal normal_of(const Node& node) {
  return {node.real(Key::Eps), node.real(Key::LeastVariance, 0.0), node.op != Op::RmsNorm};
}

SWOOP_CLONES void normalise_rows(const float* x, float* out, int64_t rows, int64_t length, Normal how) {
  for (int64_t r = 0; r < rows; ++r, x += length, out += length) {
    auto mean = how.centred ? static_cast<float>(sum_of(x, length) / static_cast<double>(length)) : 0.0f;
    double squares = sum_of(x, length, [mean](float v) { return (v - mean) * (v - mean); });
    const double variance = std::max(squares / static_cast<double>(length), how.least);
    auto scale = static_cast<float>(1.0 / std::sqrt(variance + how.eps));
    for (int64_t i = 0; i < length; ++i) out[i] = (x[i] - mean) * scale;
  }
}

const float* floats_or_null(std::span<const Tensor* const> in, size_t index) {
  return index < in.size() && in[index] ? in[index]->as<float>().data() : nullptr;
}

// out[r][i] = out[r][i] * w + b, parameters along the row (per_row 0) or one per row of a cycle of `per_row`.
void scale_and_shift(float* out, int64_t rows, int64_t length, const float* w, const float* b, int64_t per_row) {
  if (!w && !b) return;
  parallel_for(static_cast<size_t>(rows), kGrain / static_cast<size_t>(std::max<int64_t>(1, length)) + 1,
               [=](size_t first, size_t last) {
                 for (auto r = static_cast<int64_t>(first); r < static_cast<int64_t>(last); ++r) {
                   float* row = out + r * length;
                   if (per_row) {
                     float weight = w ? w[r % per_row] : 1.0f;
                     float shift = b ? b[r % per_row] : 0.0f;
                     for (int64_t i = 0; i < length; ++i) row[i] = row[i] * weight + shift;
                   } else {
                     if (w)
                       for (int64_t i = 0; i < length; ++i) row[i] *= w[i];
                     if (b)
                       for (int64_t i = 0; i < length; ++i) row[i] += b[i];
                   }
                 }
               });
}

void normalise(const float* x, float* out, int64_t rows, int64_t length, Normal how) {
  parallel_for(static_cast<size_t>(rows), kGrain / static_cast<size_t>(std::max<int64_t>(1, length)) + 1,
               [=](size_t first, size_t last) {
                 int64_t at = static_cast<int64_t>(first) * length;
                 normalise_rows(x + at, out + at, static_cast<int64_t>(last - first), length, how);
               });
}

Result<void> group_norm(const Node& node, const Tensor& x, const float* w, const float* b, Tensor& out) {
  int64_t count = element_count(x.shape);
  if (count == 0) return {};
  int64_t length = norm_row(node, x.shape);
  float* to = out.as<float>().data();
  normalise(x.as<float>().data(), to, count / length, length, normal_of(node));
  int64_t planes = x.shape[0] * x.shape[1];
  scale_and_shift(to, planes, count / planes, w, b, x.shape[1]);
  return {};
}

// `parameter(i, c, absent)` is element c of the batch norm's operand i, or `absent` where that is left out.
template <typename Parameter>
Affine affine_of(const Node& node, int64_t channels, Parameter parameter) {
  double eps = node.real(Key::Eps);
  Affine affine;
  for (int64_t c = 0; c < channels; ++c) {
    double gain = parameter(1, c, 1.0) / std::sqrt(parameter(4, c, 1.0) + eps);
    affine.gain.push_back(gain);
    affine.offset.push_back(parameter(2, c, 0.0) - parameter(3, c, 0.0) * gain);
  }
  return affine;
}

Result<void> batch_norm(const Node& node, const Tensor& x, std::span<const Tensor* const> in, Tensor& out) {
  int64_t count = element_count(x.shape);
  if (count == 0) return {};
  int64_t channels = x.shape[1];
  Affine affine = affine_of(node, channels, [&](size_t i, int64_t c, double absent) {
    return in[i] ? static_cast<double>(in[i]->as<float>()[static_cast<size_t>(c)]) : absent;
  });
  std::vector<float> gain(affine.gain.begin(), affine.gain.end());
  std::vector<float> shift(affine.offset.begin(), affine.offset.end());
  out.data = x.data;
  int64_t planes = x.shape[0] * channels;
  scale_and_shift(out.as<float>().data(), planes, count / planes, gain.data(), shift.data(), channels);
  return {};
}

template <typename Kernel>
Result<void> in_either_layout(const Node& node, const Tensor& x, Tensor& out, Kernel kernel) {
  if (!node.flag(Key::ChannelsLast)) return kernel(x, out);
  return in_channels_first(x, out, kernel);
}

// A mask of scores, whose last two dims may repeat.
struct Mask {
  const Tensor* tensor = nullptr;
  int64_t start = 0, row_step = 0, column_step = 0;
};

// scores = scores * scale + mask (floats), or minus infinity where the mask is false; also after the query's own
// position when causal.
void mask_scores(const Mask& mask, bool causal, int64_t rows, int64_t columns, float scale, float* scores) {
  parallel_for(static_cast<size_t>(rows), kGrain / static_cast<size_t>(std::max<int64_t>(1, columns)) + 1,
               [=](size_t first, size_t last) {
                 for (auto r = static_cast<int64_t>(first); r < static_cast<int64_t>(last); ++r) {
                   float* row = scores + r * columns;
                   for (int64_t i = 0; i < columns; ++i) row[i] *= scale;
                   if (causal)
                     for (int64_t i = r + 1; i < columns; ++i) row[i] = -INFINITY;
                   if (!mask.tensor) continue;
                   int64_t at = mask.start + r * mask.row_step;
                   if (mask.tensor->dtype == DType::Bool)
                     for (int64_t i = 0; i < columns; ++i, at += mask.column_step)
                       row[i] = mask.tensor->as<uint8_t>().data()[at] ? row[i] : -INFINITY;
                   else
                     for (int64_t i = 0; i < columns; ++i, at += mask.column_step)
                       row[i] += mask.tensor->as<float>().data()[at];
                 }
               });
}

// The mask of each matrix of scores.
std::vector<Mask> masks_of(const Tensor* mask, const Shape& lead) {
  std::vector<Mask> list(static_cast<size_t>(element_count(lead)));
  if (!mask) return list;
  Shape shape = mask->shape;
  while (shape.size() < 2) shape.insert(shape.begin(), 1);
  int64_t rows = shape[shape.size() - 2], columns = shape.back();
  std::vector<int64_t> starts = broadcast_offsets(Shape(shape.begin(), shape.end() - 2), lead);
  for (size_t i = 0; i < list.size(); ++i)
    list[i] = {mask, starts[i] * rows * columns, rows == 1 ? 0 : columns, columns == 1 ? 0 : 1};
  return list;
}

}  // namespace

Result<void> ref_softmax(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  const Tensor& x = *in[0];
  bool log = node.op == Op::LogSoftmax;
  int64_t count = element_count(x.shape);
  if (count == 0) return {};
  if (x.shape.empty()) {
    softmax(x.as<float>().data(), out[0].as<float>().data(), 1, 1, log, false);
    return {};
  }
  int64_t axis = node.integer(Key::Axis);
  int64_t length = x.shape[static_cast<size_t>(axis)];
  int64_t inner = element_count(Shape(x.shape.begin() + axis + 1, x.shape.end()));
  if (inner == 1) {
    softmax(x.as<float>().data(), out[0].as<float>().data(), count / length, length, log, false);
    return {};
  }
  // Over another axis: with that axis last, and back.
  Tensor flat = x;
  flat.shape = {count / (length * inner), length, inner};
  const int64_t swap[] = {0, 2, 1};
  Tensor rows = transposed(flat, swap);
  softmax(rows.as<float>().data(), rows.as<float>().data(), count / length, length, log, false);
  transpose_into(rows, swap, out[0]);
  return {};
}

Result<void> ref_layer_norm(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  const Tensor& x = *in[0];
  int64_t count = element_count(x.shape);
  if (count == 0) return {};
  int64_t length = norm_row(node, x.shape);
  float* to = out[0].as<float>().data();
  normalise(x.as<float>().data(), to, count / length, length, normal_of(node));
  scale_and_shift(to, count / length, length, floats_or_null(in, 1), floats_or_null(in, 2), 0);
  return {};
}

Result<void> ref_group_norm(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  return in_either_layout(node, *in[0], out[0], [&](const Tensor& x, Tensor& y) {
    return group_norm(node, x, floats_or_null(in, 1), floats_or_null(in, 2), y);
  });
}

std::optional<Affine> batch_norm_affine(const Graph& graph, const Node& node) {
  for (size_t i = 1; i < node.inputs.size(); ++i)
    if (has_input(node, i) && !graph.value(node.inputs[i]).constant) return std::nullopt;
  return affine_of(node, graph.type(node.inputs[3]).shape[0], [&](size_t i, int64_t c, double absent) {
    return has_input(node, i) ? real_at(graph.value(node.inputs[i]), c) : absent;
  });
}

Result<void> ref_batch_norm(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  return in_either_layout(node, *in[0], out[0], [&](const Tensor& x, Tensor& y) { return batch_norm(node, x, in, y); });
}

Result<void> ref_attention(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  const Tensor &q = *in[0], &k = *in[1], &v = *in[2];
  const Tensor* mask = in.size() > 3 ? in[3] : nullptr;
  Shape lead(out[0].shape.begin(), out[0].shape.end() - 2);
  auto before = [](const Tensor& x) { return Shape(x.shape.begin(), x.shape.end() - 2); };
  std::vector<int64_t> q_at = broadcast_offsets(before(q), lead), k_at = broadcast_offsets(before(k), lead),
                       v_at = broadcast_offsets(before(v), lead);
  int64_t rows = q.shape[q.shape.size() - 2], depth = q.shape.back();
  int64_t columns = k.shape[k.shape.size() - 2], width = v.shape.back();
  std::vector<Mask> masks = masks_of(mask, lead);
  TRY(check_memory(node, {rows, columns}, DType::F32));
  auto scale = static_cast<float>(node.real(Key::Scale));
  Tensor scores = make_tensor(DType::F32, {rows, columns});
  float* s = scores.as<float>().data();
  for (size_t i = 0; i < q_at.size(); ++i) {
    const float* queries = q.as<float>().data() + q_at[i] * rows * depth;
    const float* keys = k.as<float>().data() + k_at[i] * columns * depth;
    const float* values = v.as<float>().data() + v_at[i] * columns * width;
    auto at = static_cast<int64_t>(i);
    gemm(rows, columns, depth, {queries, depth, 1}, MatrixView{keys, 1, depth}, s, columns);
    mask_scores(masks[i], node.flag(Key::Causal), rows, columns, scale, s);
    if (columns > 0) softmax(s, s, rows, columns, false, true);
    gemm(rows, width, columns, {s, columns, 1}, MatrixView{values, width, 1},
         out[0].as<float>().data() + at * rows * width, width);
  }
  return {};
}

}  // namespace swoop
