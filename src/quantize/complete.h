// Ranges that the samples do not show. A value must not get one out of thin air: it is derived from what is known of
// its operands, or the build says which value it is and what to do.
#pragma once

#include "quantize/calibrate.h"

namespace swoop {

// After the samples have run. State takes the range of what is written to it; a value that was zero throughout takes
// the range that its node has for operands in theirs. An Error names a body that no sample gets into.
Result<void> complete_ranges(const Graph& graph, Measured& measured);

// Inputs of the whole model: an Error names one that the samples say nothing about. A mask may be minus infinity, and
// may hide nothing.
Result<void> check_inputs(const Graph& graph, const Measured& measured);

// For the user: inputs that have one value throughout, and samples that are too few to tell where others end. `graph`
// as it was measured.
std::vector<std::string> doubts(const Graph& graph, const Measured& measured, const QuantizeReport& report);

constexpr size_t kEnoughSamples = 16;  // they show how others differ

}  // namespace swoop
