// Core operators as calls of ExecuTorch's kernels: one function, an exhaustive switch, families in files of their own.
// Kernels are taken from the portable set wherever it can say the op, so that firmware with the stock kernel library
// runs the file.
#pragma once

#include "emit/plan_builder.h"
#include "ir/ir.h"
#include "support/result.h"

namespace swoop::emit {

// One node on its way to the plan. Inputs are unquantized except for data movement; the result goes to `out`.
struct HostCall {
  PlanBuilder& b;
  const Graph& graph;
  const Node& node;
  std::vector<int> in;  // kAbsent where the optional input is absent
  int out;

  const TensorValue& x() const { return b.tensor(in[0]); }
  int input(size_t index) const { return index < in.size() ? in[index] : kAbsent; }
};

// Error that names the node, its operator and its source line.
Error no_kernel(const Graph& graph, const Node& node, std::string_view why);

// Every op but Quantize, Dequantize, control flow and Opaque.
Result<void> emit_host_op(HostCall& call);

// Convolution, pooling, resampling, padding (host_window.cpp).
Result<void> emit_conv(HostCall& call);
Result<void> emit_conv_transpose(HostCall& call);
Result<void> emit_max_pool(HostCall& call);
Result<void> emit_avg_pool(HostCall& call);
Result<void> emit_adaptive_pool(HostCall& call);
Result<void> emit_resize(HostCall& call);
Result<void> emit_pad(HostCall& call);
// Scalar functions (host_unary.cpp).
Result<void> emit_unary(HostCall& call);
// Products, norms, attention (host_compose.cpp).
void emit_linear(HostCall& call);
void emit_prelu(HostCall& call);
void emit_layer_norm(HostCall& call);
void emit_rms_norm(HostCall& call);
void emit_group_norm(HostCall& call);
void emit_batch_norm(HostCall& call);
void emit_attention(HostCall& call);

// a[...,M,K] x b[...,K,N] with broadcast leading dims, into `out`.
void emit_matmul(PlanBuilder& b, int a, int b_matrix, int out);

// Remainder with the sign of the divisor, of integers.
void integer_remainder(PlanBuilder& b, int dividend, int divisor, int out);

// An Op::Opaque node as the kernel of its name. Results in order (host_opaque.cpp).
Result<void> emit_opaque(PlanBuilder& b, const Graph& graph, const Node& node, const std::vector<int>& in,
                         const std::vector<int>& out);

// ExecuTorch's number of an element type (executorch/schema/scalar_type.fbs), which differs from the .pt2's. -1: it has
// none.
int scalar_type(DType dtype);

}  // namespace swoop::emit
