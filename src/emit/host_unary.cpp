#include <algorithm>

#include "emit/host.h"

namespace swoop::emit {

namespace {

// Functions that are a kernel with x as its only argument.
constexpr std::string_view kPlain[] = {
    "abs",        "neg",     "exp",  "expm1", "log",   "log2", "log10", "log1p", "sqrt",  "rsqrt",
    "reciprocal", "sigmoid", "tanh", "erf",   "floor", "ceil", "trunc", "round", "sign",  "sin",
    "cos",        "tan",     "sinh", "cosh",  "asin",  "acos", "atan",  "asinh", "acosh", "atanh",
};

// log(1 + exp(x * beta)) / beta, and x itself above the threshold, as torch.nn.functional.softplus.
int softplus(PlanBuilder& b, int x, double beta, double threshold, int out = kAbsent) {
  int scaled = beta == 1.0 ? x : b.mul_scalar(x, beta);
  int soft = b.unary("aten::log1p.out", b.unary("aten::exp.out", scaled));
  if (beta != 1.0) soft = b.mul_scalar(soft, 1.0 / beta);
  return b.where(b.greater(scaled, threshold), x, soft, out);
}

// clamp(x + 3, 0, 6), of hardswish and hardsigmoid
int relu6_of_x_plus_3(PlanBuilder& b, int x) { return b.clamp(b.add_scalar(x, 3.0), 0.0, 6.0); }

int filled_like(PlanBuilder& b, int x, double value) {
  int out = b.like(x);
  b.kernel("aten::full_like.out", {x, b.scalar(b.tensor(x).dtype, value), b.null()}, {out});
  return out;
}

void elu(HostCall& call, double alpha, double scale, double input_scale) {
  PlanBuilder& b = call.b;
  b.kernel("aten::elu.out", {call.in[0], b.real(alpha), b.real(scale), b.real(input_scale)}, {call.out});
}

}  // namespace

Result<void> emit_unary(HostCall& call) {
  PlanBuilder& b = call.b;
  const std::string& fn = call.node.text(Key::Fn);
  int x = call.in[0];
  int out = call.out;
  double alpha = call.node.real(Key::Alpha, 0.0);
  double beta = call.node.real(Key::Beta, 0.0);

  if (std::ranges::find(kPlain, fn) != std::end(kPlain)) {
    b.unary("aten::" + fn + ".out", x, out);
  } else if (fn == "square") {
    b.binary("aten::mul.out", x, x, out);
  } else if (fn == "gelu" || fn == "gelu_tanh") {
    b.kernel("aten::gelu.out", {x, b.text(fn == "gelu" ? "none" : "tanh")}, {out});
  } else if (fn == "silu") {
    b.binary("aten::mul.out", x, b.unary("aten::sigmoid.out", x), out);
  } else if (fn == "log_sigmoid") {  // min(x, 0) - log1p(exp(-|x|))
    int decay = b.unary("aten::exp.out", b.unary("aten::neg.out", b.unary("aten::abs.out", x)));
    b.sub(b.clamp(x, std::nullopt, 0.0), b.unary("aten::log1p.out", decay), out);
  } else if (fn == "softplus") {
    softplus(b, x, alpha, beta, out);
  } else if (fn == "mish") {
    b.binary("aten::mul.out", x, b.unary("aten::tanh.out", softplus(b, x, 1.0, 20.0)), out);  // 20: PyTorch's threshold
  } else if (fn == "softsign") {
    b.binary("aten::div.out", x, b.add_scalar(b.unary("aten::abs.out", x), 1.0), out);
  } else if (fn == "hardswish") {
    b.mul_scalar(b.binary("aten::mul.out", x, relu6_of_x_plus_3(b, x)), 1.0 / 6.0, out);
  } else if (fn == "hardsigmoid") {
    b.mul_scalar(relu6_of_x_plus_3(b, x), 1.0 / 6.0, out);
  } else if (fn == "leaky_relu") {
    b.kernel("aten::leaky_relu.out", {x, b.real(alpha)}, {out});
  } else if (fn == "elu") {
    elu(call, alpha, 1.0, 1.0);
  } else if (fn == "selu") {
    elu(call, 1.6732632423543772, 1.0507009873554805, 1.0);  // torch.nn.functional.selu
  } else if (fn == "celu") {
    elu(call, alpha, 1.0, 1.0 / alpha);
  } else if (fn == "threshold") {
    b.where(b.greater(x, alpha), x, filled_like(b, x, beta), out);
  } else if (fn == "hardshrink") {
    b.where(b.greater(b.unary("aten::abs.out", x), alpha), x, filled_like(b, x, 0.0), out);
  } else if (fn == "softshrink") {  // x - clamp(x, -alpha, alpha)
    b.sub(x, b.clamp(x, -alpha, alpha), out);
  } else if (fn == "tanhshrink") {
    b.sub(x, b.unary("aten::tanh.out", x), out);
  } else if (fn == "frac") {
    b.sub(x, b.unary("aten::trunc.out", x), out);
  } else if (fn == "logit") {
    b.kernel("aten::logit.out", {x, alpha < 0.0 ? b.null() : b.real(alpha)}, {out});
  } else if (fn == "remainder" && !is_float(b.tensor(x).dtype)) {
    int divisor = filled_like(b, x, alpha);
    integer_remainder(b, x, divisor, out);
  } else if (fn == "pow" || fn == "remainder" || fn == "fmod") {
    std::string kernel = fn == "pow" ? "aten::pow.Tensor_Scalar_out" : "aten::" + fn + ".Scalar_out";
    b.kernel(kernel, {x, b.scalar(b.tensor(x).dtype, alpha)}, {out});
  } else {
    return no_kernel(call.graph, call.node,
                     "the runtime has no kernel for this function; compute it on the NPU or replace it in the model");
  }
  return {};
}

}  // namespace swoop::emit
