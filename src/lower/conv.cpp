#include <algorithm>
#include <cmath>

#include "lower/lowering.h"

namespace swoop {

namespace {

// Scale of the accumulator per output channel: one entry per tensor, or one per channel.
std::vector<double> accumulator_scales(const Type& x, const Type& weight) {
  std::vector<double> scales;
  for (double scale : weight.quant->scale) scales.push_back(x.scale() * scale);
  return scales;
}

std::array<int32_t, 4> pad4(const Ints& padding) {
  return {static_cast<int32_t>(padding[0]), static_cast<int32_t>(padding[1]), static_cast<int32_t>(padding[2]),
          static_cast<int32_t>(padding[3])};
}
std::array<int32_t, 2> pair(const Ints& values) {
  return {static_cast<int32_t>(values[0]), static_cast<int32_t>(values[1])};
}

// Weights in another axis order.
Buffer reordered(const Value& weight, const Ints& perm) {
  const Shape& shape = weight.type.shape;
  std::vector<int64_t> strides = row_major_strides(shape);
  size_t size = byte_size(weight.type.dtype);
  Shape to;
  for (int64_t axis : perm) to.push_back(shape[static_cast<size_t>(axis)]);
  Buffer result(weight.data.size());
  std::vector<int64_t> index(to.size(), 0);
  for (int64_t i = 0, n = element_count(to); i < n; ++i) {
    int64_t from = 0;
    for (size_t d = 0; d < to.size(); ++d) from += index[d] * strides[static_cast<size_t>(perm[d])];
    std::copy_n(weight.data.begin() + from * static_cast<int64_t>(size), size,
                result.begin() + i * static_cast<int64_t>(size));
    for (size_t d = to.size(); d-- > 0;) {
      if (++index[d] < to[d]) break;
      index[d] = 0;
    }
  }
  return result;
}

// 7-bit codes in [-7, 7] are int4 to TOSA, which has none beside 16-bit activations.
tosa::DType weight_dtype(const Type& weight, const Type& x) {
  bool four_bits =
      weight.dtype == DType::I4 || (weight.dtype == DType::I8 && weight.quant->qmin >= -7 && weight.quant->qmax <= 7);
  if (!four_bits) return tosa_dtype(weight.dtype);
  return x.dtype == DType::I8 ? tosa::DType::I4 : tosa::DType::I8;
}

}  // namespace

// The bias in units of the accumulator. A quantized bias is used as it is when its scales are the accumulator's.
tosa::TensorId Lowering::bias_of(const Node& n, std::span<const double> scales, int64_t channels) {
  bool wide = in(n, 0).dtype == DType::I16;
  std::vector<int64_t> codes(static_cast<size_t>(channels), 0);
  ValueId id = n.inputs.size() > 2 ? n.inputs[2] : kNone;
  if (id != kNone) {
    const Value& bias = graph_.value(id);
    for (int64_t c = 0; c < channels; ++c) {
      double scale = scales[scales.size() == 1 ? 0 : static_cast<size_t>(c)];
      codes[static_cast<size_t>(c)] = static_cast<int64_t>(std::nearbyint(real_at(bias, c) / scale));
      if (!wide)
        codes[static_cast<size_t>(c)] =
            std::clamp<int64_t>(codes[static_cast<size_t>(c)], dtype_min(DType::I32), dtype_max(DType::I32));
    }
  }
  return b.constant(wide ? tosa::DType::I48 : tosa::DType::I32, {static_cast<int32_t>(channels)}, codes,
                    fmt::format("{}_bias", n.name));
}

tosa::TensorId Lowering::from_accumulator(const Node& n, Id accumulator, std::span<const double> scales) {
  const Type& type = out(n);
  if (type.dtype == DType::I32 && b.dtype(accumulator) == tosa::DType::I32 && scales.size() == 1 &&
      scales[0] == type.scale())
    return accumulator;
  tosa::RescaleParameters parameters;
  parameters.scale32 = b.dtype(accumulator) != tosa::DType::I48;
  std::vector<int64_t> least, most;  // what RESCALE takes
  for (double scale : scales) {
    ScaleCode code = encode_scale(scale / type.scale(), !parameters.scale32);
    parameters.multiplier.push_back(code.multiplier);
    parameters.shift.push_back(code.shift);
    least.push_back(std::max<int64_t>(-code.limit(), dtype_min(DType::I32)));
    most.push_back(std::min<int64_t>(code.limit() - 1, dtype_max(DType::I32)));
  }
  tosa::CodeRange sums = bounds_.of(accumulator);
  int64_t lowest = *std::max_element(least.begin(), least.end()), highest = *std::min_element(most.begin(), most.end());
  bool fits = sums.within(static_cast<double>(lowest), static_cast<double>(highest));
  if (parameters.scale32 && !fits && highest < dtype_max(DType::I32)) {
    tosa::Shape shape(b.shape(accumulator).size(), 1);
    shape.back() = static_cast<int32_t>(least.size());
    accumulator = b.maximum(accumulator, b.constant(tosa::DType::I32, shape, least));
    accumulator = b.minimum(accumulator, b.constant(tosa::DType::I32, shape, most));
  }
  parameters.output_zp = static_cast<int32_t>(type.zero_point());
  parameters.to = tosa_dtype(type.dtype);
  return activate(b.rescale(accumulator, parameters), n);
}

Result<tosa::TensorId> Lowering::conv(const Node& n) {
  const Type& x = in(n, 0);
  const Value& weight = graph_.value(n.inputs[1]);
  if (!n.flag(Key::ChannelsLast)) return cannot(n, "its channels are not last");
  if (!weight.type.quantized()) return cannot(n, "its weights are not quantized");
  if (weight.type.quant->per_channel() && weight.type.quant->axis != 0)
    return cannot(n, "its weights are not quantized along the output channels");
  std::vector<double> scales = accumulator_scales(x, weight.type);
  int64_t channels = weight.type.shape[0];
  Id bias = bias_of(n, scales, channels);
  auto x_zp = static_cast<int32_t>(x.zero_point());
  auto w_zp = static_cast<int32_t>(weight.type.quant->zero_point[0]);
  int64_t groups = n.integer(Key::Groups);
  const Shape& w = weight.type.shape;
  tosa::DType dtype = weight_dtype(weight.type, x);

  tosa::Conv2dAttributes attributes;
  attributes.pad = pad4(n.ints(Key::Padding));
  attributes.stride = pair(n.ints(Key::Stride));
  attributes.dilation = pair(n.ints(Key::Dilation));
  if (groups == 1) {
    Id weights = !weight.constant
                     ? operand(n.inputs[1])
                     : b.constant(dtype, tosa_shape(w), Buffer(weight.data.begin(), weight.data.end()), weight.name);
    return from_accumulator(n, b.conv2d(operand(n.inputs[0]), weights, bias, attributes, x_zp, w_zp), scales);
  }
  if (groups != x.shape.back()) return cannot(n, "it has groups that are not depthwise");
  if (!weight.constant) return cannot(n, "its depthwise weights are computed");
  // [C*M,H,W,1] -> [H,W,C,M]
  Id weights = b.constant(dtype, tosa_shape({w[1], w[2], groups, channels / groups}), reordered(weight, {1, 2, 0, 3}),
                          weight.name);
  return from_accumulator(n, b.depthwise_conv2d(operand(n.inputs[0]), weights, bias, attributes, x_zp, w_zp), scales);
}

Result<tosa::TensorId> Lowering::conv_transpose(const Node& n) {
  const Type& x = in(n, 0);
  const Value& weight = graph_.value(n.inputs[1]);
  if (!n.flag(Key::ChannelsLast)) return cannot(n, "its channels are not last");
  if (!weight.constant || !weight.type.quantized()) return cannot(n, "its weights are not quantized constants");
  if (weight.type.quant->per_channel() && weight.type.quant->axis != 0)
    return cannot(n, "its weights are not quantized along the output channels");
  std::vector<double> scales = accumulator_scales(x, weight.type);
  const Ints& padding = n.ints(Key::Padding);
  Ints extra = n.has(Key::OutputPadding) ? n.ints(Key::OutputPadding) : Ints{0, 0};
  tosa::TransposeConv2dAttributes attributes;
  attributes.out_pad = pad4({-padding[0], -padding[1] + extra[0], -padding[2], -padding[3] + extra[1]});
  attributes.stride = pair(n.ints(Key::Stride));
  Id weights = b.constant(weight_dtype(weight.type, x), tosa_shape(weight.type.shape),
                          Buffer(weight.data.begin(), weight.data.end()), weight.name);
  Id accumulator =
      b.transpose_conv2d(operand(n.inputs[0]), weights, bias_of(n, scales, weight.type.shape[0]), attributes,
                         static_cast<int32_t>(x.zero_point()), static_cast<int32_t>(weight.type.quant->zero_point[0]));
  return from_accumulator(n, accumulator, scales);
}

Result<tosa::TensorId> Lowering::matmul(const Node& n) {
  const Type& a = in(n, 0);
  const Type& c = in(n, 1);
  if (a.rank() != 3 || c.rank() != 3) return cannot(n, "its operands are not of rank 3");
  Id product = b.matmul(operand(n.inputs[0]), operand(n.inputs[1]), static_cast<int32_t>(a.zero_point()),
                        static_cast<int32_t>(c.zero_point()));
  double scale = a.scale() * c.scale() *
                 n.real(Key::Scale, 1.0);  // legalize: what the product is multiplied by, attention's 1/sqrt(d)
  return from_accumulator(n, product, {&scale, 1});
}

}  // namespace swoop
