#include "legalize/compose.h"

#include <algorithm>
#include <cmath>

#include "support/check.h"

namespace swoop {

ValueId codes(Rewriter& rw, const Type& type, std::span<const int64_t> values, std::string_view name) {
  CHECK(static_cast<int64_t>(values.size()) == element_count(type.shape), "{} codes for {}", values.size(),
        to_text(type));
  size_t width = byte_size(type.dtype);
  Buffer data(values.size() * width);
  for (size_t i = 0; i < values.size(); ++i)
    std::memcpy(data.data() + i * width, &values[i], width);  // little endian: the low bytes come first
  return rw.constant(type, std::move(data), name);
}

std::vector<int64_t> codes_of(const Value& constant) {
  size_t width = byte_size(constant.type.dtype);
  std::vector<int64_t> values(static_cast<size_t>(element_count(constant.type.shape)));
  bool is_unsigned = constant.type.dtype == DType::U8 || constant.type.dtype == DType::Bool;
  for (size_t i = 0; i < values.size(); ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, constant.data.data() + i * width, width);
    auto spare = static_cast<int>(64 - 8 * width);
    values[i] = is_unsigned ? static_cast<int64_t>(bits) : static_cast<int64_t>(bits << spare) >> spare;
  }
  return values;
}

ValueId scalar(Rewriter& rw, DType dtype, int rank, int64_t code, double scale) {
  Type type = quantized(dtype, Shape(static_cast<size_t>(rank), 1), scale, 0);
  return codes(rw, type, {&code, 1}, "scalar");
}

ValueId slice(Rewriter& rw, ValueId x, int64_t axis, int64_t start, int64_t end) {
  if (start == 0 && end == rw.type(x).shape[static_cast<size_t>(axis)]) return x;
  return rw.make(Op::Slice, {x}, {{Key::Axis, axis}, {Key::Start, start}, {Key::End, end}, {Key::Step, int64_t{1}}});
}

ValueId concat(Rewriter& rw, std::vector<ValueId> parts, int64_t axis) {
  if (parts.size() == 1) return parts[0];
  Type type = rw.type(parts[0]);
  type.shape[static_cast<size_t>(axis)] = 0;
  for (ValueId part : parts) type.shape[static_cast<size_t>(axis)] += rw.type(part).shape[static_cast<size_t>(axis)];
  return rw.make(Op::Concat, std::move(parts), {{Key::Axis, axis}}, type);
}

ValueId unary(Rewriter& rw, std::string_view fn, ValueId x, Type type, Attrs extra) {
  extra.set(Key::Fn, std::string(fn));
  return rw.make(Op::Unary, {x}, std::move(extra), std::move(type));
}

ValueId reduce(Rewriter& rw, Op op, ValueId x, Ints axes, Type type) {
  type.shape = rw.type(x).shape;
  for (int64_t axis : axes) type.shape[static_cast<size_t>(axis)] = 1;
  return rw.make(op, {x}, {{Key::Axes, std::move(axes)}, {Key::Keepdim, true}}, std::move(type));
}

bool is_halved_well(const Rewriter& rw, const Type& type) {
  const NpuFacts& facts = facts_of(rw);
  if (!facts.slices_leave_bricks) return true;
  const int64_t length = type.shape.back(), room = target_of(rw).staging_bytes;
  if (length > facts.brick && length % facts.brick != 0) return false;
  return room == 0 || 2 * element_count(type.shape) < room;  // measured with 8 and with 16 bits
}

ValueId extreme_of_turned(Rewriter& rw, Op op, ValueId x) {
  const int64_t axis = rw.type(x).rank() - 1;
  Ints swap;
  for (int64_t i = 0; i <= axis; ++i) swap.push_back(i);
  std::swap(swap[swap.size() - 1], swap[swap.size() - 2]);
  return transpose(rw, reduce(rw, op, transpose(rw, x, swap), {axis - 1}, rw.type(x)), swap);
}

ValueId max_of_rows(Rewriter& rw, ValueId x) {
  const int64_t axis = rw.type(x).rank() - 1;
  if (!is_halved_well(rw, rw.type(x)) && axis > 0) return extreme_of_turned(rw, Op::ReduceMax, x);
  return by_halves(rw, Op::Maximum, x, axis);
}

ValueId by_halves(Rewriter& rw, Op op, ValueId x, int64_t axis) {
  const auto dim = static_cast<size_t>(axis);
  bool channels = axis + 1 == rw.type(x).rank();
  int64_t brick = facts_of(rw).brick;
  while (rw.type(x).shape[dim] > 1) {
    int64_t length = rw.type(x).shape[dim];
    int64_t half = (length + 1) / 2;
    if (channels && length % brick == 0 && length > brick)
      half = (half + brick - 1) / brick * brick;  // both slices begin at a brick
    Type type = rw.type(x);
    type.shape[dim] = half;
    x = rw.make(op, {slice(rw, x, axis, 0, half), slice(rw, x, axis, length - half, length)}, {}, type);
  }
  return x;
}

