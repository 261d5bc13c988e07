#include "driver/opaque_kernels.h"

#include <algorithm>
#include <mutex>

#include "emit/emit.h"
#include "run/runtime.h"

namespace swoop {

namespace {

// What a call's program depends on. Two nodes that are alike in it share a program.
struct Signature {
  Attrs attrs;
  std::vector<std::optional<Type>> operands;  // nullopt: absent
  std::vector<Type> results;
  bool operator==(const Signature&) const = default;
};

Type type_of(const Tensor& tensor) { return {tensor.dtype, tensor.shape, {}}; }

Signature signature_of(const Node& node, std::span<const Tensor* const> inputs, std::span<const Tensor> results) {
  Signature signature{node.attrs, {}, {}};
  for (const Tensor* input : inputs)
    if (std::optional<Type>& operand = signature.operands.emplace_back(); input) operand = type_of(*input);
  for (const Tensor& result : results) signature.results.push_back(type_of(result));
  return signature;
}

Result<Buffer> program_of(const Signature& signature, const std::string& name) {
  Graph graph;
  std::vector<ValueId> operands;
  for (const std::optional<Type>& type : signature.operands)
    operands.push_back(type ? graph.add_input(*type, fmt::format("x{}", operands.size())) : kNone);
  const Node& node = graph.add_node(Op::Opaque, operands, signature.results, signature.attrs, kNone, name);
  for (ValueId output : node.outputs) graph.add_output(output);
  return emit_pte(graph, {});
}

class RuntimeKernels final : public OpaqueKernels {
 public:
  Result<void> evaluate(const Node& node, std::span<const Tensor* const> inputs, std::span<Tensor> results) override {
    const std::lock_guard lock(mutex_);  // samples may run side by side
    TRY_ASSIGN(ProgramRunner * runner, runner_for(node, signature_of(node, inputs, results)));
    std::vector<RunTensor> given = runner->inputs();
    size_t next = 0;
    for (const Tensor* input : inputs)
      if (input) given[next++].data = input->data;
    TRY_ASSIGN(std::vector<RunTensor> outputs, runner->run(given));
    for (size_t i = 0; i < results.size(); ++i) {
      if (outputs[i].data.size() != results[i].data.size())
        return error("{} gives a result of another size than the model says", node.name);
      std::copy(outputs[i].data.begin(), outputs[i].data.end(), results[i].data.data());
    }
    return {};
  }

 private:
  struct Loaded {
    Signature signature;
    Buffer program;  // which the runner reads
    std::unique_ptr<ProgramRunner> runner;
  };

  Result<ProgramRunner*> runner_for(const Node& node, Signature signature) {
    for (const Loaded& loaded : loaded_)
      if (loaded.signature == signature) return loaded.runner.get();
    TRY_ASSIGN(Buffer program, program_of(signature, node.name));
    TRY_ASSIGN(std::unique_ptr<ProgramRunner> runner, load_program(program));
    return loaded_.emplace_back(Loaded{std::move(signature), std::move(program), std::move(runner)}).runner.get();
  }

  std::mutex mutex_;
  std::vector<Loaded> loaded_;  // a handful: a model has few kinds of opaque operators
};

}  // namespace

std::unique_ptr<OpaqueKernels> make_opaque_kernels() { return std::make_unique<RuntimeKernels>(); }

}  // namespace swoop
