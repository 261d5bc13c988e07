#include "tosa/infer.h"

#include <algorithm>

#include "support/check.h"

namespace swoop::tosa {

namespace {

constexpr size_t kMaxTensorList = 64;  // TOSA 1.0, level 8K: MAX_TENSOR_LIST_SIZE

struct Signature {
  size_t inputs_min;
  size_t inputs_max;
  size_t attributes;  // index into the variant
};

template <typename T, size_t I = 0>
constexpr size_t index_of() {
  static_assert(I < std::variant_size_v<Attributes>);
  if constexpr (std::is_same_v<std::variant_alternative_t<I, Attributes>, T>)
    return I;
  else
    return index_of<T, I + 1>();
}

Signature signature(Op op) {
  switch (op) {
    case Op::Argmax:
    case Op::ReduceAll:
    case Op::ReduceAny:
    case Op::ReduceMax:
    case Op::ReduceMin:
    case Op::ReduceSum:
    case Op::Reverse: return {1, 1, index_of<AxisAttributes>()};
    case Op::Concat: return {1, kMaxTensorList, index_of<AxisAttributes>()};
    case Op::AvgPool2d: return {3, 3, index_of<PoolAttributes>()};
    case Op::MaxPool2d: return {1, 1, index_of<PoolAttributes>()};
    case Op::Conv2d:
    case Op::DepthwiseConv2d: return {5, 5, index_of<Conv2dAttributes>()};
    case Op::Conv3d: return {5, 5, index_of<Conv3dAttributes>()};
    case Op::TransposeConv2d: return {5, 5, index_of<TransposeConv2dAttributes>()};
    case Op::Matmul: return {4, 4, index_of<NoAttributes>()};
    case Op::Clamp: return {1, 1, index_of<ClampAttributes>()};
    case Op::ArithmeticRightShift: return {2, 2, index_of<ShiftAttributes>()};
    case Op::Add:
    case Op::BitwiseAnd:
    case Op::BitwiseOr:
    case Op::BitwiseXor:
    case Op::Intdiv:
    case Op::LogicalAnd:
    case Op::LogicalLeftShift:
    case Op::LogicalRightShift:
    case Op::LogicalOr:
    case Op::LogicalXor:
    case Op::Maximum:
    case Op::Minimum:
    case Op::Sub:
    case Op::Table:
    case Op::Equal:
    case Op::Greater:
    case Op::GreaterEqual:
    case Op::Gather: return {2, 2, index_of<NoAttributes>()};
    case Op::Mul:
    case Op::Negate:
    case Op::Select:
    case Op::Scatter: return {3, 3, index_of<NoAttributes>()};
    case Op::Abs:
    case Op::BitwiseNot:
    case Op::Clz:
    case Op::LogicalNot:
    case Op::Identity: return {1, 1, index_of<NoAttributes>()};
    case Op::Pad: return {2, 2, index_of<PadAttributes>()};
    case Op::Reshape: return {1, 1, index_of<ReshapeAttributes>()};
    case Op::Slice: return {1, 1, index_of<SliceAttributes>()};
    case Op::Tile: return {1, 1, index_of<TileAttributes>()};
    case Op::Transpose: return {1, 1, index_of<TransposeAttributes>()};
    case Op::Resize: return {1, 1, index_of<ResizeAttributes>()};
    case Op::Cast: return {1, 1, index_of<CastAttributes>()};
    case Op::Rescale: return {5, 5, index_of<RescaleAttributes>()};
    case Op::CondIf: return {1, kMaxTensorList, index_of<CondIfAttributes>()};
    case Op::WhileLoop: return {0, kMaxTensorList, index_of<WhileLoopAttributes>()};
  }
  CHECK(false, "an operator {} that does not exist", static_cast<int>(op));
}

// Sizes equal or 1, ranks equal.
Result<Shape> broadcast(const Operands& x, std::initializer_list<size_t> operands) {
  Shape shape = x.in(*operands.begin()).shape;
  for (size_t i : operands) {
    const Shape& other = x.in(i).shape;
    bool fits = other.size() == shape.size();
    for (size_t d = 0; fits && d < shape.size(); ++d) {
      fits = other[d] == shape[d] || other[d] == 1 || shape[d] == 1;
      shape[d] = std::max(shape[d], other[d]);
    }
    if (!fits) {
      return x.fail("shape {} of '{}' does not broadcast with {} of '{}' (ranks must be equal)", text(other),
                    x.in(i).name, text(x.in(*operands.begin()).shape), x.in(*operands.begin()).name);
    }
  }
  return shape;
}

Result<void> need_same_type(const Operands& x, size_t a, size_t b) {
  if (x.in(a).dtype == x.in(b).dtype) return {};
  return x.fail("'{}' is {} and '{}' is {}; they must have one type", x.in(a).name, name(x.in(a).dtype), x.in(b).name,
                name(x.in(b).dtype));
}

Result<Types> infer_binary(const Operands& x, std::initializer_list<DType> allowed, DType result) {
  TRY(x.need_type(0, allowed));
  TRY(need_same_type(x, 0, 1));
  TRY_ASSIGN(Shape shape, broadcast(x, {0, 1}));
  return Types{{result, std::move(shape)}};
}

Result<Types> infer_unary(const Operands& x, std::initializer_list<DType> allowed) {
  TRY(x.need_type(0, allowed));
  return Types{x.type(0)};
}

Result<Types> infer_reduce(const Operands& x, std::initializer_list<DType> allowed) {
  TRY(x.need_type(0, allowed));
  TRY(x.need_rank(0, 1, kMaxRank));
  TensorType result = x.type(0);
  int32_t axis = x.attributes<AxisAttributes>().axis;
  TRY(x.need_axis(axis, result.shape.size()));
  result.shape[static_cast<size_t>(axis)] = 1;
  return Types{std::move(result)};
}

Result<Types> infer_argmax(const Operands& x) {
  TRY(x.need_type(0, {DType::I8, DType::I16}));
  TRY(x.need_rank(0, 1, kMaxRank));
  Shape shape = x.in(0).shape;
  int32_t axis = x.attributes<AxisAttributes>().axis;
  TRY(x.need_axis(axis, shape.size()));
  shape.erase(shape.begin() + axis);
  return Types{{DType::I32, std::move(shape)}};
}

Result<Types> infer_mul(const Operands& x) {
  TRY_ASSIGN(int64_t shift, x.zero_point(2, DType::I8));
  if (shift < 0 || shift > 63) return x.fail("the shift is {}; it must be in [0, 63]", shift);
  if (shift != 0 && x.in(0).dtype != DType::I32) return x.fail("the shift is {}; only i32 may be shifted", shift);
  return infer_binary(x, {DType::I8, DType::I16, DType::I32}, DType::I32);
}

Result<Types> infer_select(const Operands& x) {
  TRY(x.need_type(0, {DType::Bool}));
  TRY(x.need_type(1, {DType::Bool, DType::I8, DType::I16, DType::I32}));
  TRY(need_same_type(x, 1, 2));
  TRY_ASSIGN(Shape shape, broadcast(x, {0, 1, 2}));
  return Types{{x.in(1).dtype, std::move(shape)}};
}

constexpr std::initializer_list<DType> kMovable = {DType::Bool, DType::I8, DType::I16, DType::I32};

Result<Types> infer_concat(const Operands& x) {
  TRY(x.need_type(0, kMovable));
  TRY(x.need_rank(0, 1, kMaxRank));
  TensorType result = x.type(0);
  int32_t at = x.attributes<AxisAttributes>().axis;
  TRY(x.need_axis(at, result.shape.size()));
  auto axis = static_cast<size_t>(at);
  int64_t sum = result.shape[axis];
  for (size_t i = 1; i < x.op.inputs.size(); ++i) {
    TRY(need_same_type(x, 0, i));
    const Shape& shape = x.in(i).shape;
    bool fits = shape.size() == result.shape.size();
    for (size_t d = 0; fits && d < shape.size(); ++d) fits = d == axis || shape[d] == result.shape[d];
    if (!fits) {
      return x.fail("shape {} of '{}' does not join {} of '{}' along axis {}", text(shape), x.in(i).name,
                    text(x.in(0).shape), x.in(0).name, at);
    }
    sum += shape[axis];
  }
  if (sum > INT32_MAX) return x.fail("the result would have {} elements along axis {}", sum, at);
  result.shape[axis] = static_cast<int32_t>(sum);
  return Types{std::move(result)};
}

Result<Types> infer_pad(const Operands& x) {
  TRY(x.need_type(0, kMovable));
  TRY(x.need_rank(0, 1, kMaxRank));
  TensorType result = x.type(0);
  const auto& padding = x.attributes<PadAttributes>().padding;
  if (padding.size() != 2 * result.shape.size())
    return x.fail("the padding has {} values; rank {} needs {}", padding.size(), result.shape.size(),
                  2 * result.shape.size());
  TRY_ASSIGN(int64_t value, x.zero_point(1, result.dtype));
  static_cast<void>(value);
  for (size_t d = 0; d < result.shape.size(); ++d) {
    int64_t size = int64_t{padding[2 * d]} + result.shape[d] + padding[2 * d + 1];
    if (padding[2 * d] < 0 || padding[2 * d + 1] < 0 || size > INT32_MAX)
      return x.fail("the padding of axis {} is {}, {}; it must not be negative", d, padding[2 * d], padding[2 * d + 1]);
    result.shape[d] = static_cast<int32_t>(size);
  }
  return Types{std::move(result)};
}

Result<Types> infer_reshape(const Operands& x) {
  TRY(x.need_type(0, kMovable));
  const Shape& shape = x.attributes<ReshapeAttributes>().shape;
  if (!is_legal(shape) || element_count(shape) != element_count(x.in(0).shape))
    return x.fail("shape {} of '{}' cannot become {}", text(x.in(0).shape), x.in(0).name, text(shape));
  return Types{{x.in(0).dtype, shape}};
}

Result<Types> infer_slice(const Operands& x) {
  TRY(x.need_type(0, kMovable));
  TRY(x.need_rank(0, 1, kMaxRank));
  const auto& [start, size] = x.attributes<SliceAttributes>();
  const Shape& shape = x.in(0).shape;
  bool fits = start.size() == shape.size() && size.size() == shape.size();
  for (size_t d = 0; fits && d < shape.size(); ++d)
    fits = start[d] >= 0 && size[d] > 0 && int64_t{start[d]} + size[d] <= shape[d];
  if (!fits)
    return x.fail("start {} size {} is not inside shape {} of '{}'", text(start), text(size), text(shape),
                  x.in(0).name);
  return Types{{x.in(0).dtype, size}};
}

Result<Types> infer_tile(const Operands& x) {
  TRY(x.need_type(0, kMovable));
  TRY(x.need_rank(0, 1, kMaxRank));
  TensorType result = x.type(0);
  const auto& multiples = x.attributes<TileAttributes>().multiples;
  bool fits = multiples.size() == result.shape.size();
  for (size_t d = 0; fits && d < multiples.size(); ++d) {
    int64_t size = int64_t{result.shape[d]} * multiples[d];
    fits = multiples[d] > 0 && size <= INT32_MAX;
    result.shape[d] = static_cast<int32_t>(fits ? size : 1);
  }
  if (!fits)
    return x.fail("multiples {} do not fit shape {} of '{}'", text(multiples), text(x.in(0).shape), x.in(0).name);
  return Types{std::move(result)};
}

Result<Types> infer_transpose(const Operands& x) {
  TRY(x.need_type(0, kMovable));
  TRY(x.need_rank(0, 1, kMaxRank));
  const auto& perms = x.attributes<TransposeAttributes>().perms;
  TensorType result = x.type(0);
  std::array<bool, kMaxRank> used{};
  bool fits = perms.size() == result.shape.size();
  for (size_t d = 0; fits && d < perms.size(); ++d) {
    fits = perms[d] >= 0 && perms[d] < static_cast<int32_t>(perms.size()) && !used[static_cast<size_t>(perms[d])];
    if (!fits) break;
    used[static_cast<size_t>(perms[d])] = true;
    result.shape[d] = x.in(0).shape[static_cast<size_t>(perms[d])];
  }
  if (!fits) return x.fail("perms {} are not a permutation of the axes of {}", text(perms), text(x.in(0).shape));
  return Types{std::move(result)};
}

Result<Types> infer_gather(const Operands& x, bool scatter) {
  TRY(x.need_type(0, {DType::I8, DType::I16, DType::I32}));
  TRY(x.need_type(1, {DType::I32}));
  TRY(x.need_rank(0, 3, 3));
  TRY(x.need_rank(1, 2, 2));
  const Shape& values = x.in(0).shape;
  const Shape& indices = x.in(1).shape;
  if (values[0] != indices[0]) return x.fail("values have batch {} and indices {}", values[0], indices[0]);
  Shape rows{values[0], indices[1], values[2]};
  if (!scatter) return Types{{x.in(0).dtype, std::move(rows)}};
  TRY(need_same_type(x, 0, 2));
  if (x.in(2).shape != rows) return x.fail("the input has shape {}; it must be {}", text(x.in(2).shape), text(rows));
  if (indices[1] > values[1]) return x.fail("{} rows cannot go to {} different places", indices[1], values[1]);
  return Types{x.type(0)};
}

Types types_of(const Body& body, std::span<const TensorId> ids) {
  Types types;
  for (TensorId id : ids) types.push_back({body.tensors[id].dtype, body.tensors[id].shape});
  return types;
}

Result<Types> infer_control(const Operands& x) {
  bool is_if = x.op.op == Op::CondIf;
  BodyId first = is_if ? x.attributes<CondIfAttributes>().then_body : x.attributes<WhileLoopAttributes>().cond_body;
  BodyId second = is_if ? x.attributes<CondIfAttributes>().else_body : x.attributes<WhileLoopAttributes>().loop_body;
  if (first >= x.program.bodies.size() || second >= x.program.bodies.size())
    return x.fail("a body it names does not exist");
  const Body& a = x.program.bodies[first];
  const Body& b = x.program.bodies[second];
  Types operands = types_of(x.body, std::span(x.op.inputs).subspan(is_if ? 1 : 0));
  for (const Body* body : {&a, &b}) {
    if (types_of(*body, body->inputs) != operands)
      return x.fail("the inputs of body '{}' have other types or shapes than the operands", body->name);
  }
  Types result = types_of(b, b.outputs);
  Types of_first = types_of(a, a.outputs);
  if (is_if) {
    TRY(x.need_type(0, {DType::Bool}));
    if (element_count(x.in(0).shape) != 1) return x.fail("the condition '{}' is not a single value", x.in(0).name);
    if (of_first != result) return x.fail("bodies '{}' and '{}' give different types or shapes", a.name, b.name);
  } else {
    if (result != operands) return x.fail("body '{}' gives other types or shapes than it takes", b.name);
    if (of_first.size() != 1 || of_first[0].dtype != DType::Bool || element_count(of_first[0].shape) != 1)
      return x.fail("body '{}' does not give a single bool", a.name);
  }
  if (result.size() > kMaxTensorList)
    return x.fail("it has {} results; at most {} are allowed", result.size(), kMaxTensorList);
  return result;
}

Result<Types> infer_rules(const Operands& x) {
  switch (x.op.op) {
    case Op::Conv2d:
    case Op::Conv3d:
    case Op::DepthwiseConv2d:
    case Op::TransposeConv2d:
    case Op::AvgPool2d:
    case Op::MaxPool2d:
    case Op::Resize:
    case Op::Matmul: return infer_window(x);
    case Op::Rescale:
    case Op::Cast:
    case Op::Table:
    case Op::Clamp:
    case Op::Negate: return infer_convert(x);
    case Op::Add:
    case Op::Sub:
    case Op::Maximum:
    case Op::Minimum:
    case Op::Intdiv: return infer_binary(x, {DType::I32}, DType::I32);
    case Op::Equal:
    case Op::Greater:
    case Op::GreaterEqual: return infer_binary(x, {DType::I32}, DType::Bool);
    case Op::ArithmeticRightShift:
    case Op::LogicalLeftShift:
    case Op::LogicalRightShift:
    case Op::BitwiseAnd:
    case Op::BitwiseOr:
    case Op::BitwiseXor: return infer_binary(x, {DType::I8, DType::I16, DType::I32}, x.in(0).dtype);
    case Op::LogicalAnd:
    case Op::LogicalOr:
    case Op::LogicalXor: return infer_binary(x, {DType::Bool}, DType::Bool);
    case Op::Mul: return infer_mul(x);
    case Op::Abs:
    case Op::Clz: return infer_unary(x, {DType::I32});
    case Op::BitwiseNot: return infer_unary(x, {DType::I8, DType::I16, DType::I32});
    case Op::LogicalNot: return infer_unary(x, {DType::Bool});
    case Op::Identity: return infer_unary(x, {DType::Bool, DType::I4, DType::I8, DType::I16, DType::I32, DType::I48});
    case Op::Select: return infer_select(x);
    case Op::ReduceAll:
    case Op::ReduceAny: return infer_reduce(x, {DType::Bool});
    case Op::ReduceMax:
    case Op::ReduceMin: return infer_reduce(x, {DType::I8, DType::I16, DType::I32});
    case Op::ReduceSum: return infer_reduce(x, {DType::I32});
    case Op::Argmax: return infer_argmax(x);
    case Op::Concat: return infer_concat(x);
    case Op::Pad: return infer_pad(x);
    case Op::Reshape: return infer_reshape(x);
    case Op::Reverse: {
      TRY(x.need_type(0, kMovable));
      TRY(x.need_axis(x.attributes<AxisAttributes>().axis, x.in(0).shape.size()));
      return Types{x.type(0)};
    }
    case Op::Slice: return infer_slice(x);
    case Op::Tile: return infer_tile(x);
    case Op::Transpose: return infer_transpose(x);
    case Op::Gather: return infer_gather(x, false);
    case Op::Scatter: return infer_gather(x, true);
    case Op::CondIf:
    case Op::WhileLoop: return infer_control(x);
  }
  CHECK(false, "an operator {} that does not exist", static_cast<int>(x.op.op));
}

}  // namespace

Result<Types> infer(const Program& program, const Body& body, const Operator& op) {
  Operands x(program, body, op);
  Signature expected = signature(op.op);
  if (op.inputs.size() < expected.inputs_min || op.inputs.size() > expected.inputs_max) {
    if (expected.inputs_min == expected.inputs_max)
      return x.fail("it has {} inputs; it needs {}", op.inputs.size(), expected.inputs_min);
    return x.fail("it has {} inputs; level 8K allows {} to {}", op.inputs.size(), expected.inputs_min,
                  expected.inputs_max);
  }
  if (op.attributes.index() != expected.attributes) return x.fail("it has the attributes of another operator");
  TRY_ASSIGN(Types types, infer_rules(x));
  for (const TensorType& type : types)
    if (!is_legal(type.shape)) return x.fail("the result's shape {} is too large", text(type.shape));
  return types;
}

bool is_legal(const Shape& shape) {
  if (shape.size() > kMaxRank) return false;
  int64_t count = 1;
  for (int32_t size : shape) {
    if (size < 1) return false;
    count *= size;
    if (count > INT32_MAX) return false;
  }
  return true;
}

std::string text(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ",")); }

