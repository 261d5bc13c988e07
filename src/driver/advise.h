// `swoop advise`: what changes of the model would save, measured by compiling the changed model.
#pragma once

#include <string>
#include <vector>

#include "driver/options.h"

namespace swoop {

struct Advice {
  std::string what;    // "32 output channels instead of 33"
  std::string node;    // that it is about; empty: the whole model
  std::string source;  // "net.py:31"
  double cycles = 0;   // of the changed model
};

struct AdviceReport {
  double cycles = 0;           // of the model as it is
  std::vector<Advice> advice;  // what saves cycles, the most first
  size_t tried = 0;
  size_t possible = 0;
};

// Changes to the layers that take the most cycles come first; time decides how many are tried. Nothing is checked by
// running it, and ranges come from one sample: cycles hardly depend on them.
Result<AdviceReport> advise(const CompileOptions& options, double seconds);

std::string to_text(const AdviceReport& report, size_t most);
std::string to_json(const AdviceReport& report, size_t most);

}  // namespace swoop
