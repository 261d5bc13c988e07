// Functions that fold their operand: what a division leaves over, a sine of many turns; and sums of which a clamp
// leaves a small part, as the tent around a place of a grid does. Where a step of 8 bits of the operand spans much of a
// fold or of that part, the result is noise, and the operand takes 16 bits. So does a value whose elements are compared
// with each other.
#pragma once

#include <vector>

#include "quantize/calibrate.h"

namespace swoop {

struct KnownConstants;

// Marks such operands, by value id; inputs of the model too if they may be wide.
void widen_folded(const Graph& graph, const Measured& measured, bool inputs, KnownConstants* known,
                  std::vector<bool>& wide);

}  // namespace swoop
