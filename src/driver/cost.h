// What a quantized graph costs on the NPU: --min-sqnr weighs a layer's gain against it.
#pragma once

#include "driver/pipeline.h"

namespace swoop {

// Cycles of the program that the steps after `quantize` make of a copy of the graph, as regor estimates them. From 16
// bits, a layer computes for twice as long, and waits for its weights no longer than before. None: the graph cannot be
// compiled as it is.
std::optional<Cost> npu_cost(const Graph& quantized, const Pipeline& pipeline);

}  // namespace swoop
