#include "driver/opaque_kernel.h"

#include <memory>

#include "emit/emit.h"
#include "run/runtime.h"

namespace swoop {

namespace {

Bytes bytes_of(const Tensor& tensor) { return {tensor.data.data(), tensor.data.size()}; }

}  // namespace

Result<void> run_opaque(const Node& node, std::span<const Tensor* const> inputs, std::span<Tensor> results) {
  Graph graph;
  std::vector<ValueId> operands;
  for (const Tensor* input : inputs)
    operands.push_back(input ? graph.add_input({input->dtype, input->shape, {}}, fmt::format("x{}", operands.size()))
                             : kNone);
  std::vector<Type> types;
  for (const Tensor& result : results) types.push_back({result.dtype, result.shape, {}});
  for (ValueId output : graph.add_node(Op::Opaque, operands, types, node.attrs, kNone, node.name).outputs)
    graph.add_output(output);
  TRY_ASSIGN(Buffer program, emit_pte(graph, {}));
  TRY_ASSIGN(std::unique_ptr<ProgramRunner> runner, load_program(program));
  std::vector<RunTensor> given = runner->inputs();
  size_t next = 0;
  for (const Tensor* input : inputs)
    if (input) given[next++].data.assign(bytes_of(*input).begin(), bytes_of(*input).end());
  TRY_ASSIGN(std::vector<RunTensor> outputs, runner->run(given));
  for (size_t i = 0; i < results.size(); ++i) {
    if (outputs[i].data.size() != results[i].data.size())
      return error("{} gives a result of another size than the model says", node.name);
    std::copy(outputs[i].data.begin(), outputs[i].data.end(), results[i].data.data());
  }
  return {};
}

}  // namespace swoop
