// One compile, from the .pt2 to the .pte on disk.
#pragma once

#include <functional>
#include <string>

#include "driver/options.h"
#include "driver/pipeline.h"
#include "report/report.h"
#include "support/result.h"

namespace swoop {

struct CompileResult {
  Summary summary;
  std::string stopped;  // the text of --stop-after; empty when the compile went to its end
  std::string stats;    // of --stats
};

Result<CompileResult> compile(const CompileOptions& options);

// All of that up to the file. In place of writing it, `use` gets the types that it has, with what they were chosen by.
Result<void> compile_for_types(const CompileOptions& options, const std::function<Result<void>(const Pipeline&)>& use);

}  // namespace swoop
