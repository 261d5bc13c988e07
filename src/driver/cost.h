// What a quantized graph costs on the NPU: what int16 takes off the noise is weighed against it.
#pragma once

#include "driver/pipeline.h"

namespace swoop {

// Cycles of the program that the steps after `quantize` make of a copy of the graph, as regor estimates them. From 16
// bits, a layer computes for twice as long, and waits for its weights no longer than before. None: the graph cannot be
// compiled as it is. The pipeline keeps the programs.
std::optional<Cost> npu_cost(const Graph& quantized, Pipeline& pipeline);

// What regor made of this file then. Null: nothing yet.
const NpuProgram* priced_program(const Pipeline& pipeline, const Buffer& tosa);

}  // namespace swoop
