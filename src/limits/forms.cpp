// Which operators the NPUs compute at all, and which nodes are ready for them.
#include <algorithm>

#include "limits/limits.h"

namespace swoop {

bool has_npu_form(Op op, NpuFamily family) {
  const NpuFacts& facts = facts_of(family);
  switch (op) {
    case Op::Quantize:
    case Op::Cast:
    case Op::Conv:
    case Op::ConvTranspose:
    case Op::MatMul:
    case Op::MaxPool:
    case Op::AvgPool:
    case Op::Resize:
    case Op::Unary:
    case Op::Clamp:
    case Op::Add:
    case Op::Sub:
    case Op::Mul:
    case Op::Div:
    case Op::Maximum:
    case Op::Minimum:
    case Op::Sum:
    case Op::Mean:
    case Op::ReduceMax:
    case Op::ReduceMin:
    case Op::ArgMax:
    case Op::Reshape:
    case Op::Transpose:
    case Op::Concat:
    case Op::Slice:
    case Op::Pad:
    case Op::Repeat:
    case Op::Flip:
    case Op::Bitwise: return true;
    case Op::Compare:
    case Op::Logical:
    case Op::LogicalNot:
    case Op::Where:
    case Op::Any:
    case Op::All: return facts.has_booleans;
    case Op::BitwiseNot: return facts.has_bitwise;
    case Op::Gather: return facts.has_gather;
    case Op::Cond: return facts.has_branches;
    // Expanded by legalize, or left to the host.
    case Op::Dequantize:
    case Op::Linear:
    case Op::AdaptiveAvgPool:
    case Op::AdaptiveMaxPool:
    case Op::Prelu:
    case Op::Pow:
    case Op::Remainder:
    case Op::Prod:
    case Op::Var:
    case Op::ArgMin:
    case Op::CumSum:
    case Op::Softmax:
    case Op::LogSoftmax:
    case Op::LayerNorm:
    case Op::RmsNorm:
    case Op::GroupNorm:
    case Op::BatchNorm:
    case Op::Attention:
    case Op::Expand:
    case Op::GatherElements:
    case Op::ScatterElements:
    case Op::While:
    case Op::Map:
    case Op::Scan:
    case Op::Opaque: return false;
  }
  return false;
}

bool is_border(const Graph& graph, const Node& node) {
  return node.op == Op::Dequantize || (node.op == Op::Quantize && !graph.type(node.inputs[0]).quantized());
}

bool on_integers(const Graph& graph, const Node& node) {
  auto narrow = [&](ValueId id) {
    if (id == kNone) return true;
    const Type& type = graph.type(id);
    return !is_float(type.dtype) && type.dtype != DType::I64;
  };
  return std::all_of(node.inputs.begin(), node.inputs.end(), narrow) &&
         std::all_of(node.outputs.begin(), node.outputs.end(), narrow);
}

}  // namespace swoop
