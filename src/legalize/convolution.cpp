// Convolutions that the cores do badly or not at all, as convolutions that they do well. Every form is exact: the same
// products are added. The figures are regor's cycles per output element on U55-128, in the old form and in the new one.
#include <algorithm>
#include <numeric>

#include "legalize/kernel.h"

namespace swoop {

namespace {

bool plain_conv(Rewriter& rw, const Node& n) {
  return rw.type(n.inputs[0]).rank() == 4 && !n.flag(Key::ChannelsLast) && on_integers(rw.graph(), n) &&
         rw.type(n.outputs[0]).quantized();
}

// Which of a kernel's elements along one axis ever meet data: the others meet padding alone.
struct Taps {
  int64_t first, last;

  Taps(int64_t size, int64_t kernel, int64_t dilation, int64_t stride, int64_t before, int64_t out)
      : first(0), last(kernel - 1) {
    auto meets = [&](int64_t tap) {
      int64_t begin = tap * dilation - before, end = begin + (out - 1) * stride;
      for (int64_t at = begin; at <= end; at += stride)
        if (at >= 0 && at < size) return true;
      return false;
    };
    while (first < last && !meets(first)) ++first;
    while (last > first && !meets(last)) --last;
  }
};

// conv with padding so wide that outer elements of the kernel never meet data  ->  without them. A 3x3 kernel with
// dilation 24 and as much padding is 1x1 on 8 x 8.
bool drop_idle_taps(Rewriter& rw, const Node& n) {
  if (!plain_conv(rw, n)) return false;
  const Ints &dilation = n.ints(Key::Dilation), &stride = n.ints(Key::Stride);
  const Shape in = rw.type(n.inputs[0]).shape, out = rw.type(n.outputs[0]).shape;
  const Shape w = rw.type(n.inputs[1]).shape;
  Ints padding = n.ints(Key::Padding);
  Taps tall(in[2], w[2], dilation[0], stride[0], padding[0], out[2]);
  Taps wide(in[3], w[3], dilation[1], stride[1], padding[2], out[3]);
  int64_t height = tall.last - tall.first + 1, width = wide.last - wide.first + 1;
  if (height == w[2] && width == w[3]) return false;
  std::optional<Kernel> kernel = kernel_of(rw, n);
  if (!kernel) return false;
  Kernel rest(kernel->outputs, height, width, kernel->inputs, kernel->type);
  for (int64_t o = 0; o < kernel->outputs; ++o)
    for (int64_t y = 0; y < height; ++y)
      for (int64_t x = 0; x < width; ++x)
        for (int64_t i = 0; i < kernel->inputs; ++i)
          rest.at(o, y, x, i) = kernel->at(o, y + tall.first, x + wide.first, i);
  std::vector<ValueId> inputs = n.inputs;
  const Taps* taps[2] = {&tall, &wide};
  for (size_t i = 0; i < 2; ++i) {
    auto axis = static_cast<int64_t>(2 + i);
    int64_t before = padding[2 * i] - taps[i]->first * dilation[i];
    int64_t reach = (taps[i]->last - taps[i]->first) * dilation[i] + 1 + (out[2 + i] - 1) * stride[i];
    if (before < 0) inputs[0] = slice(rw, inputs[0], axis, -before, in[2 + i]);
    padding[2 * i] = std::max<int64_t>(before, 0);
    int64_t after = reach - padding[2 * i] - rw.type(inputs[0]).shape[2 + i];
    if (after < 0) inputs[0] = slice(rw, inputs[0], axis, 0, rw.type(inputs[0]).shape[2 + i] + after);
    padding[2 * i + 1] = std::max<int64_t>(after, 0);
  }
  inputs[1] = weights_first(rw, rest, rw.value(n.inputs[1]).name);
  Attrs attrs = n.attrs;
  attrs.set(Key::Padding, padding);
  rw.replace(n, rw.make(Op::Conv, inputs, attrs, rw.type(n.outputs[0])));
  return true;
}

// What stuff-dilation would make of one axis of a kernel.
int64_t stuffed_size(int64_t size, int64_t dilation, int64_t most) {
  if (size == 1 || dilation <= most) return size;
  return (size - 1) * (dilation % 2 == 0 ? dilation / 2 : dilation) + 1;
}

// conv with a large dilation  ->  the pixels that each element of the kernel meets, side by side as channels, then a
// 1x1 conv. Kernel 3x3, 64 -> 64 channels on 32 x 32: stuffed with zeros it costs more from dilation 6 on.
bool gather_taps(Rewriter& rw, const Node& n) {
  if (!plain_conv(rw, n) || n.integer(Key::Groups) != 1) return false;
  const Ints dilation = n.ints(Key::Dilation), stride = n.ints(Key::Stride), padding = n.ints(Key::Padding);
  const NpuFacts& facts = facts_of(rw);
  if (std::max(dilation[0], dilation[1]) <= facts.max_dilation) return false;
  std::optional<Kernel> kernel = kernel_of(rw, n);
  if (!kernel) return false;
  int64_t taps = kernel->height * kernel->width;
  int64_t stuffed = stuffed_size(kernel->height, dilation[0], facts.max_dilation) *
                    stuffed_size(kernel->width, dilation[1], facts.max_dilation);
  // A copied element takes about two cycles, a product about 1/128.
  constexpr int64_t kProductsPerCopy = 256;
  if ((stuffed - taps) * kernel->outputs < taps * kProductsPerCopy) return false;
  const Type out = rw.type(n.outputs[0]);
  ValueId x = pad_axis(rw, to_last(rw, n.inputs[0]), 1, padding[0], padding[1]);
  x = pad_axis(rw, x, 2, padding[2], padding[3]);
  auto steps = [&](ValueId from, int64_t axis, int64_t tap) {
    auto i = static_cast<size_t>(axis - 1);
    int64_t start = tap * dilation[i];
    return rw.make(Op::Slice, {from},
                   {{Key::Axis, axis},
                    {Key::Start, start},
                    {Key::End, start + (out.shape[2 + i] - 1) * stride[i] + 1},
                    {Key::Step, stride[i]}});
  };
  std::vector<ValueId> parts;
  for (int64_t i = 0; i < kernel->height; ++i)
    for (int64_t j = 0; j < kernel->width; ++j) parts.push_back(steps(steps(x, 1, i), 2, j));
  x = concat(rw, std::move(parts), 3);
  Kernel flat(kernel->outputs, 1, 1, taps * kernel->inputs, kernel->type);  // in the same order
  flat.codes = kernel->codes;
  ValueId y = conv_last(rw, x, weights(rw, flat, rw.value(n.inputs[1]).name), n.inputs[2], {}, out, &n);
  rw.replace(n, to_first(rw, y));
  return true;
}

// conv with dilation > 2  ->  zeros between the kernel's elements, dilation 2 or 1. Kernel 3x3, dilation 4, 64
// channels: 69 -> 12.6.
bool stuff_dilation(Rewriter& rw, const Node& n) {
  if (!plain_conv(rw, n)) return false;
  Ints dilation = n.ints(Key::Dilation);
  const int64_t most = facts_of(rw).max_dilation;
  if (*std::max_element(dilation.begin(), dilation.end()) <= most) return false;
  std::optional<Kernel> kernel = kernel_of(rw, n);
  if (!kernel) return false;
  std::array<int64_t, 2> size = {kernel->height, kernel->width}, step = {1, 1};
  for (size_t i = 0; i < 2; ++i) {
    if (size[i] == 1) dilation[i] = 1;
    if (dilation[i] <= most) continue;
    step[i] = dilation[i] % 2 == 0 ? dilation[i] / 2 : dilation[i];
    dilation[i] /= step[i];
    size[i] = (size[i] - 1) * step[i] + 1;
  }
  Kernel stuffed = kernel->spread(size[0], size[1], step);
  std::vector<ValueId> inputs = n.inputs;
  inputs[1] = weights_first(rw, stuffed, rw.value(n.inputs[1]).name);
  Attrs attrs = n.attrs;
  attrs.set(Key::Dilation, dilation);
  rw.replace(n, rw.make(Op::Conv, inputs, attrs, rw.type(n.outputs[0])));
  return true;
}

// conv along time, [N,C,1,T] with dilation d  ->  time folded to [N,T/d,d,C], a kernel k x 1 without dilation.
// Kernel 3, dilation 8: 12.1 -> 1.5.
bool fold_dilated_time(Rewriter& rw, const Node& n) {
  if (!plain_conv(rw, n)) return false;
  int64_t d = n.ints(Key::Dilation)[1];
  const Ints& padding = n.ints(Key::Padding);
  const Shape in = rw.type(n.inputs[0]).shape;
  if (d <= facts_of(rw).max_dilation || in[2] != 1 || rw.type(n.outputs[0]).shape[2] != 1 ||
      n.ints(Key::Stride)[1] != 1 || padding[2] % d != 0)
    return false;
  std::optional<Kernel> kernel = kernel_of(rw, n);
  if (!kernel || kernel->height != 1 || in[0] != 1) return false;
  const Type out = rw.type(n.outputs[0]);
  int64_t rows = (out.shape[3] + d - 1) / d;  // of the folded result
  int64_t data = (in[3] + d - 1) / d;
  int64_t top = padding[2] / d;
  int64_t bottom = rows + kernel->width - 1 - top - data;
  if (bottom < 0) {  // what no window reads
    data += bottom;
    bottom = 0;
  }
  ValueId x = fit_axis(rw, to_last(rw, n.inputs[0]), 2, data * d);
  x = reshape(rw, x, {1, data, d, in[1]});
  std::swap(kernel->height, kernel->width);  // the order of the codes stays
  Placement place{{1, 1}, {top, bottom, 0, 0}, n.integer(Key::Groups)};
  ValueId y = conv_last(rw, x, weights(rw, *kernel, rw.value(n.inputs[1]).name), n.inputs[2], place, out, &n);
  y = fit_axis(rw, reshape(rw, y, {1, 1, rows * d, out.shape[1]}), 2, out.shape[3]);
  rw.replace(n, to_first(rw, y));
  return true;
}

// How one axis with a stride s > 3 is folded: blocks of s positions become channels, and windows slide by one block.
struct Fold {
  int64_t step = 1;    // s; 1: the axis is not folded
  int64_t offset = 0;  // where in its first block a window begins
  int64_t kernel = 0;  // in blocks
  int64_t before = 0, blocks = 0, after = 0;
  int64_t stride = 1;  // what is left of it

