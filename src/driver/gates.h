// The limits of a build (--max-sram, --min-sqnr, ...), checked on the finished file's own figures.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "driver/options.h"
#include "report/report.h"

namespace swoop {

// Limits that make no sense, or that nothing could check: said before the work.
Result<void> check_gate_options(const CompileOptions& options);

// The SQNR of the worst float output, where there is one that was compared.
std::optional<double> worst_sqnr(const Summary& summary);

// A warning about outputs, and parts of outputs, that are mostly noise.
std::optional<std::string> noise_warning(const Summary& summary);

// Parts of outputs that vary in the float model, or have channels that do, and not in the file, unless they are allowed
// to: lost, whatever the ratio of the whole output says.
std::vector<const PartAccuracy*> flat_parts(const Summary& summary, const Gates& gates);
std::string flat_text(const PartAccuracy& part);  // "channel 6 of conv2d"

// A sentence for every broken limit, with its value.
std::vector<std::string> broken_gates(const Summary& summary, const CompileOptions& options);

// The same as an error.
Result<void> check_gates(const Summary& summary, const CompileOptions& options);

}  // namespace swoop
