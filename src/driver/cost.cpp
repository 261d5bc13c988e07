#include "driver/cost.h"

#include "lower/lower.h"
#include "npu/npu.h"
#include "support/check.h"

namespace swoop {

Result<Cost> npu_cost(const Graph& quantized, const Pipeline& pipeline) {
  Graph graph = clone(quantized);
  Pipeline rest{.options = pipeline.options, .target = pipeline.target};
  TRY(run_steps(graph, rest, "ports", "partition"));
  set_check_context("quantize");  // which goes on
  double cycles = 0;
  for (const auto& region : rest.partition.regions) {
    TRY_ASSIGN(tosa::Program program, lower(*region));
    avoid_defects(program, pipeline.target);
    Result<NpuProgram> code = compile_npu(tosa::write(program), pipeline.target, pipeline.options.npu, region->name);
    if (!code) return Cost{.why_not = code.error().message};
    CHECK(code->estimates, "regor gave no estimates for {}", region->name);
    cycles += static_cast<double>(code->estimates->total_cycles);
  }
  return Cost{.value = cycles};
}

}  // namespace swoop
