// Values that may have 16 bits instead of 8, in a graph whose types have been chosen.
#pragma once

#include <string>
#include <vector>

#include "quantize/quantize.h"

namespace swoop {

// Values whose type is their own choice: one per class of int8 values. `prepared` is the float graph.
std::vector<ValueId> choices(const Graph& typed, const Graph& prepared);

// The value of the float graph that one of them holds.
ValueId value_in_float(const Graph& typed, ValueId choice);

// `choice` and what data movement makes of it.
std::vector<ValueId> moved_from(const Graph& typed, ValueId choice);

// What is computed from `members`; where nothing is, the first of them: there more bits cost something.
std::vector<ValueId> readers_of(const Graph& typed, const std::vector<ValueId>& members);
double cost_of_width(const Graph& typed, const std::vector<ValueId>& members, const Cost& price);

// By name and place, without gain and cost.
Candidate describe(const Graph& prepared, ValueId value);

}  // namespace swoop
