// Pools. An average is a depthwise convolution with ones: a third of the cost of AVG_POOL2D (3x3 on U55-128: 2.26 ->
// 0.76 cycles per element) and, since its rescale carries 1/N and the result's own scale, without rounding to the
// input's steps.
#include <algorithm>

#include "legalize/kernel.h"

namespace swoop {

namespace {

bool is_pool(Rewriter& rw, const Node& n) {
  return rw.type(n.inputs[0]).rank() == 4 && !n.flag(Key::ChannelsLast) && computes_on_codes(rw, n) &&
         !n.flag(Key::CeilMode);
}

bool all_zero(const Ints& list) {
  return std::all_of(list.begin(), list.end(), [](int64_t v) { return v == 0; });
}

// avg_pool with a divisor that is the same everywhere  ->  depthwise conv with ones. Kernels that are too large, in two
// steps.
bool average_by_conv(Rewriter& rw, const Node& n) {
  if (!is_pool(rw, n)) return false;
  const Ints kernel = n.ints(Key::Kernel), stride = n.ints(Key::Stride), padding = n.ints(Key::Padding);
  int64_t divisor = n.integer(Key::Divisor);
  if (divisor == 0)
    divisor = kernel[0] * kernel[1];
  else if (n.integer(Key::Divisor) < 0)
    return false;
  if (!all_zero(padding) && !n.flag(Key::CountIncludePad) && n.integer(Key::Divisor) == 0) return false;
  const NpuFacts& facts = facts_of(rw);
  if (std::max(stride[0], stride[1]) > facts.max_stride || kernel[0] > facts.max_conv_height ||
      kernel[1] > facts.max_conv_area)
    return false;
  const Type out = rw.type(n.outputs[0]);
  int64_t channels = out.shape[1];
  ValueId x = to_last(rw, n.inputs[0]);
  // With few results each kernel element costs as much as a whole row of them, so a large kernel goes in two steps:
  // rows, then columns.
  bool few = out.shape[2] * out.shape[3] <= 4 && kernel[0] > 1 && kernel[1] > 1 && kernel[0] * kernel[1] >= 25;
  if (few || kernel[0] * kernel[1] > facts.max_conv_area) {
    Placement rows{{stride[0], 1}, {padding[0], padding[1], 0, 0}, channels};
    x = conv_last(rw, x, ones(rw, channels, kernel[0], 1, static_cast<double>(kernel[0])), kNone, rows,
                  mean_between(rw.type(x), kernel[0]));
    Placement columns{{1, stride[1]}, {0, 0, padding[2], padding[3]}, channels};
    double rest = static_cast<double>(divisor) / static_cast<double>(kernel[0]);
    x = conv_last(rw, x, ones(rw, channels, 1, kernel[1], rest), kNone, columns, out, &n);
  } else {
    Placement place{{stride[0], stride[1]}, {padding[0], padding[1], padding[2], padding[3]}, channels};
    x = conv_last(rw, x, ones(rw, channels, kernel[0], kernel[1], static_cast<double>(divisor)), kNone, place, out, &n);
  }
  rw.replace(n, to_first(rw, x));
  return true;
}

// avg_pool over the whole plane  ->  mean over it (a sum, see reduction.cpp)
bool whole_plane_to_mean(Rewriter& rw, const Node& n) {
  if (!is_pool(rw, n) || n.integer(Key::Divisor) != 0 || !all_zero(n.ints(Key::Padding))) return false;
  const Shape& in = rw.type(n.inputs[0]).shape;
  if (n.ints(Key::Kernel) != Ints{in[2], in[3]}) return false;
  Attrs attrs{{Key::Axes, Ints{2, 3}}, {Key::Keepdim, true}};
  for (Key key : {Key::ActMin, Key::ActMax})
    if (const Attr* bound = n.attrs.find(key)) attrs.set(key, *bound);
  rw.replace(n, rw.make(Op::Mean, {n.inputs[0]}, attrs, rw.type(n.outputs[0])));
  return true;
}

// avg_pool that leaves its padding out of the count, into another scale  ->  sum, times 1 / count at each position
bool average_with_counts(Rewriter& rw, const Node& n) {
  if (!is_pool(rw, n) || n.flag(Key::CountIncludePad) || n.integer(Key::Divisor) != 0 || all_zero(n.ints(Key::Padding)))
    return false;
  const Type out = rw.type(n.outputs[0]);
  const Ints kernel = n.ints(Key::Kernel), stride = n.ints(Key::Stride), padding = n.ints(Key::Padding);
  const NpuFacts& facts = facts_of(rw);
  bool too_large = std::max(kernel[0], kernel[1]) > facts.max_padded_average;  // u55.c4
  if (out.quant == rw.type(n.inputs[0]).quant && !too_large) return false;     // AVG_POOL2D is as exact
  if (std::max(stride[0], stride[1]) > facts.max_stride || kernel[0] > facts.max_conv_height ||
      kernel[0] * kernel[1] > facts.max_conv_area)
    return false;
  const Shape in = rw.type(n.inputs[0]).shape;
  std::vector<int64_t> shares;
  auto count = [&](size_t i, int64_t at) {
    int64_t start = at * stride[i] - padding[2 * i];
    return std::min(start + kernel[i], in[2 + i]) - std::max<int64_t>(start, 0);
  };
  double area = static_cast<double>(kernel[0] * kernel[1]);
  for (int64_t y = 0; y < out.shape[2]; ++y)
    for (int64_t x = 0; x < out.shape[3]; ++x) {
      int64_t inside = count(0, y) * count(1, x);
      if (inside <= 0) return false;
      shares.push_back(static_cast<int64_t>(32767.0 / static_cast<double>(inside) + 0.5));
    }
  int64_t channels = in[1];
  ValueId x = to_last(rw, n.inputs[0]);
  Placement place{{stride[0], stride[1]}, {padding[0], padding[1], padding[2], padding[3]}, channels};
  x = conv_last(rw, x, ones(rw, channels, kernel[0], kernel[1], area), kNone, place,
                mean_between(rw.type(x), kernel[0] * kernel[1]));
  ValueId share = codes(rw, i16_type({1, out.shape[2], out.shape[3], 1}, area / 32767), shares, "shares");
  rw.replace(n, to_first(rw, rw.make(Op::Mul, {x, share}, {}, with_shape(out, rw.type(x).shape))));
  return true;
}

// The pool of a kernel 1 x k over [.., k, channels] that leaves one position.
ValueId pool_row(Rewriter& rw, Op op, ValueId x, Type type, const Node* clamp_from) {
  const Shape shape = rw.type(x).shape;
  if (op == Op::AvgPool)
    return conv_last(rw, x, ones(rw, shape[3], 1, shape[2], static_cast<double>(shape[2])), kNone,
                     {{1, 1}, {0, 0, 0, 0}, shape[3]}, std::move(type), clamp_from);
  type.shape = {shape[0], shape[1], 1, shape[3]};
  Attrs attrs{{Key::Kernel, Ints{1, shape[2]}},
              {Key::Stride, Ints{1, 1}},
              {Key::Padding, Ints(4, 0)},
              {Key::Dilation, Ints{1, 1}},
              {Key::ChannelsLast, true}};
  return rw.make(Op::MaxPool, {x}, attrs, std::move(type));
}

// pool with kernel = stride > 3, no padding  ->  two views in which each window is a row: no stride is left. (As it is,
// U55 takes one op per position, or none: stride 8 is refused.)
bool tile_pool(Rewriter& rw, const Node& n) {
  bool divides = n.op == Op::AvgPool && n.integer(Key::Divisor) != 0;
  if (!is_pool(rw, n) || divides || !all_zero(n.ints(Key::Padding))) return false;
  const Ints kernel = n.ints(Key::Kernel), stride = n.ints(Key::Stride);
  if (kernel != stride || std::max(stride[0], stride[1]) <= facts_of(rw).max_stride ||
      (n.has(Key::Dilation) && n.ints(Key::Dilation) != Ints{1, 1}))
    return false;
  const Type out = rw.type(n.outputs[0]);
  const Shape in = rw.type(n.inputs[0]).shape;
  int64_t rows = out.shape[2], columns = out.shape[3], channels = in[1];
  if (rows * columns == 1) return false;  // drop-idle-stride's
  ValueId x = to_last(rw, n.inputs[0]);
  x = slice(rw, slice(rw, x, 1, 0, rows * kernel[0]), 2, 0, columns * kernel[1]);
  x = reshape(rw, x, {1, in[0] * rows * kernel[0] * columns, kernel[1], channels});
  Type first = n.op == Op::AvgPool ? mean_between(rw.type(x), kernel[1]) : rw.type(x);
  x = pool_row(rw, n.op, x, first, nullptr);
  x = reshape(rw, x, {1, in[0] * rows, kernel[0], columns * channels});
  x = reshape(rw, pool_row(rw, n.op, x, out, &n), {in[0], rows, columns, channels});
  rw.replace(n, to_first(rw, x));
  return true;
}

// any other pool with a stride above 3  ->  stride 1, then every s-th result
bool step_pool(Rewriter& rw, const Node& n) { return is_pool(rw, n) && step_window(rw, n, n.ints(Key::Kernel)); }

// max_pool k x k, k > 4  ->  1 x k, then k x 1. 9x9: 21 -> 6.0, 5x5: 6.3 -> 2.5 cycles per element on U55-128.
bool split_max_pool(Rewriter& rw, const Node& n) {
  const Ints& kernel = n.ints(Key::Kernel);
  if (!is_pool(rw, n) || kernel[0] * kernel[1] < 25 || kernel[0] == 1 || kernel[1] == 1 ||
      n.ints(Key::Dilation) != Ints{1, 1})
    return false;
  const Ints stride = n.ints(Key::Stride), padding = n.ints(Key::Padding);
  Type wide = rw.type(n.inputs[0]);
  const Type out = rw.type(n.outputs[0]);
  wide.shape[3] = out.shape[3];
  Attrs first{{Key::Kernel, Ints{1, kernel[1]}},
              {Key::Stride, Ints{1, stride[1]}},
              {Key::Padding, Ints{0, 0, padding[2], padding[3]}},
              {Key::Dilation, Ints{1, 1}}};
  Attrs second{{Key::Kernel, Ints{kernel[0], 1}},
               {Key::Stride, Ints{stride[0], 1}},
               {Key::Padding, Ints{padding[0], padding[1], 0, 0}},
               {Key::Dilation, Ints{1, 1}}};
  rw.replace(n, rw.make(Op::MaxPool, {rw.make(Op::MaxPool, {n.inputs[0]}, first, wide)}, second, out));
  return true;
}

// max_pool with dilation  ->  the maximum of shifted slices, axis by axis
bool shift_dilated_pool(Rewriter& rw, const Node& n) {
  if (!is_pool(rw, n) || n.ints(Key::Dilation) == Ints{1, 1}) return false;
  const Type out = rw.type(n.outputs[0]);
  double lowest = range_of(rw.type(n.inputs[0])).min;
  ValueId x = n.inputs[0];
  for (size_t i = 0; i < 2; ++i) {
    auto axis = static_cast<int64_t>(2 + i);
    int64_t kernel = n.ints(Key::Kernel)[i], dilation = n.ints(Key::Dilation)[i], stride = n.ints(Key::Stride)[i];
    x = pad_axis(rw, x, axis, n.ints(Key::Padding)[2 * i], n.ints(Key::Padding)[2 * i + 1], lowest);
    int64_t length = (out.shape[2 + i] - 1) * stride + 1;
    ValueId best = slice(rw, x, axis, 0, length);
    for (int64_t k = 1; k < kernel; ++k)
      best = rw.make(Op::Maximum, {best, slice(rw, x, axis, k * dilation, k * dilation + length)}, {}, rw.type(best));
    x = best;
    if (stride > 1)
      x = rw.make(Op::Slice, {x},
                  {{Key::Axis, axis}, {Key::Start, int64_t{0}}, {Key::End, length}, {Key::Step, stride}});
  }
  if (rw.type(x).quant != out.quant) x = rw.make(Op::Quantize, {x}, {}, out);
  rw.replace(n, x);
  return true;
}

// adaptive pool with uneven windows  ->  along each axis, a pool of every window, side by side
bool window_by_window(Rewriter& rw, const Node& n) {
  const Shape in = rw.type(n.inputs[0]).shape;
  if (!computes_on_codes(rw, n) || in.size() != 4) return false;
  const Type out = rw.type(n.outputs[0]);
  if (in[2] % out.shape[2] == 0 && in[3] % out.shape[3] == 0) return false;  // plain-adaptive-pool's
  bool average = n.op == Op::AdaptiveAvgPool;
  ValueId x = n.inputs[0];
  for (size_t i = 2; i-- > 0;) {
    int64_t from = in[2 + i], to = out.shape[2 + i];
    if (from == to && (i > 0 || rw.type(x).quant == out.quant)) continue;
    Type type = i == 0 ? out : average ? mean_between(rw.type(x)) : rw.type(x);
    type.shape = rw.type(x).shape;
    type.shape[2 + i] = 1;
    std::vector<ValueId> parts;
    for (int64_t o = 0; o < to; ++o) {
      int64_t first = o * from / to, last = ((o + 1) * from + to - 1) / to;
      Ints kernel = {1, 1};
      kernel[i] = last - first;
      ValueId window = slice(rw, x, static_cast<int64_t>(2 + i), first, last);
      parts.push_back(plain_pool(rw, average ? Op::AvgPool : Op::MaxPool, window, kernel, {1, 1}, type));
    }
    x = concat(rw, parts, static_cast<int64_t>(2 + i));
  }
  rw.replace(n, x);
  return true;
}

}  // namespace

std::span<const Rule> pooling_rules() {
  static const Rule kRules[] = {
      {"tile-pool", {Op::MaxPool, Op::AvgPool}, tile_pool},
      {"whole-plane-to-mean", {Op::AvgPool}, whole_plane_to_mean},
      {"average-by-conv", {Op::AvgPool}, average_by_conv},
      {"average-with-counts", {Op::AvgPool}, average_with_counts},
      {"shift-dilated-pool", {Op::MaxPool}, shift_dilated_pool},
      {"split-max-pool", {Op::MaxPool}, split_max_pool},
      {"step-pool", {Op::MaxPool, Op::AvgPool}, step_pool},
      {"window-by-window", {Op::AdaptiveAvgPool, Op::AdaptiveMaxPool}, window_by_window},
  };
  return kRules;
}

}  // namespace swoop
