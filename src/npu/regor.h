// The call into regor itself, in this process; npu.cpp makes it in a forked child.
#pragma once

#include <string>
#include <string_view>

#include "npu/config.h"
#include "stream/stream.h"
#include "target/target.h"

namespace swoop {

// The two texts that Vela's front end hands to regor.
std::string system_text(const NpuTarget& target, const NpuSystem& system, std::string_view config);
std::string options_text(const NpuOptions& options, const NpuSystem& system);

// All that the child needs to know besides the graph.
struct RegorCall {
  NpuTarget target;
  NpuSystem system;
  std::string system_config;
  std::string compiler_options;
};
Buffer encode_call(const RegorCall& call);
Result<RegorCall> decode_call(Bytes bytes);

// Error: what regor says about the graph. Throws what regor throws. One call per process: regor's contexts are not
// thread-safe.
Result<NpuProgram> call_regor(Bytes tosa, const RegorCall& call);

// A program as bytes for the way from the child to its parent. decode_program returns an error when they are damaged.
Buffer encode_program(const NpuProgram& program);
Result<NpuProgram> decode_program(Bytes bytes);

}  // namespace swoop
