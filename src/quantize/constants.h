// The third step of choosing types: constants get codes, in types that follow from those around them. Operands that
// must be as wide as others are widened on the way.
#pragma once

#include "quantize/borders.h"
#include "quantize/types.h"

namespace swoop {

// Gives the number of layers whose bias took up the mean error of the rounded weights.
size_t quantize_constants(Graph& graph, const Borders& borders, const TypeRequest& request);

}  // namespace swoop
