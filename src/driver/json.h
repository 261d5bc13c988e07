// What `--json` prints for run, diff, accuracy and inspect.
#pragma once

#include <string>

#include "accuracy/accuracy.h"
#include "driver/figures.h"
#include "driver/layers.h"
#include "emit/emit.h"
#include "ir/ir.h"
#include "run/runtime.h"
#include "tosa/tosa.h"

namespace swoop {

std::string to_json(const std::string& program, const NpzRunSummary& summary, const LayerReport* layers);
std::string to_json(const Difference& difference);
std::string to_json(const std::string& model, const std::string& target, const AccuracyReport& report);
std::string to_json(const std::string& path, const Graph& graph);       // of a .pt2
std::string to_json(const std::string& path, const ProgramInfo& info);  // of a .pte
std::string to_json(const std::string& path, const tosa::Program& program);

}  // namespace swoop
