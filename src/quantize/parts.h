// Parts of different ranges in one value: boxes in pixels beside scores between 0 and 1, scores where -1e9 stands for
// those that are hidden, a head whose channels have different units. In 8 bits with one scale, what is small has no
// codes left. Such a value takes 16 bits, or its parts are joined in float where nothing but an output reads them.
#pragma once

#include <vector>

#include "quantize/calibrate.h"

namespace swoop {

struct PartForms {
  std::vector<bool> wide;      // by value id: 8 bits for all of it lose a part
  std::vector<bool> in_float;  // by node id: concats and choices of such parts, and the movement after them, where 16
                               // bits for all would be coarser than 8 bits for each
};

PartForms forms_of_parts(const Graph& graph, const Measured& measured);

}  // namespace swoop
