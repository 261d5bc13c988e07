// Graphs written down in tests of this room.
#pragma once

#include "ir/ir.h"
#include "support/check.h"

namespace swoop {

// As a model that was just read: each value has its own name as its origin.
inline Graph parsed(std::string_view text) {
  Result<Graph> graph = parse(text);
  CHECK(graph, "{}", graph.error().message);
  graph->mark_origins();
  return std::move(*graph);
}

}  // namespace swoop
