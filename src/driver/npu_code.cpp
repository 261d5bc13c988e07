#include "driver/npu_code.h"

#include "npu/npu.h"
#include "run/run.h"

namespace swoop {

Result<NpuProgram> npu_code(const Buffer& tosa, const NpuTarget& target, const CompileOptions& options,
                            const std::string& region) {
  TRY_ASSIGN(NpuProgram program, compile_npu(tosa, target, options.npu, region));
  if (options.npu.optimise == Optimise::Performance)
    (void)keep_weights(program, options.sram_with_weights);  // a stream that it cannot follow stays as it is
  return program;
}

}  // namespace swoop
