// Types of values: element type, shape and quantization. Quantization is part of the type, never a pair of nodes: a
// value of type i8[1,3,8,8] with scale s and zero point z stands for the reals (q - z) * s. An op on quantized values
// means: dequantize the inputs, compute in float, apply the fused activation, quantize to the result's type. How
// integers get there is decided by legalize and lower.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace swoop {

enum class DType : uint8_t { F32, F16, BF16, F64, I4, I8, I16, I32, I48, I64, U8, Bool };
constexpr int kDTypeCount = 12;

std::string_view name_of(DType dtype);  // "f32", "i8", ...
std::optional<DType> dtype_from(std::string_view name);
size_t byte_size(DType dtype);  // bytes per element in our buffers; i4 takes one, i48 takes eight
bool is_float(DType dtype);
bool is_integer(DType dtype);    // signed or unsigned, not bool
int64_t dtype_min(DType dtype);  // of the integer dtypes
int64_t dtype_max(DType dtype);

using Shape = std::vector<int64_t>;
int64_t element_count(const Shape& shape);  // 1 for rank 0
std::vector<int64_t> row_major_strides(const Shape& shape);

struct Quant {
  std::vector<double> scale;        // one, or one per index of `axis`
  std::vector<int64_t> zero_point;  // as many as scale
  int axis = -1;                    // -1: per tensor
  int64_t qmin = -128;  // the codes that may occur; 7-bit weights and symmetric int16 use fewer than the dtype has
  int64_t qmax = 127;

  bool per_channel() const { return axis >= 0; }
  bool operator==(const Quant&) const = default;
};

struct Type {
  DType dtype = DType::F32;
  Shape shape;
  std::optional<Quant> quant;

  int rank() const { return static_cast<int>(shape.size()); }
  bool quantized() const { return quant.has_value(); }
  double scale() const { return quant->scale[0]; }  // of per-tensor types
  int64_t zero_point() const { return quant->zero_point[0]; }
  bool operator==(const Type&) const = default;
};

// A per-tensor quantized type over the full range of `dtype`.
Type quantized(DType dtype, Shape shape, double scale, int64_t zero_point);

// The int8 type of the same numbers as a quantized uint8 type: every code is 128 lower, which is its top bit flipped.
Type signed_twin(Type type);

std::string to_text(const Shape& shape);  // [1,3,8,8]
std::string to_text(const Type& type);    // i8[1,3,8,8] q(0.5, -3)

}  // namespace swoop
