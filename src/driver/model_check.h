// The float graph that is quantized against the model as it was imported: every later check, and every SQNR, takes that
// graph for the model.
#pragma once

#include "driver/pipeline.h"

namespace swoop {

// Runs both in float on the first samples. A defect: their outputs differ by more than rounding of floats does to this
// model; the sentence names the step that changed it. An error: the model itself gives NaN.
Result<void> check_rewriting(const Graph& imported, const Pipeline& pipeline);

}  // namespace swoop
