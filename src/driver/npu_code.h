// A region's NPU program: what regor makes of it, changed where that saves time (src/run). What prices a
// choice and what ships are made here alike.
#pragma once

#include <string>

#include "driver/options.h"
#include "stream/stream.h"
#include "target/target.h"

namespace swoop {

Result<NpuProgram> npu_code(const Buffer& tosa, const NpuTarget& target, const CompileOptions& options,
                            const std::string& region);

}  // namespace swoop
