#include "run/window.h"

#include <algorithm>

namespace swoop::ethos {

Result<Window> read_window(Machine& machine) {
  Registers& r = machine.registers;
  Window window;
  uint32_t stride = r.parameter(Cmd::KERNEL_STRIDE);
  auto bit = [&](int at) { return static_cast<int>(stride >> at & 1); };
  window.stride_x = 1 + bit(0) + 2 * bit(6);
  window.stride_y = 1 + bit(1) + 2 * bit(9);
  window.part_kernel_first = bit(2) != 0;
  window.dilation_x = 1 + bit(3);
  window.dilation_y = 1 + bit(4);
  if (bit(5) != 0) return error("NPU_SET_KERNEL_STRIDE asks for 4x4 kernel decomposition, which nobody emits.");
  window.kernel_h = static_cast<int>(r.parameter(Cmd::KERNEL_HEIGHT_M1)) / window.dilation_y + 1;
  window.kernel_w = static_cast<int>(r.parameter(Cmd::KERNEL_WIDTH_M1)) / window.dilation_x + 1;
  window.top = static_cast<int>(r.parameter(Cmd::IFM_PAD_TOP));
  window.left = static_cast<int>(r.parameter(Cmd::IFM_PAD_LEFT));
  window.bottom = static_cast<int>(r.parameter(Cmd::IFM_PAD_BOTTOM));
  window.right = static_cast<int>(r.parameter(Cmd::IFM_PAD_RIGHT));
  uint32_t upscale = r.bits(Cmd::IFM_UPSCALE, 0, 2);
  if (upscale > 2) return error("NPU_SET_IFM_UPSCALE names mode {}, which is not known.", upscale);
  window.upscale = static_cast<Upscale>(upscale);
  window.output = {static_cast<int>(r.parameter(Cmd::OFM_HEIGHT_M1)) + 1,
                   static_cast<int>(r.parameter(Cmd::OFM_WIDTH_M1)) + 1,
                   static_cast<int>(r.parameter(Cmd::OFM_DEPTH_M1)) + 1};
  window.input_depth = static_cast<int>(r.parameter(Cmd::IFM_DEPTH_M1)) + 1;
  TRY(machine.check_registers());
  // A window may be in the padding alone (regor splits transposed convolutions into such pieces), but no further out.
  if (window.padded_h() < window.top + window.bottom || window.padded_w() < window.left + window.right)
    return error("The padding ({}, {}, {}, {}) is larger than the input with it.", window.top, window.left,
                 window.bottom, window.right);
  int64_t input = int64_t{window.padded_h()} * window.padded_w();
  if (input > kMaxElements || input * window.input_depth > kMaxElements || window.output.elements() > kMaxElements ||
      int64_t{window.output.h} * window.output.w > kMaxElements)
    return error("The operation's feature maps ({} x {} x {} to {} x {} x {}) are too large.", window.padded_h(),
                 window.padded_w(), window.input_depth, window.output.h, window.output.w, window.output.c);
  return window;
}

namespace {

// What is in memory of an input. Upscaling doubles both directions: each element twice, or with zeros between.
template <typename T>
Shape3 stored_shape(const Window& window, const PaddedInput<T>& input) {
  const int factor = window.upscale != Upscale::None ? 2 : 1;
  return {(input.row_last - input.row_first + factor - 1) / factor,
          (input.column_last - input.column_first + factor - 1) / factor, input.c};
}

}  // namespace

template <typename T>
Result<PaddedInput<T>> open_window(Machine& machine, const Window& window, const FeatureMap& map) {
  PaddedInput<T> input;
  input.h = window.padded_h();
  input.w = window.padded_w();
  input.c = window.input_depth;
  input.row_first = window.top;
  input.row_last = input.h - window.bottom;
  input.column_first = window.left;
  input.column_last = input.w - window.right;
  TRY(machine.spend_elements(int64_t{input.h} * input.w * input.c + window.output.elements()));
  const Shape3 small = stored_shape(window, input);
  if (small.h == 0 || small.w == 0) return input;
  const bool upscaled = window.upscale != Upscale::None;
  machine.blocks.y = {window.stride_y, window.reach_y(), window.top, upscaled};
  machine.blocks.x = {window.stride_x, window.reach_x(), window.left, upscaled};
  machine.blocks.reads.push_back({map, small, window.deep ? ReadOrder::DeepWindow : ReadOrder::Window, "The input"});
  if (machine.rehearsal) TRY(touch_read(machine.memory, map, small, "The input"));
  return input;
}

template <typename T>
Result<PaddedInput<T>> load_window(Machine& machine, const Window& window, const FeatureMap& map, int subtract,
                                   T fill) {
  TRY_ASSIGN(PaddedInput<T> input, open_window<T>(machine, window, map));
  if (machine.rehearsal) return input;
  input.values.assign(static_cast<size_t>(int64_t{input.h} * input.w * input.c), fill);
  const int inner_h = input.row_last - input.row_first, inner_w = input.column_last - input.column_first;
  if (inner_h == 0 || inner_w == 0) return input;
  const Shape3 small = stored_shape(window, input);
  const int64_t row = int64_t{input.w} * input.c;
  T* inner = input.values.data() + input.row_first * row + int64_t{input.column_first} * input.c;
  if (window.upscale == Upscale::None) {
    TRY(load_feature_map(machine.memory, map, small, subtract, inner, row, input.c, "The input"));
    return input;
  }
  std::vector<T> values(static_cast<size_t>(small.elements()));
  TRY(load_feature_map(machine.memory, map, small, subtract, values.data(), int64_t{small.w} * small.c, small.c,
                       "The input"));
  for (int y = 0; y < inner_h; ++y)
    for (int x = 0; x < inner_w; ++x) {
      T* to = inner + y * row + int64_t{x} * input.c;
      if (window.upscale == Upscale::Zeros && (y % 2 != 0 || x % 2 != 0))
        std::fill_n(to, input.c, T{0});
      else
        std::copy_n(values.data() + (int64_t{y / 2} * small.w + x / 2) * small.c, input.c, to);
    }
  return input;
}

template Result<PaddedInput<int32_t>> open_window(Machine&, const Window&, const FeatureMap&);
template Result<PaddedInput<int16_t>> load_window(Machine&, const Window&, const FeatureMap&, int, int16_t);
template Result<PaddedInput<int32_t>> load_window(Machine&, const Window&, const FeatureMap&, int, int32_t);

}  // namespace swoop::ethos
