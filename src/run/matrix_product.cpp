// NPU_OP_CONV with the second input as weights (U85): output[y][x][o] = sum over c of input[y][x][c] * second[o][c].
#include "run/accumulate.h"
#include "run/window.h"
#include "support/parallel.h"

namespace swoop::ethos {

Result<void> run_matrix_product(Machine& machine) {
  TRY_ASSIGN(Window window, read_window(machine));
  TRY_ASSIGN(FeatureMap ifm, read_feature_map(machine.registers, machine.config.family, kIfmRegisters));
  TRY_ASSIGN(FeatureMap second, read_feature_map(machine.registers, machine.config.family, kIfm2Registers));
  TRY_ASSIGN(OutputStage stage, read_output_stage(machine));
  TRY_ASSIGN(Accumulators accumulators, read_accumulators(machine, stage));
  if (stage.per_channel) return error("The matrix product has a scale per channel.");
  if (window.kernel_h * window.kernel_w != 1) return error("The matrix product has a {} x {} kernel.", window.kernel_h, window.kernel_w);
  if (ifm.type.bytes > 2 || second.type.bytes > 2)
    return error("The matrix product has {}- and {}-byte inputs.", ifm.type.bytes, second.type.bytes);
  const int depth = window.input_depth, outputs = window.output.c, w = window.output.w;
  if (int64_t{outputs} * depth > kMaxElements) return error("The second input is too large.");
  TRY(machine.spend(static_cast<uint64_t>(window.output.elements()) * static_cast<uint64_t>(depth)));
  TRY_ASSIGN(PaddedInput<int32_t> input, load_window<int32_t>(machine, window, ifm, ifm.zero_point, 0));
  std::vector<int32_t> rows(static_cast<size_t>(outputs) * static_cast<size_t>(depth));
  TRY(load_feature_map(machine.memory, second, {1, outputs, depth}, second.zero_point, rows.data(), int64_t{outputs} * depth, depth,
                       "The second input"));
  if (machine.wants_summary)
    machine.summary = fmt::format("{} x {} -> {}", describe(ifm, {input.h, input.w, input.c}), describe(second, {1, outputs, depth}),
                                  describe(stage.map, stage.shape));

  std::vector<int32_t> values(static_cast<size_t>(window.output.elements()));
  const bool plain = accumulators.plain();
  parallel_for(static_cast<size_t>(window.output.h) * static_cast<size_t>(w), 8, [&](size_t first, size_t last) {
    for (size_t pixel = first; pixel < last; ++pixel) {
      const int32_t* in = input.at(static_cast<int>(pixel) / w * window.stride_y, static_cast<int>(pixel) % w * window.stride_x);
      for (int o = 0; o < outputs; ++o) {
        const int32_t* weight = rows.data() + int64_t{o} * depth;
        int64_t sum = 0;
        for (int c = 0; c < depth; ++c) sum += int64_t{in[c]} * weight[c];
        const int64_t at = static_cast<int64_t>(pixel) * outputs + o;
        if (plain) values[static_cast<size_t>(at)] = stage.finish(sum, o);
        else accumulators.add(at, sum);
      }
    }
  });
  if (!plain) return finish_accumulators(machine, stage, std::move(accumulators));
  return write_output(machine, stage, std::move(values));
}

}  // namespace swoop::ethos
