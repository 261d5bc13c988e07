// Composites that stay whole until legalize: softmax, normalisations, attention.
#include <algorithm>
#include <cmath>

#include "ops/infer.h"
#include "ops/ref.h"
#include "ops/rows.h"
#include "ops/window.h"

namespace swoop {

namespace {

// All operands; a mask may also be bool.
Result<void> check_floats(const Graph& graph, const Node& node) {
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!has_input(node, i)) continue;
    const Type& x = in_type(graph, node, i);
    bool mask = node.op == Op::Attention && i == 3 && x.dtype == DType::Bool;
    if (!mask && !is_float(real_dtype(x))) return error("{} works on floats, not on {}", name_of(node.op), to_text(x));
  }
  return {};
}

Result<Types> infer_softmax(const Graph& graph, const Node& node) {
  const Type& x = in_type(graph, node, 0);
  TRY(check_floats(graph, node));
  if (x.rank() > 0) TRY(axis_attr(node, x.rank()));
  return one(node, real_dtype(x), x.shape);
}

// Scale and offset of layer_norm and rms_norm cover the normalised dims.
Result<Types> infer_layer_norm(const Graph& graph, const Node& node) {
  const Type& x = in_type(graph, node, 0);
  TRY(check_floats(graph, node));
  TRY_ASSIGN(int64_t axis, axis_attr(node, x.rank()));
  TRY(real_attr(node, Key::Eps));
  Shape normalised(x.shape.begin() + axis, x.shape.end());
  for (size_t i = 1; i < node.inputs.size(); ++i)
    if (has_input(node, i) && in_type(graph, node, i).shape != normalised)
      return error("{} normalises {} of {}, but has weights or a bias of shape {}", name_of(node.op),
                   to_text(normalised), to_text(x.shape), to_text(in_type(graph, node, i).shape));
  return one(node, real_dtype(x), x.shape);
}

Result<Types> infer_channel_norm(const Graph& graph, const Node& node) {
  const Type& x = in_type(graph, node, 0);
  TRY(check_floats(graph, node));
  TRY(real_attr(node, Key::Eps));
  if (x.rank() < 2) return error("{} of {}: it needs a batch and channels", name_of(node.op), to_text(x.shape));
  int64_t channels = x.shape[static_cast<size_t>(channel_axis(node, x.shape))];
  for (size_t i = 1; i < node.inputs.size(); ++i)
    if (has_input(node, i) && in_type(graph, node, i).shape != Shape{channels})
      return error("{} of {} with {} channels has a parameter of shape {}", name_of(node.op), to_text(x.shape),
                   channels, to_text(in_type(graph, node, i).shape));
  if (node.op == Op::GroupNorm) {
    TRY_ASSIGN(int64_t groups, integer_attr(node, Key::Groups));
    if (groups < 1 || channels % groups != 0)
      return error("group_norm cannot split {} channels into {} groups", channels, groups);
  }
  if (node.op == Op::BatchNorm && (!has_input(node, 3) || !has_input(node, 4)))
    return error("batch_norm needs a mean and a variance");
  return one(node, real_dtype(x), x.shape);
}

Result<Types> infer_attention(const Graph& graph, const Node& node) {
  const Type& q = in_type(graph, node, 0);
  const Type& k = in_type(graph, node, 1);
  const Type& v = in_type(graph, node, 2);
  TRY(check_floats(graph, node));
  TRY(real_attr(node, Key::Scale));
  if (q.rank() < 2 || k.rank() < 2 || v.rank() < 2)
    return error("attention of {}, {}, {}: each needs two dims", to_text(q.shape), to_text(k.shape), to_text(v.shape));
  auto lead = [](const Shape& shape) { return Shape(shape.begin(), shape.end() - 2); };
  size_t qr = q.shape.size(), kr = k.shape.size(), vr = v.shape.size();
  if (q.shape[qr - 1] != k.shape[kr - 1] || k.shape[kr - 2] != v.shape[vr - 2])
    return error(
        "attention of queries {}, keys {}, values {}: queries and keys share their last size, keys and values the one "
        "before",
        to_text(q.shape), to_text(k.shape), to_text(v.shape));
  TRY_ASSIGN(Shape shape, broadcast(node, lead(q.shape), lead(k.shape)));
  TRY_ASSIGN(shape, broadcast(node, shape, lead(v.shape)));
  Shape scores = shape;
  scores.push_back(q.shape[qr - 2]);
  scores.push_back(k.shape[kr - 2]);
  TRY(check_shape(node, scores));
  if (has_input(node, 3)) {
    TRY_ASSIGN(Shape masked, broadcast(node, scores, in_type(graph, node, 3).shape));
    if (masked != scores)
      return error("attention with scores {} has a mask of shape {}", to_text(scores),
                   to_text(in_type(graph, node, 3).shape));
  }
  shape.push_back(q.shape[qr - 2]);
  shape.push_back(v.shape[vr - 1]);
  return one(node, real_dtype(q), std::move(shape));
}

constexpr Traits kNorm = {.parameters = true};
constexpr Traits kChannelNorm = {.channels = true, .parameters = true};

}  // namespace

