// Parts of different ranges in one value: boxes in pixels beside scores between 0 and 1, scores where -1e9 stands for
// those that are hidden, a head whose channels have different units. In 8 bits with one scale, what is small has no
// codes left. Such a value takes 16 bits, or 32 where nothing but an output reads it, or its parts are chosen in float.
#pragma once

#include <map>
#include <vector>

#include "quantize/calibrate.h"

namespace swoop {

struct PartForms {
  std::vector<bool> wide;  // by value id: 8 bits for all of it lose a part
  // Where 16 bits for all would be coarser than 8 bits for each:
  std::map<ValueId, double> in_32_bits;  // results of concats, with a scale for all parts
  std::vector<bool> in_float;            // by node id: choices, and the movement after them
};

PartForms forms_of_parts(const Graph& graph, const Measured& measured);

}  // namespace swoop
