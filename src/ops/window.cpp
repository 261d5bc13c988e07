#include "ops/window.h"

namespace swoop {

namespace {
constexpr int64_t kMaxWindow = int64_t{1}
                               << 31;  // kernels, strides, paddings: keeps the arithmetic below far from overflow
}

Result<Layout> layout_of(const Node& node, const Shape& shape, int min_space, int max_space) {
  int rank = static_cast<int>(shape.size());
  if (rank < 2 + min_space || rank > 2 + max_space)
    return error("{} takes an operand with {} to {} dims (batch, channels, space), not {}", name_of(node.op),
                 2 + min_space, 2 + max_space, to_text(shape));
  Layout layout;
  layout.channels_last = node.flag(Key::ChannelsLast);
  layout.batch = shape[0];
  layout.channels = layout.channels_last ? shape.back() : shape[1];
  auto first = shape.begin() + (layout.channels_last ? 1 : 2);
  layout.space.assign(first, first + (rank - 2));
  return layout;
}

Shape shape_of(const Layout& layout) {
  Shape shape = {layout.batch};
  if (!layout.channels_last) shape.push_back(layout.channels);
  shape.insert(shape.end(), layout.space.begin(), layout.space.end());
  if (layout.channels_last) shape.push_back(layout.channels);
  return shape;
}

int channel_axis(const Node& node, const Shape& shape) {
  return node.flag(Key::ChannelsLast) ? static_cast<int>(shape.size()) - 1 : 1;
}

Result<Windows> windows_of(const Node& node, const Shape& space, const Shape& kernel) {
  auto dims = static_cast<int64_t>(space.size());
  Windows windows;
  windows.in = space;
  windows.kernel = kernel;
  TRY_ASSIGN(const Ints* stride, ints_attr(node, Key::Stride, dims));
  TRY_ASSIGN(const Ints* padding, ints_attr(node, Key::Padding, 2 * dims));
  windows.stride = *stride;
  windows.dilation.assign(space.size(), 1);
  if (node.has(Key::Dilation)) {
    TRY_ASSIGN(const Ints* dilation, ints_attr(node, Key::Dilation, dims));
    windows.dilation = *dilation;
  }
  for (size_t i = 0; i < space.size(); ++i) {
    windows.before.push_back((*padding)[2 * i]);
    windows.after.push_back((*padding)[2 * i + 1]);
    auto sane = [](int64_t value, int64_t least) { return value >= least && value <= kMaxWindow; };
    if (!sane(kernel[i], 1) || !sane(windows.stride[i], 1) || !sane(windows.dilation[i], 1) ||
        !sane(windows.before[i], 0) || !sane(windows.after[i], 0) || !sane(space[i], 0))
      return error(
          "{} with kernel {}, stride {}, dilation {}, padding {} over {}: kernel, stride and dilation are at least 1, "
          "padding at "
          "least 0",
          name_of(node.op), to_text(kernel), to_text(windows.stride), to_text(windows.dilation), to_text(*padding),
          to_text(space));
  }
  return windows;
}

Result<void> count_windows(const Node& node, Windows& windows, bool ceil_mode) {
  windows.out.clear();
  for (size_t i = 0; i < windows.in.size(); ++i) {
    int64_t padded = windows.in[i] + windows.before[i] + windows.after[i];
    int64_t reach = windows.dilation[i] * (windows.kernel[i] - 1) + 1;
    int64_t stride = windows.stride[i];
    // Rounded up, a window may reach past the end, as far as one that begins a stride before it.
    int64_t spare = padded - reach + (ceil_mode ? stride - 1 : 0);
    if (spare < 0)
      return error("{} has a window of {} in a padded input of {} (kernel {}, dilation {}, input {})", name_of(node.op),
                   reach, padded, to_text(windows.kernel), to_text(windows.dilation), to_text(windows.in));
    int64_t out = spare / stride + 1;
    if (ceil_mode && (out - 1) * stride >= windows.in[i] + windows.before[i]) --out;
    windows.out.push_back(out);
  }
  return {};
}

}  // namespace swoop
