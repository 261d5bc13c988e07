// What each NPU accepts: one table of constraints, each with a label that the reason and the test repeat. Asked after
// rewriting, so it never has to guess what a later step may manage. Changes nothing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/ir.h"
#include "target/target.h"

namespace swoop {

struct Support {
  bool ok = true;
  std::string_view rule;  // "u55.c3"
  std::string reason;     // with the value that broke it
  std::string_view advice;
};

// Can this node, as it stands after legalize, be part of a region?
Support supports(const Graph& graph, const Node& node, const NpuTarget& target);

// Changes between floats and codes: the host does that.
bool is_border(const Graph& graph, const Node& node);

// Every float operand and result is quantized, and no type is wider than the NPU's: the node lives in integers.
bool on_integers(const Graph& graph, const Node& node);

// One row of docs/SUPPORT.md and of `swoop ops`.
struct Constraint {
  std::string_view label;
  std::vector<NpuFamily> families;  // that have it
  std::string_view ops;
  std::string limit;  // with their numbers; where these differ there is a row for each
  std::string_view advice;
};
std::vector<Constraint> constraints();

// Ops that can be part of a region at all, before looking at shapes.
bool has_npu_form(Op op, NpuFamily family);

}  // namespace swoop
