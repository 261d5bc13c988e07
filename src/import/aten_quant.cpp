// Quantize and dequantize, whoever put them there: PT2E's q/dq pairs and the fake quantization of QAT. Scales and zero
// points, numbers or buffers, go into the types; nothing of them stays in the graph.
#include <algorithm>
#include <cmath>
#include <functional>

#include "import/aten.h"
#include "import/scope.h"
#include "support/codes.h"

namespace swoop {

namespace {

Doubles elements(Bytes data, DType dtype) {
  Doubles values;
  size_t element = byte_size(dtype);
  for (size_t at = 0; at + element <= data.size(); at += element)
    values.push_back(load_element(data.data() + at, dtype));
  return values;
}

// The elements of a constant argument, one number counting as one element. Exporters cast and reshape zero points: that
// is looked through.
Doubles known_reals(Call& c, size_t index) {
  if (c.is_number(index)) return {c.real(index)};
  if (const StoredTensor* stored = c.constant_arg(index)) return elements(stored->data, stored->type.dtype);
  ValueId x = c.tensor(index);
  for (const Node* node = c.graph.producer(x); node && (node->op == Op::Cast || node->op == Op::Reshape);
       node = c.graph.producer(x))
    x = node->inputs[0];
  const Value& value = c.graph.value(x);
  if (!value.constant || value.type.quantized())
    unsupported("its `{}` is computed while the model runs (dynamic quantization)", c.names[index]);
  return elements(value.data, value.type.dtype);
}

int64_t whole(double value, std::string_view what) {
  if (!(std::fabs(value) <= 0x1p40) || value != std::floor(value))
    malformed("its {} is not an integer: {}", what, value);
  return static_cast<int64_t>(value);
}

struct CodeRange {
  int64_t qmin = 0;
  int64_t qmax = 0;
  DType dtype = DType::I8;
};

int64_t known_integer(Call& c, size_t index) {
  Doubles values = known_reals(c, index);
  if (values.size() != 1) malformed("its `{}` is not a single number", c.names[index]);
  return whole(values[0], c.names[index]);
}

// quant_min, quant_max and dtype in a row. PT2E may state a wider range than the codes of the type (uint8 of 8 bits in
// int16).
CodeRange read_range(Call& c, size_t at) {
  CodeRange range{known_integer(c, at), known_integer(c, at + 1), c.dtype_arg(at + 2, DType::I8)};
  if (!is_integer(range.dtype)) malformed("it quantizes to {}, which is not an integer type", name_of(range.dtype));
  range.qmin = std::max(range.qmin, dtype_min(range.dtype));
  range.qmax = std::min(range.qmax, dtype_max(range.dtype));
  if (range.qmin > range.qmax) malformed("its codes run from {} to {}", range.qmin, range.qmax);
  return range;
}

// Fake quantization names no type: the smallest that holds its codes.
CodeRange range_of_codes(int64_t qmin, int64_t qmax) {
  if (qmin > qmax) malformed("its codes run from {} to {}", qmin, qmax);
  for (DType dtype : {DType::I8, DType::U8, DType::I16, DType::I32})
    if (qmin >= dtype_min(dtype) && qmax <= dtype_max(dtype)) return {qmin, qmax, dtype};
  malformed("its codes run from {} to {}, which no integer type holds", qmin, qmax);
}

// axis -1: per tensor
Type quantized_type(const Shape& shape, Doubles scales, const Doubles& zero_points, int64_t axis,
                    const CodeRange& range) {
  Quant quant;
  quant.axis = static_cast<int>(axis);
  quant.qmin = range.qmin;
  quant.qmax = range.qmax;
  quant.scale = std::move(scales);
  for (double scale : quant.scale)
    if (!(scale > 0) || !std::isfinite(scale)) malformed("its scale {} is not a positive number", scale);
  for (double value : zero_points) {
    int64_t zero_point = whole(value, "zero point");
    if (zero_point < dtype_min(range.dtype) || zero_point > dtype_max(range.dtype))
      malformed("its zero point {} is outside of {}", zero_point, name_of(range.dtype));
    quant.zero_point.push_back(zero_point);
  }
  size_t channels = axis < 0 ? 1 : static_cast<size_t>(shape[static_cast<size_t>(axis)]);
  if (quant.zero_point.empty()) quant.zero_point.assign(channels, 0);
  if (quant.scale.size() != channels || quant.zero_point.size() != channels)
    malformed("it has {} scales and {} zero points for {} channels", quant.scale.size(), quant.zero_point.size(),
              channels);
  return Type{range.dtype, shape, std::move(quant)};
}

Type per_tensor(Call& c, const Shape& shape) {
  return quantized_type(shape, known_reals(c, 1), known_reals(c, 2), -1, read_range(c, 3));
}

Type per_channel(Call& c, const Shape& shape) {
  if (shape.empty()) malformed("it quantizes the channels of a scalar");
  Doubles zero_points = c.none(2) ? Doubles{} : known_reals(c, 2);
  return quantized_type(shape, known_reals(c, 1), zero_points, c.axis(3, static_cast<int>(shape.size())),
                        read_range(c, 4));
}

ValueId quantize(Call& c, ValueId x, Type type) {
  if (c.type(x).quantized()) unsupported("it quantizes the codes of a tensor that is quantized already");
  x = c.cast(x, DType::F32);
  return c.graph.add_node(Op::Quantize, {x}, {std::move(type)}, {}, c.loc, c.name).outputs[0];
}

Results quantize_per_tensor(Call& c) {
  ValueId x = c.tensor(0);
  return quantize(c, x, per_tensor(c, c.shape(x)));
}

Results quantize_per_channel(Call& c) {
  ValueId x = c.tensor(0);
  return quantize(c, x, per_channel(c, c.shape(x)));
}

// One value per channel, shaped so that it broadcasts.
ValueId channel_constant(Call& c, const Type& type, const std::function<double(size_t)>& value) {
  if (!type.quant->per_channel()) return c.scalar(value(0), DType::F32);
  Shape shape(type.shape.size(), 1);
  shape[static_cast<size_t>(type.quant->axis)] = static_cast<int64_t>(type.quant->scale.size());
  return c.filled(DType::F32, std::move(shape), [&](int64_t i) { return value(static_cast<size_t>(i)); });
}

// The codes of x as floats.
ValueId codes(Call& c, ValueId x) {
  const Type type = c.type(x);
  if (!type.quantized()) return c.cast(x, DType::F32);
  ValueId steps =
      c.div(c.make(Op::Dequantize, {x}), channel_constant(c, type, [&](size_t i) { return type.quant->scale[i]; }));
  ValueId zero = channel_constant(c, type, [&](size_t i) { return static_cast<double>(type.quant->zero_point[i]); });
  return c.unary("round", c.add(steps, zero));
}

// (q - zero_point) * scale, where q's own type does not say so already
ValueId dequantize_by_arithmetic(Call& c, ValueId x, const Type& type) {
  ValueId zero = channel_constant(c, type, [&](size_t i) { return static_cast<double>(type.quant->zero_point[i]); });
  ValueId scale = channel_constant(c, type, [&](size_t i) { return type.quant->scale[i]; });
  return c.mul(c.sub(codes(c, x), zero), scale);
}

bool same_meaning(const Type& a, const Type& b) {
  return a.quantized() && a.dtype == b.dtype && a.quant->scale == b.quant->scale &&
         a.quant->zero_point == b.quant->zero_point && a.quant->axis == b.quant->axis;
}

bool only_dequantized(const Graph& graph, const Value& value) {
  return std::all_of(value.uses.begin(), value.uses.end(),
                     [&](const Use& use) { return use.node != kNone && graph.node(use.node).op == Op::Dequantize; });
}

ValueId dequantize(Call& c, const Type& type) {
  Binding& source = *std::get<TensorArg>(c.args[0]).binding;
  if (const StoredTensor* stored = c.constant_arg(0); stored && stored->type.dtype == type.dtype) {
    ValueId constant = c.graph.add_constant(type, stored->data, c.scope.storage(source).name);
    return c.make(Op::Dequantize, {constant});
  }
  ValueId x = c.tensor(0);
  if (same_meaning(c.type(x), type)) return c.make(Op::Dequantize, {x});
  Value& value = c.graph.value(x);
  if (!value.type.quantized() && value.type.dtype == type.dtype) {
    if (value.constant) return c.make(Op::Dequantize, {c.graph.add_constant(type, value.data, value.name)});
    if (value.producer == kNone && only_dequantized(c.graph, value)) {  // a quantized model input
      value.type = type;
      return c.make(Op::Dequantize, {x});
    }
  }
  return dequantize_by_arithmetic(c, x, type);
}

const Shape& source_shape(Call& c) {
  if (const StoredTensor* stored = c.constant_arg(0)) return stored->type.shape;
  return c.shape(c.tensor(0));
}

// Of a constant, as PyTorch chooses them: the range holds zero.
Results choose_qparams(Call& c) {
  const Doubles numbers = known_reals(c, 0);
  if (numbers.empty()) unsupported("it chooses a scale for a tensor without elements");
  const auto qmin = static_cast<double>(known_integer(c, 1)), qmax = static_cast<double>(known_integer(c, 2));
  const auto [least, greatest] = std::ranges::minmax(numbers);
  const double low = std::min(least, 0.0), high = std::max(greatest, 0.0);
  const double scale = std::max((high - low) / (qmax - qmin), c.real(3));
  const double zero = std::clamp(qmin - std::nearbyint(low / scale), qmin, qmax);
  return std::vector<ValueId>{c.filled(DType::F64, {1}, [&](int64_t) { return scale; }),
                              c.filled(DType::I64, {1}, [&](int64_t) { return zero; })};
}

// An opaque node of the library that PT2E's operators are from.
const Node* decomposed_node(Call& c, ValueId id, std::string_view name) {
  const Node* node = c.graph.producer(id);
  while (node && (node->op == Op::Cast || node->op == Op::Reshape)) node = c.graph.producer(node->inputs[0]);
  const bool is = node && node->op == Op::Opaque &&
                  node->text(Key::Target).starts_with(fmt::format("quantized_decomposed::{}", name));
  return is ? node : nullptr;
}

// What was quantized with a scale that the model chooses while it runs, kNone if it was not. The NPU has no scales of
// that kind: samples choose them, as for a model in float. The opaque nodes that choose have no readers then.
ValueId before_dynamic(Call& c) {
  if (c.is_number(1) || c.constant_arg(1) || c.constant_arg(0)) return kNone;
  const Node* codes = decomposed_node(c, c.tensor(0), "quantize_per_tensor");
  if (!codes || !decomposed_node(c, c.tensor(1), "choose_qparams")) return kNone;
  c.warning =
      with_code("what the model quantizes while it runs is quantized by the samples instead", Code::DynamicRange);
  return codes->inputs[0];
}

Results dequantize_per_tensor(Call& c) {
  if (ValueId x = before_dynamic(c); x != kNone) return x;
  return dequantize(c, per_tensor(c, source_shape(c)));
}
Results dequantize_per_channel(Call& c) { return dequantize(c, per_channel(c, source_shape(c))); }

// -- fake quantization: both at once

ValueId fake_quantized(Call& c, size_t scale_at, int64_t axis, size_t qmin_at) {
  ValueId x = c.tensor(0);
  CodeRange range = range_of_codes(c.integer(qmin_at), c.integer(qmin_at + 1));
  Type type = quantized_type(c.shape(x), known_reals(c, scale_at), known_reals(c, scale_at + 1), axis, range);
  return c.make(Op::Dequantize, {quantize(c, x, std::move(type))});
}

Results fake_quantize_per_tensor(Call& c) { return fake_quantized(c, 1, -1, 3); }
Results fake_quantize_per_channel(Call& c) { return fake_quantized(c, 1, c.axis(3, c.rank(c.tensor(0))), 4); }

Results with_mask(const Call& c, ValueId value) {
  if (c.wants(1)) unsupported("the mask of its gradient is used");
  return std::vector<ValueId>{value, kNone};
}

Results fake_quantize_per_tensor_mask(Call& c) { return with_mask(c, fake_quantized(c, 1, -1, 3)); }
Results fake_quantize_per_channel_mask(Call& c) {
  return with_mask(c, fake_quantized(c, 1, c.axis(3, c.rank(c.tensor(0))), 4));
}

Results fake_quantize_qparams_mask(Call& c) {
  if (known_integer(c, 3) == 0) return with_mask(c, c.tensor(0));
  return with_mask(c, fake_quantized(c, 1, -1, 4));
}

// QAT that was exported without conversion: the observers' last scale is what training ended with.
Results moving_average_fake_quantize(Call& c) {
  if (known_integer(c, 2) == 0) return c.tensor(0);
  return fake_quantized(c, 5, c.flag(11) ? c.axis(10, c.rank(c.tensor(0))) : -1, 8);
}

constexpr std::string_view kPerTensor = "input, scale, zero_point, quant_min, quant_max, dtype";
constexpr std::string_view kFromTensor = "input, scale, zero_point, quant_min, quant_max, dtype, *, out_dtype=None";
constexpr std::string_view kPerChannel = "input, scales, zero_points, axis, quant_min, quant_max, dtype";
constexpr std::string_view kFromChannel =
    "input, scales, zero_points, axis, quant_min, quant_max, dtype, *, out_dtype=None";
constexpr std::string_view kFakeTensor = "self, scale, zero_point, quant_min, quant_max";
constexpr std::string_view kFakeChannel = "self, scale, zero_point, axis, quant_min, quant_max";

constexpr Row kQuantRows[] = {
    {"quantized_decomposed.choose_qparams.tensor", "input, quant_min, quant_max, eps, dtype", choose_qparams},
    {"quantized_decomposed.quantize_per_tensor.default", kPerTensor, quantize_per_tensor},
    {"quantized_decomposed.quantize_per_tensor.tensor", kPerTensor, quantize_per_tensor},
    {"quantized_decomposed.quantize_per_tensor.tensor2", kPerTensor, quantize_per_tensor},
    {"quantized_decomposed.quantize_per_channel.default", kPerChannel, quantize_per_channel},
    {"quantized_decomposed.dequantize_per_tensor.default", kFromTensor, dequantize_per_tensor},
    {"quantized_decomposed.dequantize_per_tensor.tensor", kFromTensor, dequantize_per_tensor},
    {"quantized_decomposed.dequantize_per_tensor.tensor2", kFromTensor, dequantize_per_tensor},
    {"quantized_decomposed.dequantize_per_channel.default", kFromChannel, dequantize_per_channel},
    {"aten.fake_quantize_per_tensor_affine.default", kFakeTensor, fake_quantize_per_tensor},
    {"aten.fake_quantize_per_tensor_affine.tensor_qparams", kFakeTensor, fake_quantize_per_tensor},
    {"aten.fake_quantize_per_channel_affine.default", kFakeChannel, fake_quantize_per_channel},
    {"aten.fake_quantize_per_tensor_affine_cachemask.default", kFakeTensor, fake_quantize_per_tensor_mask},
    {"aten.fake_quantize_per_channel_affine_cachemask.default", kFakeChannel, fake_quantize_per_channel_mask},
    {"aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default",
     "self, scale, zero_point, fake_quant_enabled, quant_min, quant_max", fake_quantize_qparams_mask},
    {"aten.fused_moving_avg_obs_fake_quant.default",
     "self, observer_on, fake_quant_on, running_min, running_max, scale, zero_point, averaging_const, quant_min, "
     "quant_max, ch_axis, "
     "per_row_fake_quant=False, symmetric_quant=False",
     moving_average_fake_quantize},
};

}  // namespace

std::span<const Row> quant_rows() { return kQuantRows; }

}  // namespace swoop
