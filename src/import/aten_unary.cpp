// Functions of one value, activations and clamps.
#include <algorithm>
#include <cmath>
#include <limits>

#include "import/aten.h"

namespace swoop {

namespace {

// The operand as a float when the result is one: exp of integers computes in float.
ValueId float_operand(Call& c) {
  ValueId x = c.tensor(0);
  return is_float(c.result().dtype) && !is_float(c.dtype(x)) && !c.type(x).quantized() ? c.cast(x, c.result().dtype)
                                                                                       : x;
}

Results unary(Call& c) { return c.unary(c.detail(), float_operand(c)); }

// One parameter, the schema's second argument.
Results unary_alpha(Call& c) { return c.unary(c.detail(), float_operand(c), c.real(1)); }

Results unary_alpha_beta(Call& c) { return c.unary(c.detail(), float_operand(c), c.real(1), c.real(2)); }

Results gelu(Call& c) { return c.unary(c.text(1) == "tanh" ? "gelu_tanh" : "gelu", c.tensor(0)); }

Results logit(Call& c) { return c.unary("logit", c.tensor(0), c.real_or_none(1).value_or(-1.0)); }

// scale * (x > 0 ? x : alpha * (exp(s * x) - 1))  ->  (scale / s) * elu(s * x, alpha * s)
Results elu(Call& c) {
  double alpha = c.real(1);
  double scale = c.real(2);
  double s = c.real(3);
  if (!(s > 0)) unsupported("elu with an input scale that is not positive");
  return c.scaled(c.unary("elu", c.scaled(c.tensor(0), s), alpha * s), scale / s);
}

// In evaluation the slope is the middle of the range.
Results rrelu(Call& c) {
  if (c.flag(3)) unsupported("rrelu in training mode");
  return c.unary("leaky_relu", c.tensor(0), (c.real(1) + c.real(2)) / 2);
}

Results rrelu_with_noise(Call& c) {
  if (c.flag(4) || c.wants(1)) unsupported("rrelu in training mode");
  return std::vector<ValueId>{c.unary("leaky_relu", c.tensor(0), (c.real(2) + c.real(3)) / 2), kNone};
}

Results prelu(Call& c) {
  ValueId weight = c.tensor(1);
  return c.make(Op::Prelu, {c.tensor(0), c.reshape(weight, {element_count(c.shape(weight))})});
}

Results pow_scalar(Call& c) {
  ValueId x = float_operand(c);
  double exponent = c.real(1);
  if (exponent == 1) return x;
  if (exponent == 2) return c.unary("square", x);
  if (is_float(c.dtype(x))) {
    if (exponent == 0.5) return c.unary("sqrt", x);
    if (exponent == -0.5) return c.unary("rsqrt", x);
    if (exponent == -1) return c.unary("reciprocal", x);
  }
  return c.unary("pow", x, exponent);
}

Results round_decimals(Call& c) {
  double factor = std::pow(10.0, std::clamp<double>(static_cast<double>(c.integer(1)), -30, 30));
  return c.scaled(c.unary("round", c.scaled(c.tensor(0), factor)), 1 / factor);
}

Results erfc(Call& c) {
  ValueId x = float_operand(c);
  return c.sub(c.scalar(1, c.dtype(x)), c.unary("erf", x));
}

// The share of a normal distribution below x
Results ndtr(Call& c) {
  ValueId x = float_operand(c), half = c.scalar(0.5, c.dtype(x));
  return c.add(c.scaled(c.unary("erf", c.scaled(x, M_SQRT1_2)), 0.5), half);
}

constexpr double kLn2 = 0.69314718055994530942;
constexpr double kPi = 3.14159265358979323846;

Results exp2(Call& c) { return c.unary("exp", c.scaled(float_operand(c), kLn2)); }
Results deg2rad(Call& c) { return c.scaled(float_operand(c), kPi / 180); }
Results rad2deg(Call& c) { return c.scaled(float_operand(c), 180 / kPi); }

Results isnan(Call& c) {
  ValueId x = c.tensor(0);
  return c.make(Op::Compare, {x, x}, {{Key::Fn, std::string("ne")}});
}

Results isinf(Call& c) {
  ValueId x = c.unary("abs", c.tensor(0));
  return c.make(Op::Compare, {x, c.scalar(INFINITY, c.dtype(x))}, {{Key::Fn, std::string("eq")}});
}

// x == infinity of the given sign
template <int sign>
Results is_infinity(Call& c) {
  ValueId x = c.tensor(0);
  if (!is_float(c.dtype(x))) return c.filled(DType::Bool, c.shape(x), [](int64_t) { return int64_t{0}; });
  return c.compare("eq", x, c.scalar(sign * INFINITY, c.dtype(x)));
}

// |x| < infinity, which is false for what is not a number
Results isfinite(Call& c) {
  ValueId x = c.tensor(0);
  if (!is_float(c.dtype(x))) return c.filled(DType::Bool, c.shape(x), [](int64_t) { return int64_t{1}; });
  return c.compare("lt", c.unary("abs", x), c.scalar(INFINITY, c.dtype(x)));
}

Results isreal(Call& c) {
  return c.filled(DType::Bool, c.result().shape, [](int64_t) { return int64_t{1}; });
}

// x < 0. The sign of a zero is not told apart.
Results signbit(Call& c) {
  ValueId x = c.tensor(0);
  return c.compare("lt", x, c.scalar(0, c.dtype(x)));
}

Results nan_to_num(Call& c) {
  ValueId x = c.tensor(0);
  if (!is_float(c.dtype(x))) return x;
  constexpr double kLargest = std::numeric_limits<float>::max();
  double high = c.real_or_none(2).value_or(kLargest), low = c.real_or_none(3).value_or(-kLargest);
  ValueId number = x;  // infinities alone are replaced
  if (high != kLargest || low != -kLargest) {
    number = c.where(c.compare("eq", x, c.scalar(INFINITY, c.dtype(x))), c.scalar(high, c.dtype(x)), number);
    number = c.where(c.compare("eq", x, c.scalar(-INFINITY, c.dtype(x))), c.scalar(low, c.dtype(x)), number);
  } else {
    number = c.clamp(x, low, high);
  }
  return c.where(c.compare("ne", x, x), c.scalar(c.real_or_none(1).value_or(0), c.dtype(x)), number);
}

// sin(pi x) / (pi x), 1 at zero
Results sinc(Call& c) {
  ValueId x = c.scaled(float_operand(c), kPi), zero = c.scalar(0, c.dtype(x)), one = c.scalar(1, c.dtype(x));
  ValueId at_zero = c.compare("eq", x, zero);
  return c.where(at_zero, one, c.div(c.unary("sin", x), c.where(at_zero, one, x)));
}

// Results of bool or integer operands stay as they are.
Results same(Call& c) { return c.tensor(0); }

// -- clamps

ValueId clamped(Call& c, std::optional<double> min, std::optional<double> max) {
  ValueId x = float_operand(c);
  if (!min && !max) malformed("it needs a lower or an upper bound");
  if ((min && std::isnan(*min)) || (max && std::isnan(*max))) unsupported("a bound is not a number");
  if (min && max && *min > *max) min = max;  // PyTorch: then everything is max
  return c.clamp(x, min, max);
}

Results relu(Call& c) { return clamped(c, 0.0, std::nullopt); }
Results relu6(Call& c) { return clamped(c, 0.0, 6.0); }
Results hardtanh(Call& c) { return clamped(c, c.real(1), c.real(2)); }
Results clamp(Call& c) { return clamped(c, c.real_or_none(1), c.real_or_none(2)); }
Results clamp_min(Call& c) { return clamped(c, c.real(1), std::nullopt); }
Results clamp_max(Call& c) { return clamped(c, std::nullopt, c.real(1)); }

Results clamp_tensor(Call& c) {
  DType dtype = c.result().dtype;
  ValueId x = c.cast(c.tensor(0), dtype);
  if (!c.none(1)) x = c.make(Op::Maximum, {x, c.operand(1, dtype)});
  if (c.args.size() > 2 && !c.none(2)) x = c.make(Op::Minimum, {x, c.operand(2, dtype)});
  return x;
}

Results clamp_max_tensor(Call& c) {
  DType dtype = c.result().dtype;
  return c.make(Op::Minimum, {c.cast(c.tensor(0), dtype), c.operand(1, dtype)});
}

// a * sigmoid(b), a and b the halves of x
Results glu(Call& c) {
  ValueId x = c.tensor(0);
  int64_t axis = c.axis(1, c.rank(x));
  int64_t half = c.dim(x, axis) / 2;
  return c.mul(c.slice(x, axis, 0, half), c.unary("sigmoid", c.slice(x, axis, half, 2 * half)));
}

// The second result is a buffer for the backward pass.
Results log_sigmoid_forward(Call& c) {
  if (c.wants(1)) unsupported("its buffer for training is used");
  return std::vector<ValueId>{c.unary("log_sigmoid", c.tensor(0)), kNone};
}

constexpr std::string_view kSelf = "self";

constexpr Row kUnaryRows[] = {
    {"aten.abs.default", kSelf, unary, "abs"},
    {"aten.absolute.default", kSelf, unary, "abs"},
    {"aten.neg.default", kSelf, unary, "neg"},
    {"aten.negative.default", kSelf, unary, "neg"},
    {"aten.positive.default", kSelf, same},
    {"aten.exp.default", kSelf, unary, "exp"},
    {"aten.exp2.default", kSelf, exp2},
    {"aten.expm1.default", kSelf, unary, "expm1"},
    {"aten.log.default", kSelf, unary, "log"},
    {"aten.log2.default", kSelf, unary, "log2"},
    {"aten.log10.default", kSelf, unary, "log10"},
    {"aten.log1p.default", kSelf, unary, "log1p"},
    {"aten.sqrt.default", kSelf, unary, "sqrt"},
    {"aten.rsqrt.default", kSelf, unary, "rsqrt"},
    {"aten.reciprocal.default", kSelf, unary, "reciprocal"},
    {"aten.square.default", kSelf, unary, "square"},
    {"aten.sigmoid.default", kSelf, unary, "sigmoid"},
    {"aten.log_sigmoid.default", kSelf, unary, "log_sigmoid"},
    {"aten.log_sigmoid_forward.default", kSelf, log_sigmoid_forward},
    {"aten.tanh.default", kSelf, unary, "tanh"},
    {"aten.erf.default", kSelf, unary, "erf"},
    {"aten.erfc.default", kSelf, erfc},
    {"aten.erfinv.default", kSelf, unary, "erfinv"},
    {"aten.silu.default", kSelf, unary, "silu"},
    {"aten.mish.default", kSelf, unary, "mish"},
    {"aten.hardswish.default", kSelf, unary, "hardswish"},
    {"aten.hardsigmoid.default", kSelf, unary, "hardsigmoid"},
    {"aten.selu.default", kSelf, unary, "selu"},
    {"aten.floor.default", kSelf, unary, "floor"},
    {"aten.ceil.default", kSelf, unary, "ceil"},
    {"aten.trunc.default", kSelf, unary, "trunc"},
    {"aten.fix.default", kSelf, unary, "trunc"},
    {"aten.round.default", kSelf, unary, "round"},
    {"aten.round.decimals", "self, *, decimals", round_decimals},
    {"aten.frac.default", kSelf, unary, "frac"},
    {"aten.sign.default", kSelf, unary, "sign"},
    {"aten.sgn.default", kSelf, unary, "sign"},
    {"aten.sin.default", kSelf, unary, "sin"},
    {"aten.cos.default", kSelf, unary, "cos"},
    {"aten.tan.default", kSelf, unary, "tan"},
    {"aten.sinh.default", kSelf, unary, "sinh"},
    {"aten.cosh.default", kSelf, unary, "cosh"},
    {"aten.asin.default", kSelf, unary, "asin"},
    {"aten.acos.default", kSelf, unary, "acos"},
    {"aten.atan.default", kSelf, unary, "atan"},
    {"aten.asinh.default", kSelf, unary, "asinh"},
    {"aten.acosh.default", kSelf, unary, "acosh"},
    {"aten.atanh.default", kSelf, unary, "atanh"},
    {"aten.arcsin.default", kSelf, unary, "asin"},
    {"aten.arccos.default", kSelf, unary, "acos"},
    {"aten.arctan.default", kSelf, unary, "atan"},
    {"aten.arcsinh.default", kSelf, unary, "asinh"},
    {"aten.arccosh.default", kSelf, unary, "acosh"},
    {"aten.arctanh.default", kSelf, unary, "atanh"},
    {"aten.deg2rad.default", kSelf, deg2rad},
    {"aten.rad2deg.default", kSelf, rad2deg},
    {"aten.isnan.default", kSelf, isnan},
    {"aten.isinf.default", kSelf, isinf},
    {"aten.isposinf.default", kSelf, is_infinity<1>},
    {"aten.isneginf.default", kSelf, is_infinity<-1>},
    {"aten.isfinite.default", kSelf, isfinite},
    {"aten.isreal.default", kSelf, isreal},
    {"aten.signbit.default", kSelf, signbit},
    {"aten.nan_to_num.default", "self, nan=None, posinf=None, neginf=None", nan_to_num},
    {"aten.sinc.default", kSelf, sinc},
    {"aten.special_sinc.default", kSelf, sinc},
    {"aten.special_erf.default", kSelf, unary, "erf"},
    {"aten.special_erfc.default", kSelf, erfc},
    {"aten.special_ndtr.default", kSelf, ndtr},
    {"aten.special_erfinv.default", kSelf, unary, "erfinv"},
    {"aten.special_exp2.default", kSelf, exp2},
    {"aten.special_expm1.default", kSelf, unary, "expm1"},
    {"aten.special_log1p.default", kSelf, unary, "log1p"},
    {"aten.float_power.Tensor_Scalar", "self, exponent", pow_scalar},
    {"aten.gelu.default", "self, *, approximate='none'", gelu},
    {"aten.leaky_relu.default", "self, negative_slope=0.01", unary_alpha, "leaky_relu"},
    {"aten.rrelu.default", "self, lower=0.125, upper=0.3333333333333333, training=False, generator=None", rrelu},
    {"aten.rrelu_with_noise_functional.default",
     "self, noise, lower=0.125, upper=0.3333333333333333, training=False, generator=None", rrelu_with_noise},
    {"aten.elu.default", "self, alpha=1, scale=1, input_scale=1", elu},
    {"aten.celu.default", "self, alpha=1.0", unary_alpha, "celu"},
    {"aten.softplus.default", "self, beta=1, threshold=20", unary_alpha_beta, "softplus"},
    {"aten.threshold.default", "self, threshold, value", unary_alpha_beta, "threshold"},
    {"aten.hardshrink.default", "self, lambd=0.5", unary_alpha, "hardshrink"},
    {"aten.softshrink.default", "self, lambd=0.5", unary_alpha, "softshrink"},
    {"aten.logit.default", "self, eps=None", logit},
    {"aten.special_logit.default", "self, eps=None", logit},
    {"aten.special_expit.default", kSelf, unary, "sigmoid"},
    {"aten.prelu.default", "self, weight", prelu},
    {"aten._prelu_kernel.default", "self, weight", prelu},
    {"aten.glu.default", "self, dim=-1", glu},
    {"aten.pow.Tensor_Scalar", "self, exponent", pow_scalar},
    {"aten.remainder.Scalar", "self, other", unary_alpha, "remainder"},
    {"aten.fmod.Scalar", "self, other", unary_alpha, "fmod"},
    {"aten.relu.default", kSelf, relu},
    {"aten.relu6.default", kSelf, relu6},
    {"aten.hardtanh.default", "self, min_val=-1, max_val=1", hardtanh},
    {"aten.clamp.default", "self, min=None, max=None", clamp},
    {"aten.clip.default", "self, min=None, max=None", clamp},
    {"aten.clamp.Tensor", "self, min=None, max=None", clamp_tensor},
    {"aten.clip.Tensor", "self, min=None, max=None", clamp_tensor},
    {"aten.clamp_min.default", "self, min", clamp_min},
    {"aten.clamp_max.default", "self, max", clamp_max},
    {"aten.clamp_min.Tensor", "self, min", clamp_tensor},
    {"aten.clamp_max.Tensor", "self, max", clamp_max_tensor},
};

}  // namespace

std::span<const Row> unary_rows() { return kUnaryRows; }

}  // namespace swoop
