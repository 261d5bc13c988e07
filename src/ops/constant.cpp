#include <algorithm>

#include "ops/kernels.h"
#include "ops/ops.h"
#include "support/check.h"

namespace swoop {

namespace {

// A constant with its codes as plain integers, whatever they stand for; codes of one byte as bytes.
Tensor raw_tensor(const Value& constant) {
  if (byte_size(constant.type.dtype) == 1) return {DType::Bool, constant.type.shape, Storage(constant.data)};
  Value plain = constant;
  plain.type.quant.reset();
  return to_tensor(plain);
}

}  // namespace

FloatElements::FloatElements(const Value& constant) {
  const bool as_stored =
      constant.type.dtype == DType::F32 && reinterpret_cast<uintptr_t>(constant.data.data()) % alignof(float) == 0;
  if (!as_stored) converted_ = to_tensor(constant);
  const std::byte* data = as_stored ? constant.data.data() : converted_.data.data();
  all_ = {reinterpret_cast<const float*>(data), static_cast<size_t>(element_count(constant.type.shape))};
}

Buffer codes_of_constant(const Value& constant, const Type& type) {
  CHECK(type.quantized() && constant.type.shape == type.shape, "constant {} of shape {} cannot be quantized to {}",
        constant.name, to_text(constant.type.shape), to_text(type));
  return quantized_codes(FloatElements(constant).all().data(), type);
}

ValueId quantize_constant(Graph& graph, ValueId constant, const Type& type) {
  const std::string name = graph.value(constant).name;
  return graph.add_constant(type, graph.store(codes_of_constant(graph.value(constant), type)), name);
}

std::optional<ValueId> fold(Graph& graph, const Node& node) {
  const OpInfo& facts = info(node.op);
  if (!facts.kernel || node.outputs.size() != 1 || !node.bodies.empty()) return std::nullopt;
  for (ValueId input : node.inputs)
    if (input != kNone && !graph.value(input).constant) return std::nullopt;
  const Type& type = graph.type(node.outputs[0]);
  // Movement keeps codes as they are, as long as it does not requantize on the way and pads with a code it knows.
  bool raw = facts.traits.movement && node.op != Op::Pad && type.quantized();
  bool channels_follow = node.op == Op::Gather || node.op == Op::Transpose || node.op == Op::Reshape;
  for (size_t i = 0; raw && i < node.inputs.size(); ++i) {
    if (static_cast<int>(i) == facts.traits.selector) continue;
    const Type& input = graph.type(node.inputs[i]);
    raw = input.quantized() && input.dtype == type.dtype && (channels_follow || input.quant == type.quant);
  }
  std::vector<Tensor> storage;
  storage.reserve(node.inputs.size());
  std::vector<const Tensor*> inputs;
  for (ValueId input : node.inputs) {
    if (input == kNone) {
      inputs.push_back(nullptr);
      continue;
    }
    const bool moved = raw && static_cast<int>(inputs.size()) != facts.traits.selector;
    storage.push_back(moved ? raw_tensor(graph.value(input)) : to_tensor(graph.value(input)));
    inputs.push_back(&storage.back());
  }
  DType computed = raw                      ? (byte_size(type.dtype) == 1 ? DType::Bool : DType::I64)
                   : type.quantized()       ? DType::F32
                   : is_integer(type.dtype) ? DType::I64
                   : is_float(type.dtype)   ? DType::F32
                                            : type.dtype;
  std::vector<Tensor> results;
  results.push_back(make_tensor(computed, type.shape));
  if (!evaluate(node, inputs, results)) return std::nullopt;
  Buffer data;
  if (type.quantized() && !raw) {
    Result<Buffer> codes = quantize(results[0], type);
    if (!codes) return std::nullopt;
    data = std::move(*codes);
  } else {
    data = results[0].dtype == DType::Bool ? Buffer(results[0].data) : to_bytes(results[0], type.dtype);
  }
  return graph.add_constant(type, graph.store(std::move(data)), graph.value(node.outputs[0]).name);
}

}  // namespace swoop
