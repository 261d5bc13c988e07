#include "tosa/builder.h"

#include "support/check.h"
#include "support/hash.h"
#include "tosa/infer.h"

namespace swoop::tosa {

namespace {

bool holds(DType dtype, int64_t value) {
  switch (dtype) {
    case DType::Bool: return value == 0 || value == 1;
    case DType::I4: return value >= -7 && value <= 7;
    case DType::I8: return value >= INT8_MIN && value <= INT8_MAX;
    case DType::I16: return value >= INT16_MIN && value <= INT16_MAX;
    case DType::I32: return value >= INT32_MIN && value <= INT32_MAX;
    case DType::I48: return value >= -(int64_t{1} << 47) && value < (int64_t{1} << 47);
  }
  return false;
}

}  // namespace

Builder::Builder(Program& program, std::string name)
    : program_(&program), body_(static_cast<BodyId>(program.bodies.size())) {
  program.bodies.emplace_back().name = std::move(name);
}

std::string Builder::unique_name(std::string wanted) {
  for (;;) {
    auto [entry, is_new] = names_.try_emplace(wanted, 0);
    if (is_new) return wanted;
    wanted = fmt::format("{}_{}", wanted, ++entry->second);
  }
}

TensorId Builder::input(std::string name, DType dtype, Shape shape) {
  CHECK(is_legal(shape), "input '{}' has the shape {}", name, text(shape));
  auto id = static_cast<TensorId>(body().tensors.size());
  body().tensors.push_back({unique_name(std::move(name)), dtype, std::move(shape), false, {}});
  body().inputs.push_back(id);
  return id;
}

void Builder::output(TensorId id) {
  CHECK(id < body().tensors.size(), "output {} of {} tensors", id, body().tensors.size());
  body().outputs.push_back(id);
}

TensorId Builder::constant(DType dtype, Shape shape, Buffer data, std::string name) {
  CHECK(is_legal(shape) && data.size() == static_cast<size_t>(element_count(shape)) * element_bytes(dtype),
        "constant '{}' {}{} with {} bytes", name, tosa::name(dtype), text(shape), data.size());
  uint64_t hash = hash_bytes(data, hash_bytes(std::as_bytes(std::span(shape)), static_cast<uint64_t>(dtype)));
  auto [first, last] = constants_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    const Tensor& other = tensor(it->second);
    if (other.dtype == dtype && other.shape == shape && other.data == data) return it->second;
  }
  auto id = static_cast<TensorId>(body().tensors.size());
  if (name.empty()) name = fmt::format("const{}", id);
  body().tensors.push_back({unique_name(std::move(name)), dtype, std::move(shape), true, std::move(data)});
  constants_.emplace(hash, id);
  return id;
}

TensorId Builder::constant(DType dtype, Shape shape, std::span<const int64_t> values, std::string name) {
  size_t size = element_bytes(dtype);
  Buffer data(values.size() * size);
  for (size_t i = 0; i < values.size(); ++i) {
    CHECK(holds(dtype, values[i]), "{} does not fit {} of constant '{}'", values[i], tosa::name(dtype), name);
    std::memcpy(data.data() + i * size, &values[i], size);  // little endian: the low bytes come first
  }
  return constant(dtype, std::move(shape), std::move(data), std::move(name));
}

TensorId Builder::scalar(DType dtype, int64_t value, int rank) {
  return constant(dtype, Shape(static_cast<size_t>(rank), 1), {value});
}

std::vector<TensorId> Builder::add_operator(Op op, Attributes attributes, std::vector<TensorId> inputs) {
  for (TensorId id : inputs)
    CHECK(id < body().tensors.size(), "{} has input {} of {}", name(op), id, body().tensors.size());
  Operator made{op, std::move(attributes), std::move(inputs), {}, location_};
  Result<Types> types = infer(*program_, body(), made);
  CHECK(types, "{}", types.error().message);
  for (TensorType& type : *types) {
    auto id = static_cast<TensorId>(body().tensors.size());
    std::string wanted = fmt::format("{}{}", name(op), id);
    body().tensors.push_back({unique_name(std::move(wanted)), type.dtype, std::move(type.shape), false, {}});
    made.outputs.push_back(id);
  }
  body().operators.push_back(std::move(made));
  return body().operators.back().outputs;
}

TensorId Builder::add_one(Op op, Attributes attributes, std::vector<TensorId> inputs) {
  return add_operator(op, std::move(attributes), std::move(inputs))[0];
}

TensorId Builder::conv2d(TensorId x, TensorId weight, TensorId bias, const Conv2dAttributes& attributes,
                         int32_t input_zp, int32_t weight_zp) {
  return add_one(Op::Conv2d, attributes,
                 {x, weight, bias, scalar(dtype(x), input_zp), scalar(dtype(weight), weight_zp)});
}

TensorId Builder::depthwise_conv2d(TensorId x, TensorId weight, TensorId bias, const Conv2dAttributes& attributes,
                                   int32_t input_zp, int32_t weight_zp) {
  return add_one(Op::DepthwiseConv2d, attributes,
                 {x, weight, bias, scalar(dtype(x), input_zp), scalar(dtype(weight), weight_zp)});
}

TensorId Builder::transpose_conv2d(TensorId x, TensorId weight, TensorId bias,
                                   const TransposeConv2dAttributes& attributes, int32_t input_zp, int32_t weight_zp) {
  return add_one(Op::TransposeConv2d, attributes,
                 {x, weight, bias, scalar(dtype(x), input_zp), scalar(dtype(weight), weight_zp)});
}

