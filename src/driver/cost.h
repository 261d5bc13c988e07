// What a quantized graph costs on the NPU: --min-sqnr weighs a layer's gain against it.
#pragma once

#include "driver/pipeline.h"

namespace swoop {

// Cycles of the program that the steps after `quantize` make of a copy of the graph, as regor estimates them. A graph
// that regor cannot compile has no cost, and the reason is its words.
Result<Cost> npu_cost(const Graph& quantized, const Pipeline& pipeline);

}  // namespace swoop
