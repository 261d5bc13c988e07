#include "ops/infer.h"

#include <algorithm>

#include "support/check.h"

namespace swoop {

namespace {

Error lacks(const Node& node, Key key, std::string_view kind) {
  return error("{} needs attribute {} ({})", name_of(node.op), name_of(key), kind);
}

// bool 0, integer 1, float 2
int category(DType dtype) { return dtype == DType::Bool ? 0 : is_float(dtype) ? 2 : 1; }

int integer_bits(DType dtype) {
  return dtype == DType::I4 ? 4 : dtype == DType::I48 ? 48 : static_cast<int>(byte_size(dtype)) * 8;
}

// Both of one category.
DType widest(DType a, DType b) {
  if (a == b) return a;
  if (is_float(a)) {
    if (a == DType::F64 || b == DType::F64) return DType::F64;
    return DType::F32;  // f32 with a half type, or the two half types together
  }
  if (a == DType::U8 || b == DType::U8) {
    DType other = a == DType::U8 ? b : a;
    return integer_bits(other) <= 8 ? DType::I16 : other;
  }
  return integer_bits(a) >= integer_bits(b) ? a : b;
}

}  // namespace

const Type& in_type(const Graph& graph, const Node& node, size_t index) {
  CHECK(has_input(node, index), "{} has no input {}", name_of(node.op), index);
  return graph.type(node.inputs[index]);
}

bool has_input(const Node& node, size_t index) { return index < node.inputs.size() && node.inputs[index] != kNone; }

DType real_dtype(const Type& type) { return type.quantized() ? DType::F32 : type.dtype; }

Result<const Ints*> ints_attr(const Node& node, Key key, int64_t count) {
  const Attr* attr = node.attrs.find(key);
  const Ints* ints = attr ? std::get_if<Ints>(attr) : nullptr;
  if (!ints) return lacks(node, key, "integers");
  if (count >= 0 && static_cast<int64_t>(ints->size()) != count)
    return error("{} needs {} values in {}, and has {}", name_of(node.op), count, name_of(key), to_text(*ints));
  return ints;
}

Result<int64_t> integer_attr(const Node& node, Key key) {
  const Attr* attr = node.attrs.find(key);
  const int64_t* value = attr ? std::get_if<int64_t>(attr) : nullptr;
  if (!value) return lacks(node, key, "an integer");
  return *value;
}

Result<double> real_attr(const Node& node, Key key) {
  const Attr* attr = node.attrs.find(key);
  if (attr && std::holds_alternative<double>(*attr)) return std::get<double>(*attr);
  if (attr && std::holds_alternative<int64_t>(*attr)) return static_cast<double>(std::get<int64_t>(*attr));
  return lacks(node, key, "a number");
}

Result<std::string_view> text_attr(const Node& node, Key key) {
  const Attr* attr = node.attrs.find(key);
  const std::string* text = attr ? std::get_if<std::string>(attr) : nullptr;
  if (!text) return lacks(node, key, "text");
  return std::string_view(*text);
}

double real_or(const Node& node, Key key, double fallback) {
  Result<double> value = real_attr(node, key);
  return value ? *value : fallback;
}

Result<int64_t> axis_attr(const Node& node, int rank) {
  TRY_ASSIGN(int64_t axis, integer_attr(node, Key::Axis));
  if (axis < 0 || axis >= rank)
    return error("{} over axis {} of an operand with {} dims", name_of(node.op), axis, rank);
  return axis;
}

void carry_quantization(const Type& from, Type& to) {
  if (!from.quantized() || from.quant->per_channel()) return;
  to.dtype = from.dtype;
  to.quant = from.quant;
}

Result<void> check_shape(const Node& node, const Shape& shape) {
  int64_t count = 1;
  for (int64_t size : shape) {
    if (size < 0) return error("{} gives {}, and a size cannot be negative", name_of(node.op), to_text(shape));
    if (size > kMaxElements)
      return error("{} gives {}, which is too large for any machine", name_of(node.op), to_text(shape));
    // A zero elsewhere must not hide the overflow of the others: strides multiply them too.
    count *= std::max<int64_t>(size, 1);
    if (count > kMaxElements)
      return error("{} gives {}, which is too large for any machine", name_of(node.op), to_text(shape));
  }
  return {};
}

Result<Types> one(const Node& node, DType dtype, Shape shape) {
  TRY(check_shape(node, shape));
  Types types;
  types.push_back(Type{dtype, std::move(shape), std::nullopt});
  return types;
}

Result<Shape> broadcast(const Node& node, const Shape& a, const Shape& b) {
  Shape shape(std::max(a.size(), b.size()));
  for (size_t i = 0; i < shape.size(); ++i) {  // from the last dim
    int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1)
      return error("{} cannot broadcast {} with {}: sizes {} and {} differ", name_of(node.op), to_text(a), to_text(b),
                   x, y);
    shape[shape.size() - 1 - i] = x == 1 ? y : x;
  }
  return shape;
}

DType promote(const Type& a, const Type& b) {
  DType x = real_dtype(a);
  DType y = real_dtype(b);
  int cx = category(x);
  int cy = category(y);
  if (cx != cy) return cx > cy ? x : y;
  if (a.shape.empty() != b.shape.empty()) return a.shape.empty() ? y : x;
  return widest(x, y);
}

DType to_float(DType dtype) { return is_float(dtype) ? dtype : DType::F32; }

bool wide_integer(DType dtype) { return dtype == DType::Bool || is_integer(dtype); }

}  // namespace swoop
