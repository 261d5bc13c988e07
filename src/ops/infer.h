// What the families' inference functions share: attributes that a file may lack, sizes that a file may make absurd,
// broadcasting, PyTorch's type promotion. Nothing here overflows or stops the program whatever the shapes are.
#pragma once

#include <vector>

#include "ops/ops.h"

namespace swoop {

using Types = std::vector<Type>;

// No array of a model that anyone runs has more elements; keeps every product of sizes far from overflow.
constexpr int64_t kMaxElements = int64_t{1} << 40;

const Type& in_type(const Graph& graph, const Node& node, size_t index);
bool has_input(const Node& node, size_t index);

// The dtype of the numbers a type stands for: f32 for quantized types.
DType real_dtype(const Type& type);

// An attribute of the right kind, or a sentence naming it. `count` -1: any number.
Result<const Ints*> ints_attr(const Node& node, Key key, int64_t count = -1);
Result<int64_t> integer_attr(const Node& node, Key key);
Result<double> real_attr(const Node& node, Key key);
Result<std::string_view> text_attr(const Node& node, Key key);
double real_or(const Node& node, Key key, double fallback);  // also reads attributes stored as integers

// Attribute `axis`, within 0..rank-1.
Result<int64_t> axis_attr(const Node& node, int rank);

// Operators whose results stay within their input's range (movement, maxima, averages) keep its per-tensor
// quantization.
void carry_quantization(const Type& from, Type& to);

// Fails when the dims are negative or their product is beyond kMaxElements.
Result<void> check_shape(const Node& node, const Shape& shape);
Result<Types> one(const Node& node, DType dtype, Shape shape);  // a single unquantized result, after check_shape

Result<Shape> broadcast(const Node& node, const Shape& a, const Shape& b);

// PyTorch's result type: category bool < integer < float; tensors without dims count only through a higher category.
DType promote(const Type& a, const Type& b);
DType to_float(DType dtype);     // f32 for integers and bool
bool wide_integer(DType dtype);  // bool or integer: sums of it are i64

}  // namespace swoop
