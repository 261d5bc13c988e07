#include "driver/npu_code.h"

#include <utility>

#include "npu/npu.h"
#include "run/run.h"

namespace swoop {

Result<NpuProgram> npu_code(const Buffer& tosa, const NpuTarget& target, const CompileOptions& options,
                            const std::string& region) {
  TRY_ASSIGN(NpuProgram program, compile_npu(tosa, target, options.npu, region));
  if (options.npu.optimise != Optimise::Performance) return program;
  // A stream that they cannot follow stays as it is, and so does one that becomes no faster.
  NpuProgram faster = program;
  (void)keep_weights(faster, options.sram_with_weights);
  (void)prefetch_weights(faster, options.gates.max_sram);
  return std::move(faster.estimates->total_cycles < program.estimates->total_cycles ? faster : program);
}

}  // namespace swoop
