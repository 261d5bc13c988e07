// Which layer each operation of a command stream belongs to: from regor's own record, the names of TOSA tensors and the
// region's graph.
#pragma once

#include "ir/ir.h"
#include "stream/stream.h"
#include "tosa/tosa.h"

namespace swoop {

// A layer per result of the region's nodes, bodies included. `program` comes from compile_npu() and was made of `tosa`,
// `tosa` of `region`.
LayerMap make_layer_map(const Graph& region, const tosa::Program& tosa, const NpuProgram& program);

// The node that each layer of regor's estimates is a part of, by name.
std::vector<std::string_view> nodes_of_layers(const tosa::Program& tosa, std::span<const Layer> layers);

}  // namespace swoop
