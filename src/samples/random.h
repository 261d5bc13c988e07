// Samples made up from a seed, for a dry run: normal floats, indices inside what they index, coin flips.
#pragma once

#include <vector>

#include "samples/samples.h"

namespace swoop {

// The same seed gives the same samples everywhere.
std::vector<Sample> random_samples(uint64_t seed, const Graph& graph);

}  // namespace swoop
