#include "driver/npu_code.h"

#include "npu/npu.h"
#include "run/run.h"

namespace swoop {

Result<NpuProgram> npu_code(const Buffer& tosa, const NpuTarget& target, const CompileOptions& options,
                            const std::string& region) {
  TRY_ASSIGN(NpuProgram program, compile_npu(tosa, target, options.npu, region));
  if (options.npu.optimise == Optimise::Performance) {  // a stream that they cannot follow stays as it is
    (void)keep_weights(program, options.sram_with_weights);
    (void)prefetch_weights(program, options.gates.max_sram.value_or(0));
  }
  return program;
}

}  // namespace swoop
