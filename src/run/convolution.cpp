// NPU_OP_CONV and NPU_OP_DEPTHWISE.
#include <algorithm>
#include <utility>

#include "run/accumulate.h"
#include "run/gemm.h"
#include "run/output.h"
#include "run/weights.h"
#include "support/clones.h"
#include "support/parallel.h"

namespace swoop::ethos {

namespace {

// Output pixels [first, last) of row y: what one thread computes at a time. A layer on vectors has one long row, so
// rows are no measure; and the sums of a strip stay in the cache.
struct Strip {
  int y, first, last;

  int width() const { return last - first; }
};
constexpr int kStripWidth = 64;

// `depth`: products per output element.
template <typename Body>
void for_each_strip(const Window& window, int depth, const Body& body) {
  constexpr int64_t kWorthAThread = 1 << 18;  // products: waking one takes as long
  constexpr int64_t kToFinish = 32;           // products that take as long as what follows a sum
  const int across = (window.output.w + kStripWidth - 1) / kStripWidth;
  const int64_t work = int64_t{std::min(kStripWidth, window.output.w)} * window.output.c * (depth + kToFinish);
  const auto grain = static_cast<size_t>(1 + kWorthAThread / std::max<int64_t>(1, work));
  parallel_for(static_cast<size_t>(window.output.h) * static_cast<size_t>(across), grain, [&](size_t from, size_t to) {
    for (size_t i = from; i < to; ++i) {
      const int y = static_cast<int>(i) / across, first = static_cast<int>(i) % across * kStripWidth;
      body(Strip{y, first, std::min(first + kStripWidth, window.output.w)});
    }
  });
}

// The taps of the strip's pixels, one after the other: [pixel][tap][channel], depth rounded up to even.
void gather_taps(const Window& window, const PaddedInput<int16_t>& input, const Strip& strip, int depth_even,
                 int16_t* out) {
  const size_t run = static_cast<size_t>(input.c);
  for (int x = strip.first; x < strip.last; ++x, out += depth_even) {
    int16_t* to = out;
    for (int ky = 0; ky < window.kernel_h; ++ky) {
      const int16_t* row = input.at(strip.y * window.stride_y + ky * window.dilation_y, x * window.stride_x);
      if (window.dilation_x == 1) {
        std::copy_n(row, run * static_cast<size_t>(window.kernel_w), to);
        to += run * static_cast<size_t>(window.kernel_w);
      } else {
        for (int kx = 0; kx < window.kernel_w; ++kx, to += run)
          std::copy_n(row + kx * window.dilation_x * input.c, run, to);
      }
    }
    if (to < out + depth_even) *to = 0;
  }
}

// Sums for all output pixels. wide: 16-bit inputs, whose sums do not fit 32 bits; they are added up in pieces that do.
template <typename Consume>
void convolve(const Window& window, const PaddedInput<int16_t>& input, const Weights& weights, bool wide,
              const Consume& consume) {
  const int depth = weights.kernel_h * weights.kernel_w * weights.in, depth_even = depth + depth % 2;
  const int panels = (window.output.c + kPanel - 1) / kPanel;
  const int64_t out_stride = int64_t{panels} * kPanel;
  const bool direct = weights.kernel_h == 1 && weights.kernel_w == 1 && depth % 2 == 0;
  constexpr int kPairsThatFit = 64;  // 128 products below 2^23 stay below 2^31
  const int step = wide ? kPairsThatFit : depth_even / 2;
  for_each_strip(window, depth, [&](const Strip& strip) {
    const auto width = static_cast<size_t>(strip.width());
    std::vector<int16_t> taps(direct ? 0 : width * static_cast<size_t>(depth_even));
    std::vector<int32_t> sums(width * static_cast<size_t>(out_stride));
    std::vector<int64_t> totals(wide ? sums.size() : 0);
    const int16_t* rows = taps.data();
    int64_t row_stride = depth_even;
    if (direct) {
      rows = input.at(strip.y * window.stride_y, strip.first * window.stride_x);
      row_stride = int64_t{window.stride_x} * input.c;
    } else {
      gather_taps(window, input, strip, depth_even, taps.data());
    }
    for (int pair = 0; pair < depth_even / 2; pair += step) {
      Panels part{0, panels, depth_even / 2, pair, std::min(pair + step, depth_even / 2)};
      multiply(rows, row_stride, strip.width(), weights.packed.data(), part, sums.data(), out_stride);
      if (wide)
        for (size_t i = 0; i < sums.size(); ++i) totals[i] += sums[i];
    }
    if (wide)
      consume(strip, totals.data(), out_stride);
    else
      consume(strip, sums.data(), out_stride);
  });
}

SWOOP_CLONES void add_products(const int16_t* in, const int16_t* weights, int count, int32_t* to) {
  for (int i = 0; i < count; ++i) to[i] += in[i] * weights[i];
}

template <typename Consume>
void convolve_depthwise(const Window& window, const PaddedInput<int16_t>& input, const Weights& weights,
                        const Consume& consume) {
  const int taps = weights.kernel_h * weights.kernel_w, c = window.output.c;
  std::vector<int16_t> by_tap(static_cast<size_t>(taps) * static_cast<size_t>(c));  // [tap][channel]
  for (int o = 0; o < c; ++o)
    for (int t = 0; t < taps; ++t)
      by_tap[static_cast<size_t>(t) * static_cast<size_t>(c) + static_cast<size_t>(o)] =
          weights.values[static_cast<size_t>(o) * static_cast<size_t>(taps) + static_cast<size_t>(t)];
  for_each_strip(window, taps, [&](const Strip& strip) {
    constexpr int kTapsThatFit = 128;  // 16-bit inputs: 128 products below 2^23 stay below 2^31
    std::vector<int32_t> sums(static_cast<size_t>(strip.width()) * static_cast<size_t>(c));
    std::vector<int64_t> totals(taps > kTapsThatFit ? sums.size() : 0);
    for (int t0 = 0; t0 < taps; t0 += kTapsThatFit) {
      for (int x = strip.first; x < strip.last; ++x)
        for (int t = t0; t < std::min(taps, t0 + kTapsThatFit); ++t)
          add_products(input.at(strip.y * window.stride_y + t / weights.kernel_w * window.dilation_y,
                                x * window.stride_x + t % weights.kernel_w * window.dilation_x),
                       by_tap.data() + int64_t{t} * c, c, sums.data() + int64_t{x - strip.first} * c);
      for (size_t i = 0; i < totals.size(); ++i) totals[i] += std::exchange(sums[i], 0);
    }
    if (totals.empty()) return consume(strip, sums.data(), c);
    consume(strip, totals.data(), c);
  });
}

}  // namespace

Result<void> run_convolution(Machine& machine, bool depthwise, uint32_t parameter) {
  if (parameter != 0) return run_matrix_product(machine);
  TRY_ASSIGN(Window window, read_window(machine));
  window.deep = !depthwise;
  TRY_ASSIGN(FeatureMap ifm, read_feature_map(machine.registers, machine.encoding(), kIfmRegisters));
  TRY_ASSIGN(OutputStage stage, read_output_stage(machine));
  TRY_ASSIGN(Accumulators accumulators, read_accumulators(machine, stage));
  if (ifm.type.bytes > 2) return error("The convolution's input has {}-byte elements.", ifm.type.bytes);
  if (ifm.type.bytes == 2 && (ifm.zero_point != 0 || !ifm.type.is_signed))
    return error("The convolution's 16-bit input is unsigned or has zero point {}, which nobody emits.",
                 ifm.zero_point);
  if (depthwise && window.input_depth != window.output.c)
    return error("The depthwise convolution has {} input and {} output channels.", window.input_depth, window.output.c);
  const bool emitted = by_encoding(machine.encoding(), depthwise || stage.per_channel, true);
  if (!emitted) return error("The convolution has one scale for all channels, which nobody emits.");
  if (stage.per_channel && !stage.discard) {
    TRY_ASSIGN(stage.channels, read_channel_scales(machine, window.output.c, accumulators.wide));
  }
  TRY(machine.spend(static_cast<uint64_t>(window.output.elements()) *
                    static_cast<uint64_t>(window.kernel_h * window.kernel_w) *
                    static_cast<uint64_t>(depthwise ? 1 : window.input_depth)));
  TRY_ASSIGN(std::shared_ptr<const Weights> weights, read_weights(machine, window, depthwise));
  TRY_ASSIGN(PaddedInput<int16_t> input, load_window<int16_t>(machine, window, ifm, ifm.zero_point, 0));
  if (machine.wants_summary)
    machine.summary = fmt::format("{} -> {} kernel {}x{} stride {}x{}", describe(ifm, {input.h, input.w, input.c}),
                                  describe(stage.map, stage.shape), window.kernel_h, window.kernel_w, window.stride_y,
                                  window.stride_x);

  if (machine.rehearsal) return finish_accumulators(machine, stage, std::move(accumulators));
  input.values.push_back(0);  // the element after the last row that an odd depth may touch
  std::vector<int32_t> values(static_cast<size_t>(window.output.elements()));
  const int c = window.output.c, w = window.output.w;
  const bool plain = accumulators.plain();
  auto consume = [&](const Strip& strip, const auto* sums, int64_t stride) {
    for (int x = strip.first; x < strip.last; ++x) {
      const int64_t at = (int64_t{strip.y} * w + x) * c;
      const auto* from = sums + (x - strip.first) * stride;
      if (!plain) {
        for (int o = 0; o < c; ++o) accumulators.add(at + o, from[o]);
      } else if constexpr (std::is_same_v<std::decay_t<decltype(*sums)>, int32_t>) {
        stage.finish_row(from, values.data() + at, c);
      } else {
        for (int o = 0; o < c; ++o) values[static_cast<size_t>(at + o)] = stage.finish(from[o], o);
      }
    }
  };
  if (depthwise)
    convolve_depthwise(window, input, *weights, consume);
  else
    convolve(window, input, *weights, ifm.type.bytes == 2, consume);
  if (!plain) return finish_accumulators(machine, stage, std::move(accumulators));
  return write_output(machine, stage, std::move(values));
}

}  // namespace swoop::ethos
