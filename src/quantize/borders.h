// The first step of choosing types: which nodes work on codes and which on floats, by what the user asked for and what
// each operator can do. Where the two meet (ports, nodes that stay float) a quantize or dequantize node is placed, so
// that afterwards every node reads each of its operands in the form that the operand has.
#pragma once

#include <map>
#include <vector>

#include "quantize/choices.h"

namespace swoop {

enum class Domain : uint8_t {
  Float,      // reads and gives floats
  Quantized,  // reads and gives codes
  Reader,     // reads codes as they are, gives something else (compare, argmax, quantize)
  Branch,     // cond: passes codes to its bodies
};

struct Borders {
  std::vector<Domain> domains;  // by node id
  std::vector<Choice> choices;  // by node id
  std::vector<bool> codes;      // by value id: has a quantized type, or will get one
  std::map<ValueId, ValueId>
      float_of;  // result of a quantize node that was placed -> the float value, which was measured

  bool has_codes(ValueId id) const { return id < codes.size() && codes[id]; }
  ValueId measured_id(ValueId id) const;  // the value of the float graph that has the statistics
};

// A body of a cond gives its outputs as codes: `outputs_as_codes`.
Borders place_borders(Graph& graph, const QuantizeOptions& options, bool outputs_as_codes);

inline bool is_plain_float(const Graph& graph, ValueId id) {
  return id != kNone && is_float(graph.type(id).dtype) && !graph.type(id).quantized();
}

}  // namespace swoop
