// The rules of each operator: whether its operands and attributes are allowed, and the types of its results. The one
// place that knows them; the builder makes results from it and the validator compares them.
#pragma once

#include "tosa/tosa.h"

namespace swoop::tosa {

struct TensorType {
  DType dtype = DType::I8;
  Shape shape;
  bool operator==(const TensorType&) const = default;
};
using Types = std::vector<TensorType>;

// The operator's input ids and its bodies exist, and every tensor of the body has a legal shape.
Result<Types> infer(const Program& program, const Body& body, const Operator& op);

// Legal as a tensor's shape: rank at most 6, every size at least 1, fewer than 2^31 elements (level 8K: MAX_LOG2_SIZE).
bool is_legal(const Shape& shape);

std::string text(const Shape& shape);  // "[1,8,8,16]"

// "CONV2D at 'features.0' making 'x1'": how a sentence about an operator begins.
std::string describe(const Body& body, const Operator& op);

int64_t read_element(const Tensor& constant, size_t index);

// What an operator's operands look like: one call instead of a check in each rule. Shared by the two files of rules.
class Operands {
 public:
  Operands(const Program& program, const Body& body, const Operator& op) : program(program), body(body), op(op) {}

  const Tensor& in(size_t i) const { return body.tensors[op.inputs[i]]; }
  template <typename T>
  const T& attributes() const {
    return std::get<T>(op.attributes);
  }
  TensorType type(size_t i) const { return {in(i).dtype, in(i).shape}; }

  template <typename... Args>
  Error fail(fmt::format_string<Args...> format, Args&&... args) const {
    return Error{describe(body, op) + ": " + fmt::format(format, std::forward<Args>(args)...) + "."};
  }

  Result<void> need_type(size_t i, std::initializer_list<DType> allowed) const;
  Result<void> need_rank(size_t i, int lowest, int highest) const;
  Result<void> need_axis(int64_t axis, size_t rank) const;
  // A constant of shape [1]. The specification calls such operands compile time constants.
  Result<int64_t> zero_point(size_t i, DType dtype, bool is_unsigned = false) const;
  Result<void> need_limits(std::string_view what, std::span<const int32_t> values, int64_t lowest,
                           int64_t highest) const;

  const Program& program;
  const Body& body;
  const Operator& op;
};

// CONV*, *_POOL2D, RESIZE, MATMUL.
Result<Types> infer_window(const Operands& x);
// RESCALE, CAST, TABLE, CLAMP, NEGATE.
Result<Types> infer_convert(const Operands& x);

}  // namespace swoop::tosa
