// One model compiled for every NPU in every memory mode: which chip is enough?
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "driver/options.h"
#include "report/report.h"

namespace swoop {

struct SweepRow {
  std::string target, memory_mode;
  std::optional<Summary> summary;  // absent: it cannot be built, and `why` says so
  std::string why;                 // or which limits it breaks; empty: it fits

  bool fits() const { return summary && why.empty(); }
  std::optional<double> sqnr_db() const;  // of the worst output; absent: not measured
};

struct SweepOptions {
  CompileOptions compile;            // its gates are what a row has to fit; its target and memory mode are not used
  std::vector<std::string> targets;  // patterns with * and ?; empty: all
};

// Rows in the order of the targets and of the modes in vela.ini, whatever the number of threads. No file is left.
Result<std::vector<SweepRow>> sweep(const SweepOptions& options);

std::string to_text(const std::vector<SweepRow>& rows);
std::string to_json(const std::vector<SweepRow>& rows);

}  // namespace swoop
