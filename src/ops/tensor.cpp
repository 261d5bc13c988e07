// Tensors of float execution: from constants and back to the range of a type, quantization as PyTorch's q/dq reference
// computes it.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ops/infer.h"
#include "ops/kernels.h"
#include "support/check.h"
#include "support/clones.h"
#include "support/half.h"
#include "support/parallel.h"

namespace swoop {

namespace {

// Element `index` of a constant's bytes as an integer; i48 takes eight bytes, i4 one.
int64_t integer_at(DType dtype, const std::byte* data, int64_t index) {
  const std::byte* at = data + index * static_cast<int64_t>(byte_size(dtype));
  switch (dtype) {
    case DType::I4:
    case DType::I8: return load<int8_t>(at);
    case DType::I16: return load<int16_t>(at);
    case DType::I32: return load<int32_t>(at);
    case DType::I48:
    case DType::I64: return load<int64_t>(at);
    case DType::U8: return load<uint8_t>(at);
    case DType::Bool: return load<uint8_t>(at) != 0;
    case DType::F32:
    case DType::F16:
    case DType::BF16:
    case DType::F64: break;
  }
  CHECK(false, "{} is not an integer type", name_of(dtype));
}

double float_at(DType dtype, const std::byte* data, int64_t index) {
  const std::byte* at = data + index * static_cast<int64_t>(byte_size(dtype));
  if (dtype == DType::F32) return static_cast<double>(load<float>(at));
  if (dtype == DType::F16) return static_cast<double>(from_f16(load<uint16_t>(at)));
  if (dtype == DType::BF16) return static_cast<double>(from_bf16(load<uint16_t>(at)));
  return load<double>(at);
}

// Which scale element `index` has: the index along the axis.
size_t channel_at(const Type& type, int64_t index) {
  if (!type.quant->per_channel()) return 0;
  int64_t inner = 1;
  for (size_t i = static_cast<size_t>(type.quant->axis) + 1; i < type.shape.size(); ++i) inner *= type.shape[i];
  return static_cast<size_t>(index / inner % type.shape[static_cast<size_t>(type.quant->axis)]);
}

float dequantized(int64_t q, const Quant& quant, size_t channel) {
  return (static_cast<float>(q) - static_cast<float>(quant.zero_point[channel])) *
         static_cast<float>(quant.scale[channel]);
}

SWOOP_CLONES void dequantize_run(const int8_t* codes, float* to, size_t count, float zero, float scale) {
  for (size_t i = 0; i < count; ++i) to[i] = (static_cast<float>(codes[i]) - zero) * scale;
}

// As quantize_by() has it: codes of 8 bits are exact in f32, and what is not is far outside of them.
SWOOP_CLONES void quantize_run(const float* from, int8_t* codes, size_t count, float inverse, float zero, float low,
                               float high) {
  const float of_nan = std::clamp(0.0f, low, high);
  for (size_t i = 0; i < count; ++i) {
    const float scaled = std::nearbyint(from[i] * inverse);
    const float shifted = scaled + zero;
    const float code = shifted < low ? low : shifted > high ? high : shifted;
    codes[i] = static_cast<int8_t>(static_cast<int32_t>(scaled == scaled ? code : of_nan));
  }
}

// Calls body(first, last, channel) on the runs of elements that share a scale.
template <typename Body>
void each_channel_run(const Type& type, int64_t count, Body body) {
  if (!type.quant->per_channel()) return body(int64_t{0}, count, size_t{0});
  auto axis = static_cast<size_t>(type.quant->axis);
  int64_t inner = 1;
  for (size_t i = axis + 1; i < type.shape.size(); ++i) inner *= type.shape[i];
  for (int64_t first = 0, channel = 0; first < count; first += inner, channel = (channel + 1) % type.shape[axis])
    body(first, first + inner, static_cast<size_t>(channel));
}

template <typename From, typename To>
void convert_elements(const Tensor& in, Tensor& out) {
  std::span<const From> from = in.as<From>();
  std::span<To> to = out.as<To>();
  for (size_t i = 0; i < to.size(); ++i) {
    if constexpr (std::is_same_v<To, uint8_t>)
      to[i] = from[i] != From{0};
    else if constexpr (std::is_same_v<From, float> &&
                       std::is_same_v<To, int64_t>)  // out of range is undefined in C++ and in PyTorch
      to[i] = std::isfinite(from[i]) && std::fabs(from[i]) < 9.2e18f ? static_cast<int64_t>(from[i])
                                                                     : std::numeric_limits<int64_t>::min();
    else
      to[i] = static_cast<To>(from[i]);
  }
}

}  // namespace

Result<void> check_memory(const Node& node, const Shape& shape, DType dtype) {
  TRY(check_shape(node, shape));
  int64_t bytes = element_count(shape) * static_cast<int64_t>(byte_size(dtype));
  if (bytes > kMaxBytes)
    return error("{} needs an array of shape {}, {} bytes, to be computed", name_of(node.op), to_text(shape), bytes);
  return {};
}

DType execution_dtype(const Type& type) {
  if (type.quantized() || is_float(type.dtype)) return DType::F32;
  return type.dtype == DType::Bool ? DType::Bool : DType::I64;
}

Tensor make_tensor(DType dtype, Shape shape) {
  CHECK(dtype == DType::F32 || dtype == DType::I64 || dtype == DType::Bool, "{} is not an execution type",
        name_of(dtype));
  auto bytes = static_cast<size_t>(element_count(shape)) * byte_size(dtype);
  return Tensor{dtype, std::move(shape), Storage(bytes)};
}

Tensor to_tensor(const Value& constant) {
  const Type& type = constant.type;
  Tensor tensor = make_tensor(execution_dtype(type), type.shape);
  int64_t count = element_count(type.shape);
  const std::byte* data = constant.data.data();
  CHECK(constant.data.size() == static_cast<size_t>(count) * byte_size(type.dtype), "constant {} has {} bytes for {}",
        constant.name, constant.data.size(), to_text(type));
  if (count == 0) return tensor;
  if (type.quantized()) {
    float* to = tensor.as<float>().data();
    each_channel_run(type, count, [&](int64_t first, int64_t last, size_t channel) {
      if (type.dtype == DType::I8)  // weights: most of all constants
        dequantize_run(reinterpret_cast<const int8_t*>(data) + first, to + first, static_cast<size_t>(last - first),
                       static_cast<float>(type.quant->zero_point[channel]),
                       static_cast<float>(type.quant->scale[channel]));
      else
        for (int64_t i = first; i < last; ++i)
          to[i] = dequantized(integer_at(type.dtype, data, i), *type.quant, channel);
    });
  } else if (byte_size(type.dtype) == byte_size(tensor.dtype) && type.dtype != DType::U8 && type.dtype != DType::Bool) {
    std::memcpy(tensor.data.data(), data, constant.data.size());  // f32 and i64 are what they are
  } else if (is_float(type.dtype)) {
    float* to = tensor.as<float>().data();
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(float_at(type.dtype, data, i));
  } else if (tensor.dtype == DType::Bool) {
    uint8_t* to = tensor.as<uint8_t>().data();
    for (int64_t i = 0; i < count; ++i) to[i] = integer_at(type.dtype, data, i) != 0;
  } else {
    int64_t* to = tensor.as<int64_t>().data();
    for (int64_t i = 0; i < count; ++i) to[i] = integer_at(type.dtype, data, i);
  }
  return tensor;
}

namespace {

template <typename T, typename From, typename Convert>
Buffer stored(std::span<const From> elements, Convert convert) {
  Buffer bytes(elements.size() * sizeof(T));
  for (size_t i = 0; i < elements.size(); ++i) {
    const T element = static_cast<T>(convert(elements[i]));
    std::memcpy(bytes.data() + i * sizeof(T), &element, sizeof(T));
  }
  return bytes;
}

}  // namespace

Buffer to_bytes(const Tensor& tensor, DType dtype) {
  auto same = [](auto x) { return x; };
  if (is_float(dtype)) {
    CHECK(tensor.dtype == DType::F32, "{} is stored as {}", name_of(tensor.dtype), name_of(dtype));
    std::span<const float> x = tensor.as<float>();
    if (dtype == DType::F16) return stored<uint16_t>(x, to_f16);
    if (dtype == DType::BF16) return stored<uint16_t>(x, to_bf16);
    if (dtype == DType::F64) return stored<double>(x, same);
    return tensor.data;
  }
  CHECK(tensor.dtype != DType::F32, "floats are stored as {}", name_of(dtype));
  if (tensor.dtype == DType::Bool) return stored<uint8_t>(tensor.as<uint8_t>(), same);
  std::span<const int64_t> x = tensor.as<int64_t>();
  switch (byte_size(dtype)) {
    case 1: return stored<uint8_t>(x, same);
    case 2: return stored<uint16_t>(x, same);
    case 4: return stored<uint32_t>(x, same);
    default: return tensor.data;
  }
}

double real_at(const Value& constant, int64_t index) {
  const Type& type = constant.type;
  CHECK(index >= 0 && index < element_count(type.shape), "constant {} has no element {}", constant.name, index);
  if (is_float(type.dtype)) return float_at(type.dtype, constant.data.data(), index);
  int64_t q = integer_at(type.dtype, constant.data.data(), index);
  if (!type.quantized()) return static_cast<double>(q);
  size_t channel = channel_at(type, index);
  return static_cast<double>(q - type.quant->zero_point[channel]) * type.quant->scale[channel];
}

Range range_of(const Type& type) {
  return {static_cast<double>(type.quant->qmin - type.zero_point()) * type.scale(),
          static_cast<double>(type.quant->qmax - type.zero_point()) * type.scale()};
}

namespace {

float inverse_of(double scale) { return static_cast<float>(1.0 / scale); }

int64_t quantize_by(float x, float inverse, int64_t zero_point, int64_t qmin, int64_t qmax) {
  float scaled = std::nearbyint(x * inverse);
  if (std::isnan(scaled)) return std::clamp<int64_t>(0, qmin, qmax);
  if (std::fabs(scaled) > 9.0e18f) return scaled < 0 ? qmin : qmax;
  auto q = static_cast<int64_t>(scaled);
  int64_t shifted = 0;
  if (__builtin_add_overflow(q, zero_point, &shifted)) return q < 0 ? qmin : qmax;
  return std::clamp(shifted, qmin, qmax);
}

}  // namespace

int64_t quantize_value(float x, double scale, int64_t zero_point, int64_t qmin, int64_t qmax) {
  return quantize_by(x, inverse_of(scale), zero_point, qmin, qmax);
}

void fake_quantize(Tensor& tensor, const Type& type) {
  const Quant& quant = *type.quant;
  float* data = tensor.as<float>().data();
  // Up to 16 bits every step is exact in f32, and the loop vectorises; wider codes go through integers.
  bool narrow = quant.qmin >= -(1 << 20) && quant.qmax <= (1 << 20);
  each_channel_run(type, element_count(type.shape), [&](int64_t first, int64_t last, size_t channel) {
    if (!narrow) {
      for (int64_t i = first; i < last; ++i)
        data[i] = dequantized(
            quantize_value(data[i], quant.scale[channel], quant.zero_point[channel], quant.qmin, quant.qmax), quant,
            channel);
      return;
    }
    auto inverse = static_cast<float>(1.0 / quant.scale[channel]);
    auto scale = static_cast<float>(quant.scale[channel]);
    auto zero = static_cast<float>(quant.zero_point[channel]);
    auto low = static_cast<float>(quant.qmin);
    auto high = static_cast<float>(quant.qmax);
    parallel_for(static_cast<size_t>(last - first), kGrain, [=](size_t from, size_t to) {
      fake_quantize_run(data + first + static_cast<int64_t>(from), to - from, inverse, scale, zero, low, high);
    });
  });
}

Result<Buffer> quantize(const Tensor& tensor, const Type& type) {
  if (!type.quantized() || tensor.shape != type.shape || tensor.dtype != DType::F32)
    return error("a tensor of shape {} cannot be quantized to {}", to_text(tensor.shape), to_text(type));
  return quantized_codes(tensor.as<float>().data(), type);
}

Buffer quantized_codes(const float* from, const Type& type) {
  const Quant& quant = *type.quant;
  int64_t count = element_count(type.shape);
  size_t width = byte_size(type.dtype);
  Buffer bytes(static_cast<size_t>(count) * width);
  each_channel_run(type, count, [&](int64_t first, int64_t last, size_t channel) {
    const float inverse = inverse_of(quant.scale[channel]);
    if (type.dtype == DType::I8 && std::abs(quant.zero_point[channel]) <= 128) {
      quantize_run(from + first, reinterpret_cast<int8_t*>(bytes.data()) + first, static_cast<size_t>(last - first),
                   inverse, static_cast<float>(quant.zero_point[channel]), static_cast<float>(quant.qmin),
                   static_cast<float>(quant.qmax));
      return;
    }
    for (int64_t i = first; i < last; ++i) {
      int64_t q = quantize_by(from[i], inverse, quant.zero_point[channel], quant.qmin, quant.qmax);
      std::memcpy(bytes.data() + static_cast<size_t>(i) * width, &q, width);  // little endian: the low bytes come first
    }
  });
  return bytes;
}

Tensor dequantize(Bytes bytes, const Type& type) {
  Value value;
  value.type = type;
  value.name = "codes";
  value.data = bytes;
  return to_tensor(value);
}

void convert(const Tensor& in, Tensor& out) {
  if (in.dtype == out.dtype) {
    out.data = in.data;
    return;
  }
  if (in.dtype == DType::F32)
    return out.dtype == DType::I64 ? convert_elements<float, int64_t>(in, out)
                                   : convert_elements<float, uint8_t>(in, out);
  if (in.dtype == DType::I64)
    return out.dtype == DType::F32 ? convert_elements<int64_t, float>(in, out)
                                   : convert_elements<int64_t, uint8_t>(in, out);
  return out.dtype == DType::F32 ? convert_elements<uint8_t, float>(in, out)
                                 : convert_elements<uint8_t, int64_t>(in, out);
}

Tensor as_dtype(const Tensor& in, DType dtype) {
  Tensor out = make_tensor(dtype, in.shape);
  convert(in, out);
  return out;
}

void settle(Tensor& tensor, DType dtype) {
  if (dtype == DType::F16) {
    for (float& x : tensor.as<float>()) x = from_f16(to_f16(x));
  } else if (dtype == DType::BF16) {
    for (float& x : tensor.as<float>()) x = from_bf16(to_bf16(x));
  } else if (tensor.dtype == DType::I64 && is_integer(dtype) && dtype != DType::I64) {
    int bits = dtype == DType::I4 ? 4 : dtype == DType::I48 ? 48 : static_cast<int>(byte_size(dtype)) * 8;
    for (int64_t& x : tensor.as<int64_t>()) {
      auto low = static_cast<uint64_t>(x) << (64 - bits);
      x = dtype == DType::U8 ? static_cast<int64_t>(low >> (64 - bits)) : static_cast<int64_t>(low) >> (64 - bits);
    }
  }
}

}  // namespace swoop