TensorId Builder::matmul(TensorId a, TensorId b, int32_t a_zp, int32_t b_zp) {
  return add_one(Op::Matmul, NoAttributes{}, {a, b, scalar(dtype(a), a_zp), scalar(dtype(b), b_zp)});
}

TensorId Builder::avg_pool2d(TensorId x, const PoolAttributes& attributes, int32_t input_zp, int32_t output_zp) {
  return add_one(Op::AvgPool2d, attributes, {x, scalar(dtype(x), input_zp), scalar(dtype(x), output_zp)});
}

TensorId Builder::max_pool2d(TensorId x, const PoolAttributes& attributes) {
  return add_one(Op::MaxPool2d, attributes, {x});
}

TensorId Builder::rescale(TensorId x, const RescaleParameters& p) {
  CHECK(!p.multiplier.empty() && p.multiplier.size() == p.shift.size(), "RESCALE with {} multipliers and {} shifts",
        p.multiplier.size(), p.shift.size());
  auto count = static_cast<int32_t>(p.multiplier.size());
  std::vector<int64_t> multiplier(p.multiplier.begin(), p.multiplier.end());
  std::vector<int64_t> shift(p.shift.begin(), p.shift.end());
  RescaleAttributes attributes{p.scale32, p.rounding, count > 1, false, false};
  return add_one(Op::Rescale, attributes,
                 {x, constant(p.scale32 ? DType::I32 : DType::I16, {count}, multiplier),
                  constant(DType::I8, {count}, shift), scalar(dtype(x), p.input_zp), scalar(p.to, p.output_zp)});
}

TensorId Builder::binary(Op op, TensorId a, TensorId b) { return add_one(op, NoAttributes{}, {a, b}); }
TensorId Builder::unary(Op op, TensorId x) { return add_one(op, NoAttributes{}, {x}); }

TensorId Builder::mul(TensorId a, TensorId b, int8_t shift) {
  return add_one(Op::Mul, NoAttributes{}, {a, b, scalar(DType::I8, shift)});
}

TensorId Builder::arithmetic_right_shift(TensorId a, TensorId b, bool round) {
  return add_one(Op::ArithmeticRightShift, ShiftAttributes{round}, {a, b});
}

TensorId Builder::negate(TensorId x, int32_t input_zp, int32_t output_zp) {
  return add_one(Op::Negate, NoAttributes{}, {x, scalar(dtype(x), input_zp), scalar(dtype(x), output_zp)});
}

TensorId Builder::clamp(TensorId x, int64_t min_val, int64_t max_val) {
  return add_one(Op::Clamp, ClampAttributes{min_val, max_val}, {x});
}

TensorId Builder::table(TensorId x, TensorId table) { return add_one(Op::Table, NoAttributes{}, {x, table}); }

TensorId Builder::select(TensorId condition, TensorId on_true, TensorId on_false) {
  return add_one(Op::Select, NoAttributes{}, {condition, on_true, on_false});
}

TensorId Builder::cast(TensorId x, DType to) { return add_one(Op::Cast, CastAttributes{to}, {x}); }
TensorId Builder::reduce(Op op, TensorId x, int32_t axis) { return add_one(op, AxisAttributes{axis}, {x}); }
TensorId Builder::argmax(TensorId x, int32_t axis) { return add_one(Op::Argmax, AxisAttributes{axis}, {x}); }

TensorId Builder::concat(std::span<const TensorId> parts, int32_t axis) {
  return add_one(Op::Concat, AxisAttributes{axis}, {parts.begin(), parts.end()});
}

TensorId Builder::pad(TensorId x, std::vector<int32_t> padding, int64_t value) {
  return add_one(Op::Pad, PadAttributes{std::move(padding)}, {x, scalar(dtype(x), value)});
}

TensorId Builder::reshape(TensorId x, Shape shape) {
  return add_one(Op::Reshape, ReshapeAttributes{std::move(shape)}, {x});
}

TensorId Builder::tile(TensorId x, std::vector<int32_t> multiples) {
  return add_one(Op::Tile, TileAttributes{std::move(multiples)}, {x});
}

TensorId Builder::slice(TensorId x, std::vector<int32_t> start, std::vector<int32_t> size) {
  return add_one(Op::Slice, SliceAttributes{std::move(start), std::move(size)}, {x});
}

TensorId Builder::transpose(TensorId x, std::vector<int32_t> perms) {
  return add_one(Op::Transpose, TransposeAttributes{std::move(perms)}, {x});
}

TensorId Builder::reverse(TensorId x, int32_t axis) { return add_one(Op::Reverse, AxisAttributes{axis}, {x}); }
TensorId Builder::resize(TensorId x, const ResizeAttributes& attributes) {
  return add_one(Op::Resize, attributes, {x});
}

TensorId Builder::gather(TensorId values, TensorId indices) {
  return add_one(Op::Gather, NoAttributes{}, {values, indices});
}

TensorId Builder::scatter(TensorId values, TensorId indices, TensorId input) {
  return add_one(Op::Scatter, NoAttributes{}, {values, indices, input});
}

std::vector<TensorId> Builder::cond_if(TensorId condition, std::span<const TensorId> operands, BodyId then_body,
                                       BodyId else_body) {
  std::vector<TensorId> inputs{condition};
  inputs.insert(inputs.end(), operands.begin(), operands.end());
  return add_operator(Op::CondIf, CondIfAttributes{then_body, else_body}, std::move(inputs));
}

std::vector<TensorId> Builder::while_loop(std::span<const TensorId> operands, BodyId cond_body, BodyId loop_body) {
  return add_operator(Op::WhileLoop, WhileLoopAttributes{cond_body, loop_body}, {operands.begin(), operands.end()});
}

}  // namespace swoop::tosa
