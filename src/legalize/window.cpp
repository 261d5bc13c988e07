#include <algorithm>

#include "legalize/kernel.h"

namespace swoop {

namespace {

// A window op on one spatial dim  ->  the same on two, with height 1. [N,C,L] becomes [N,C,1,L].
bool widen_window_to_2d(Rewriter& rw, const Node& n) {
  const Shape& in = rw.type(n.inputs[0]).shape;
  if (in.size() != 3 || !on_integers(rw.graph(), n)) return false;
  const Type& out = rw.type(n.outputs[0]);
  Attrs attrs = n.attrs;
  auto prepend = [&](Key key, const Ints& front) {
    if (!n.has(key)) return;
    Ints values = front;
    values.insert(values.end(), n.ints(key).begin(), n.ints(key).end());
    attrs.set(key, values);
  };
  prepend(Key::Stride, {1});
  prepend(Key::Dilation, {1});
  prepend(Key::Kernel, {1});
  prepend(Key::Padding, {0, 0});
  prepend(Key::OutputPadding, {0});
  std::vector<ValueId> inputs = n.inputs;
  inputs[0] = reshape(rw, inputs[0], {in[0], in[1], 1, in[2]});
  if (info(n.op).traits.weights) {
    const Shape& w = rw.type(inputs[1]).shape;
    inputs[1] = reshape(rw, inputs[1], {w[0], w[1], 1, w[2]});
  }
  ValueId wide = rw.make(n.op, inputs, attrs, with_shape(out, {out.shape[0], out.shape[1], 1, out.shape[2]}));
  rw.replace(n, reshape(rw, wide, out.shape));
  return true;
}

// A window op on a column, [N,C,H,1]  ->  the same on a row, [N,C,1,H]. The cores compute rows in wider blocks, and
// bound the height of a kernel but not its width. Ten layers on 1,024 samples of sound: 148 -> 90 kcycles on U55-128,
// 77 -> 37 on U85-256.
bool turn_column_to_row(Rewriter& rw, const Node& n) {
  const Shape in = rw.type(n.inputs[0]).shape;
  const Type out = rw.type(n.outputs[0]);
  if (in.size() != 4 || n.flag(Key::ChannelsLast) || in[2] == 1 || in[3] != 1 || out.shape[3] != 1) return false;
  const bool weights = info(n.op).traits.weights;
  const Shape kernel = weights ? rw.type(n.inputs[1]).shape : n.ints(Key::Kernel);
  if (kernel.back() != 1 || !on_integers(rw.graph(), n)) return false;
  Attrs attrs = n.attrs;
  for (Key key : {Key::Stride, Key::Dilation, Key::Kernel, Key::Padding, Key::OutputPadding}) {
    if (!n.has(key)) continue;
    Ints values = n.ints(key);  // of the height, then of the width
    std::rotate(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
    attrs.set(key, values);
  }
  std::vector<ValueId> inputs = n.inputs;
  inputs[0] = reshape(rw, inputs[0], {in[0], in[1], 1, in[2]});
  if (weights) inputs[1] = reshape(rw, inputs[1], {kernel[0], kernel[1], 1, kernel[2]});
  ValueId row = rw.make(n.op, inputs, attrs, with_shape(out, {out.shape[0], out.shape[1], 1, out.shape[2]}));
  rw.replace(n, reshape(rw, row, out.shape));
  return true;
}

// A conv on three spatial dims  ->  a conv on two: the planes that one result plane reads stand side by side as
// channels, and the result planes are the batch. U55 and U65 have no other form; the U85's own takes 3 times the
// cycles.
bool conv_by_planes(Rewriter& rw, const Node& n) {
  const Type in = rw.type(n.inputs[0]);
  const Type out = rw.type(n.outputs[0]);
  if (in.rank() != 5 || n.flag(Key::ChannelsLast) || !on_integers(rw.graph(), n)) return false;
  const Ints stride = n.ints(Key::Stride), dilation = n.ints(Key::Dilation), padding = n.ints(Key::Padding);
  const Shape w = rw.type(n.inputs[1]).shape;  // [O, C/groups, taps, h, w]
  const int64_t groups = n.integer(Key::Groups), planes = out.shape[2], taps = w[2];
  ValueId x = pad_axis(rw, n.inputs[0], 2, padding[0], padding[1]);
  std::vector<ValueId> parts;
  for (int64_t tap = 0; tap < taps; ++tap) {
    int64_t start = tap * dilation[0];
    ValueId part = rw.make(Op::Slice, {x},
                           {{Key::Axis, int64_t{2}},
                            {Key::Start, start},
                            {Key::End, start + (planes - 1) * stride[0] + 1},
                            {Key::Step, stride[0]}});
    part = transpose(rw, part, {0, 2, 1, 3, 4});
    parts.push_back(reshape(rw, part, {in.shape[0] * planes, groups, w[1], in.shape[3], in.shape[4]}));
  }
  x = reshape(rw, concat(rw, std::move(parts), 2),
              {in.shape[0] * planes, taps * in.shape[1], in.shape[3], in.shape[4]});
  ValueId weight = reshape(rw, transpose(rw, n.inputs[1], {0, 2, 1, 3, 4}), {w[0], taps * w[1], w[3], w[4]});
  ValueId y = rw.make(Op::Conv, {x, weight, n.inputs[2]}, attrs_on_planes(n),
                      with_shape(out, {in.shape[0] * planes, w[0], out.shape[3], out.shape[4]}));
  y = reshape(rw, y, {in.shape[0], planes, w[0], out.shape[3], out.shape[4]});
  rw.replace(n, transpose(rw, y, {0, 2, 1, 3, 4}));
  return true;
}

// A stride along a dim with one result position moves nothing  ->  stride 1. Lifts the limit on strides for global
// pools.
bool drop_idle_stride(Rewriter& rw, const Node& n) {
  bool last = n.flag(Key::ChannelsLast);
  const Shape& out = rw.type(n.outputs[0]).shape;
  Ints stride = n.ints(Key::Stride);
  Ints padding = n.ints(Key::Padding);
  bool changed = false;
  const Shape& in = rw.type(n.inputs[0]).shape;
  for (size_t i = 0; i < stride.size(); ++i) {
    size_t dim = last ? 1 + i : 2 + i;
    if (out[dim] != 1 || stride[i] == 1 || n.flag(Key::CeilMode)) continue;
    // With stride 1 the window must not find a second place: what the only one does not read is cut off the padding
    // first.
    int64_t kernel = n.has(Key::Kernel) ? n.ints(Key::Kernel)[i] : rw.type(n.inputs[1]).shape[last ? 1 + i : 2 + i];
    int64_t dilation = n.has(Key::Dilation) ? n.ints(Key::Dilation)[i] : 1;
    int64_t reach = dilation * (kernel - 1) + 1;
    int64_t spare = in[dim] + padding[2 * i] + padding[2 * i + 1] - reach;
    if (spare > padding[2 * i + 1]) continue;  // fit_window cuts the data first and comes back here
    padding[2 * i + 1] -= spare;
    stride[i] = 1;
    changed = true;
  }
  if (!changed) return false;
  rw.set_attr(n, Key::Stride, stride);
  rw.set_attr(n, Key::Padding, padding);
  return true;
}

// What the windows leave of the padded data along one spatial axis.
int64_t left_over(const Rewriter& rw, const Node& n, size_t i) {
  size_t dim = (n.flag(Key::ChannelsLast) ? 1 : 2) + i;
  const Ints& padding = n.ints(Key::Padding);
  int64_t kernel = n.has(Key::Kernel) ? n.ints(Key::Kernel)[i] : rw.type(n.inputs[1]).shape[dim];
  int64_t dilation = n.has(Key::Dilation) ? n.ints(Key::Dilation)[i] : 1;
  int64_t size = rw.type(n.inputs[0]).shape[dim] + padding[2 * i] + padding[2 * i + 1];
  return (size - dilation * (kernel - 1) - 1) % n.ints(Key::Stride)[i];
}

// conv of an image whose last rows or columns no window reads  ->  a kernel that reaches them with zeros. Without it
// fit-window cuts them off, which copies the image (3 x 96 x 96, stride 2: 59 -> 31 kcycles on U55-128, 414 -> 115 on
// U85-256).
bool reach_with_zeros(Rewriter& rw, const Node& n) {
  const Shape in = rw.type(n.inputs[0]).shape;
  if (in.size() != 4 || in[1] > kFewChannels || !enters(rw, n.inputs[0]) || !on_integers(rw.graph(), n)) return false;
  if (n.ints(Key::Dilation) != Ints{1, 1}) return false;
  Ints padding = n.ints(Key::Padding);
  std::array<int64_t, 2> more = {0, 0};
  for (size_t i = 0; i < 2; ++i) {
    if (n.ints(Key::Stride)[i] > facts_of(rw).max_stride) return false;
    more[i] = std::max<int64_t>(left_over(rw, n, i) - padding[2 * i + 1], 0);
    if (more[i] > 0) padding[2 * i + 1] = 0;
  }
  if (more[0] + more[1] == 0) return false;
  std::optional<Kernel> kernel = kernel_of(rw, n);
  if (!kernel) return false;
  Kernel larger = kernel->spread(kernel->height + more[0], kernel->width + more[1]);
  std::vector<ValueId> inputs = n.inputs;
  inputs[1] = weights_first(rw, larger, rw.value(n.inputs[1]).name);
  Attrs attrs = n.attrs;
  attrs.set(Key::Padding, padding);
  rw.replace(n, rw.make(Op::Conv, inputs, attrs, rw.type(n.outputs[0])));
  return true;
}

// TOSA wants (in + pad - reach) to be a multiple of the stride: what no window reads is taken off the padding, then off
// the data.
bool fit_window(Rewriter& rw, const Node& n) {
  if (n.flag(Key::CeilMode) || !on_integers(rw.graph(), n)) return false;
  size_t first = n.flag(Key::ChannelsLast) ? 1 : 2;
  Ints padding = n.ints(Key::Padding);
  ValueId x = n.inputs[0];
  bool changed = false;
  for (size_t i = 0; i < padding.size() / 2; ++i) {
    int64_t spare = left_over(rw, n, i);
    if (spare <= 0) continue;
    changed = true;
    int64_t off_padding = std::min(spare, padding[2 * i + 1]);
    padding[2 * i + 1] -= off_padding;
    spare -= off_padding;
    if (spare > 0)
      x = rw.make(Op::Slice, {x},
                  {{Key::Axis, static_cast<int64_t>(first + i)},
                   {Key::Start, int64_t{0}},
                   {Key::End, rw.type(x).shape[first + i] - spare},
                   {Key::Step, int64_t{1}}});
  }
  if (!changed) return false;
  rw.set_attr(n, Key::Padding, padding);
  rw.set_input(n, 0, x);
  return true;
}

// ceil_mode  ->  padding after the data, for the last window. Padding is not counted here: PyTorch does not count what
// is beyond the padded input either.
bool drop_ceil_mode(Rewriter& rw, const Node& n) {
  if (!n.flag(Key::CeilMode) || !on_integers(rw.graph(), n)) return false;
  if (n.op == Op::AvgPool && n.flag(Key::CountIncludePad)) return false;  // count_padding's first
  bool last = n.flag(Key::ChannelsLast);
  Ints padding = n.ints(Key::Padding);
  for (size_t i = 0; i < padding.size() / 2; ++i) {
    size_t dim = last ? 1 + i : 2 + i;
    int64_t reach = (n.has(Key::Dilation) ? n.ints(Key::Dilation)[i] : 1) * (n.ints(Key::Kernel)[i] - 1) + 1;
    int64_t needed = (rw.type(n.outputs[0]).shape[dim] - 1) * n.ints(Key::Stride)[i] + reach;
    padding[2 * i + 1] = std::max(padding[2 * i + 1], needed - rw.type(n.inputs[0]).shape[dim] - padding[2 * i]);
  }
  rw.set_attr(n, Key::Padding, padding);
  rw.set_attr(n, Key::CeilMode, false);
  return true;
}

// avg_pool that counts its padding  ->  pad with zeros, then a pool without padding
bool count_padding(Rewriter& rw, const Node& n) {
  if (!n.flag(Key::CountIncludePad) || !on_integers(rw.graph(), n)) return false;
  const Ints& padding = n.ints(Key::Padding);
  bool padded = std::any_of(padding.begin(), padding.end(), [](int64_t p) { return p != 0; });
  if (padded) {
    size_t rank = rw.type(n.inputs[0]).shape.size();
    Ints amounts(2 * rank, 0);
    size_t first = n.flag(Key::ChannelsLast) ? 1 : 2;
    std::copy(padding.begin(), padding.end(), amounts.begin() + static_cast<std::ptrdiff_t>(2 * first));
    Attrs attrs{{Key::Padding, amounts}, {Key::Mode, std::string("constant")}, {Key::Value, 0.0}};
    rw.set_input(n, 0, rw.make(Op::Pad, {n.inputs[0]}, attrs));
    rw.set_attr(n, Key::Padding, Ints(padding.size(), 0));
  }
  rw.set_attr(n, Key::CountIncludePad, false);
  return true;
}

// adaptive pools whose windows are all alike  ->  plain pools
bool plain_adaptive_pool(Rewriter& rw, const Node& n) {
  if (!on_integers(rw.graph(), n)) return false;
  const Shape& in = rw.type(n.inputs[0]).shape;
  const Ints& size = n.ints(Key::Size);
  Ints kernel, stride;
  for (size_t i = 0; i < size.size(); ++i) {
    int64_t from = in[2 + i];
    if (size[i] <= 0 || from % size[i] != 0) return false;
    kernel.push_back(from / size[i]);
    stride.push_back(from / size[i]);
  }
  Op pool = n.op == Op::AdaptiveAvgPool ? Op::AvgPool : Op::MaxPool;
  rw.replace(n, plain_pool(rw, pool, n.inputs[0], kernel, stride, rw.type(n.outputs[0])));
  return true;
}

Quant sliced(const Quant& quant, int64_t start, int64_t end) {
  Quant part = quant;
  part.scale.assign(quant.scale.begin() + start, quant.scale.begin() + end);
  part.zero_point.assign(quant.zero_point.begin() + start, quant.zero_point.begin() + end);
  return part;
}

ValueId slice_axis(Rewriter& rw, ValueId x, int64_t axis, int64_t start, int64_t end) {
  Type type = rw.type(x);
  type.shape[static_cast<size_t>(axis)] = end - start;
  if (type.quantized() && type.quant->axis == axis) type.quant = sliced(*type.quant, start, end);
  return rw.make(Op::Slice, {x}, {{Key::Axis, axis}, {Key::Start, start}, {Key::End, end}, {Key::Step, int64_t{1}}},
                 type);
}

// conv with more padding than the cores count  ->  pad, conv. Of a linear layer's rows, say, for windows of attention.
bool pad_before_conv(Rewriter& rw, const Node& n) {
  constexpr int64_t kMost = 127;  // the registers have 7 bits
  Ints padding = n.ints(Key::Padding);
  if (!computes_on_codes(rw, n) || std::ranges::none_of(padding, [](int64_t side) { return side > kMost; }))
    return false;
  const int64_t first = n.flag(Key::ChannelsLast) ? 1 : 2;
  std::vector<ValueId> inputs = n.inputs;
  for (size_t i = 0; i + 1 < padding.size(); i += 2) {
    if (std::max(padding[i], padding[i + 1]) <= kMost) continue;
    inputs[0] = pad_axis(rw, inputs[0], first + static_cast<int64_t>(i / 2), padding[i], padding[i + 1]);
    padding[i] = padding[i + 1] = 0;
  }
  Attrs attrs = n.attrs;
  attrs.set(Key::Padding, std::move(padding));
  rw.replace(n, rw.make(Op::Conv, std::move(inputs), std::move(attrs), rw.type(n.outputs[0])));
  return true;
}

// How many groups make one convolution, with zeros between them. The cores compute eight channels at once, so that up
// to eight cost what one does; four times as much work, with half of the convolutions, pays where there are so few
// pixels that a convolution mostly waits for DRAM. 32 groups of 4 channels on 14 x 14 take 51 instead of 90 kcycles on
// U55-128 and 18 instead of 29 on U85-256; 104 groups of 2 on 3 x 4 take 8.5 instead of 28, and 6.9 instead of 64.
int64_t groups_at_once(const Rewriter& rw, int64_t groups, int64_t in, int64_t out, int64_t taps, int64_t pixels) {
  constexpr int64_t kChannels = 8;
  constexpr double kFixed = 550, kPerPixel = 1.06;  // cycles on U85-256, of a convolution and of four taps
  const bool waits = facts_of(rw).slow_elementwise_from_dram;
  const auto blocks = [](int64_t channels) { return static_cast<double>((channels + kChannels - 1) / kChannels); };
  int64_t best = std::max<int64_t>(1, std::min(groups, kChannels / std::max(in, out)));
  const auto cost = [&](int64_t each) {
    const double work = kPerPixel * static_cast<double>(pixels * ((taps + 3) / 4));
    return static_cast<double>((groups + each - 1) / each) * (kFixed + work * blocks(each * in) * blocks(each * out));
  };
  for (int64_t each = 2 * best; waits && each <= groups && cost(each) < cost(best); each *= 2) best = each;
  return best;
}

// The weights of some groups of a conv as those of a conv without groups.
Kernel joined_groups(const Kernel& kernel, int64_t groups, int64_t first, int64_t last) {
  const int64_t each = kernel.outputs / groups;
  Type type = kernel.type;
  if (type.quant->per_channel()) type.quant = sliced(*type.quant, first * each, last * each);
  Kernel joined((last - first) * each, kernel.height, kernel.width, (last - first) * kernel.inputs, type);
  for (int64_t o = 0; o < joined.outputs; ++o)
    for (int64_t y = 0; y < kernel.height; ++y)
      for (int64_t x = 0; x < kernel.width; ++x)
        for (int64_t i = 0; i < kernel.inputs; ++i)
          joined.at(o, y, x, o / each * kernel.inputs + i) = kernel.at(first * each + o, y, x, i);
  return joined;
}

// conv with groups that is not depthwise  ->  slices, a conv each, concat. Cheaper than a dense conv with zeros
// (measured 1.5 against 4.5 cycles per element on U55 for 4 x 16 channels); narrow groups are joined.
bool split_grouped_conv(Rewriter& rw, const Node& n) {
  int64_t groups = n.integer(Key::Groups);
  const Shape in = rw.type(n.inputs[0]).shape;
  if (groups == 1 || n.flag(Key::ChannelsLast) || !on_integers(rw.graph(), n)) return false;
  const Type out = rw.type(n.outputs[0]);
  if (groups == in[1]) return false;  // depthwise
  int64_t in_step = in[1] / groups;
  int64_t out_step = out.shape[1] / groups;
  Attrs attrs = n.attrs;
  attrs.set(Key::Groups, int64_t{1});
  std::optional<Kernel> kernel;
  int64_t each = 1;
  if (in.size() == 4) {
    const Shape& window = rw.type(n.inputs[1]).shape;
    each = groups_at_once(rw, groups, in_step, out_step, window[2] * window[3], out.shape[2] * out.shape[3]);
    if (each > 1) kernel = kernel_of(rw, n);
    if (!kernel) each = 1;
  }
  std::vector<ValueId> parts;
  for (int64_t g = 0; g < groups; g += each) {
    const int64_t end = std::min(g + each, groups);
    ValueId bias = n.inputs[2] == kNone ? kNone : slice_axis(rw, n.inputs[2], 0, g * out_step, end * out_step);
    ValueId weights = kernel ? weights_first(rw, joined_groups(*kernel, groups, g, end), rw.value(n.inputs[1]).name)
                             : slice_axis(rw, n.inputs[1], 0, g * out_step, end * out_step);
    Type part = out;
    part.shape[1] = (end - g) * out_step;
    parts.push_back(
        rw.make(Op::Conv, {slice(rw, n.inputs[0], 1, g * in_step, end * in_step), weights, bias}, attrs, part));
  }
  rw.replace(n, concat(rw, std::move(parts), 1));
  return true;
}

// window(x) channels first  ->  transpose, the same channels last, transpose back
bool turn_channels_last(Rewriter& rw, const Node& n) {
  const Type& in = rw.type(n.inputs[0]);
  if (n.flag(Key::ChannelsLast) || in.rank() < 4 || !on_integers(rw.graph(), n) ||
      !supports(rw.graph(), n, target_of(rw)).ok)
    return false;
  auto rank = static_cast<size_t>(in.rank());
  Ints forward = to_channels_last(rank);
  std::vector<ValueId> inputs = n.inputs;
  inputs[0] = transpose(rw, inputs[0], forward);
  if (n.op == Op::Conv) inputs[1] = transpose(rw, inputs[1], forward);
  if (n.op == Op::ConvTranspose) {  // [C,O,k...] -> [O,k...,C]
    Ints perm = {1};
    for (size_t i = 2; i < rank; ++i) perm.push_back(static_cast<int64_t>(i));
    perm.push_back(0);
    inputs[1] = transpose(rw, inputs[1], perm);
  }
  Attrs attrs = n.attrs;
  attrs.set(Key::ChannelsLast, true);
  const Type& out = rw.type(n.outputs[0]);
  ValueId turned = rw.make(n.op, inputs, attrs, with_shape(out, permuted(out.shape, forward)));
  rw.replace(n, transpose(rw, turned, to_channels_first(rank)));
  return true;
}

}  // namespace

std::span<const Rule> padding_rules() {
  static const Rule kRules[] = {{"pad-before-conv", {Op::Conv}, pad_before_conv}};
  return kRules;
}

std::span<const Rule> window_rules() {
  static const std::vector<Op> kWindows = ops_where([](const OpInfo& op) { return op.traits.window; });
  static const Rule kRules[] = {
      {"widen-window-to-2d", ops_where([](const OpInfo& op) { return op.traits.window || op.op == Op::ConvTranspose; }),
       widen_window_to_2d},
      {"turn-column-to-row", ops_where([](const OpInfo& op) { return op.traits.window || op.op == Op::ConvTranspose; }),
       turn_column_to_row},
      {"conv-by-planes", {Op::Conv}, conv_by_planes},
      {"plain-adaptive-pool", {Op::AdaptiveAvgPool, Op::AdaptiveMaxPool}, plain_adaptive_pool},
      {"count-padding", {Op::AvgPool}, count_padding},
      {"drop-ceil-mode", {Op::MaxPool, Op::AvgPool}, drop_ceil_mode},
      {"drop-idle-stride", kWindows, drop_idle_stride},
      {"pad-before-conv", {Op::Conv}, pad_before_conv},
      {"reach-with-zeros", {Op::Conv}, reach_with_zeros},  // before fit-window, which takes every window
      {"fit-window", kWindows, fit_window},
      {"split-grouped-conv", {Op::Conv}, split_grouped_conv},
  };
  return kRules;
}

std::span<const Rule> channels_last_rules() {
  static const Rule kRules[] = {
      {"turn-channels-last", ops_where([](const OpInfo& op) { return op.traits.channels; }), turn_channels_last},
  };
  return kRules;
}

}  // namespace swoop
