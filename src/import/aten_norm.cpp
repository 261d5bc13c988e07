// Normalisations and softmax: composites, kept whole.
#include "import/aten.h"

namespace swoop {

namespace {

constexpr double kFloatEps = 1.1920928955078125e-07;  // torch.finfo(torch.float32).eps, rms_norm's default

ValueId batch_norm(Call& c, double eps) {
  ValueId mean = c.tensor_or_none(3);
  ValueId var = c.tensor_or_none(4);
  if (mean == kNone || var == kNone) unsupported("batch norm without running statistics");
  return c.make(Op::BatchNorm, {c.tensor(0), c.tensor_or_none(1), c.tensor_or_none(2), mean, var}, {{Key::Eps, eps}});
}

ValueId group_norm(Call& c, ValueId x, ValueId weight, ValueId bias, int64_t groups, double eps) {
  return c.make(Op::GroupNorm, {x, weight, bias}, {{Key::Groups, groups}, {Key::Eps, eps}});
}

// By the statistics of the batch itself, as weight standardization does it: each channel of all images is one group.
ValueId batch_statistics_norm(Call& c, double eps) {
  ValueId x = c.tensor(0);
  if (c.rank(x) < 2) malformed("it needs a batch and channels");
  const Shape shape = c.shape(x);
  Shape turned = shape;
  std::swap(turned[0], turned[1]);
  int64_t channels = shape[1], each = channels == 0 ? 0 : element_count(shape) / channels;
  ValueId y = c.reshape(c.swap(x, 0, 1), {1, channels, each});
  y = group_norm(c, y, c.tensor_or_none(1), c.tensor_or_none(2), channels, eps);
  return c.swap(c.reshape(y, std::move(turned)), 0, 1);
}

// A batch norm that updates its statistics was exported by mistake.
ValueId batch_norm_in_any_mode(Call& c, double eps) {
  if (!c.flag(5)) return batch_norm(c, eps);
  if (!c.none(3) || !c.none(4)) malformed("batch norm is in training mode; call model.eval() before export");
  return batch_statistics_norm(c, eps);
}

Results batch_norm_training_flag(Call& c) { return batch_norm_in_any_mode(c, c.real(7)); }

// Three results, of which the statistics are empty in evaluation.
Results with_statistics(const Call& c, ValueId value) {
  if (c.wants(1) || c.wants(2)) unsupported("the statistics of the normalisation are used");
  return std::vector<ValueId>{value, kNone, kNone};
}

Results native_batch_norm(Call& c) { return with_statistics(c, batch_norm_in_any_mode(c, c.real(7))); }

// The same, and the running statistics as they are afterwards: in evaluation, as before
Results batch_norm_functional(Call& c) {
  Results results = native_batch_norm(c);
  results.values.insert(results.values.end(), {c.tensor(3), c.tensor(4)});
  return results;
}

Results batch_norm_no_training(Call& c) { return with_statistics(c, batch_norm(c, c.real(6))); }

Results batch_norm_no_stats(Call& c) {
  if (!c.flag(3)) unsupported("batch norm without statistics");
  return with_statistics(c, batch_statistics_norm(c, c.real(5)));
}

// The norm of each slice along one axis; -1: of all elements
ValueId norm_but_for(Call& c, ValueId x, int64_t kept, double p) {
  Ints axes;
  for (int64_t d = 0; d < c.rank(x); ++d)
    if (d != kept) axes.push_back(d);
  return c.norm(x, p, axes, kept != -1);
}

int64_t kept_axis(Call& c, size_t index, ValueId x) { return c.integer(index) == -1 ? -1 : c.axis(index, c.rank(x)); }

Results norm_except_dim(Call& c) {
  ValueId x = c.tensor(0);
  return norm_but_for(c, x, kept_axis(c, 2, x), c.real(1));
}

// v * (g / |v|)
std::vector<ValueId> weight_norm(Call& c) {
  ValueId v = c.tensor(0);
  ValueId norm = norm_but_for(c, v, kept_axis(c, 2, v), 2);
  return {c.mul(v, c.div(c.tensor(1), norm)), norm};
}

Results weight_norm_default(Call& c) { return weight_norm(c)[0]; }
Results weight_norm_interface(Call& c) { return weight_norm(c); }

// The normalised value, and the mean and 1 / deviation that it was made with, of what `rows` has along the axes
Results with_moments(Call& c, ValueId value, ValueId rows, const Ints& axes, double eps) {
  std::vector<ValueId> results = {value, kNone, kNone};
  if (c.wants(1)) results[1] = c.reshape(c.reduce(Op::Mean, rows, axes, true), c.result(1).shape);
  if (!c.wants(2)) return results;
  ValueId var = c.make(Op::Var, {rows}, {{Key::Axes, axes}, {Key::Correction, 0.0}, {Key::Keepdim, true}});
  ValueId spread = c.unary("rsqrt", c.add(var, c.scalar(eps, c.dtype(var))));
  results[2] = c.reshape(spread, c.result(2).shape);
  return results;
}

Results group_norm_default(Call& c) {
  return group_norm(c, c.tensor(0), c.tensor_or_none(2), c.tensor_or_none(3), c.integer(1), c.real(4));
}

Results native_group_norm(Call& c) {
  ValueId x = c.tensor(0);
  int64_t groups = c.integer(6), count = element_count(c.shape(x));
  ValueId y = group_norm(c, x, c.tensor_or_none(1), c.tensor_or_none(2), groups, c.real(7));
  if (!c.wants(1) && !c.wants(2)) return std::vector<ValueId>{y, kNone, kNone};
  int64_t each = c.dim(x, 0) * groups;
  if (each == 0 || count % each != 0) malformed("it has {} groups", groups);
  return with_moments(c, y, c.reshape(x, {c.dim(x, 0), groups, count / each}), {2}, c.real(7));
}

Results instance_norm(Call& c) {
  ValueId x = c.tensor(0);
  if (!c.flag(5)) return batch_norm(c, c.real(7));
  if (c.rank(x) < 2) malformed("it needs a batch and channels");
  return group_norm(c, x, c.tensor_or_none(1), c.tensor_or_none(2), c.dim(x, 1), c.real(7));
}

int64_t first_normalised(Call& c, ValueId x) {
  auto dims = static_cast<int64_t>(c.ints(1).size());
  if (dims == 0 || dims > c.rank(x)) malformed("it normalises {} of {} dimensions", dims, c.rank(x));
  return c.rank(x) - dims;
}

ValueId layer_norm(Call& c) {
  ValueId x = c.tensor(0);
  return c.make(Op::LayerNorm, {x, c.tensor_or_none(2), c.tensor_or_none(3)},
                {{Key::Axis, first_normalised(c, x)}, {Key::Eps, c.real(4)}});
}

Results layer_norm_default(Call& c) { return layer_norm(c); }
Results native_layer_norm(Call& c) {
  ValueId x = c.tensor(0);
  Ints axes;
  for (int64_t d = first_normalised(c, x); d < c.rank(x); ++d) axes.push_back(d);
  return with_moments(c, layer_norm(c), x, axes, c.real(4));
}

ValueId rms_norm(Call& c) {
  ValueId x = c.tensor(0);
  return c.make(Op::RmsNorm, {x, c.tensor_or_none(2)},
                {{Key::Axis, first_normalised(c, x)}, {Key::Eps, c.real_or_none(3).value_or(kFloatEps)}});
}

Results rms_norm_default(Call& c) { return rms_norm(c); }

Results fused_rms_norm(Call& c) {
  if (c.wants(1)) unsupported("the statistics of the normalisation are used");
  return std::vector<ValueId>{rms_norm(c), kNone};
}

template <Op op>
Results softmax(Call& c) {
  ValueId x = c.cast(c.tensor(0), c.result().dtype);
  return c.make(op, {x}, {{Key::Axis, c.axis(1, c.rank(x))}});
}

// y * (g - sum of g * y): with y the softmax and g the gradient of its result
Results softmax_backward(Call& c) {
  ValueId g = c.tensor(0), y = c.tensor(1);
  if (c.rank(y) == 0) return c.scaled(y, 0);
  ValueId total = c.reduce(Op::Sum, c.mul(g, y), {c.axis(2, c.rank(y))}, true);
  return c.cast(c.mul(y, c.sub(g, total)), c.result().dtype);
}

Results dropout_backward(Call& c) {
  ValueId g = c.tensor(0);
  return c.scaled(c.mul(g, c.cast(c.tensor(1), c.dtype(g))), c.real(2));
}

constexpr std::string_view kBatchNorm = "input, weight, bias, running_mean, running_var, training, momentum, eps";

constexpr Row kNormRows[] = {
    {"aten.batch_norm.default",
     "input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled",
     batch_norm_training_flag},
    {"aten.native_batch_norm.default", kBatchNorm, native_batch_norm},
    {"aten._native_batch_norm_legit.default", kBatchNorm, native_batch_norm},
    {"aten._native_batch_norm_legit_functional.default", kBatchNorm, batch_norm_functional},
    {"aten._native_batch_norm_legit.no_stats", "input, weight, bias, training, momentum, eps", batch_norm_no_stats},
    {"aten._native_batch_norm_legit_no_training.default",
     "input, weight, bias, running_mean, running_var, momentum, eps", batch_norm_no_training},
    {"aten._weight_norm.default", "v, g, dim=0", weight_norm_default},
    {"aten._weight_norm_interface.default", "v, g, dim=0", weight_norm_interface},
    {"aten.norm_except_dim.default", "v, pow=2, dim=0", norm_except_dim},
    {"aten.group_norm.default", "input, num_groups, weight=None, bias=None, eps=1e-05, cudnn_enabled=True",
     group_norm_default},
    {"aten.native_group_norm.default", "input, weight, bias, N, C, HxW, group, eps", native_group_norm},
    {"aten.instance_norm.default",
     "input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled", instance_norm},
    {"aten.layer_norm.default", "input, normalized_shape, weight=None, bias=None, eps=1e-05, cudnn_enable=True",
     layer_norm_default},
    {"aten.native_layer_norm.default", "input, normalized_shape, weight, bias, eps", native_layer_norm},
    {"aten.rms_norm.default", "input, normalized_shape, weight=None, eps=None", rms_norm_default},
    {"aten._fused_rms_norm.default", "input, normalized_shape, weight, eps", fused_rms_norm},
    {"aten.softmax.int", "self, dim, dtype=None", softmax<Op::Softmax>},
    {"aten._softmax.default", "self, dim, half_to_float", softmax<Op::Softmax>},
    {"aten._safe_softmax.default", "self, dim, dtype=None", softmax<Op::Softmax>},
    {"aten._softmax_backward_data.default", "grad_output, output, dim, input_dtype", softmax_backward},
    {"aten.native_dropout_backward.default", "grad_output, mask, scale", dropout_backward},
    {"aten.log_softmax.int", "self, dim, dtype=None", softmax<Op::LogSoftmax>},
    {"aten._log_softmax.default", "self, dim, half_to_float", softmax<Op::LogSoftmax>},
};

}  // namespace

std::span<const Row> norm_rows() { return kNormRows; }

}  // namespace swoop
