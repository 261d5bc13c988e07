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

void refuse_training(const Call& c, size_t index) {
  if (c.flag(index)) malformed("batch norm is in training mode; call model.eval() before export");
}

Results batch_norm_training_flag(Call& c) {
  refuse_training(c, 5);
  return batch_norm(c, c.real(7));
}

// Three results, of which the statistics are empty in evaluation.
Results with_statistics(const Call& c, ValueId value) {
  if (c.wants(1) || c.wants(2)) unsupported("the statistics of the normalisation are used");
  return std::vector<ValueId>{value, kNone, kNone};
}

Results native_batch_norm(Call& c) {
  refuse_training(c, 5);
  return with_statistics(c, batch_norm(c, c.real(7)));
}

Results batch_norm_no_training(Call& c) { return with_statistics(c, batch_norm(c, c.real(6))); }

ValueId group_norm(Call& c, ValueId x, ValueId weight, ValueId bias, int64_t groups, double eps) {
  return c.make(Op::GroupNorm, {x, weight, bias}, {{Key::Groups, groups}, {Key::Eps, eps}});
}

// The statistics of a batch of one are those of its channels: an instance norm.
Results batch_norm_no_stats(Call& c) {
  ValueId x = c.tensor(0);
  if (!c.flag(3) || c.rank(x) < 2 || c.dim(x, 0) != 1)
    unsupported("batch norm over a batch without running statistics");
  return with_statistics(c, group_norm(c, x, c.tensor_or_none(1), c.tensor_or_none(2), c.dim(x, 1), c.real(5)));
}

Results group_norm_default(Call& c) {
  return group_norm(c, c.tensor(0), c.tensor_or_none(2), c.tensor_or_none(3), c.integer(1), c.real(4));
}

Results native_group_norm(Call& c) {
  return with_statistics(c,
                         group_norm(c, c.tensor(0), c.tensor_or_none(1), c.tensor_or_none(2), c.integer(6), c.real(7)));
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
Results native_layer_norm(Call& c) { return with_statistics(c, layer_norm(c)); }

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

constexpr std::string_view kBatchNorm = "input, weight, bias, running_mean, running_var, training, momentum, eps";

constexpr Row kNormRows[] = {
    {"aten.batch_norm.default",
     "input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled",
     batch_norm_training_flag},
    {"aten.native_batch_norm.default", kBatchNorm, native_batch_norm},
    {"aten._native_batch_norm_legit.default", kBatchNorm, native_batch_norm},
    {"aten._native_batch_norm_legit.no_stats", "input, weight, bias, training, momentum, eps", batch_norm_no_stats},
    {"aten._native_batch_norm_legit_no_training.default",
     "input, weight, bias, running_mean, running_var, momentum, eps", batch_norm_no_training},
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
    {"aten.log_softmax.int", "self, dim, dtype=None", softmax<Op::LogSoftmax>},
    {"aten._log_softmax.default", "self, dim, half_to_float", softmax<Op::LogSoftmax>},
};

}  // namespace

std::span<const Row> norm_rows() { return kNormRows; }

}  // namespace swoop
