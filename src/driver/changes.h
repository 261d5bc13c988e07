// Changes that the author of a model could make, done to its float graph: what they cost or save can then be compiled.
// The numbers that come out are others; shapes, and so cycles, are those of the changed model.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/ir.h"

namespace swoop {

struct Change {
  std::string what;                    // "32 output channels instead of 33"
  std::string node;                    // the first that it is about
  std::string source;                  // "net.py:31"
  std::vector<ValueId> values;         // of the graph, that are computed otherwise
  std::function<bool(Graph&)> change;  // of a copy; false: it cannot be done, and the copy is of no use
};

// Of a graph of floats with its batch norms folded: channels that fill the NPU's blocks of 16, smaller kernels, cheaper
// functions and norms, outputs without softmax.
std::vector<Change> possible_changes(const Graph& graph);

// Gives the channels of a layer's result another number: new ones are zeros. Follows them to all layers that read them
// or give the same ones. False: they reach an input or output of the model, or an operator that needs their number.
bool resize_channels(Graph& graph, ValueId result, int64_t channels);

}  // namespace swoop
