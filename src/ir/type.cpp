#include "ir/type.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <limits>

#include "support/check.h"

namespace swoop {

namespace {

struct DTypeFacts {
  std::string_view name;
  size_t bytes;
  bool floating;
  int64_t min;
  int64_t max;
};

constexpr std::array<DTypeFacts, kDTypeCount> kFacts = {{
    {"f32", 4, true, 0, 0},
    {"f16", 2, true, 0, 0},
    {"bf16", 2, true, 0, 0},
    {"f64", 8, true, 0, 0},
    {"i4", 1, false, -8, 7},
    {"i8", 1, false, -128, 127},
    {"i16", 2, false, -32768, 32767},
    {"i32", 4, false, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()},
    {"i48", 8, false, -(int64_t{1} << 47), (int64_t{1} << 47) - 1},
    {"i64", 8, false, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()},
    {"u8", 1, false, 0, 255},
    {"bool", 1, false, 0, 1},
}};

const DTypeFacts& facts(DType dtype) { return kFacts[static_cast<size_t>(dtype)]; }

}  // namespace

std::string_view name_of(DType dtype) { return facts(dtype).name; }

std::optional<DType> dtype_from(std::string_view name) {
  for (size_t i = 0; i < kFacts.size(); ++i)
    if (kFacts[i].name == name) return static_cast<DType>(i);
  return std::nullopt;
}

size_t byte_size(DType dtype) { return facts(dtype).bytes; }
bool is_float(DType dtype) { return facts(dtype).floating; }
bool is_integer(DType dtype) { return !facts(dtype).floating && dtype != DType::Bool; }
int64_t dtype_min(DType dtype) { return facts(dtype).min; }
int64_t dtype_max(DType dtype) { return facts(dtype).max; }

int64_t element_count(const Shape& shape) {
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  return count;
}

std::vector<int64_t> row_major_strides(const Shape& shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= shape[i];
  }
  return strides;
}

Type quantized(DType dtype, Shape shape, double scale, int64_t zero_point) {
  return Type{dtype, std::move(shape), Quant{{scale}, {zero_point}, -1, dtype_min(dtype), dtype_max(dtype)}};
}

Type signed_twin(Type type) {
  type.dtype = DType::I8;
  for (int64_t& zero_point : type.quant->zero_point) zero_point -= 128;
  type.quant->qmin -= 128;
  type.quant->qmax -= 128;
  return type;
}

std::string to_text(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ",")); }

std::string to_text(const Type& type) {
  std::string text = fmt::format("{}{}", name_of(type.dtype), to_text(type.shape));
  if (!type.quant) return text;
  const Quant& quant = *type.quant;
  if (quant.per_channel())
    text += fmt::format(" q(axis={}, [{}], [{}]", quant.axis, fmt::join(quant.scale, ","),
                        fmt::join(quant.zero_point, ","));
  else
    text += fmt::format(" q({}, {}", quant.scale[0], quant.zero_point[0]);
  if (quant.qmin != dtype_min(type.dtype) || quant.qmax != dtype_max(type.dtype))
    text += fmt::format(", {}..{}", quant.qmin, quant.qmax);
  return text + ")";
}

}  // namespace swoop
