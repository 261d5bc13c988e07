#include "samples/inputs.h"

namespace swoop {

std::vector<Input> user_inputs(const Graph& graph) {
  std::vector<Input> inputs;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const Value& value = graph.value(graph.inputs()[i]);
    const Port& port = graph.input_port(i);
    if (port.role != Port::Role::State) inputs.push_back({i, port.name.empty() ? value.name : port.name, &value.type});
  }
  return inputs;
}

Result<Input> single_input(const Graph& graph, const std::string& path) {
  std::vector<Input> inputs = user_inputs(graph);
  if (inputs.size() != 1)
    return error("{}: the model has {} inputs ({}); give .npz files with an array for each", path, inputs.size(),
                 to_text(inputs));
  return inputs[0];
}

std::string to_text(const std::vector<Input>& inputs) {
  std::string text;
  for (const Input& input : inputs)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", input.name, to_text(*input.type));
  return text;
}

Sample blank_sample(const Graph& graph) {
  Sample sample;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    Value value = graph.value(graph.inputs()[i]);
    const Port& port = graph.input_port(i);
    value.data = port.initial;
    bool complete =
        port.role == Port::Role::State &&
        port.initial.size() == static_cast<size_t>(element_count(value.type.shape)) * byte_size(value.type.dtype);
    if (complete) {
      sample.push_back(to_tensor(value));
    } else {
      DType dtype = value.type.quantized() || is_float(value.type.dtype) ? DType::F32
                    : value.type.dtype == DType::Bool                    ? DType::Bool
                                                                         : DType::I64;
      Tensor zeros = make_tensor(dtype, value.type.shape);
      if (!zeros.data.empty()) std::memset(zeros.data.data(), 0, zeros.data.size());
      sample.push_back(std::move(zeros));
    }
  }
  return sample;
}

}  // namespace swoop
