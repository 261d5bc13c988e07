// One model compiled for every NPU in every memory mode: which chip is enough?
#pragma once

#include <string>
#include <vector>

#include "driver/options.h"
#include "report/report.h"

namespace swoop {

struct Sweep {
  std::vector<SweepPoint> points;  // in the order of the targets and of the modes in vela.ini
  Summary best;                    // of the fastest that fits; where none does, of the fastest
};

struct SweepOptions {
  CompileOptions compile;            // its gates are what a row has to fit; its target and memory mode are not used
  std::vector<std::string> targets;  // patterns with * and ?; empty: all
};

// The same whatever the number of threads. No file is left.
Result<Sweep> sweep(const SweepOptions& options);

std::string to_text(const std::vector<SweepPoint>& points);

}  // namespace swoop
