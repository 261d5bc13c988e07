// NPU_OP_CONV with the second input as weights (U85): output[y][x][o] = sum over c of input[y][x][c] * second[o][c].
#include <algorithm>

#include "run/accumulate.h"
#include "run/gemm.h"
#include "run/window.h"
#include "support/parallel.h"

namespace swoop::ethos {

Result<void> run_matrix_product(Machine& machine) {
  TRY_ASSIGN(Window window, read_window(machine));
  window.deep = true;
  TRY_ASSIGN(FeatureMap ifm, read_feature_map(machine.registers, machine.encoding(), kIfmRegisters));
  TRY_ASSIGN(FeatureMap second, read_feature_map(machine.registers, machine.encoding(), kIfm2Registers));
  TRY_ASSIGN(OutputStage stage, read_output_stage(machine));
  TRY_ASSIGN(Accumulators accumulators, read_accumulators(machine, stage));
  if (stage.per_channel) return error("The matrix product has a scale per channel.");
  if (window.kernel_h * window.kernel_w != 1)
    return error("The matrix product has a {} x {} kernel.", window.kernel_h, window.kernel_w);
  if (ifm.type.bytes > 2 || second.type.bytes > 2)
    return error("The matrix product has {}- and {}-byte inputs.", ifm.type.bytes, second.type.bytes);
  const int depth = window.input_depth, outputs = window.output.c, w = window.output.w;
  if (int64_t{outputs} * depth > kMaxElements) return error("The second input is too large.");
  TRY(machine.spend(static_cast<uint64_t>(window.output.elements()) * static_cast<uint64_t>(depth)));
  TRY_ASSIGN(PaddedInput<int32_t> input, load_window<int32_t>(machine, window, ifm, ifm.zero_point, 0));
  machine.blocks.reads.push_back({second, {1, outputs, depth}, ReadOrder::Rows, "The second input"});
  if (machine.rehearsal) {
    TRY(touch_read(machine.memory, second, {1, outputs, depth}, "The second input"));
    return finish_accumulators(machine, stage, std::move(accumulators));
  }
  std::vector<int32_t> rows(static_cast<size_t>(outputs) * static_cast<size_t>(depth));
  TRY(load_feature_map(machine.memory, second, {1, outputs, depth}, second.zero_point, rows.data(),
                       int64_t{outputs} * depth, depth, "The second input"));
  if (machine.wants_summary)
    machine.summary = fmt::format("{} x {} -> {}", describe(ifm, {input.h, input.w, input.c}),
                                  describe(second, {1, outputs, depth}), describe(stage.map, stage.shape));

  // 8-bit operands fit the convolution's kernel; products of 16-bit ones need wider sums.
  const bool narrow = ifm.type.bytes == 1 && second.type.bytes == 1;
  const int depth_even = depth + depth % 2, panels = (outputs + kPanel - 1) / kPanel;
  std::vector<int16_t> packed;
  if (narrow) packed = pack_weights(std::vector<int16_t>(rows.begin(), rows.end()).data(), outputs, depth);

  std::vector<int32_t> values(static_cast<size_t>(window.output.elements()));
  const bool plain = accumulators.plain();
  const auto grain = static_cast<size_t>(8 + (1 << 18) / std::max<int64_t>(1, int64_t{outputs} * depth));
  parallel_for(static_cast<size_t>(window.output.h) * static_cast<size_t>(w), grain, [&](size_t first, size_t last) {
    constexpr size_t kRows = 4;  // pixels at a time
    std::vector<int16_t> taps(kRows * static_cast<size_t>(depth_even));
    std::vector<int32_t> products(kRows * static_cast<size_t>(panels * kPanel));
    std::vector<int64_t> sums(static_cast<size_t>(outputs));
    for (size_t start = first; start < last; start += kRows) {
      const size_t count = std::min(kRows, last - start);
      auto pixel_at = [&](size_t pixel) {
        return input.at(static_cast<int>(pixel) / w * window.stride_y, static_cast<int>(pixel) % w * window.stride_x);
      };
      if (narrow) {
        for (size_t r = 0; r < count; ++r) {
          const int32_t* in = pixel_at(start + r);
          std::copy(in, in + depth, taps.begin() + static_cast<std::ptrdiff_t>(r * static_cast<size_t>(depth_even)));
        }
        multiply(taps.data(), depth_even, static_cast<int>(count), packed.data(),
                 {0, panels, depth_even / 2, 0, depth_even / 2}, products.data(), panels * kPanel);
      }
      for (size_t r = 0; r < count; ++r) {
        if (narrow) {
          std::copy_n(products.begin() + static_cast<std::ptrdiff_t>(r * static_cast<size_t>(panels * kPanel)), outputs,
                      sums.begin());
        } else {
          const int32_t* in = pixel_at(start + r);
          for (int o = 0; o < outputs; ++o) {
            const int32_t* weight = rows.data() + int64_t{o} * depth;
            int64_t sum = 0;
            for (int c = 0; c < depth; ++c) sum += int64_t{in[c]} * weight[c];
            sums[static_cast<size_t>(o)] = sum;
          }
        }
        const int64_t at = static_cast<int64_t>(start + r) * outputs;
        if (plain)
          stage.finish_same_scale(sums.data(), values.data() + at, outputs);
        else
          for (int o = 0; o < outputs; ++o) accumulators.add(at + o, sums[static_cast<size_t>(o)]);
      }
    }
  });
  if (!plain) return finish_accumulators(machine, stage, std::move(accumulators));
  return write_output(machine, stage, std::move(values));
}

}  // namespace swoop::ethos
