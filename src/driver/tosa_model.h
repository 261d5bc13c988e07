// A .tosa file as a model. Integer TOSA is quantized already, so it goes to the NPU as it is: one region, whose ports
// are the file's inputs and outputs.
#pragma once

#include <memory>
#include <string>

#include "ir/ir.h"
#include "samples/samples.h"
#include "tosa/tosa.h"

namespace swoop {

// By its name or its first bytes.
Result<bool> is_tosa_file(const std::string& path);

struct TosaModel {
  // Without inputs that nothing reads and results that nothing computes. Every operator has a location: the name of its
  // node in `region`.
  tosa::Program program;
  std::unique_ptr<Graph> region;  // a node per operator, for the names in reports
  Graph graph;                    // the program around the region: all ports of the file
};

// The bytes may be hostile: whatever is wrong is a sentence.
Result<TosaModel> read_tosa_model(const std::string& path);

// Made-up inputs, on which the program can be checked.
Samples random_codes(const tosa::Program& program, const Graph& graph);

}  // namespace swoop