std::string describe(const Body& body, const Operator& op) {
  std::string result(name(op.op));
  if (!op.location.empty()) result += fmt::format(" at '{}'", op.location);
  if (!op.outputs.empty() && op.outputs[0] < body.tensors.size())
    result += fmt::format(" making '{}'", body.tensors[op.outputs[0]].name);
  else if (!op.inputs.empty() && op.inputs[0] < body.tensors.size())
    result += fmt::format(" of '{}'", body.tensors[op.inputs[0]].name);
  return result;
}

int64_t read_element(const Tensor& constant, size_t index) {
  const std::byte* at = constant.data.data() + index * element_bytes(constant.dtype);
  switch (constant.dtype) {
    case DType::Bool:
    case DType::I4:
    case DType::I8: return load<int8_t>(at);
    case DType::I16: return load<int16_t>(at);
    case DType::I32: return load<int32_t>(at);
    case DType::I48: return load<int64_t>(at);
  }
  return 0;
}

Result<void> Operands::need_type(size_t i, std::initializer_list<DType> allowed) const {
  if (std::find(allowed.begin(), allowed.end(), in(i).dtype) != allowed.end()) return {};
  std::string names;
  for (DType dtype : allowed) names += fmt::format("{}{}", names.empty() ? "" : ", ", name(dtype));
  return fail("'{}' is {}; input {} may be {}", in(i).name, name(in(i).dtype), i, names);
}

