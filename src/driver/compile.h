// One compile, from the .pt2 to the .pte on disk.
#pragma once

#include <string>

#include "driver/options.h"
#include "report/report.h"
#include "support/result.h"

namespace swoop {

struct CompileResult {
  Summary summary;
  std::string stopped;  // the text of --stop-after; empty when the compile went to its end
  std::string stats;    // of --stats
};

Result<CompileResult> compile(const CompileOptions& options);

}  // namespace swoop
