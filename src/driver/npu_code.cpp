#include "driver/npu_code.h"

#include <utility>

#include "npu/npu.h"
#include "run/run.h"
#include "support/memory.h"

namespace swoop {

namespace {

// What a copy of codes of weights costs, by regor's estimate of two.
Result<CopyCycles> copy_cycles(const NpuTarget& target, const NpuOptions& options) {
  constexpr int kFew = 2, kMany = 12;
  constexpr double kElements = WeightCodes::kGroup * WeightCodes::kGroup;
  double cycles[2] = {};
  for (int rows : {kFew, kMany}) {
    TRY_ASSIGN(const NpuProgram copy, compile_npu(tosa::write(copy_of_groups(rows)), target, options, "copy"));
    cycles[rows == kMany] = static_cast<double>(copy.estimates->layers.at(0).npu_cycles);
  }
  const double element = (cycles[1] - cycles[0]) / (kElements * (kMany - kFew));
  return CopyCycles{cycles[0] - element * kElements * kFew, element};
}

// Products of two computed matrices as convolutions. nullopt: there are none that gain by it, or regor's program is not
// as expected.
std::optional<NpuProgram> code_with_products(const Buffer& tosa, const NpuTarget& target, const NpuOptions& options,
                                             const std::string& region) {
  if (!target.can_write_weights() || !tosa::holds(tosa, tosa::Op::Matmul)) return std::nullopt;
  const Result<tosa::Program> program = tosa::read(tosa);
  std::optional<CopyCycles> cycles;
  for (const bool own_scales : {false, true}) {  // the second where regor has cut a convolution into parts
    const std::optional<ProgramWithProducts> written =
        program ? with_products(*program, target, own_scales) : std::nullopt;
    if (!written) return std::nullopt;
    if (!cycles) {
      Result<CopyCycles> estimated = copy_cycles(target, options);
      if (!estimated) return std::nullopt;
      cycles = *estimated;
    }
    Result<NpuProgram> code = compile_npu(tosa::write(written->program), target, options, region);
    if (!code) return std::nullopt;
    if (!write_computed_weights(*code, written->products, *cycles)) continue;
    code->estimates->products = written->count;
    return std::move(*code);
  }
  return std::nullopt;
}

}  // namespace

Result<NpuProgram> npu_code(const Buffer& tosa, const NpuTarget& target, const CompileOptions& options,
                            const std::string& region) {
  return_freed_memory();
  if (options.plain_stream || options.npu.optimise != Optimise::Performance)
    return compile_npu(tosa, target, options.npu, region);
  std::optional<NpuProgram> with_products = code_with_products(tosa, target, options.npu, region);
  if (!with_products) {
    TRY_ASSIGN(with_products, compile_npu(tosa, target, options.npu, region));
  }
  NpuProgram program = std::move(*with_products);
  // A stream that they cannot follow stays as it is, and so does one that becomes no faster. Neither changes the
  // weights, which are most of a program.
  Buffer weights = std::exchange(program.weights, {});
  NpuProgram before = program;
  program.weights = std::move(weights);
  (void)keep_weights(program, options.sram_with_weights);
  (void)prefetch_weights(program, options.gates.max_sram);
  if (program.estimates->total_cycles < before.estimates->total_cycles) return program;
  before.weights = std::move(program.weights);
  return before;
}

}  // namespace swoop
