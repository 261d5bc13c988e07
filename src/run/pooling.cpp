// NPU_OP_POOL: maximum, average, sum over channels; on the U85 also minimum, plain sum, argmax and no pooling at all.
#include <algorithm>
#include <bit>
#include <limits>

#include "run/accumulate.h"
#include "run/window.h"
#include "support/clones.h"
#include "support/parallel.h"

namespace swoop::ethos {

namespace {

enum class Pool : uint32_t { Max, Average, ReduceSum, Sum, None, Min, ArgmaxX, ArgmaxY };

// sum / count as TOSA divides in AVG_POOL2D: multiply by a reciprocal of 31 bits and round.
int64_t divide(int64_t sum, int count) {
  const int k = std::bit_width(static_cast<uint32_t>(count - 1));
  const int64_t multiplier = ((((int64_t{1} << 30) + 1) << k) / count);
  return scale_and_round(sum, static_cast<uint32_t>(multiplier), 30 + k, Rounding::Natural);
}

// Taps [first, last) of a window that begins at `start`, as far as they are in [low, high).
void valid_taps(int start, int taps, int dilation, int low, int high, int& first, int& last) {
  first = start >= low ? 0 : (low - start + dilation - 1) / dilation;
  last = start >= high ? 0 : std::min(taps, (high - start + dilation - 1) / dilation);
  if (last < first) last = first;
}

// One output pixel, all channels; the number of taps that are not padding.
SWOOP_CLONES int pool_window(Pool mode, const Window& window, const PaddedInput<int32_t>& input, int y, int x,
                             std::vector<int64_t>& sums) {
  const int top = y * window.stride_y, left = x * window.stride_x, c = window.output.c;
  int y0, y1, x0, x1;
  valid_taps(top, window.kernel_h, window.dilation_y, input.row_first, input.row_last, y0, y1);
  valid_taps(left, window.kernel_w, window.dilation_x, input.column_first, input.column_last, x0, x1);
  const bool largest = mode == Pool::Max || mode == Pool::ArgmaxX || mode == Pool::ArgmaxY;
  std::fill(sums.begin(), sums.end(), largest ? INT64_MIN : mode == Pool::Min ? INT64_MAX : 0);
  int64_t* sum = sums.data();
  for (int ky = y0; ky < y1; ++ky)
    for (int kx = x0; kx < x1; ++kx) {
      const int32_t* from = input.at(top + ky * window.dilation_y, left + kx * window.dilation_x);
      switch (mode) {
        case Pool::Max:
          for (int i = 0; i < c; ++i) sum[i] = std::max<int64_t>(sum[i], from[i]);
          break;
        case Pool::Min:
          for (int i = 0; i < c; ++i) sum[i] = std::min<int64_t>(sum[i], from[i]);
          break;
        case Pool::ReduceSum:
          for (int i = 0; i < input.c; ++i) sum[0] += from[i];
          break;
        case Pool::ArgmaxX:
        case Pool::ArgmaxY: {
          // Position above value: the largest value wins, the first of equals. The output scale of 2^-16 keeps the
          // position.
          const int64_t position = mode == Pool::ArgmaxX ? kx : ky;
          for (int i = 0; i < c; ++i)
            if (sum[i] == INT64_MIN || from[i] > static_cast<int16_t>(sum[i] & 0xffff))
              sum[i] = position * 65536 + static_cast<uint16_t>(from[i]);
          break;
        }
        case Pool::Average:
        case Pool::Sum:
        case Pool::None:
          for (int i = 0; i < c; ++i) sum[i] += from[i];
          break;
      }
    }
  return (y1 - y0) * (x1 - x0);
}

SWOOP_CLONES int64_t sum_of(const int32_t* values, int64_t count) {
  int64_t sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += values[i];
  return sum;
}

// The sums over channels of products that another operation left in memory (matrix products of the U55): read once, so
// a part that fits into the cache is read and added up at a time.
Result<void> sum_channels(Machine& machine, const Window& window, const FeatureMap& ifm, const OutputStage& stage) {
  const int step = static_cast<int>(std::max<int64_t>(1, kStripElements / window.input_depth));
  const int h = window.output.h, w = window.output.w, c = window.input_depth;
  std::vector<int32_t> part(static_cast<size_t>(step) * static_cast<size_t>(c));
  std::vector<int32_t> values(static_cast<size_t>(window.output.elements()));
  for (int y = 0; y < h; ++y)
    for (int x = 0; x < w; x += step) {
      const int width = std::min(step, w - x);
      TRY(load_feature_map(machine.memory, from_pixel(ifm, y, x), {1, width, c}, ifm.zero_point, part.data(),
                           int64_t{width} * c, c, "The input"));
      for (int i = 0; i < width; ++i)
        values[static_cast<size_t>(int64_t{y} * w + x + i)] = stage.finish(sum_of(part.data() + int64_t{i} * c, c), 0);
    }
  return write_output(machine, stage, std::move(values));
}

}  // namespace

Result<void> run_pooling(Machine& machine, uint32_t mode_bits) {
  const Pool mode = static_cast<Pool>(mode_bits);
  if (mode > by_encoding(machine.encoding(), Pool::ReduceSum, Pool::ArgmaxY))
    return error("NPU_OP_POOL names mode {}, which the core does not have.", mode_bits);
  TRY_ASSIGN(Window window, read_window(machine));
  window.deep = mode == Pool::ReduceSum;
  TRY_ASSIGN(OutputStage stage, read_output_stage(machine));
  TRY_ASSIGN(Accumulators accumulators, read_accumulators(machine, stage));
  if (stage.per_channel && !stage.discard) {
    TRY_ASSIGN(stage.channels, read_channel_scales(machine, window.output.c, accumulators.wide));
  }
  const int c = window.output.c, w = window.output.w;
  if (mode == Pool::None) {  // the accumulators as they are
    if (!accumulators.seeded) return error("NPU_OP_POOL without pooling has nothing to start from.");
    if (machine.wants_summary) machine.summary = fmt::format("accumulators -> {}", describe(stage.map, stage.shape));
    return finish_accumulators(machine, stage, std::move(accumulators));
  }
  TRY_ASSIGN(FeatureMap ifm, read_feature_map(machine.registers, machine.encoding(), kIfmRegisters));
  if (ifm.type.bytes > 4) return error("The pooling's input has 64-bit elements.");
  if (mode == Pool::ReduceSum ? window.kernel_h * window.kernel_w != 1 || c != 1 : window.input_depth != c)
    return error("The pooling of {} channels into {} with a {} x {} kernel is not known.", window.input_depth, c,
                 window.kernel_h, window.kernel_w);
  TRY(machine.spend(4 * static_cast<uint64_t>(window.output.h) * static_cast<uint64_t>(w) *
                    static_cast<uint64_t>(window.kernel_h) * static_cast<uint64_t>(window.kernel_w) *
                    static_cast<uint64_t>(window.input_depth)));
  const bool in_strips = mode == Pool::ReduceSum && accumulators.plain() && !window.padded() &&
                         window.upscale == Upscale::None && window.stride_y == 1 && window.stride_x == 1 &&
                         in_one_tile(ifm, {window.output.h, w, window.input_depth});
  auto loaded = in_strips ? open_window<int32_t>(machine, window, ifm)
                          : load_window<int32_t>(machine, window, ifm, ifm.zero_point, 0);
  if (!loaded) return loaded.error();
  const PaddedInput<int32_t>& input = *loaded;
  if (machine.wants_summary)
    machine.summary = fmt::format("mode {} {} -> {} kernel {}x{} stride {}x{}", mode_bits,
                                  describe(ifm, {input.h, input.w, input.c}), describe(stage.map, stage.shape),
                                  window.kernel_h, window.kernel_w, window.stride_y, window.stride_x);

  if (machine.rehearsal) return finish_accumulators(machine, stage, std::move(accumulators));
  if (in_strips) return sum_channels(machine, window, ifm, stage);
  // The U55 divides by the taps that are not padding only when there is padding; otherwise the scale register holds the
  // reciprocal.
  const bool divides = mode == Pool::Average && by_encoding(machine.encoding(), window.padded(), true);
  const bool plain = accumulators.plain();
  std::vector<int32_t> values(static_cast<size_t>(window.output.elements()));
  const int64_t row_work = std::max<int64_t>(1, int64_t{w} * c * window.kernel_h * window.kernel_w);
  parallel_for(static_cast<size_t>(window.output.h), static_cast<size_t>(1 + (1 << 16) / row_work),
               [&](size_t first_row, size_t last_row) {
                 std::vector<int64_t> sums(static_cast<size_t>(c));
                 for (size_t row = first_row; row < last_row; ++row)
                   for (int x = 0; x < w; ++x) {
                     const int count = pool_window(mode, window, input, static_cast<int>(row), x, sums);
                     const int64_t at = (static_cast<int64_t>(row) * w + x) * c;
                     if (count == 0) std::ranges::fill(sums, 0);
                     if (divides && count > 0)
                       for (int64_t& sum : sums) sum = divide(sum, count);
                     if (plain && !stage.per_channel) {
                       stage.finish_same_scale(sums.data(), values.data() + at, c);
                       continue;
                     }
                     for (int i = 0; i < c; ++i) {
                       const int64_t sum = sums[static_cast<size_t>(i)];
                       if (plain)
                         values[static_cast<size_t>(at + i)] = stage.finish(sum, i);
                       else
                         accumulators.add(at + i, sum);
                     }
                   }
               });
  if (!plain) return finish_accumulators(machine, stage, std::move(accumulators));
  return write_output(machine, stage, std::move(values));
}

}  // namespace swoop::ethos
