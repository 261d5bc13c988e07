// The first step of choosing types: which nodes work on codes and which on floats, by what the user asked for and what
// each operator can do. Where the two meet (ports, nodes that stay float) a quantize or dequantize node is placed, so
// that afterwards every node reads each of its operands in the form that the operand has.
#pragma once

#include <map>
#include <vector>

#include "quantize/calibrate.h"
#include "quantize/choices.h"
#include "quantize/types.h"

namespace swoop {

enum class Domain : uint8_t {
  Float,      // reads and gives floats
  Quantized,  // reads and gives codes
  Reader,     // reads codes as they are, gives something else (compare, argmax, quantize)
  Branch,     // cond: passes codes to its bodies
};

struct Borders {
  std::vector<Domain> domains;           // by node id
  std::vector<Choice> choices;           // by node id
  std::vector<bool> codes;               // by value id: has a quantized type, or will get one
  std::vector<bool> wide;                // by value id: 8 bits would lose a part of it
  std::map<ValueId, double> in_32_bits;  // of concats: 16 bits would, too; with the scale
  std::map<ValueId, ValueId> copy_of;    // result of a border node that was placed -> what it was made of

  bool has_codes(ValueId id) const { return id < codes.size() && codes[id]; }
  bool is_wide(ValueId id) const { return id < wide.size() && wide[id]; }
  ValueId measured_id(ValueId id) const;  // the value of the float graph that it holds
  // The value of the float graph that has its statistics: back through movement and the borders on the way.
  ValueId measured_origin(const Graph& graph, ValueId id) const;
};

Borders place_borders(Graph& graph, const TypeRequest& request);

inline bool is_plain_float(const Graph& graph, ValueId id) {
  return id != kNone && is_float(graph.type(id).dtype) && !graph.type(id).quantized();
}

}  // namespace swoop
