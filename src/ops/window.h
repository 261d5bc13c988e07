// Sliding windows (convolutions and pools) and the two layouts: where batch, channels and space are in a shape.
#pragma once

#include "ops/infer.h"

namespace swoop {

// A shape seen through its layout: [N,C,s...], or [N,s...,C] with channels_last.
struct Layout {
  bool channels_last = false;
  int64_t batch = 0;
  int64_t channels = 0;
  Shape space;
};
Result<Layout> layout_of(const Node& node, const Shape& shape, int min_space, int max_space);
Shape shape_of(const Layout& layout);
int channel_axis(const Node& node, const Shape& shape);  // 1, or the last with channels_last

struct Windows {
  Shape kernel, stride, dilation;
  Shape before, after;  // padding
  Shape in, out;
};

// stride, padding and dilation (1 when the node has none), checked.
Result<Windows> windows_of(const Node& node, const Shape& space, const Shape& kernel);
// Fills `out` of a window that slides over padded input; ceil_mode as PyTorch has it: no window starts beyond the input
// and left padding.
Result<void> count_windows(const Node& node, Windows& windows, bool ceil_mode);

}  // namespace swoop
