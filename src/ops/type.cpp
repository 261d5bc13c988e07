// Changes of type: quantize, dequantize, cast.
#include <cmath>

#include "ops/infer.h"
#include "ops/kernels.h"
#include "ops/rows.h"

namespace swoop {

namespace {

// The result's own type is the definition of a quantize; only its shape follows the operand.
Result<Types> infer_quantize(const Graph& graph, const Node& node) {
  if (node.outputs.empty()) return error("quantize needs the type of its result");
  Type type = graph.type(node.outputs[0]);
  if (!type.quantized()) return error("quantize gives {}, which is not a quantized type", to_text(type));
  const Type& x = in_type(graph, node, 0);
  if (!is_float(real_dtype(x))) return error("quantize works on floats, not on {}", to_text(x));
  type.shape = x.shape;
  const Quant& quant = *type.quant;
  if (quant.per_channel() && (quant.axis >= type.rank() ||
                              type.shape[static_cast<size_t>(quant.axis)] != static_cast<int64_t>(quant.scale.size())))
    return error("quantize has {} scales along axis {} of {}", quant.scale.size(), quant.axis, to_text(type.shape));
  return Types{std::move(type)};
}

Result<Types> infer_dequantize(const Graph& graph, const Node& node) {
  const Type& x = in_type(graph, node, 0);
  if (!x.quantized()) return error("dequantize of {}, which is not quantized", to_text(x));
  return one(node, DType::F32, x.shape);
}

Result<Types> infer_cast(const Graph& graph, const Node& node) {
  const Attr* attr = node.attrs.find(Key::DType);
  const DType* dtype = attr ? std::get_if<DType>(attr) : nullptr;
  if (!dtype) return error("cast needs attribute dtype");
  return one(node, *dtype, in_type(graph, node, 0).shape);
}

// Quantization itself happens where results get their type (execute); the reals pass unchanged.
Result<void> ref_identity(const Node&, std::span<const Tensor* const> in, std::span<Tensor> out) {
  out[0].data = in[0]->data;
  return {};
}

Result<void> ref_cast(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  DType dtype = std::get<DType>(*node.attrs.find(Key::DType));
  convert(*in[0], out[0]);
  settle(out[0], dtype);
  return {};
}

}  // namespace

const OpInfo kTypeOps[] = {
    {Op::Quantize, Policy::KeepFloat, {.elementwise = true}, 1, 1, infer_quantize, ref_identity},
    {Op::Dequantize, Policy::KeepFloat, {.elementwise = true}, 1, 1, infer_dequantize, ref_identity},
    {Op::Cast, Policy::KeepFloat, {.elementwise = true}, 1, 1, infer_cast, ref_cast},
};

}  // namespace swoop
