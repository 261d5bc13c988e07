// The sliding window of convolution, depthwise and pooling: kernel, stride, padding, upscaling; and the input as a
// dense array with its padding around it.
#pragma once

#include "run/machine.h"

namespace swoop::ethos {

enum class Upscale { None, Nearest, Zeros };

struct Window {
  int kernel_h = 1, kernel_w = 1;  // taps
  int dilation_y = 1, dilation_x = 1;
  int stride_y = 1, stride_x = 1;
  int top = 0, left = 0, bottom = 0, right = 0;
  bool part_kernel_first = false;
  bool deep = false;  // each output channel needs all input channels
  Upscale upscale = Upscale::None;
  Shape3 output;  // height, width, depth of the output
  int input_depth = 1;

  int reach_y() const { return (kernel_h - 1) * dilation_y + 1; }
  int reach_x() const { return (kernel_w - 1) * dilation_x + 1; }
  // With padding and after upscaling.
  int padded_h() const { return (output.h - 1) * stride_y + reach_y(); }
  int padded_w() const { return (output.w - 1) * stride_x + reach_x(); }
  bool padded() const { return top + left + bottom + right > 0; }
};

// From the registers. Sizes are checked: padding fits around the input, and both fit kMaxElements.
Result<Window> read_window(Machine& machine);

// The input in height x width x channel order, padding included. Values are element - zero point, padding is `fill`.
template <typename T>
struct PaddedInput {
  int h = 0, w = 0, c = 0;
  int row_first = 0, row_last = 0;  // rows and columns that are not padding
  int column_first = 0, column_last = 0;
  std::vector<T> values;
  const T* at(int y, int x) const { return values.data() + (int64_t{y} * w + x) * c; }
};

// Without the values: the addresses are checked in a rehearsal only.
template <typename T>
Result<PaddedInput<T>> open_window(Machine& machine, const Window& window, const FeatureMap& map);
template <typename T>
Result<PaddedInput<T>> load_window(Machine& machine, const Window& window, const FeatureMap& map, int subtract, T fill);

}  // namespace swoop::ethos
