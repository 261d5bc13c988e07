// What is rewritten in float before ranges are measured, each exact up to float rounding: forms that quantize better or
// that later rooms have an integer form for.
#pragma once

#include <span>

#include "rewriter/rewriter.h"

namespace swoop {

std::span<const Rule> prepare_rules();

}  // namespace swoop