const OpInfo kNormOps[] = {
    {Op::Softmax, Policy::OwnRange, {}, 1, 1, infer_softmax, ref_softmax, {0, 1}},
    {Op::LogSoftmax, Policy::OwnRange, {}, 1, 1, infer_softmax, ref_softmax, {-kInfinity, 0}},
    {Op::LayerNorm, Policy::OwnRange, kNorm, 1, 3, infer_layer_norm, ref_layer_norm},
    {Op::RmsNorm, Policy::OwnRange, kNorm, 1, 2, infer_layer_norm, ref_layer_norm},
    {Op::GroupNorm, Policy::OwnRange, kChannelNorm, 1, 3, infer_channel_norm, ref_group_norm},
    {Op::BatchNorm, Policy::OwnRange, kChannelNorm, 5, 5, infer_channel_norm, ref_batch_norm},
    {Op::Attention, Policy::OwnRange, {}, 3, 4, infer_attention, ref_attention},
};

int64_t norm_row(const Node& norm, const Shape& x) {
  if (norm.op == Op::GroupNorm) return element_count(x) / (x[0] * norm.integer(Key::Groups));
  return element_count(Shape(x.begin() + norm.integer(Key::Axis), x.end()));
}

namespace {

// Squares of 32 bits. A row's deviation is followed as far down as its squares have steps: their rounding cancels out
// over a row whose mean square is some of them.
void choose_fine_squares(RowVariance& v, double measured, double eps, double count, double top, const Type& x) {
  constexpr double kEnough = 16, kLeast = 4;  // steps of the squares in the mean, of its own
  constexpr double kLeastOfMean = 36;         // rounding the mean is 0.7 % of the root there
  constexpr double kNearest = 64;
  v.square = std::max(v.most * v.most, 1.1 * eps) / top;
  // What is cut off counts as far away as long as a row of one such number has eight steps of the coarser squares.
  const double nearer = std::min(kNearest, std::sqrt(top / 8 / count));
  if (x.dtype != DType::I8 && measured + eps < kEnough * v.square && nearer >= 2) v.nearer = nearer;
  const double step = v.square / (v.nearer * v.nearer);
  v.least = std::max(kLeast, kLeastOfMean / count) * step;
  if (x.dtype == DType::I8) v.least = std::min(v.least, x.scale() * x.scale() / (4 * count));  // codes vary by more
}

// How many squares are summed in one step, in 32 bits: of a group norm those of a plane, unless it is a single pixel.
double summed_at_once(const Node& norm, const Shape& x) {
  const int64_t row = norm_row(norm, x);
  const int64_t plane = norm.op == Op::GroupNorm ? element_count(x) / (x[0] * x[1]) : row;
  return static_cast<double>(plane == 1 ? row : plane);
}

}  // namespace

RowVariance row_variance(const Node& norm, const Type& x) {
  const Range reals = range_of(x);
  double widest = norm.op == Op::RmsNorm ? std::max(reals.min * reals.min, reals.max * reals.max)
                                         : (reals.max - reals.min) * (reals.max - reals.min) / 4;
  // Less than a quarter of a step squared is the rounding of x itself.
  double least = x.scale() * x.scale() / 4;
  const bool measured = norm.has(Key::Inner);
  const double smallest = measured ? norm.doubles(Key::Inner)[0] : 0;
  if (measured) {
    widest = std::min(widest, 2 * norm.doubles(Key::Inner)[1]);
    least = std::max(smallest / 4, std::min(least, smallest));
  }
  widest = std::max(widest, 1e-30);
  least = std::clamp(least, widest / 1e6, widest / 2);

  const auto count = static_cast<double>(norm_row(norm, x.shape));
  const auto bits = static_cast<double>(int64_t{1} << 30);
  const double eps = norm.real(Key::Eps), top = bits / summed_at_once(norm, x.shape);  // steps of the largest square
  RowVariance v{};
  v.most = std::min(256 * x.scale(), std::sqrt(widest * count));  // two codes are no further apart
  v.square = std::max(v.most * v.most / std::min(32767.0, top), 1.1 * eps / top);
  v.nearer = 1;
  v.least = least;
  // In a short row of small numbers, squares of 16 bits would be off by more than 2 % together; where most are less
  // than their step, by any share.
  constexpr double kShort = 32;
  const bool coarse = (count <= kShort && v.square / std::sqrt(12 * count) > 0.02 * (least + eps)) ||
                      (measured && v.square > smallest + eps);
  v.fine = x.dtype != DType::I8 || coarse;
  v.coarser = static_cast<int64_t>(std::ceil(count * (v.fine ? top : std::min(32767.0, top)) / bits));
  if (!v.fine) return v;
  v.most = x.dtype == DType::I8     ? 256 * x.scale()
           : norm.op == Op::RmsNorm ? 32768 * x.scale()
                                    : std::min(65536 * x.scale(), std::sqrt(widest * count));
  choose_fine_squares(v, smallest, eps, count, top, x);
  return v;
}

}  // namespace swoop
