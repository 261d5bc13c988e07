// The NPU's regions of a compile, each on its way from the partition to the bytes that the file holds: TOSA, regor's
// program, the blob.
#pragma once

#include <string>
#include <vector>

#include "driver/fault.h"
#include "driver/pipeline.h"
#include "emit/emit.h"
#include "run/run.h"
#include "tosa/tosa.h"

namespace swoop {

struct CompiledRegion {
  tosa::Program tosa;
  Buffer tosa_bytes;
  NpuProgram program;
  std::vector<NpuFault> repairs;  // of what regor let happen too early
  Buffer blob;
};

// Its stream is not regor's own.
bool has_moved_weights(const CompiledRegion& region);

// The regions of the partition as TOSA; `given`: the only one, if it came as a file. What is the same as in `before`,
// the regions of an earlier try, keeps its program. Faults: what has no form in TOSA.
Result<std::vector<RegionFault>> lower_regions(std::vector<CompiledRegion>& regions, const Pipeline& pipeline,
                                               const tosa::Program* given);

// The programs of those that have none yet. `moves_weights`: streams may be changed where that saves time. Faults: what
// regor did instead of compiling.
Result<std::vector<RegionFault>> compile_regions(std::vector<CompiledRegion>& regions, Pipeline& pipeline,
                                                 bool moves_weights);

// As the file holds them, with the map of their layers unless --strip was given.
std::vector<Region> delegates_of(const std::vector<CompiledRegion>& regions, const Pipeline& pipeline);

// What --stop-after lower prints.
std::string tosa_text(const std::vector<CompiledRegion>& regions, const Pipeline& pipeline);

}  // namespace swoop