  Fold(const NpuFacts& facts, int64_t size, int64_t k, int64_t s, int64_t pad_before, int64_t pad_after, int64_t out) {
    if (s <= facts.max_stride) {
      kernel = k, before = pad_before, blocks = size, after = pad_after, stride = s;
      return;
    }
    step = s;
    offset = (s - pad_before % s) % s;
    before = (pad_before + offset) / s;
    kernel = (k + offset + s - 1) / s;
    int64_t needed = out + kernel - 1 - before;
    blocks = std::min(needed, (size + s - 1) / s);
    after = needed - blocks;
  }
};

// [N,C,H,W] -> [N, H/s, W/t, s*t*C], the channels of a block in the order (y, x, c): from channels last, blocks of the
// width are a reshape and those of the height slices of the width.
ValueId fold_pixels(Rewriter& rw, ValueId x, const Fold& tall, const Fold& wide) {
  const Shape in = rw.type(x).shape;
  x = fit_axis(rw, to_last(rw, x), 2, wide.blocks * wide.step);
  x = fit_axis(rw, x, 1, tall.blocks * tall.step);
  x = reshape(rw, x, {in[0], tall.blocks, tall.step * wide.blocks, wide.step * in[1]});
  std::vector<ValueId> phases;
  for (int64_t i = 0; i < tall.step; ++i) phases.push_back(slice(rw, x, 2, i * wide.blocks, (i + 1) * wide.blocks));
  return concat(rw, phases, 3);
}

// The same in the order (c, y, x), straight from the planes of an input: no transpose. For few channels and whole
// bricks of the width.
bool fold_planes_apart(Rewriter& rw, ValueId x, const Fold& tall, const Fold& wide) {
  const Shape& in = rw.type(x).shape;
  bool fits = tall.blocks * tall.step == in[2] && wide.blocks * wide.step == in[3];
  return enters(rw, x) && fits && in[0] == 1 && in[1] <= kFewChannels && wide.step % facts_of(rw).brick == 0;
}

ValueId fold_planes(Rewriter& rw, ValueId x, const Fold& tall, const Fold& wide) {
  const Shape in = rw.type(x).shape;
  x = reshape(rw, x, {1, in[1] * tall.blocks, tall.step * wide.blocks, wide.step});
  std::vector<ValueId> parts;
  for (int64_t c = 0; c < in[1]; ++c) {
    ValueId plane = slice(rw, x, 1, c * tall.blocks, (c + 1) * tall.blocks);
    for (int64_t y = 0; y < tall.step; ++y)
      parts.push_back(slice(rw, plane, 2, y * wide.blocks, (y + 1) * wide.blocks));
  }
  return concat(rw, parts, 3);
}

// conv with a stride above 3  ->  space to depth, then a conv with stride 1. 4x4 stride 4, 3 -> 64 channels: 75 -> 2.0;
// 16x16 stride 16, 3 -> 192: 1033 -> 10.3.
bool fold_stride(Rewriter& rw, const Node& n) {
  if (!plain_conv(rw, n) || n.integer(Key::Groups) != 1) return false;
  const Ints& stride = n.ints(Key::Stride);
  const NpuFacts& facts = facts_of(rw);
  bool high = stride[0] > facts.max_stride, broad = stride[1] > facts.max_stride;
  const Shape& size = rw.type(n.outputs[0]).shape;
  if (!high && !broad) return false;
  if ((high && size[2] == 1) || (broad && size[3] == 1)) return false;  // drop-idle-stride's
  std::optional<Kernel> kernel = kernel_of(rw, n);
  if (!kernel || n.ints(Key::Dilation) != Ints{1, 1}) return false;
  const Type out = rw.type(n.outputs[0]);
  const Shape in = rw.type(n.inputs[0]).shape;
  const Ints& padding = n.ints(Key::Padding);
  Fold tall(facts, in[2], kernel->height, stride[0], padding[0], padding[1], out.shape[2]);
  Fold wide(facts, in[3], kernel->width, stride[1], padding[2], padding[3], out.shape[3]);

  int64_t channels = in[1];
  bool direct = fold_planes_apart(rw, n.inputs[0], tall, wide);
  ValueId x = direct ? fold_planes(rw, n.inputs[0], tall, wide) : fold_pixels(rw, n.inputs[0], tall, wide);
  Kernel folded(kernel->outputs, tall.kernel, wide.kernel, tall.step * wide.step * channels, kernel->type);
  for (int64_t o = 0; o < kernel->outputs; ++o)
    for (int64_t i = 0; i < kernel->height; ++i)
      for (int64_t j = 0; j < kernel->width; ++j)
        for (int64_t c = 0; c < channels; ++c) {
          int64_t y = (i + tall.offset) % tall.step, z = (j + wide.offset) % wide.step;
          int64_t at = direct ? (c * tall.step + y) * wide.step + z : (y * wide.step + z) * channels + c;
          folded.at(o, (i + tall.offset) / tall.step, (j + wide.offset) / wide.step, at) = kernel->at(o, i, j, c);
        }
  Placement place{{tall.stride, wide.stride}, {tall.before, tall.after, wide.before, wide.after}, 1};
  rw.replace(
      n, to_first(rw, conv_last(rw, x, weights(rw, folded, rw.value(n.inputs[1]).name), n.inputs[2], place, out, &n)));
  return true;
}

// depthwise conv with a stride above 3  ->  the same with stride 1, then every s-th result
bool step_depthwise(Rewriter& rw, const Node& n) {
  int64_t groups = n.integer(Key::Groups);
  if (!plain_conv(rw, n) || groups == 1 || groups != rw.type(n.inputs[0]).shape[1]) return false;
  const Shape& weight = rw.type(n.inputs[1]).shape;
  return step_window(rw, n, {weight[2], weight[3]});
}

// depthwise conv with several results per channel, few channels  ->  an ordinary conv with zeros. (With many, regor's
// own way through transposes is cheaper.)
bool densify_depthwise(Rewriter& rw, const Node& n) {
  int64_t groups = n.integer(Key::Groups);
  if (!plain_conv(rw, n) || groups == 1 || groups != rw.type(n.inputs[0]).shape[1]) return false;
  const Type out = rw.type(n.outputs[0]);
  constexpr int64_t kMostGroups = 32;
  if (out.shape[1] == groups || groups > kMostGroups) return false;
  std::optional<Kernel> kernel = kernel_of(rw, n);
  if (!kernel) return false;
  Kernel dense(kernel->outputs, kernel->height, kernel->width, groups, kernel->type);
  int64_t each = kernel->outputs / groups;
  for (int64_t o = 0; o < kernel->outputs; ++o)
    for (int64_t y = 0; y < kernel->height; ++y)
      for (int64_t x = 0; x < kernel->width; ++x) dense.at(o, y, x, o / each) = kernel->at(o, y, x, 0);
  Attrs attrs = n.attrs;
  attrs.set(Key::Groups, int64_t{1});
  rw.replace(n, rw.make(Op::Conv, {n.inputs[0], weights_first(rw, dense, rw.value(n.inputs[1]).name), n.inputs[2]},
                        attrs, out));
  return true;
}

}  // namespace

std::span<const Rule> convolution_rules() {
  static const Rule kRules[] = {
      {"drop-idle-taps", {Op::Conv}, drop_idle_taps}, {"fold-dilated-time", {Op::Conv}, fold_dilated_time},
      {"gather-taps", {Op::Conv}, gather_taps},  // before stuff-dilation, which takes every dilation
      {"stuff-dilation", {Op::Conv}, stuff_dilation}, {"fold-stride", {Op::Conv}, fold_stride},
      {"step-depthwise", {Op::Conv}, step_depthwise}, {"densify-depthwise", {Op::Conv}, densify_depthwise},
  };
  return kRules;
}

}  // namespace swoop
