#include "driver/npu_code.h"

#include <utility>

#include "npu/npu.h"
#include "run/run.h"
#include "support/memory.h"

namespace swoop {

Result<NpuProgram> npu_code(const Buffer& tosa, const NpuTarget& target, const CompileOptions& options,
                            const std::string& region) {
  return_freed_memory();
  TRY_ASSIGN(NpuProgram program, compile_npu(tosa, target, options.npu, region));
  if (options.npu.optimise != Optimise::Performance) return program;
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
