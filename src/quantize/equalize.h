// Equalisation across layers: a channel that a layer gives in a smaller range than its neighbours is scaled up, and the
// weights that read it are scaled down by as much. Exact in float where nothing but a ReLU stands between; the shared
// scale then wastes fewer codes.
#pragma once

#include "quantize/calibrate.h"

namespace swoop {

// Changes weights and biases; what was measured no longer holds afterwards. Gives the number of layers whose result was
// scaled.
size_t equalize(Graph& graph, const Measured& measured);

}  // namespace swoop
