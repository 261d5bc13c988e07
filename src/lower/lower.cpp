#include "lower/lower.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lower/lowering.h"
#include "support/check.h"

namespace swoop {

namespace {
constexpr tosa::TensorId kMissing = ~tosa::TensorId{0};
}

ScaleCode encode_scale(double scale, bool scale16) {
  int bits = scale16 ? 15 : 31;
  scale = std::min(scale, std::ldexp(1.0, bits - 2) - 1);  // TOSA 1.0, RESCALE: 2 <= shift <= 62
  int exponent = 0;
  double fraction = std::frexp(scale, &exponent);
  auto multiplier = static_cast<int64_t>(std::nearbyint(std::ldexp(fraction, bits)));
  if (multiplier == int64_t{1} << bits) {
    multiplier /= 2;
    ++exponent;
  }
  int shift = bits - exponent;
  if (shift > 62) {
    multiplier >>= std::min(31, shift - 62);
    shift = 62;
  }
  CHECK(shift >= 2 && multiplier >= 0, "scale {} does not fit a rescale", scale);
  return {static_cast<int32_t>(multiplier), static_cast<int8_t>(shift)};
}

tosa::DType tosa_dtype(DType dtype) {
  switch (dtype) {
    case DType::Bool: return tosa::DType::Bool;
    case DType::I4: return tosa::DType::I4;
    case DType::U8:
    case DType::I8: return tosa::DType::I8;
    case DType::I16: return tosa::DType::I16;
    case DType::I32: return tosa::DType::I32;
    case DType::I48: return tosa::DType::I48;
    case DType::F32:
    case DType::F16:
    case DType::BF16:
    case DType::F64:
    case DType::I64: break;
  }
  CHECK(false, "{} has no place in a region", name_of(dtype));
}

tosa::Shape tosa_shape(const Shape& shape) {
  tosa::Shape result;
  for (int64_t size : shape) result.push_back(static_cast<int32_t>(size));
  return result;
}

Lowering::Lowering(const Graph& graph, tosa::Program& program, std::string body_name)
    : graph_(graph),
      program_(program),
      b(program, std::move(body_name)),
      bounds_(program, b.body_id()),
      tensors_(graph.value_slots(), kMissing) {}

// Of the model's integers, which are no codes.
bool Lowering::is_integer_arithmetic(const Node& n) const {
  return (n.op == Op::Add || n.op == Op::Sub || n.op == Op::Mul) && !out(n).quantized();
}

Result<void> Lowering::run() {
  for (ValueId input : graph_.inputs()) {
    const Value& value = graph_.value(input);
    tosa::DType dtype = is_boolean_byte(input) ? tosa::DType::I8 : tosa_dtype(value.type.dtype);
    tensors_[input] = b.input(value.name, dtype, tosa_shape(value.type.shape));
  }
  for (NodeId id : graph_.order()) {
    const Node& node = graph_.node(id);
    if (is_part_of_slice(node)) continue;
    b.set_location(node.name);
    at_ = graph_.value(node.outputs[0]).name;
    if (node.op == Op::Cond) {
      TRY(cond(node));
      continue;
    }
    size_t known = program_.bodies[b.body_id()].tensors.size();
    TRY_ASSIGN(Id result, lower_node(node));
    if (is_integer_arithmetic(node)) bounds_.accept_overflow();
    if (bounds_.overflow()) return cannot(node, "some input would make one of its sums leave its type");
    if (result >= known)
      b.rename(result, graph_.value(node.outputs[0]).name);  // else it is an operand, and has its name
    CHECK(b.shape(result) == tosa_shape(out(node).shape), "{} lowers to another shape than {}", node.name,
          to_text(out(node)));
    tensors_[node.outputs[0]] = result;
  }
  std::vector<Id> given;
  for (ValueId output : graph_.outputs()) {
    Id id = operand(output);
    // Each output is a tensor of its own: not an input (a product that keeps the codes has its operand's), not a
    // constant, not another output.
    const tosa::Body& body = program_.bodies[b.body_id()];
    auto among = [id](const std::vector<Id>& list) { return std::find(list.begin(), list.end(), id) != list.end(); };
    if (among(body.inputs) || among(given) || body.tensors[id].is_const) id = b.identity(id);
    given.push_back(id);
    b.output(id);
  }
  return {};
}

// Nodes in two bodies may have one name; bodies of a program may not.
std::string Lowering::body_name(const std::string& wanted) const {
  auto taken = [&](const std::string& name) {
    return std::any_of(program_.bodies.begin(), program_.bodies.end(),
                       [&](const tosa::Body& body) { return body.name == name; });
  };
  std::string name = wanted;
  for (int i = 1; taken(name); ++i) name = fmt::format("{}_{}", wanted, i);
  return name;
}

// Each branch is a body of the program of its own.
Result<void> Lowering::cond(const Node& n) {
  tosa::BodyId branches[2];
  for (size_t i = 0; i < 2; ++i) {
    Lowering branch(*n.bodies[i], program_, body_name(fmt::format("{}_{}", n.name, i == 0 ? "then" : "else")));
    TRY(branch.run());
    branches[i] = branch.body_id();
  }
  std::vector<Id> operands;
  for (size_t i = 1; i < n.inputs.size(); ++i) operands.push_back(operand(n.inputs[i]));
  std::vector<Id> results = b.cond_if(b.reshape(operand(n.inputs[0]), {1}), operands, branches[0], branches[1]);
  for (size_t i = 0; i < results.size(); ++i) tensors_[n.outputs[i]] = results[i];
  return {};
}

Result<tosa::TensorId> Lowering::lower_node(const Node& n) {
  switch (n.op) {
    case Op::Quantize: return quantize(n);
    case Op::Cast: return cast(n);
    case Op::Conv: return conv(n);
    case Op::ConvTranspose: return conv_transpose(n);
    case Op::MatMul: return matmul(n);
    case Op::MaxPool:
    case Op::AvgPool: return pool(n);
    case Op::Resize: return resize(n);
    case Op::Unary: return unary(n);
    case Op::Clamp: return clamp(n);
    case Op::Add:
    case Op::Sub: return add_sub(n);
    case Op::Mul: return mul(n);
    case Op::Div: return divide(n);
    case Op::Maximum:
    case Op::Minimum: return min_max(n);
    case Op::Compare: return compare(n);
    case Op::Logical:
    case Op::LogicalNot:
    case Op::Bitwise:
    case Op::BitwiseNot: return boolean(n);
    case Op::Where: return where(n);
    case Op::Sum:
    case Op::Mean: return sum(n);
    case Op::ReduceMax:
    case Op::ReduceMin:
    case Op::Any:
    case Op::All: return reduce(n);
    case Op::ArgMax: return argmax(n);
    case Op::Reshape:
    case Op::Transpose:
    case Op::Concat:
    case Op::Slice:
    case Op::Pad:
    case Op::Repeat:
    case Op::Flip:
    case Op::Gather: return movement(n);
    case Op::Dequantize:
    case Op::Linear:
    case Op::AdaptiveAvgPool:
    case Op::AdaptiveMaxPool:
    case Op::Prelu:
    case Op::Pow:
    case Op::Remainder:
    case Op::Prod:
    case Op::Var:
    case Op::ArgMin:
    case Op::CumSum:
    case Op::Softmax:
    case Op::LogSoftmax:
    case Op::LayerNorm:
    case Op::RmsNorm:
    case Op::GroupNorm:
    case Op::BatchNorm:
    case Op::Attention:
    case Op::Expand:
    case Op::GatherElements:
    case Op::ScatterElements:
    case Op::Cond:
    case Op::While:
    case Op::Map:
    case Op::Scan:
    case Op::Opaque: break;
  }
  return cannot(n, "it has no TOSA form");
}

Error Lowering::cannot(const Node& n, std::string_view why) const {
  const Loc* loc = graph_.loc(n.loc);
  return error("{}{}{} ({}) cannot be lowered: {}", loc ? to_text(*loc) : "", loc ? ": " : "", n.name, name_of(n.op),
               why);
}

tosa::TensorId Lowering::operand(ValueId id) {
  if (tensors_[id] == kMissing) {
    const Value& value = graph_.value(id);
    CHECK(value.constant, "{} is used before it is lowered", value.name);
    tensors_[id] = b.constant(tosa_dtype(value.type.dtype), tosa_shape(value.type.shape),
                              Buffer(value.data.begin(), value.data.end()), value.name);
  }
  return tensors_[id];
}

bool keeps_codes(double scale, tosa::DType dtype) {
  double range = dtype == tosa::DType::I8 ? 0x1p8 : dtype == tosa::DType::I16 ? 0x1p16 : 0x1p32;
  return std::fabs(scale - 1.0) * range < 0.25;
}

tosa::TensorId Lowering::rescale(Id x, double scale, int64_t from_zp, int64_t to_zp, tosa::DType to) {
  if (from_zp == to_zp && b.dtype(x) == to && keeps_codes(scale, to)) return x;
  bool scale16 = b.dtype(x) == tosa::DType::I48;
  ScaleCode code = encode_scale(scale, scale16);
  tosa::CodeRange codes = bounds_.of(x);
  auto zero = static_cast<double>(from_zp), limit = static_cast<double>(code.limit());
  if (!scale16 && limit < 0x1p31 && !codes.within(zero - limit, zero + limit - 1)) {
    if (b.dtype(x) != tosa::DType::I32) x = rescale(x, 1.0, from_zp, 0, tosa::DType::I32);
    x = b.minimum(b.maximum(x, number(-code.limit(), x)), number(code.limit() - 1, x));
    from_zp = 0;
  }
  tosa::RescaleParameters parameters;
  parameters.multiplier = {code.multiplier};
  parameters.shift = {code.shift};
  parameters.input_zp = static_cast<int32_t>(from_zp);
  parameters.output_zp = static_cast<int32_t>(to_zp);
  parameters.to = to;
  parameters.scale32 = !scale16;
  return b.rescale(x, parameters);
}

tosa::TensorId Lowering::widen(const Node& n, size_t i, double scale) {
  return rescale(operand(n.inputs[i]), scale, in(n, i).quantized() ? in(n, i).zero_point() : 0, 0, tosa::DType::I32);
}

tosa::TensorId Lowering::narrow(Id x, double scale, const Node& n) {
  return activate(rescale(x, scale, 0, out(n).quantized() ? out(n).zero_point() : 0, tosa_dtype(out(n).dtype)), n);
}

tosa::TensorId Lowering::activate(Id x, const Node& n) { return activate(x, n, out(n)); }

tosa::TensorId Lowering::activate(Id x, const Node& n, const Type& type) {
  if (!type.quantized() || type.dtype == DType::I32 || type.dtype == DType::I48) return x;
  int64_t lowest = dtype_min(type.dtype);
  int64_t highest = dtype_max(type.dtype);
  const Quant& quant = *type.quant;
  int64_t low = quant.qmin;
  int64_t high = quant.qmax;
  if (const Attr* bound = n.attrs.find(Key::ActMin))
    low = std::max(low, quantize_value(static_cast<float>(std::get<double>(*bound)), type.scale(), type.zero_point(),
                                       quant.qmin, quant.qmax));
  if (const Attr* bound = n.attrs.find(Key::ActMax))
    high = std::min(high, quantize_value(static_cast<float>(std::get<double>(*bound)), type.scale(), type.zero_point(),
                                         quant.qmin, quant.qmax));
  if ((low <= lowest && high >= highest) || clamped_by_table(n)) return x;
  return b.clamp(x, low, high);
}

tosa::TensorId Lowering::requantize(Id x, const Type& from, const Type& to) {
  return rescale(x, from.scale() / to.scale(), from.zero_point(), to.zero_point(), tosa_dtype(to.dtype));
}

Result<tosa::Program> lower(const Graph& region, std::string* culprit) {
  tosa::Program program;
  Lowering lowering(region, program, "main");
  if (Result<void> done = lowering.run(); !done) {
    if (culprit) *culprit = lowering.at();
    return done.error();
  }
  TRY(tosa::validate(program));
  return program;
}

}  // namespace swoop
