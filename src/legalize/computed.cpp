// Convolutions whose weights are computed: products of matrices, where the core has nothing better.
#include <algorithm>

#include "legalize/kernel.h"

namespace swoop {

namespace {

bool has_computed_weights(const Rewriter& rw, const Node& n) {
  return computes_on_codes(rw, n) && !n.flag(Key::ChannelsLast) && !rw.value(n.inputs[1]).constant &&
         (n.inputs.size() < 3 || n.inputs[2] == kNone);
}

ValueId every_nth(Rewriter& rw, ValueId x, int64_t axis, int64_t start, int64_t count, int64_t step) {
  return rw.make(
      Op::Slice, {x},
      {{Key::Axis, axis}, {Key::Start, start}, {Key::End, start + (count - 1) * step + 1}, {Key::Step, step}});
}

// x[N, g, C/g * taps, positions]: what each tap of the kernel reads, for all results
ValueId unfolded(Rewriter& rw, const Node& n) {
  const Shape w = rw.type(n.inputs[1]).shape, out = rw.type(n.outputs[0]).shape;
  const Ints stride = n.ints(Key::Stride), dilation = n.ints(Key::Dilation), padding = n.ints(Key::Padding);
  const int64_t groups = n.integer(Key::Groups);
  const size_t dims = out.size() - 2;
  ValueId x = n.inputs[0];
  for (size_t d = 0; d < dims; ++d)
    x = pad_axis(rw, x, static_cast<int64_t>(d) + 2, padding[2 * d], padding[2 * d + 1]);
  const int64_t channels = rw.type(x).shape[1];
  const int64_t taps = element_count(Shape(w.begin() + 2, w.end()));
  const int64_t positions = element_count(Shape(out.begin() + 2, out.end()));
  std::vector<ValueId> parts;
  for (int64_t tap = 0; tap < taps; ++tap) {
    ValueId part = x;
    int64_t rest = tap;
    for (size_t d = dims; d-- > 0; rest /= w[d + 2])
      part = every_nth(rw, part, static_cast<int64_t>(d) + 2, rest % w[d + 2] * dilation[d], out[d + 2], stride[d]);
    parts.push_back(reshape(rw, part, {out[0], channels, 1, positions}));
  }
  return reshape(rw, concat(rw, std::move(parts), 2), {out[0], groups, channels / groups * taps, positions});
}

// conv(x, computed w)  ->  w * x unfolded. U85 takes such a conv of 8 bits as it is, unless it has groups.
bool conv_of_computed_to_matmul(Rewriter& rw, const Node& n) {
  constexpr int64_t kMostTaps = 1024;  // a slice each
  if (!has_computed_weights(rw, n)) return false;
  const Type w = rw.type(n.inputs[1]), out = rw.type(n.outputs[0]);
  const int64_t groups = n.integer(Key::Groups);
  bool narrow = rw.type(n.inputs[0]).dtype == DType::I8 && w.dtype == DType::I8;
  if (facts_of(rw).computed_weights && groups == 1 && narrow) return false;
  int64_t per_group = element_count(w.shape) / w.shape[0];
  if (per_group / w.shape[1] > kMostTaps) return false;
  ValueId weight = reshape(rw, n.inputs[1], {1, groups, w.shape[0] / groups, per_group});
  ValueId x = unfolded(rw, n);
  Shape product = {out.shape[0], groups, w.shape[0] / groups, rw.type(x).shape[3]};
  rw.replace(n, reshape(rw, rw.make(Op::MatMul, {weight, x}, clamp_of(n), with_shape(out, product)), out.shape));
  return true;
}

// A few elements in the other order; U55 does not flip the last axis.
ValueId turned_round(Rewriter& rw, ValueId x, int64_t axis) {
  std::vector<ValueId> parts;
  for (int64_t i = rw.type(x).shape[static_cast<size_t>(axis)]; i-- > 0;) parts.push_back(slice(rw, x, axis, i, i + 1));
  return parts.size() == 1 ? x : concat(rw, std::move(parts), axis);
}

// conv_transpose(x, computed w)  ->  a conv of x with zeros between its elements and w turned round
bool transposed_of_computed_to_conv(Rewriter& rw, const Node& n) {
  if (!has_computed_weights(rw, n)) return false;
  const Type out = rw.type(n.outputs[0]);
  const Shape w = rw.type(n.inputs[1]).shape;  // [C, O/g, k...]
  const Ints stride = n.ints(Key::Stride), dilation = n.ints(Key::Dilation), padding = n.ints(Key::Padding);
  const int64_t groups = n.integer(Key::Groups);
  const size_t dims = out.shape.size() - 2;
  ValueId x = n.inputs[0];
  Ints around, axes;
  for (size_t d = 0; d < dims; ++d) {
    auto axis = static_cast<int64_t>(d) + 2;
    const int64_t size = rw.type(x).shape[d + 2], spread = (size - 1) * stride[d] + 1;
    if (stride[d] > 1 && size > 1) {
      Shape apart = rw.type(x).shape;
      apart.insert(apart.begin() + axis + 1, 1);
      x = pad_axis(rw, reshape(rw, x, apart), axis + 1, 0, stride[d] - 1);
      apart.erase(apart.begin() + axis + 1);
      apart[d + 2] = size * stride[d];
      x = slice(rw, reshape(rw, x, apart), axis, 0, spread);
    }
    const int64_t reach = dilation[d] * (w[d + 2] - 1), before = reach - padding[2 * d];
    const int64_t after = out.shape[d + 2] + reach - spread - before;
    if (before < 0) x = slice(rw, x, axis, -before, rw.type(x).shape[d + 2]);
    if (after < 0) x = slice(rw, x, axis, 0, rw.type(x).shape[d + 2] + after);
    around.insert(around.end(), {std::max<int64_t>(before, 0), std::max<int64_t>(after, 0)});
    axes.push_back(axis);
  }
  Shape split = w, turned = w;
  split[0] /= groups;
  split.insert(split.begin(), groups);  // [g, C/g, O/g, k...]
  Ints perm = {0, 2, 1};
  for (size_t d = 0; d < dims; ++d) perm.push_back(static_cast<int64_t>(d) + 3);
  turned[0] = groups * w[1];
  turned[1] = w[0] / groups;
  ValueId weight = reshape(rw, transpose(rw, reshape(rw, n.inputs[1], split), perm), turned);
  for (int64_t axis : axes) weight = turned_round(rw, weight, axis);
  Attrs attrs = n.attrs;
  attrs.erase(Key::OutputPadding);
  attrs.set(Key::Stride, Ints(dims, 1));
  attrs.set(Key::Padding, around);
  rw.replace(n, rw.make(Op::Conv, {x, weight, kNone}, attrs, out));
  return true;
}

}  // namespace

std::span<const Rule> computed_weight_rules() {
  static const Rule kRules[] = {
      {"conv-of-computed-to-matmul", {Op::Conv}, conv_of_computed_to_matmul},
      {"transposed-of-computed-to-conv", {Op::ConvTranspose}, transposed_of_computed_to_conv},
  };
  return kRules;
}

}  // namespace swoop
