// Choosing types: gives every float value of a graph its quantized type and every constant its codes, from what
// calibration measured. quantize.cpp has the steps in their order; each has a header and a file of its own:
//   borders.h    which nodes work on codes, and quantize and dequantize nodes where those meet floats
//   classes.h    which values share a type, and what type that is
//   constants.h  weights, biases and other constants in types that follow from those around them
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "accuracy/accuracy.h"
#include "quantize/calibrate.h"
#include "quantize/quantize.h"

namespace swoop {

struct KnownConstants;

// What the steps read and none of them changes. A body of control flow has a request of its own.
struct TypeRequest {
  const QuantizeOptions& options;
  const Measured& measured;
  std::set<std::string> raised = {};    // names of values (after the path of their body) that take int16 in any case
  std::string path = {};                // of a body: "cond_1/0/"
  std::vector<Type> output_types = {};  // of a cond's body: what its outputs must come in; inputs have their types
  double room = 1;                      // for what the samples do not show, as choose_range() has it
  size_t carried = 0;                   // of a loop's body: its first inputs are its first outputs of the step before
  std::optional<double> weight_rate = {};  // dB, by forecast: what the samples confirm of options.weight_rate
  std::vector<Noise> plain = {};           // of the outputs, with 8 bits and the finest weights; empty: not measured
  KnownConstants* known = nullptr;         // from earlier requests for this graph; a body has none
};

struct ChosenTypes {
  std::vector<ValueReport> values;  // bodies after the graph that they belong to
  size_t bias_corrected = 0;        // layers
};

using WeightSteps = std::map<ValueId, double>;  // by weights: their steps are no finer

// `reports`: what became of each value, for the user, which takes a while.
ChosenTypes choose_types(Graph& graph, const TypeRequest& request, bool reports = true);

// A copy of the float graph with types; it reads constants where the original does.
Graph typed(const Graph& prepared, const TypeRequest& request);

}  // namespace swoop
