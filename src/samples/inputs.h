// What a graph asks of a sample: the inputs that a file must name, and a sample with all the others filled in.
#pragma once

#include <string>
#include <vector>

#include "samples/samples.h"

namespace swoop {

struct Input {
  size_t index;  // among the graph's inputs
  std::string name;
  const Type* type;
};

// All but mutable buffers, which bring their own first value.
std::vector<Input> user_inputs(const Graph& graph);

// The input of a model with only one; `path` is the file that names none.
Result<Input> single_input(const Graph& graph, const std::string& path);

// "x f32[1,2], ids i64[3]"
std::string to_text(const std::vector<Input>& inputs);

// Zeros, and the first values of mutable buffers.
Sample blank_sample(const Graph& graph);

}  // namespace swoop
