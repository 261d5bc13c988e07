// Constant convolution weights that rules take apart and put together, as codes in the order [O, H, W, I].
#pragma once

#include <array>
#include <optional>

#include "legalize/compose.h"

namespace swoop {

struct Kernel {
  int64_t outputs = 0, height = 0, width = 0, inputs = 0;  // inputs per group
  std::vector<int64_t> codes;
  Type type;  // of the weights it was read from; its quantization is per tensor or along O

  // All positions at the real zero.
  Kernel(int64_t o, int64_t h, int64_t w, int64_t i, Type like);
  int64_t& at(int64_t o, int64_t y, int64_t x, int64_t i) {
    return codes[static_cast<size_t>(((o * height + y) * width + x) * inputs + i)];
  }
  int64_t at(int64_t o, int64_t y, int64_t x, int64_t i) const {
    return codes[static_cast<size_t>(((o * height + y) * width + x) * inputs + i)];
  }
  // In a larger window: what was at (y, x) is at (y, x) times `step`, and zeros are elsewhere.
  Kernel spread(int64_t h, int64_t w, std::array<int64_t, 2> step = {1, 1}) const;
};

// The weights [O,I,H,W] of a channels-first conv with two spatial dims, or [I,O,H,W] of a transposed one with one
// group; none when they are not constants quantized per tensor or along O.
std::optional<Kernel> kernel_of(const Rewriter& rw, const Node& n);

// What stands for one in weights that move codes of `moved` and leave them as they are.
struct One {
  int8_t code;
  Type weight;
};
One one_for(const Type& moved);

// With the outputs' scales repeated when there are several times as many outputs as scales.
ValueId weights(Rewriter& rw, const Kernel& kernel, std::string_view name);
ValueId weights_first(Rewriter& rw, const Kernel& kernel, std::string_view name);  // [O,I,H,W]

// `times` copies of a bias, one after the other.
ValueId repeated_bias(Rewriter& rw, ValueId bias, int64_t times);

// A plain convolution, channels last.
struct Placement {
  std::array<int64_t, 2> stride = {1, 1};
  std::array<int64_t, 4> padding = {0, 0, 0, 0};  // top, bottom, left, right
  int64_t groups = 1;
};
ValueId conv_last(Rewriter& rw, ValueId x, ValueId weights, ValueId bias, const Placement& place, Type out,
                  const Node* clamp_from = nullptr);

// A pool (Op::AvgPool or Op::MaxPool) without padding or dilation, channels first.
ValueId plain_pool(Rewriter& rw, Op pool, ValueId x, Ints kernel, Ints stride, Type out);

// Ones for every channel, [C,H,W,1], standing for 1 / divisor: what a depthwise convolution sums with.
ValueId ones(Rewriter& rw, int64_t channels, int64_t height, int64_t width, double divisor);

// The type of a mean of `count` values along the way. Of 8 bits: the finest steps in which 16 bits hold every sum of up
// to 128 values exactly; of more values, 1/128 of a step.
Type mean_between(const Type& from, int64_t count = 1);

inline ValueId to_last(Rewriter& rw, ValueId x) { return transpose(rw, x, {0, 2, 3, 1}); }
inline ValueId to_first(Rewriter& rw, ValueId x) { return transpose(rw, x, {0, 3, 1, 2}); }

// The attributes of a window on three spatial dims, for the two after the first.
Attrs attrs_on_planes(const Node& n);

// Appends zeros (reals) or cuts off the end, so that `axis` has the given size.
ValueId fit_axis(Rewriter& rw, ValueId x, int64_t axis, int64_t size);
ValueId pad_axis(Rewriter& rw, ValueId x, int64_t axis, int64_t before, int64_t after, double value = 0);

// A channels-first window with a stride that is too large for one op  ->  stride 1, then every s-th result. One axis
// per call; false when both strides fit.
bool step_window(Rewriter& rw, const Node& n, const Ints& kernel);

}  // namespace swoop
