// A placed plan as the bytes of a .pte: flatbuffer, extended header when data follows it, segments.
#pragma once

#include <span>

#include "emit/emit.h"
#include "emit/plan.h"

namespace swoop::emit {

// `delegates` in the order of the plan's delegate indices.
Result<Buffer> serialize(const Plan& plan, std::span<const Region> delegates, const Graph& graph,
                         const EmitOptions& options);

}  // namespace swoop::emit
