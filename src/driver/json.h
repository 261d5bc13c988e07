// What `swoop run --json` and `swoop diff --json` print.
#pragma once

#include <string>

#include "driver/figures.h"
#include "driver/layers.h"
#include "run/runtime.h"

namespace swoop {

std::string to_json(const std::string& program, const NpzRunSummary& summary, const LayerReport* layers);
std::string to_json(const Difference& difference);

}  // namespace swoop
