#include <cmath>
#include <numeric>

#include "lower/lowering.h"

namespace swoop {

Result<tosa::TensorId> Lowering::pool(const Node& n) {
  const Type& from = in(n, 0);
  const Type& to = out(n);
  if (!n.flag(Key::ChannelsLast)) return cannot(n, "its channels are not last");
  if (n.op == Op::AvgPool && (n.flag(Key::CountIncludePad) || n.integer(Key::Divisor) != 0))
    return cannot(n, "it counts its padding");
  if (n.flag(Key::CeilMode)) return cannot(n, "its size is rounded up");
  const Ints& kernel = n.ints(Key::Kernel);
  const Ints& stride = n.ints(Key::Stride);
  const Ints& padding = n.ints(Key::Padding);
  tosa::PoolAttributes attributes;
  for (size_t i = 0; i < 2; ++i) {
    attributes.kernel[i] = static_cast<int32_t>(kernel[i]);
    attributes.stride[i] = static_cast<int32_t>(stride[i]);
  }
  for (size_t i = 0; i < 4; ++i) attributes.pad[i] = static_cast<int32_t>(padding[i]);
  Id x = operand(n.inputs[0]);
  if (n.op == Op::MaxPool) return activate(requantize(b.max_pool2d(x, attributes), from, to), n);
  auto zp = static_cast<int32_t>(from.zero_point());
  return activate(requantize(b.avg_pool2d(x, attributes, zp, zp), from, to), n);
}

Result<tosa::TensorId> Lowering::resize(const Node& n) {
  if (!n.flag(Key::ChannelsLast)) return cannot(n, "its channels are not last");
  const Type& from = in(n, 0);
  bool bilinear = n.text(Key::Mode) == "bilinear";
  bool corners = n.flag(Key::AlignCorners);
  tosa::ResizeAttributes attributes;
  attributes.mode = bilinear ? tosa::ResizeMode::Bilinear : tosa::ResizeMode::Nearest;
  for (size_t i = 0; i < 2; ++i) {
    int64_t in_size = from.shape[1 + i];
    int64_t out_size = out(n).shape[1 + i];
    int64_t numerator = corners && in_size > 1 && out_size > 1 ? out_size - 1 : out_size;
    int64_t denominator = corners && in_size > 1 && out_size > 1 ? in_size - 1 : in_size;
    int64_t divisor = std::gcd(numerator, denominator);
    int64_t scale_n = 2 * numerator / divisor;
    int64_t scale_d = 2 * denominator / divisor;
    bool whole = numerator % denominator == 0;
    int64_t offset = corners ? 0 : bilinear || whole ? scale_d / 2 - scale_n / 2 : -(scale_n / 2);
    attributes.scale[2 * i] = static_cast<int32_t>(scale_n);
    attributes.scale[2 * i + 1] = static_cast<int32_t>(scale_d);
    attributes.offset[i] = static_cast<int32_t>(offset);
    attributes.border[i] = static_cast<int32_t>(scale_d * (out_size - 1) - scale_n * (in_size - 1) + offset);
  }
  Id result = b.resize(operand(n.inputs[0]), attributes);
  if (!bilinear) return activate(requantize(result, from, out(n)), n);
  // The weights sum to the product of the numerators, so the zero point passes through, scaled like everything else.
  const Type& to = out(n);
  double unit = 1.0 / (static_cast<double>(attributes.scale[0]) * attributes.scale[2]);
  double factor = from.quant == to.quant ? 1.0 : from.scale() / to.scale();
  double zero = static_cast<double>(to.zero_point()) - static_cast<double>(from.zero_point()) * factor;
  if (zero != std::nearbyint(zero) || zero < to.quant->qmin || zero > to.quant->qmax) {
    // Into another scale with one rounding: the zero point goes first.
    auto codes = static_cast<int64_t>(from.zero_point()) * attributes.scale[0] * attributes.scale[2];
    result = b.sub(result, b.scalar(tosa::DType::I32, codes, 4));
    zero = static_cast<double>(to.zero_point());
  }
  return activate(rescale(result, unit * factor, 0, static_cast<int32_t>(zero), tosa_dtype(to.dtype)), n);
}

}  // namespace swoop
