// Which precision and method a node gets: the options' own, overruled by scopes and --keep-float.
#pragma once

#include <string_view>

#include "quantize/quantize.h"

namespace swoop {

struct Choice {
  Precision precision = Precision::Int8;
  Method method = Method::Mse;
  int weight_bits = 8;
  bool by_scope = false;  // somebody asked for this precision here
};

Choice choose(const Graph& graph, const Node& node, const QuantizeOptions& options);

// Whether the result has its first operand's type: it selects, repeats or reorders that one's elements, nothing else.
bool shares_type(const Node& node);

}  // namespace swoop