Result<void> Operands::need_rank(size_t i, int lowest, int highest) const {
  auto rank = static_cast<int>(in(i).shape.size());
  if (rank >= lowest && rank <= highest) return {};
  return fail("'{}' has shape {}; input {} must have rank {}{}", in(i).name, text(in(i).shape), i, lowest,
              lowest == highest ? "" : fmt::format(" to {}", highest));
}

Result<void> Operands::need_axis(int64_t axis, size_t rank) const {
  if (axis >= 0 && axis < static_cast<int64_t>(rank)) return {};
  return fail("axis {} is not one of the {} axes of '{}'", axis, rank, in(0).name);
}

Result<int64_t> Operands::zero_point(size_t i, DType dtype, bool is_unsigned) const {
  const Tensor& tensor = in(i);
  if (!tensor.is_const || tensor.dtype != dtype || tensor.shape != Shape{1}) {
    return fail("input {} '{}' is {}{}{}; it must be a constant {}[1]", i, tensor.name,
                tensor.is_const ? "" : "not constant, ", name(tensor.dtype), text(tensor.shape), name(dtype));
  }
  int64_t value = read_element(tensor, 0);
  if (is_unsigned && dtype == DType::I8) value &= 0xff;
  if (is_unsigned && dtype == DType::I16) value &= 0xffff;
  return value;
}

Result<void> Operands::need_limits(std::string_view what, std::span<const int32_t> values, int64_t lowest,
                                   int64_t highest) const {
  for (int32_t value : values)
    if (value < lowest || value > highest)
      return fail("the {} is {}; it must be in [{}, {}]", what, value, lowest, highest);
  return {};
}

}  // namespace swoop::tosa
