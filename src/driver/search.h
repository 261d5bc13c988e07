// `swoop compile --search TIME`: the model built in many ways, and which of them are worth having.
#pragma once

#include <string_view>
#include <vector>

#include "driver/options.h"
#include "report/report.h"

namespace swoop {

struct Searched {
  CompileOptions options;           // of the build that is best
  std::vector<SearchPoint> points;  // in the order in which they were built, "as given" first
};

// Builds what was asked for, then everything that differs from it in one choice (int16 for more or fewer values,
// methods, weights of 4 bits, code for size), then what differs from a build of the front in one choice, and so on.
// Time decides how many builds there are, not which. The best one keeps all limits; of those, with --min-sqnr the one
// with the fewest cycles, with other limits the one with the highest SQNR, and without any the one with the highest
// SQNR that takes no more cycles, SRAM and flash than what was asked for.
Result<Searched> search(const CompileOptions& options, double seconds);

// "90", "90s", "5m", "1h"; in seconds. `flag` is for the sentence that says that it is none.
Result<double> parse_duration(std::string_view flag, std::string_view text);

}  // namespace swoop