ValueId scale_channels(Rewriter& rw, ValueId x, std::span<const double> gain, std::span<const double> offset, Type type,
                       Attrs extra) {
  auto channels = static_cast<int64_t>(gain.size());
  double largest = 0;
  for (double g : gain) largest = std::max(largest, std::fabs(g));
  if (largest == 0) largest = 1;
  // A gain far below the others keeps their scale, so that its bias stays within the accumulator.
  constexpr double kSmallest = 1e-4;
  Type weight = quantized(DType::I8, {channels, 1, 1, 1}, 1, 0);
  weight.quant->axis = 0;
  weight.quant->scale.clear();
  weight.quant->zero_point.assign(gain.size(), 0);
  std::vector<int64_t> weights, biases;
  Type bias = quantized(DType::I32, {channels}, 1, 0);
  bias.quant = Quant{{}, std::vector<int64_t>(gain.size(), 0), 0, dtype_min(DType::I32), dtype_max(DType::I32)};
  for (size_t c = 0; c < gain.size(); ++c) {
    double scale = std::max(std::fabs(gain[c]), largest * kSmallest) / 127;
    double real = offset.empty() ? 0.0 : offset[c];
    // The bias has 30 bits of its own; it is brought to the accumulator's scale when lowered.
    double bias_scale = std::max(rw.type(x).scale() * scale, std::fabs(real) / static_cast<double>(1 << 30));
    weight.quant->scale.push_back(scale);
    weights.push_back(static_cast<int64_t>(std::nearbyint(gain[c] / scale)));
    bias.quant->scale.push_back(bias_scale);
    biases.push_back(static_cast<int64_t>(std::nearbyint(real / bias_scale)));
  }
  ValueId w = codes(rw, weight, weights, "gain");
  ValueId b = offset.empty() ? kNone : codes(rw, bias, biases, "offset");
  extra.set(Key::Stride, Ints{1, 1});
  extra.set(Key::Padding, Ints{0, 0, 0, 0});
  extra.set(Key::Dilation, Ints{1, 1});
  extra.set(Key::Groups, channels);
  extra.set(Key::ChannelsLast, true);
  type.shape = rw.type(x).shape;
  return rw.make(Op::Conv, {x, w, b}, std::move(extra), std::move(type));
}

ValueId scale_axis_1(Rewriter& rw, ValueId x, std::span<const double> gain, std::span<const double> offset, Type type,
                     Attrs extra) {
  const Shape shape = rw.type(x).shape;
  int64_t rest = element_count(shape) / (shape[0] * shape[1]);
  int64_t width = shape.size() > 2 ? shape.back() : 1;
  Shape spread = {shape[0], shape[1], rest / width, width};
  ValueId last = transpose(rw, reshape(rw, x, spread), {0, 2, 3, 1});
  ValueId y = scale_channels(rw, last, gain, offset, std::move(type), std::move(extra));
  return reshape(rw, transpose(rw, y, {0, 3, 1, 2}), shape);
}

namespace {

double largest_of(std::span<const double> list) {
  double largest = 0;
  for (double v : list) largest = std::max(largest, std::fabs(v));
  return largest == 0 ? 1 : largest;
}

ValueId vector_of(Rewriter& rw, std::span<const double> list, int rank) {
  Shape shape(static_cast<size_t>(rank), 1);
  shape.back() = static_cast<int64_t>(list.size());
  double scale = largest_of(list) / 32767;
  std::vector<int64_t> values;
  for (double v : list) values.push_back(static_cast<int64_t>(std::nearbyint(v / scale)));
  return codes(rw, i16_type(shape, scale), values, "vector");
}

}  // namespace

ValueId scale_by_vectors(Rewriter& rw, ValueId x, std::span<const double> gain, std::span<const double> offset,
                         Type type, const Attrs& extra) {
  type.shape = rw.type(x).shape;
  int rank = rw.type(x).rank();
  bool shifts = std::any_of(offset.begin(), offset.end(), [](double v) { return v != 0; });
  if (!shifts) return rw.make(Op::Mul, {x, vector_of(rw, gain, rank)}, extra, type);
  Type between = i16_type(type.shape, rw.type(x).scale() * largest_of(gain));
  ValueId product = rw.make(Op::Mul, {x, vector_of(rw, gain, rank)}, {}, between);
  return rw.make(Op::Add, {product, vector_of(rw, offset, rank)}, extra, type);
}

ValueId times_one(Rewriter& rw, ValueId x, Attrs attrs, Type type) {
  const Type& from = rw.type(x);
  ValueId one = scalar(rw, from.dtype, from.rank(), 1, 1.0);
  return rw.make(Op::Mul, {x, one}, std::move(attrs), std::move(type));
}

bool reads_slowly(const Rewriter& rw, ValueId x) {
  return facts_of(rw).slow_elementwise_from_dram && comes_from_dram(rw, x);
}

bool is_near(const Rewriter& rw, ValueId x) {
  constexpr int64_t kParts = 4;
  const int64_t room = target_of(rw).staging_bytes;
  return room == 0 || (!comes_from_dram(rw, x) && kParts * byte_count(rw.type(x)) <= room);
}

ValueId widen(Rewriter& rw, ValueId x) {
  if (rw.type(x).dtype != DType::I8) return x;
  Type type = i16_type(rw.type(x).shape, rw.type(x).scale() / 128);
  if (reads_slowly(rw, x)) return rw.make(Op::Quantize, {x}, {}, type);
  return rw.make(Op::Mul, {x, scalar(rw, DType::I8, type.rank(), 1, 1.0)}, {}, type);
}

bool computes_on_codes(const Rewriter& rw, const Node& n) {
  auto coded = [&](ValueId id) {
    const Type& type = rw.type(id);
    return type.quantized() && !type.quant->per_channel() && (type.dtype == DType::I8 || type.dtype == DType::I16);
  };
  return coded(n.inputs[0]) && coded(n.outputs[0]);
}

Shape rows_shape(const Rewriter& rw, int64_t rows, int64_t length) {
  const int64_t most = facts_of(rw).max_axis;
  int64_t height = 1;
  while (rows / height > most || rows % height != 0) ++height;
  return {1, height, rows / height, length};
}

}  // namespace swoop
