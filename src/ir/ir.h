// The room's public header: the graph, its types, its text form and its structural verifier.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ir/graph.h"
#include "ir/type.h"
#include "support/result.h"

namespace swoop {

struct TextOptions {
  bool constant_data =
      false;  // false: short constants show their numbers, long ones a hash; true: all bytes, which parse to the same
  bool locations = false;  // the Python source line of each node
};

// The text form: deterministic, values by name, attributes sorted. parse(print(g, {true, true})) is the same graph.
std::string print(const Graph& graph, TextOptions options = {});
Result<Graph> parse(std::string_view text);

// The first structural fault, in words: ids in range, uses consistent, order topological, names unique, constants'
// sizes right, quantization parameters sane, bodies too. Null when there is none.
std::optional<std::string> verify(const Graph& graph);

// A copy with the same ids. It reads constants where the original keeps them, so the original must outlive it.
Graph clone(const Graph& graph);

// True when both print the same text with data and locations.
bool same(const Graph& a, const Graph& b);

}  // namespace swoop
