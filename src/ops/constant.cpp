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

// Which channel element i of `shape` belongs to when `axis` is the channel axis.
int64_t channel_of(int64_t i, const Shape& shape, int axis) {
  if (axis < 0) return 0;
  int64_t inner = 1;
  for (size_t d = static_cast<size_t>(axis) + 1; d < shape.size(); ++d) inner *= shape[d];
  return (i / inner) % shape[static_cast<size_t>(axis)];
}

Buffer quantize_floats(std::span<const float> values, const Type& type) {
  std::vector<int64_t> codes(values.size());
  const Quant& quant = *type.quant;
  for (size_t i = 0; i < values.size(); ++i) {
    auto channel = static_cast<size_t>(channel_of(static_cast<int64_t>(i), type.shape, quant.axis));
    codes[i] = quantize_value(values[i], quant.scale[channel], quant.zero_point[channel], quant.qmin, quant.qmax);
  }
  return pack_codes(type.dtype, codes);
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
  return graph.add_constant(type, graph.store(quantize_floats(values.as<float>(), type)), name);
}

std::optional<ValueId> fold(Graph& graph, const Node& node) {
  const OpInfo& facts = info(node.op);
  if (!facts.kernel || node.outputs.size() != 1 || !node.bodies.empty()) return std::nullopt;
  for (ValueId input : node.inputs)
    if (input != kNone && !graph.value(input).constant) return std::nullopt;
  const Type& type = graph.type(node.outputs[0]);
  // Movement keeps codes as they are, as long as it does not requantize on the way and pads with a code it knows.
  bool raw = facts.traits.movement && node.op != Op::Pad && type.quantized();
  for (ValueId input : node.inputs)
    if (raw && input != kNone && graph.type(input).quantized() && node.op != Op::Gather && node.op != Op::Transpose && node.op != Op::Reshape)
      raw = graph.type(input).quant == type.quant;
  if (!raw && !type.quantized() && type.dtype != DType::F32 && type.dtype != DType::I64 && type.dtype != DType::I32 && type.dtype != DType::Bool)
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
  Buffer data = type.quantized() && !raw ? quantize_floats(results[0].as<float>(), type) : pack_tensor(results[0], type.dtype);
  return graph.add_constant(type, graph.store(std::move(data)), graph.value(node.outputs[0]).name);
}

}  // namespace swoop
