// The limits of a build (--max-sram, --min-sqnr, ...), checked on the finished file's own figures.
#pragma once

#include "driver/options.h"
#include "report/report.h"

namespace swoop {

// Limits that make no sense, or that nothing could check: said before the work.
Result<void> check_gate_options(const CompileOptions& options);

// An error that names every broken limit with its value.
Result<void> check_gates(const Summary& summary, const CompileOptions& options);

}  // namespace swoop
