#include "legalize/kernel.h"

#include <algorithm>

namespace swoop {

namespace {

int64_t zero_of(const Type& type, int64_t output) {
  const Quant& q = *type.quant;
  return q.zero_point[q.per_channel() ? static_cast<size_t>(output) % q.zero_point.size() : 0];
}

}  // namespace

Kernel::Kernel(int64_t o, int64_t h, int64_t w, int64_t i, Type like)
    : outputs(o), height(h), width(w), inputs(i), codes(static_cast<size_t>(o * h * w * i)), type(std::move(like)) {
  for (int64_t output = 0; output < o; ++output)
    std::fill_n(codes.begin() + output * h * w * i, h * w * i, zero_of(type, output));
}

Kernel Kernel::spread(int64_t h, int64_t w, std::array<int64_t, 2> step) const {
  Kernel larger(outputs, h, w, inputs, type);
  for (int64_t o = 0; o < outputs; ++o)
    for (int64_t y = 0; y < height; ++y)
      for (int64_t x = 0; x < width; ++x)
        for (int64_t i = 0; i < inputs; ++i) larger.at(o, y * step[0], x * step[1], i) = at(o, y, x, i);
  return larger;
}

std::optional<Kernel> kernel_of(const Rewriter& rw, const Node& n) {
  const Value& value = rw.value(n.inputs[1]);
  const Type& type = value.type;
  if (!value.constant || !type.quantized() || type.rank() != 4 || n.flag(Key::ChannelsLast)) return std::nullopt;
  bool turned = n.op == Op::ConvTranspose;
  if (type.quant->per_channel() && type.quant->axis != (turned ? 1 : 0)) return std::nullopt;
  int64_t outputs = type.shape[turned ? 1 : 0], inputs = type.shape[turned ? 0 : 1];
  Kernel kernel(outputs, type.shape[2], type.shape[3], inputs, type);
  std::vector<int64_t> from = codes_of(value);
  for (int64_t o = 0; o < outputs; ++o)
    for (int64_t i = 0; i < inputs; ++i)
      for (int64_t y = 0; y < kernel.height; ++y)
        for (int64_t x = 0; x < kernel.width; ++x) {
          int64_t lead = turned ? i * outputs + o : o * inputs + i;
          kernel.at(o, y, x, i) = from[static_cast<size_t>((lead * kernel.height + y) * kernel.width + x)];
        }
  return kernel;
}

namespace {

Type type_of(const Kernel& kernel, Shape shape) {
  Type type = with_shape(kernel.type, std::move(shape));
  if (!type.quant->per_channel()) return type;
  type.quant->axis = 0;
  size_t given = type.quant->scale.size();
  for (size_t i = given; i < static_cast<size_t>(kernel.outputs); ++i) {
    type.quant->scale.push_back(type.quant->scale[i % given]);
    type.quant->zero_point.push_back(type.quant->zero_point[i % given]);
  }
  return type;
}

}  // namespace

ValueId weights(Rewriter& rw, const Kernel& kernel, std::string_view name) {
  return codes(rw, type_of(kernel, {kernel.outputs, kernel.height, kernel.width, kernel.inputs}), kernel.codes, name);
}

ValueId weights_first(Rewriter& rw, const Kernel& kernel, std::string_view name) {
  std::vector<int64_t> list;
  list.reserve(kernel.codes.size());
  for (int64_t o = 0; o < kernel.outputs; ++o)
    for (int64_t i = 0; i < kernel.inputs; ++i)
      for (int64_t y = 0; y < kernel.height; ++y)
        for (int64_t x = 0; x < kernel.width; ++x) list.push_back(kernel.at(o, y, x, i));
  return codes(rw, type_of(kernel, {kernel.outputs, kernel.inputs, kernel.height, kernel.width}), list, name);
}

ValueId repeated_bias(Rewriter& rw, ValueId bias, int64_t times) {
  if (bias == kNone || times == 1) return bias;
  const Value& value = rw.value(bias);
  Type type = value.type;
  int64_t count = type.shape[0];
  Buffer data;
  for (int64_t i = 0; i < times; ++i) data.insert(data.end(), value.data.begin(), value.data.end());
  type.shape[0] = count * times;
  if (type.quantized() && type.quant->per_channel()) {
    for (int64_t i = count; i < type.shape[0]; ++i) {
      type.quant->scale.push_back(type.quant->scale[static_cast<size_t>(i % count)]);
      type.quant->zero_point.push_back(type.quant->zero_point[static_cast<size_t>(i % count)]);
    }
  }
  return rw.constant(type, std::move(data), value.name);
}

ValueId conv_last(Rewriter& rw, ValueId x, ValueId weights, ValueId bias, const Placement& place, Type out,
                  const Node* clamp_from) {
  const Shape& in = rw.type(x).shape;
  const Shape& w = rw.type(weights).shape;
  auto size = [&](size_t i) {
    return (in[1 + i] + place.padding[2 * i] + place.padding[2 * i + 1] - w[1 + i]) / place.stride[i] + 1;
  };
  out.shape = {in[0], size(0), size(1), w[0]};
  Attrs attrs{{Key::Stride, Ints(place.stride.begin(), place.stride.end())},
              {Key::Padding, Ints(place.padding.begin(), place.padding.end())},
              {Key::Dilation, Ints{1, 1}},
              {Key::Groups, place.groups},
              {Key::ChannelsLast, true}};
  if (clamp_from)
    for (Key key : {Key::ActMin, Key::ActMax})
      if (const Attr* bound = clamp_from->attrs.find(key)) attrs.set(key, *bound);
  return rw.make(Op::Conv, {x, weights, bias}, std::move(attrs), std::move(out));
}

ValueId plain_pool(Rewriter& rw, Op pool, ValueId x, Ints kernel, Ints stride, Type out) {
  const size_t dims = kernel.size();
  Attrs attrs{{Key::Kernel, std::move(kernel)}, {Key::Stride, std::move(stride)}, {Key::Padding, Ints(2 * dims, 0)}};
  if (pool == Op::AvgPool) {
    attrs.set(Key::CountIncludePad, false);
    attrs.set(Key::Divisor, int64_t{0});
  } else {
    attrs.set(Key::Dilation, Ints(dims, 1));
  }
  return rw.make(pool, {x}, std::move(attrs), std::move(out));
}

// In 16 bits two halves: what regor makes of a scale of one there, and of the next scale, is wrong, or a copy is needed
// between them (UnitRescales of npu/defects.cpp).
One one_for(const Type& moved) {
  const int8_t code = moved.dtype == DType::I16 ? 2 : 1;
  return {code, quantized(DType::I8, {}, 1.0 / code, 0)};
}

ValueId ones(Rewriter& rw, int64_t channels, int64_t height, int64_t width, double divisor) {
  Type type = quantized(DType::I8, {channels, height, width, 1}, 1.0 / divisor, 0);
  return codes(rw, type, std::vector<int64_t>(static_cast<size_t>(channels * height * width), 1), "ones");
}

Type mean_between(const Type& from, int64_t count) {
  constexpr int64_t kSteps = 128;  // of 16 bits, in one of 8
  const int64_t steps = count <= kSteps ? kSteps / count * count : kSteps;
  return i16_type({}, from.dtype == DType::I8 ? from.scale() / static_cast<double>(steps) : from.scale());
}

Attrs attrs_on_planes(const Node& n) {
  Attrs attrs = n.attrs;
  for (auto [key, count] : {std::pair(Key::Stride, 1), std::pair(Key::Dilation, 1), std::pair(Key::OutputPadding, 1),
                            std::pair(Key::Padding, 2)})
    if (n.has(key)) attrs.set(key, Ints(n.ints(key).begin() + count, n.ints(key).end()));
  return attrs;
}

ValueId pad_axis(Rewriter& rw, ValueId x, int64_t axis, int64_t before, int64_t after, double value) {
  if (before == 0 && after == 0) return x;
  Ints padding(2 * rw.type(x).shape.size(), 0);
  padding[static_cast<size_t>(2 * axis)] = before;
  padding[static_cast<size_t>(2 * axis + 1)] = after;
  return rw.make(Op::Pad, {x}, {{Key::Padding, padding}, {Key::Mode, std::string("constant")}, {Key::Value, value}});
}

ValueId fit_axis(Rewriter& rw, ValueId x, int64_t axis, int64_t size) {
  int64_t now = rw.type(x).shape[static_cast<size_t>(axis)];
  if (now > size) return slice(rw, x, axis, 0, size);
  return pad_axis(rw, x, axis, 0, size - now);
}

bool step_window(Rewriter& rw, const Node& n, const Ints& kernel) {
  Ints stride = n.ints(Key::Stride);
  const Ints& padding = n.ints(Key::Padding);
  const Type out = rw.type(n.outputs[0]);
  for (size_t i = 0; i < 2; ++i) {
    if (stride[i] <= facts_of(rw).max_stride || out.shape[2 + i] == 1) continue;  // with one result: drop-idle-stride's
    int64_t step = stride[i];
    int64_t reach = (n.has(Key::Dilation) ? n.ints(Key::Dilation)[i] : 1) * (kernel[i] - 1) + 1;
    Type every = out;
    every.shape[2 + i] = rw.type(n.inputs[0]).shape[2 + i] + padding[2 * i] + padding[2 * i + 1] - reach + 1;
    stride[i] = 1;
    Attrs attrs = n.attrs;
    attrs.set(Key::Stride, stride);
    ValueId y = rw.make(n.op, n.inputs, attrs, every);
    int64_t end = (out.shape[2 + i] - 1) * step + 1;
    Attrs slice{{Key::Axis, static_cast<int64_t>(2 + i)}, {Key::Start, int64_t{0}}, {Key::End, end}, {Key::Step, step}};
    rw.replace(n, rw.make(Op::Slice, {y}, slice, out));
    return true;
  }
  return false;
}

}  // namespace swoop
