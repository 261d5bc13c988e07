#include <numeric>

#include "emit/host.h"
#include "support/check.h"

namespace swoop::emit {

Error no_kernel(const Graph& graph, const Node& node, std::string_view why) {
  const Loc* loc = graph.loc(node.loc);
  std::string where = loc ? to_text(*loc) : "";
  return error("{}{}: {} (node {}) stays on the host, but {}.", where, where.empty() ? "error" : ": error",
               called(node), node.name, why);
}

int scalar_type(DType dtype) {
  switch (dtype) {
    case DType::U8: return 0;
    case DType::I8: return 1;
    case DType::I16: return 2;
    case DType::I32: return 3;
    case DType::I64: return 4;
    case DType::F16: return 5;
    case DType::F32: return 6;
    case DType::F64: return 7;
    case DType::Bool: return 11;
    case DType::BF16: return 15;
    case DType::I4:
    case DType::I48: return -1;
  }
  return -1;
}

// a - floor(a / b) * b. The runtime's own remainder of integers has the sign of a (executorch 1.5.1), PyTorch's that of
// b.
void integer_remainder(PlanBuilder& b, int dividend, int divisor, int out) {
  DType dtype = b.tensor(out).dtype;
  int quotient = b.planned(dtype, b.tensor(out).shape);
  b.kernel("aten::div.out_mode", {dividend, divisor, b.text("floor")}, {quotient});
  int product = b.planned(dtype, b.tensor(out).shape);
  b.binary("aten::mul.out", quotient, divisor, product);
  b.sub(dividend, product, out);
}

namespace {

Result<void> missing(const HostCall& call, std::string_view why) { return no_kernel(call.graph, call.node, why); }

void reduce(HostCall& call, std::string_view kernel, bool with_dtype) {
  PlanBuilder& b = call.b;
  std::vector<int> args = {call.in[0], b.integers(call.node.ints(Key::Axes)), b.boolean(call.node.flag(Key::Keepdim))};
  if (with_dtype) args.push_back(b.null());
  b.kernel(kernel, std::move(args), {call.out});
}

// The portable kernel takes one axis: one call per axis, keeping dims until the last.
void product(HostCall& call) {
  PlanBuilder& b = call.b;
  int x = call.in[0];
  for (int64_t axis : call.node.ints(Key::Axes)) {
    Shape shape = b.tensor(x).shape;
    shape[static_cast<size_t>(axis)] = 1;
    int next = b.planned(b.tensor(call.out).dtype, shape);
    b.kernel("aten::prod.int_out", {x, b.integer(axis), b.boolean(true), b.null()}, {next});
    x = next;
  }
  b.copy(x, call.out);
}

// all(x) = not any(not x)
void all_of(HostCall& call) {
  PlanBuilder& b = call.b;
  int inverted = b.planned(DType::Bool, call.x().shape);
  b.kernel("aten::logical_not.out", {call.in[0]}, {inverted});
  int any = b.planned(DType::Bool, b.tensor(call.out).shape);
  b.kernel("aten::any.dims_out",
           {inverted, b.integers(call.node.ints(Key::Axes)), b.boolean(call.node.flag(Key::Keepdim))}, {any});
  b.kernel("aten::logical_not.out", {any}, {call.out});
}

Result<void> compare(HostCall& call) {
  const std::string& fn = call.node.text(Key::Fn);
  call.b.kernel("aten::" + fn + ".Tensor_out", {call.in[0], call.in[1]}, {call.out});
  return {};
}

Result<void> bitwise(HostCall& call) {
  const std::string& fn = call.node.text(Key::Fn);
  std::string kernel = fn == "shl" ? "left_shift" : fn == "shr" ? "right_shift" : fn;
  call.b.kernel("aten::bitwise_" + kernel + ".Tensor_out", {call.in[0], call.in[1]}, {call.out});
  return {};
}

void divide(HostCall& call) {
  std::string_view mode = call.node.text(Key::Mode, "");
  if (mode.empty())
    call.b.kernel("aten::div.out", {call.in[0], call.in[1]}, {call.out});
  else
    call.b.kernel("aten::div.out_mode", {call.in[0], call.in[1], call.b.text(mode)}, {call.out});
}

// numpy.take: the kernel wants a flat index, so index and result are seen flat on that axis.
void gather(HostCall& call) {
  PlanBuilder& b = call.b;
  int64_t axis = call.node.integer(Key::Axis);
  int64_t count = element_count(b.tensor(call.in[1]).shape);
  Shape flat = call.x().shape;
  flat[static_cast<size_t>(axis)] = count;
  DType index_type = b.tensor(call.in[1]).dtype;
  int index = index_type == DType::I32 ? call.in[1] : b.cast(call.in[1], DType::I64);
  b.kernel("aten::index_select.out", {call.in[0], b.integer(axis), b.alias(index, {count})}, {b.alias(call.out, flat)});
}

}  // namespace

Result<void> emit_host_op(HostCall& call) {
  PlanBuilder& b = call.b;
  const Node& node = call.node;
  const std::vector<int>& in = call.in;
  int out = call.out;
  switch (node.op) {
    case Op::Cast: b.cast(in[0], b.tensor(out).dtype, out); return {};

    case Op::Conv: return emit_conv(call);
    case Op::ConvTranspose: return emit_conv_transpose(call);
    case Op::MaxPool: return emit_max_pool(call);
    case Op::AvgPool: return emit_avg_pool(call);
    case Op::AdaptiveAvgPool:
    case Op::AdaptiveMaxPool: return emit_adaptive_pool(call);
    case Op::Resize: return emit_resize(call);
    case Op::Pad: return emit_pad(call);

    case Op::Linear: emit_linear(call); return {};
    case Op::MatMul: emit_matmul(b, in[0], in[1], out); return {};
    case Op::Prelu: emit_prelu(call); return {};
    case Op::LayerNorm: emit_layer_norm(call); return {};
    case Op::RmsNorm: emit_rms_norm(call); return {};
    case Op::GroupNorm: emit_group_norm(call); return {};
    case Op::BatchNorm: emit_batch_norm(call); return {};
    case Op::Attention: emit_attention(call); return {};

    case Op::Unary: return emit_unary(call);
    case Op::Clamp: {
      std::optional<double> min, max;
      if (node.has(Key::Min)) min = node.real(Key::Min);
      if (node.has(Key::Max)) max = node.real(Key::Max);
      b.clamp(in[0], min, max, out);
      return {};
    }
    case Op::Add: b.add(in[0], in[1], out); return {};
    case Op::Sub: b.sub(in[0], in[1], out); return {};
    case Op::Mul: b.binary("aten::mul.out", in[0], in[1], out); return {};
    case Op::Div: divide(call); return {};
    case Op::Maximum: b.binary("aten::maximum.out", in[0], in[1], out); return {};
    case Op::Minimum: b.binary("aten::minimum.out", in[0], in[1], out); return {};
    case Op::Pow: b.binary("aten::pow.Tensor_Tensor_out", in[0], in[1], out); return {};
    case Op::Remainder:
      if (is_float(b.tensor(out).dtype))
        b.binary("aten::remainder.Tensor_out", in[0], in[1], out);
      else
        integer_remainder(b, in[0], in[1], out);
      return {};
    case Op::Compare: return compare(call);
    case Op::Logical: b.binary("aten::logical_" + node.text(Key::Fn) + ".out", in[0], in[1], out); return {};
    case Op::LogicalNot: b.unary("aten::logical_not.out", in[0], out); return {};
    case Op::Bitwise: return bitwise(call);
    case Op::BitwiseNot: b.unary("aten::bitwise_not.out", in[0], out); return {};
    case Op::Where: b.where(in[0], in[1], in[2], out); return {};

    case Op::Sum: reduce(call, "aten::sum.IntList_out", true); return {};
    case Op::Mean: reduce(call, "aten::mean.out", true); return {};
    case Op::ReduceMax: reduce(call, "aten::amax.out", false); return {};
    case Op::ReduceMin: reduce(call, "aten::amin.out", false); return {};
    case Op::Prod: product(call); return {};
    case Op::Any: reduce(call, "aten::any.dims_out", false); return {};
    case Op::All: all_of(call); return {};
    case Op::Var:
      b.kernel("aten::var.correction_out",
               {in[0], b.integers(node.ints(Key::Axes)), b.real(node.real(Key::Correction)),
                b.boolean(node.flag(Key::Keepdim))},
               {out});
      return {};
    case Op::ArgMax:
    case Op::ArgMin: {
      const DType dtype = b.tensor(out).dtype;
      // The runtime's kernel gives 64 bits.
      int positions = dtype == DType::I64 ? out : b.planned(DType::I64, b.tensor(out).shape);
      b.kernel(node.op == Op::ArgMax ? "aten::argmax.out" : "aten::argmin.out",
               {in[0], b.integer(node.integer(Key::Axis)), b.boolean(node.flag(Key::Keepdim))}, {positions});
      if (positions != out) b.cast(positions, dtype, out);
      return {};
    }
    case Op::CumSum:
      b.kernel("aten::cumsum.out", {in[0], b.integer(node.integer(Key::Axis)), b.null()}, {out});
      return {};

    case Op::Softmax:
    case Op::LogSoftmax:
      b.kernel(node.op == Op::Softmax ? "aten::_softmax.out" : "aten::_log_softmax.out",
               {in[0], b.integer(node.integer(Key::Axis)), b.boolean(false)}, {out});
      return {};

    case Op::Reshape: b.copy(in[0], out); return {};
    case Op::Transpose: b.permute(in[0], node.ints(Key::Perm), out); return {};
    case Op::Concat: b.kernel("aten::cat.out", {b.tensors(in), b.integer(node.integer(Key::Axis))}, {out}); return {};
    case Op::Slice:
      b.kernel("aten::slice_copy.Tensor_out",
               {in[0], b.integer(node.integer(Key::Axis)), b.integer(node.integer(Key::Start)),
                b.integer(node.integer(Key::End)), b.integer(node.integer(Key::Step))},
               {out});
      return {};
    case Op::Expand:
      b.kernel("aten::expand_copy.out", {in[0], b.integers(b.tensor(out).shape), b.boolean(false)}, {out});
      return {};
    case Op::Repeat: b.kernel("aten::repeat.out", {in[0], b.integers(node.ints(Key::Multiples))}, {out}); return {};
    case Op::Flip: b.kernel("aten::flip.out", {in[0], b.integers(node.ints(Key::Axes))}, {out}); return {};
    case Op::Gather: gather(call); return {};
    case Op::GatherElements:
      b.kernel("aten::gather.out",
               {in[0], b.integer(node.integer(Key::Axis)), b.cast(in[1], DType::I64), b.boolean(false)}, {out});
      return {};
    case Op::ScatterElements:
      b.kernel("aten::scatter.src_out", {in[0], b.integer(node.integer(Key::Axis)), b.cast(in[1], DType::I64), in[2]},
               {out});
      return {};

    case Op::Quantize:
    case Op::Dequantize:
    case Op::Cond:
    case Op::While:
    case Op::Map:
    case Op::Scan:
    case Op::Opaque: break;
  }
  return missing(call, "it has no kernel call");
}

}  // namespace swoop::emit
