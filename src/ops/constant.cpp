#include <algorithm>

#include "ops/ops.h"
#include "support/check.h"

namespace swoop {

namespace {

template <typename T>
void store_codes(Buffer& data, std::span<const int64_t> codes) {
  data.resize(codes.size() * sizeof(T));
  auto* out = reinterpret_cast<T*>(data.data());
  for (size_t i = 0; i < codes.size(); ++i) out[i] = static_cast<T>(codes[i]);
}

Buffer pack_codes(DType dtype, std::span<const int64_t> codes) {
  Buffer data;
  switch (dtype) {
    case DType::I4:
    case DType::I8: store_codes<int8_t>(data, codes); break;
    case DType::U8:
    case DType::Bool: store_codes<uint8_t>(data, codes); break;
    case DType::I16: store_codes<int16_t>(data, codes); break;
    case DType::I32: store_codes<int32_t>(data, codes); break;
    case DType::I48:
    case DType::I64: store_codes<int64_t>(data, codes); break;
    case DType::F32:
    case DType::F16:
    case DType::BF16:
    case DType::F64: CHECK(false, "codes of a float type"); break;
  }
  return data;
}

// A constant with its codes as plain integers, whatever they stand for.
Tensor raw_tensor(const Value& constant) {
  Value plain = constant;
  plain.type.quant.reset();
  return to_tensor(plain);
}

Buffer pack_tensor(const Tensor& tensor, DType dtype) {
  if (tensor.dtype == DType::F32) {
    CHECK(dtype == DType::F32, "a float result is stored as {}", name_of(dtype));
    return tensor.data;
  }
  if (tensor.dtype == DType::Bool) return tensor.data;
  return pack_codes(dtype, tensor.as<int64_t>());
}

}  // namespace

ValueId quantize_constant(Graph& graph, ValueId constant, const Type& type) {
  Tensor values = to_tensor(graph.value(constant));
  std::string name = graph.value(constant).name;
  Result<Buffer> codes = quantize(values, type);
  CHECK(codes, "constant {}: {}", name, codes.error().message);
  return graph.add_constant(type, graph.store(std::move(*codes)), name);
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
  if (!raw && !type.quantized() && type.dtype != DType::F32 && type.dtype != DType::I64 && type.dtype != DType::I32 &&
      type.dtype != DType::Bool)
    return std::nullopt;

  std::vector<Tensor> storage;
  storage.reserve(node.inputs.size());
  std::vector<const Tensor*> inputs;
  for (ValueId input : node.inputs) {
    if (input == kNone) {
      inputs.push_back(nullptr);
      continue;
    }
    storage.push_back(raw ? raw_tensor(graph.value(input)) : to_tensor(graph.value(input)));
    inputs.push_back(&storage.back());
  }
  DType computed = raw ? DType::I64 : type.quantized() ? DType::F32 : is_integer(type.dtype) ? DType::I64 : type.dtype;
  std::vector<Tensor> results;
  results.push_back(make_tensor(computed, type.shape));
  if (!evaluate(node, inputs, results)) return std::nullopt;
  Buffer data;
  if (type.quantized() && !raw) {
    Result<Buffer> codes = quantize(results[0], type);
    if (!codes) return std::nullopt;
    data = std::move(*codes);
  } else {
    data = pack_tensor(results[0], type.dtype);
  }
  return graph.add_constant(type, graph.store(std::move(data)), graph.value(node.outputs[0]).name);
}

}  // namespace swoop
