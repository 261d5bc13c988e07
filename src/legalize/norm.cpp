// Normalisations. The mean is taken once, as a sum; 16-bit values in between. Squares of 8-bit values have 16 bits: a
// row of 64 whose deviation is two steps of x is off by 1 % of the largest result, one of eight steps by a sixteenth of
// that. 16-bit values, whose squares have 32 bits, are off by 0.01 % wherever their
// deviation is above a hundredth of what the type holds. LayerNorm [1500,384] on U55-128: 3.55 M cycles, where the
// peer's form takes 8.43 M.
#include <algorithm>
#include <cmath>

#include "legalize/compose.h"

namespace swoop {

namespace {

// The mean of every row (or group) of a tensor as the given type, in a shape that broadcasts against the tensor.
// `coarser` is that of RowVariance.
using Average = ValueId (*)(Rewriter&, ValueId, Type, int64_t groups, int64_t coarser);

ValueId average_rows(Rewriter& rw, ValueId x, Type type, int64_t, int64_t) {
  return reduce(rw, Op::Mean, x, {rw.type(x).rank() - 1}, std::move(type));
}

// Over H, W and the channels of each group of [N,H,W,C], repeated for every channel.
ValueId average_groups(Rewriter& rw, ValueId x, Type type, int64_t groups, int64_t coarser) {
  const Shape shape = rw.type(x).shape;
  int64_t each = shape[3] / groups;
  // Steps of 32 bits need not be finer than the plane's sum; those of a sum of squares would make it leave 32 bits.
  double sum = rw.type(x).scale() / static_cast<double>(shape[1] * shape[2]);
  double scale = type.dtype == DType::I32 ? std::max(type.scale(), sum * static_cast<double>(coarser)) : type.scale();
  ValueId planes = reduce(rw, Op::Mean, x, {1, 2}, quantized(type.dtype, {}, scale, 0));
  if (each == 1) return planes;
  planes = reshape(rw, planes, {shape[0], 1, groups, each});
  return reduce(rw, Op::Mean, planes, {3}, std::move(type));
}

// [N,1,G,1] -> [N,1,1,C]
ValueId spread_groups(Rewriter& rw, ValueId x, int64_t channels) {
  const Shape shape = rw.type(x).shape;
  if (shape[3] == channels) return x;
  x = rw.make(Op::Repeat, {x}, {{Key::Multiples, Ints{1, 1, 1, channels / shape[2]}}});
  return reshape(rw, x, {shape[0], 1, 1, channels});
}

// x - mean(x) of rows of at most 128 as one 1x1 convolution with the weights N * I - 1, exact in 8 bits: on U55 with 64
// channels 1.0 cycles per element against 2.6 for sum, widening and subtraction.
constexpr int64_t kMaxCentredByConv = 128;
ValueId centred_by_conv(Rewriter& rw, ValueId x) {
  const Shape shape = rw.type(x).shape;
  int64_t length = shape.back();
  std::vector<int64_t> weights(static_cast<size_t>(length * length), -1);
  for (int64_t i = 0; i < length; ++i) weights[static_cast<size_t>(i * length + i)] = length - 1;
  Type weight = quantized(DType::I8, {length, 1, 1, length}, 1.0 / static_cast<double>(length), 0);
  Attrs attrs{{Key::Stride, Ints{1, 1}},
              {Key::Padding, Ints{0, 0, 0, 0}},
              {Key::Dilation, Ints{1, 1}},
              {Key::Groups, int64_t{1}},
              {Key::ChannelsLast, true}};
  ValueId flat = reshape(rw, x, rows_shape(rw, element_count(shape) / length, length));
  Type type = i16_type(rw.type(flat).shape, rw.type(x).scale() / 128);
  return rw.make(Op::Conv, {flat, codes(rw, weight, weights, "centre"), kNone}, attrs,
                 type);  // the rows stay flat for what follows
}

// x - mean, in units of 1/kFine of a step: 16 bits hold that of 8-bit x, 32 bits that of 16-bit x.
constexpr double kFine = 128;
Type centred_type(const Type& x) {
  return quantized(x.dtype == DType::I8 ? DType::I16 : DType::I32, {}, x.scale() / kFine, 0);
}

// How c is normalised: times the inverse of its deviation, or over the deviation.
struct Deviation {
  Op op;
  ValueId by;
  double most;  // what c over its deviation can be
};

// How means are taken: over rows or groups, of `count` numbers each.
struct Mean {
  Average average;
  int64_t groups;
  int64_t count;
  int64_t coarser = 1;
};

// mean(square) + eps, where squares are in units of `unit` and `count` of them go into each mean.
ValueId mean_square(Rewriter& rw, ValueId square, double eps, const Mean& how) {
  double unit = rw.type(square).scale() * static_cast<double>(how.coarser) / static_cast<double>(how.count);
  ValueId mean = how.average(rw, square, i32_type({}, unit), how.groups, how.coarser);
  auto eps_code = static_cast<int64_t>(std::nearbyint(eps / unit));
  if (eps_code == 0) return mean;
  ValueId added = scalar(rw, DType::I32, rw.type(mean).rank(), eps_code, unit);
  return rw.make(Op::Add, {mean, added}, {}, i32_type(rw.type(mean).shape, unit));
}

// A root that the type of x has, next to `root`.
ValueId like_root(Rewriter& rw, ValueId x, double root) {
  const Type& type = rw.type(x);
  return scalar(rw, DType::I32, type.rank(), static_cast<int64_t>(std::nearbyint(root / type.scale())), type.scale());
}

ValueId bounded(Rewriter& rw, Op op, ValueId x, double root) {
  return rw.make(op, {x, like_root(rw, x, root)}, {}, rw.type(x));
}

// sqrt(mean(c^2) + eps) of c in 16 bits, whose squares are in steps of `step`
ValueId root_mean_square(Rewriter& rw, ValueId c, double step, double eps, const Mean& how) {
  ValueId square = rw.make(Op::Mul, {c, c}, {}, i32_type(rw.type(c).shape, step));
  ValueId mean = mean_square(rw, square, eps, how);
  double root = std::sqrt(rw.type(mean).scale()) / 16384;  // of the largest mean it has 30 bits
  return unary(rw, "sqrt", mean, i32_type(rw.type(mean).shape, root));
}

// The same for rows that vary much and rows that vary little: near(c) up to a root that no number out of its reach
// leaves below, and what root(c) has above that.
ValueId root_in_two_ranges(Rewriter& rw, ValueId c, ValueId far, const RowVariance& v, double eps, const Mean& how) {
  ValueId root = root_mean_square(rw, far, v.square, eps, how);
  if (v.nearer == 1) return bounded(rw, Op::Maximum, root, std::sqrt(v.least + eps));
  const double reach = v.most / v.nearer, margin = 0.99;
  const double edge = std::sqrt(margin * reach * reach / static_cast<double>(how.count) + eps);
  ValueId close = rw.make(Op::Quantize, {c}, {}, i16_type(rw.type(c).shape, reach / 32767));
  ValueId near = root_mean_square(rw, close, v.square / (v.nearer * v.nearer), eps, how);
  near = bounded(rw, Op::Minimum, bounded(rw, Op::Maximum, near, std::sqrt(v.least + eps)), edge);
  const Type type = rw.type(root);
  ValueId rest = rw.make(Op::Sub, {bounded(rw, Op::Maximum, root, edge), like_root(rw, root, edge)}, {}, type);
  return rw.make(Op::Add, {near, rest}, {}, type);
}

// sqrt(mean(c^2) + eps) for c with that variance. Of 8-bit values its inverse in 16 bits; of 16-bit values, whose
// deviation c has in 32 bits, and of rows that vary little the root itself in 32 bits.
Deviation deviation(Rewriter& rw, ValueId c, const RowVariance& v, double eps, const Mean& how) {
  const Shape shape = rw.type(c).shape;
  Range reals = range_of(rw.type(c));
  // One number may be as far from the mean as all together.
  const bool wide = rw.type(c).dtype == DType::I32;
  const double reach = wide ? 65536 * kFine * rw.type(c).scale()  // two 16-bit codes are no further apart
                            : std::max(-reals.min, reals.max);
  // Of `count` numbers none is further than sqrt(count) deviations from their mean, and epsilon is in each deviation.
  const double normal = std::min(std::sqrt(static_cast<double>(how.count)), reach / std::sqrt(eps));
  if (v.fine) {
    ValueId far = wide ? rw.make(Op::Quantize, {c}, {}, i16_type(shape, v.most / 32767)) : c;
    return {Op::Div, root_in_two_ranges(rw, c, far, v, eps, how), normal};
  }
  ValueId square = rw.make(Op::Mul, {c, c}, {}, i16_type(shape, v.square));
  ValueId mean = mean_square(rw, square, eps, how);
  const double inverse = 1.0 / std::sqrt(v.least + eps);
  return {Op::Mul, unary(rw, "rsqrt", mean, i16_type(rw.type(mean).shape, inverse / 32767)),
          std::min(normal, reach * inverse)};
}

std::vector<double> reals(const Rewriter& rw, ValueId id, int64_t count, double otherwise) {
  std::vector<double> list(static_cast<size_t>(count), otherwise);
  if (id != kNone)
    for (int64_t i = 0; i < count; ++i) list[static_cast<size_t>(i)] = real_at(rw.value(id), i);
  return list;
}

bool all_equal(std::span<const double> list, double value) {
  constexpr double kRounding = 1e-6;  // 127 steps of 1 / 127, as a float, are not quite 1
  return std::all_of(list.begin(), list.end(), [=](double v) { return std::fabs(v - value) <= kRounding * value; });
}

ValueId input_or_none(const Node& n, size_t i) { return i < n.inputs.size() ? n.inputs[i] : kNone; }
bool constant_or_none(const Rewriter& rw, ValueId id) { return id == kNone || rw.value(id).constant; }

// gain * (c over its deviation) + offset along the last dim, or along rows of as many elements as the vectors have
ValueId scaled(Rewriter& rw, ValueId c, Deviation d, std::span<const double> gain, std::span<const double> offset,
               Type out, const Attrs& bounds) {
  const Shape shape = rw.type(c).shape;
  out.shape = shape;
  if (all_equal(gain, 1.0) && all_equal(offset, 0.0)) return rw.make(d.op, {c, d.by}, bounds, out);
  ValueId normal = rw.make(d.op, {c, d.by}, {}, i16_type(shape, d.most / 32767));
  const auto length = static_cast<int64_t>(gain.size());
  const bool chains = facts_of(rw).chains_elementwise;
  if (!chains || length != shape.back())
    normal = reshape(rw, normal, rows_shape(rw, element_count(shape) / length, length));
  out.shape = rw.type(normal).shape;
  // Where products are not chained, a convolution carries the vectors.
  if (chains) return reshape(rw, scale_by_vectors(rw, normal, gain, offset, out, bounds), shape);
  bool shifts = !all_equal(offset, 0.0);
  return reshape(rw, scale_channels(rw, normal, gain, shifts ? offset : std::span<const double>(), out, bounds), shape);
}

// x in rows, each less its mean (but for rms_norm) and over its deviation, times gain, plus offset
ValueId normal_rows(Rewriter& rw, const Node& n, ValueId x, std::span<const double> gain,
                    std::span<const double> offset) {
  const Type type = rw.type(x);
  const int64_t length = type.shape.back();
  ValueId c = kNone;
  if (n.op == Op::RmsNorm) {
    c = widen(rw, x);
  } else if (length <= kMaxCentredByConv && type.dtype == DType::I8) {
    c = centred_by_conv(rw, x);
  } else {
    ValueId wide = widen(rw, x);
    // What is copied into SRAM anyway is summed there: 196 rows of 192 take 76 instead of 89 kcycles on U85-256.
    const bool near = wide != x && reads_slowly(rw, x) && fits_sram(rw, rw.type(wide));
    ValueId mean = average_rows(rw, near ? wide : x, centred_type(type), 1, 1);
    c = rw.make(Op::Sub, {wide, mean}, {}, with_shape(centred_type(type), type.shape));
  }
  const RowVariance variance = row_variance(n, rw.type(n.inputs[0]));
  Deviation d = deviation(rw, c, variance, n.real(Key::Eps), {average_rows, 1, length});
  return scaled(rw, c, d, gain, offset, rw.type(n.outputs[0]), clamp_of(n));
}

// layer_norm(x), rms_norm(x)  ->  c = x - mean(x); c * rsqrt(mean(c^2) + eps) * weight + bias
bool expand_row_norm(Rewriter& rw, const Node& n) {
  ValueId weight = input_or_none(n, 1);
  ValueId bias = n.op == Op::LayerNorm ? input_or_none(n, 2) : kNone;
  if (!computes_on_codes(rw, n) || !constant_or_none(rw, weight) || !constant_or_none(rw, bias)) return false;
  const Shape shape = rw.type(n.outputs[0]).shape;
  int64_t length = element_count(Shape(shape.begin() + static_cast<std::ptrdiff_t>(n.integer(Key::Axis)), shape.end()));
  // Where the last dim is the row, the shape stays: a reshape of what several ops read may be a copy.
  bool plain = length == shape.back();
  ValueId x = plain ? n.inputs[0] : reshape(rw, n.inputs[0], rows_shape(rw, element_count(shape) / length, length));
  ValueId y = normal_rows(rw, n, x, reals(rw, weight, length, 1.0), reals(rw, bias, length, 0.0));
  rw.replace(n, reshape(rw, y, shape));
  return true;
}

// group_norm(x)  ->  the same with means over the planes and channels of each group, channels last. Of single pixels a
// group is a row: with 2 groups of 16 channels for 12 of them, a retention block takes 9 instead of 105 kcycles on
// U85-256.
bool expand_group_norm(Rewriter& rw, const Node& n) {
  ValueId weight = input_or_none(n, 1);
  ValueId bias = input_or_none(n, 2);
  if (!computes_on_codes(rw, n) || !constant_or_none(rw, weight) || !constant_or_none(rw, bias)) return false;
  const Type out = rw.type(n.outputs[0]);
  const Shape shape = out.shape;
  int64_t groups = n.integer(Key::Groups);
  int64_t plane = element_count(shape) / (shape[0] * shape[1]);
  int64_t count = plane * shape[1] / groups;
  const std::vector<double> gain = reals(rw, weight, shape[1], 1.0), offset = reals(rw, bias, shape[1], 0.0);
  if (plane == 1 && count > 1) {
    ValueId x = reshape(rw, n.inputs[0], rows_shape(rw, element_count(shape) / count, count));
    rw.replace(n, reshape(rw, normal_rows(rw, n, x, gain, offset), shape));
    return true;
  }
  int64_t width = shape.size() > 2 ? shape.back() : 1;
  const RowVariance variance = row_variance(n, rw.type(n.inputs[0]));

  ValueId x = transpose(rw, reshape(rw, n.inputs[0], {shape[0], shape[1], plane / width, width}), {0, 2, 3, 1});
  ValueId mean = spread_groups(rw, average_groups(rw, x, centred_type(rw.type(x)), groups, 1), shape[1]);
  ValueId c = rw.make(Op::Sub, {widen(rw, x), mean}, {}, with_shape(centred_type(rw.type(x)), rw.type(x).shape));
  Deviation d = deviation(rw, c, variance, n.real(Key::Eps), {average_groups, groups, count, variance.coarser});
  d.by = spread_groups(rw, d.by, shape[1]);
  ValueId y = scaled(rw, c, d, gain, offset, out, clamp_of(n));
  rw.replace(n, reshape(rw, transpose(rw, y, {0, 3, 1, 2}), shape));
  return true;
}

// var(x)  ->  c = x - mean(x); mean(c^2) * N / (N - correction), along the last dims
bool expand_variance(Rewriter& rw, const Node& n) {
  if (!computes_on_codes(rw, n)) return false;
  const Type out = rw.type(n.outputs[0]);
  const Shape shape = rw.type(n.inputs[0]).shape;
  Ints perm, axes = n.ints(Key::Axes);
  int64_t length = 1;
  for (int64_t i = 0; i < static_cast<int64_t>(shape.size()); ++i)
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) perm.push_back(i);
  for (int64_t axis : axes) {
    perm.push_back(axis);
    length *= shape[static_cast<size_t>(axis)];
  }
  double divisor = static_cast<double>(length) - n.real(Key::Correction);
  if (divisor <= 0) return false;  // not a number, as PyTorch has it
  ValueId x = reshape(rw, transpose(rw, n.inputs[0], perm), rows_shape(rw, element_count(shape) / length, length));
  bool narrow = rw.type(x).dtype == DType::I8;
  double fine = rw.type(x).scale() / (narrow ? 128 : 1);
  ValueId mean = average_rows(rw, x, i16_type({}, fine), 1, 1);
  // One square may be as large as the whole result times N, and what is beyond that saturates the result.
  const double furthest = std::sqrt(range_of(out).max * static_cast<double>(length));
  double step = narrow ? fine : std::min(2 * fine, furthest / 32767);
  ValueId c = rw.make(Op::Sub, {widen(rw, x), mean}, {}, i16_type(rw.type(x).shape, step));
  double most = std::min(range_of(rw.type(c)).max, furthest);
  double top = static_cast<double>(int64_t{1} << 30) / static_cast<double>(length);
  if (narrow) top = std::min(top, 32767.0);  // 16 bits are enough for the square of an 8-bit value
  double unit = most * most / top;
  ValueId square = rw.make(Op::Mul, {c, c}, {}, quantized(narrow ? DType::I16 : DType::I32, rw.type(c).shape, unit, 0));
  // The sum in a type whose scale carries the division, so that nothing is multiplied.
  ValueId sum = reduce(rw, Op::Mean, square, {3}, i32_type({}, unit / static_cast<double>(length)));
  ValueId one = scalar(rw, DType::I32, 4, 1, static_cast<double>(length) / divisor);
  ValueId y = rw.make(Op::Mul, {sum, one}, clamp_of(n), with_shape(out, rw.type(sum).shape));
  rw.replace(n, reshape(rw, y, out.shape));
  return true;
}

// batch_norm(x) that nothing could take in  ->  a depthwise 1x1 convolution
bool expand_batch_norm(Rewriter& rw, const Node& n) {
  std::optional<Affine> affine = batch_norm_affine(rw.graph(), n);
  if (!computes_on_codes(rw, n) || !affine) return false;
  const Type out = rw.type(n.outputs[0]);
  rw.replace(n, scale_axis_1(rw, n.inputs[0], affine->gain, affine->offset, out, clamp_of(n)));
  return true;
}

}  // namespace

std::span<const Rule> norm_rules() {
  static const Rule kRules[] = {
      {"expand-row-norm", {Op::LayerNorm, Op::RmsNorm}, expand_row_norm, {1e-2, 1e-4}},
      {"expand-group-norm", {Op::GroupNorm}, expand_group_norm, {1e-2, 1e-4}},
      {"expand-variance", {Op::Var}, expand_variance},
      {"expand-batch-norm", {Op::BatchNorm}, expand_batch_norm},
  };
  return kRules;
}

}  // namespace swoop
