#include "import/node_builder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "ops/ops.h"
#include "support/check.h"
#include "support/half.h"

namespace swoop {

namespace {

// No attribute of a real model is larger; keeps every sum and product of two of them far from overflow.
constexpr int64_t kMaxAttribute = int64_t{1} << 31;
constexpr size_t kMaxNodes = 4'000'000;  // an expansion must not fill the memory

void check_attributes(const Attrs& attrs, std::string_view name) {
  for (const auto& [key, attr] : attrs) {
    auto sane = [](int64_t value) { return value >= -kMaxAttribute && value <= kMaxAttribute; };
    const Ints* list = std::get_if<Ints>(&attr);
    const int64_t* one = std::get_if<int64_t>(&attr);
    if ((one && !sane(*one)) || (list && !std::all_of(list->begin(), list->end(), sane)))
      malformed("the operator `{}` has a value of {} that makes no sense", name, name_of(key));
  }
}

// PyTorch computes on the codes of a quantized tensor, a core operator on the reals they stand for. For moves and
// maxima that is the same.
void refuse_arithmetic_on_codes(const Graph& graph, const Node& node, const std::vector<Type>& results) {
  auto quantized = [&](ValueId value) { return value != kNone && graph.type(value).quantized(); };
  auto first = std::find_if(node.inputs.begin(), node.inputs.end(), quantized);
  if (first == node.inputs.end() || node.op == Op::Dequantize || !node.bodies.empty()) return;
  const Traits& traits = info(node.op).traits;
  if (policy_of(node) != Policy::SameAsInput && !traits.movement)
    unsupported("it computes on the integer codes of a quantized tensor");
  if (!results[0].quantized()) unsupported("it mixes the channels of a tensor that is quantized per channel");
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (policy_of(node) == Policy::Joins && static_cast<int>(i) != traits.selector &&
        graph.type(node.inputs[i]).quant != graph.type(*first).quant)
      unsupported("it joins tensors of different quantization");
}

template <typename T>
void put(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}

int64_t to_integer(double value) {
  if (std::isnan(value)) return 0;
  if (value >= 0x1p63) return std::numeric_limits<int64_t>::max();
  if (value < -0x1p63) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(value);
}

}  // namespace

void store_element(std::byte* to, DType dtype, int64_t value) {
  switch (dtype) {
    case DType::I4:
    case DType::I8: return put(to, static_cast<int8_t>(value));
    case DType::I16: return put(to, static_cast<int16_t>(value));
    case DType::I32: return put(to, static_cast<int32_t>(value));
    case DType::I48:
    case DType::I64: return put(to, value);
    case DType::U8: return put(to, static_cast<uint8_t>(value));
    case DType::Bool: return put(to, static_cast<uint8_t>(value != 0));
    case DType::F32:
    case DType::F16:
    case DType::BF16:
    case DType::F64: return store_element(to, dtype, static_cast<double>(value));
  }
}

void store_element(std::byte* to, DType dtype, double value) {
  switch (dtype) {
    case DType::F32: return put(to, static_cast<float>(value));
    case DType::F16: return put(to, to_f16(static_cast<float>(value)));
    case DType::BF16: return put(to, to_bf16(static_cast<float>(value)));
    case DType::F64: return put(to, value);
    case DType::Bool: return put(to, static_cast<uint8_t>(value != 0));
    case DType::I4:
    case DType::I8:
    case DType::I16:
    case DType::I32:
    case DType::I48:
    case DType::I64:
    case DType::U8: return store_element(to, dtype, to_integer(value));
  }
}

double load_element(const std::byte* from, DType dtype) {
  switch (dtype) {
    case DType::F32: return load<float>(from);
    case DType::F16: return from_f16(load<uint16_t>(from));
    case DType::BF16: return from_bf16(load<uint16_t>(from));
    case DType::F64: return load<double>(from);
    case DType::I4:
    case DType::I8: return load<int8_t>(from);
    case DType::I16: return load<int16_t>(from);
    case DType::I32: return load<int32_t>(from);
    case DType::I48:
    case DType::I64: return static_cast<double>(load<int64_t>(from));
    case DType::U8:
    case DType::Bool: return load<uint8_t>(from);
  }
  return 0;
}

int64_t normalised_axis(int64_t axis, int rank) {
  int64_t dims = std::max(rank, 1);  // PyTorch takes axis 0 and -1 of a scalar
  if (axis < -dims || axis >= dims) malformed("axis {} of a tensor with {} dimensions does not exist", axis, rank);
  return axis < 0 ? axis + dims : axis;
}

int64_t NodeBuilder::dim(ValueId value, int64_t axis) const {
  if (axis < 0 || axis >= rank(value))
    malformed("axis {} of a tensor with {} dimensions does not exist", axis, rank(value));
  return shape(value)[static_cast<size_t>(axis)];
}

ValueId NodeBuilder::scalar(double value, DType dtype) {
  return filled(dtype, {}, [&](int64_t) { return value; });
}

ValueId NodeBuilder::constant(Type constant_type, Buffer data) {
  budget.take(data.size(), name);
  return made(graph.add_constant(std::move(constant_type), graph.store(std::move(data)), name));
}

ValueId NodeBuilder::counted(int64_t count, DType to) {
  return filled(to, {count}, [](int64_t i) { return i; });
}

std::vector<ValueId> NodeBuilder::make_all(Op op, std::vector<ValueId> inputs, Attrs attrs,
                                           std::vector<std::unique_ptr<Graph>> bodies) {
  check_attributes(attrs, name);
  if (graph.node_slots() >= kMaxNodes) malformed("the model has more than {} operators", kMaxNodes);
  Node draft;
  draft.op = op;
  draft.name = name;
  draft.inputs = std::move(inputs);
  draft.attrs = std::move(attrs);
  draft.bodies = std::move(bodies);
  const OpInfo& facts = info(op);
  auto count = static_cast<int>(draft.inputs.size());
  if (count < facts.min_inputs || (facts.max_inputs >= 0 && count > facts.max_inputs))
    malformed("the operator has {} operands, which {} does not take", count, name_of(op));
  Result<std::vector<Type>> types = infer(graph, draft);
  if (!types) throw Malformed{types.error().message};
  refuse_arithmetic_on_codes(graph, draft, *types);
  Node& node = graph.add_node(op, std::move(draft.inputs), std::move(*types), std::move(draft.attrs), loc, name);
  node.bodies = std::move(draft.bodies);
  if (!node.outputs.empty()) made(node.outputs[0]);
  return node.outputs;
}

ValueId NodeBuilder::made(ValueId value) {
  if (named == kNone && graph.value(value).name == name) named = value;
  return value;
}

void NodeBuilder::start(LocId loc_, std::string_view name_) {
  loc = loc_;
  name = name_;
  named = kNone;
}

void NodeBuilder::give_name_to(ValueId result) {
  if (named == kNone || result <= named) return;  // ids grow: an older value is not of this node
  std::swap(graph.value(named).name, graph.value(result).name);
  named = result;
}

ValueId NodeBuilder::make(Op op, std::vector<ValueId> inputs, Attrs attrs) {
  return make_all(op, std::move(inputs), std::move(attrs)).at(0);
}

ValueId NodeBuilder::cast(ValueId x, DType to) {
  if (dtype(x) == to && !type(x).quantized()) return x;
  const Value& value = graph.value(x);
  if (value.constant && value.type.shape.empty() && !value.type.quantized())
    return scalar(load_element(value.data.data(), value.type.dtype), to);
  if (to == DType::Bool && is_float(dtype(x))) return compare("ne", x, scalar(0, dtype(x)));
  return make(Op::Cast, {x}, {{Key::DType, to}});
}

ValueId NodeBuilder::unary(std::string_view fn, ValueId x) {
  return make(Op::Unary, {x}, {{Key::Fn, std::string(fn)}});
}

ValueId NodeBuilder::unary(std::string_view fn, ValueId x, double alpha, double beta) {
  return make(Op::Unary, {x}, {{Key::Fn, std::string(fn)}, {Key::Alpha, alpha}, {Key::Beta, beta}});
}

ValueId NodeBuilder::clamp(ValueId x, std::optional<double> min, std::optional<double> max) {
  Attrs attrs;
  if (min) attrs.set(Key::Min, *min);
  if (max) attrs.set(Key::Max, *max);
  return make(Op::Clamp, {x}, std::move(attrs));
}

ValueId NodeBuilder::compare(std::string_view fn, ValueId a, ValueId b) {
  return make(Op::Compare, {a, b}, {{Key::Fn, std::string(fn)}});
}

ValueId NodeBuilder::log_add_exp(ValueId a, ValueId b) {
  ValueId distance = unary("neg", unary("abs", sub(a, b)));
  return add(make(Op::Maximum, {a, b}), unary("softplus", distance, 1, 20));
}

// The smaller side over the larger one has an angle of at most pi/4, which is turned into its octant.
ValueId NodeBuilder::angle_of(ValueId y, ValueId x) {
  auto number = [&](double value) { return scalar(value, dtype(x)); };
  ValueId high = unary("abs", y), wide = unary("abs", x);
  ValueId larger = clamp(make(Op::Maximum, {high, wide}), std::numeric_limits<float>::min(), std::nullopt);
  ValueId angle = unary("atan", div(make(Op::Minimum, {high, wide}), larger));
  angle = where(compare("gt", high, wide), sub(number(M_PI_2), angle), angle);
  angle = where(compare("lt", x, number(0)), sub(number(M_PI), angle), angle);
  return where(compare("lt", y, number(0)), unary("neg", angle), angle);
}

ValueId NodeBuilder::scaled(ValueId x, double factor) { return factor == 1.0 ? x : mul(x, scalar(factor, dtype(x))); }

ValueId NodeBuilder::reduce(Op op, ValueId x, Ints axes, bool keepdim) {
  if (axes.empty() && op != Op::Any && op != Op::All && !type(x).quantized()) {  // of a scalar
    bool widens = (op == Op::Sum || op == Op::Prod) && !is_float(dtype(x));
    return widens ? cast(x, DType::I64) : x;
  }
  return make(op, {x}, {{Key::Axes, std::move(axes)}, {Key::Keepdim, keepdim}});
}

ValueId NodeBuilder::norm(ValueId x, double p, const Ints& axes, bool keepdim) {
  if (p == 2) return unary("sqrt", reduce(Op::Sum, unary("square", x), axes, keepdim));
  ValueId size = unary("abs", x);
  if (p == 1) return reduce(Op::Sum, size, axes, keepdim);
  if (std::isinf(p)) return reduce(p > 0 ? Op::ReduceMax : Op::ReduceMin, size, axes, keepdim);
  if (p == 0) return reduce(Op::Sum, cast(compare("ne", x, scalar(0, dtype(x))), dtype(x)), axes, keepdim);
  return unary("pow", reduce(Op::Sum, unary("pow", size, p), axes, keepdim), 1 / p);
}

ValueId NodeBuilder::reshape(ValueId x, Shape to) {
  if (shape(x) == to) return x;
  return make(Op::Reshape, {x}, {{Key::Shape, std::move(to)}});
}

ValueId NodeBuilder::transpose(ValueId x, Ints perm) {
  bool same = static_cast<int>(perm.size()) == rank(x);
  for (size_t i = 0; i < perm.size(); ++i) same &= perm[i] == static_cast<int64_t>(i);
  if (same) return x;
  return make(Op::Transpose, {x}, {{Key::Perm, std::move(perm)}});
}

ValueId NodeBuilder::swap(ValueId x, int64_t a, int64_t b) {
  Ints perm(static_cast<size_t>(rank(x)));
  std::iota(perm.begin(), perm.end(), 0);
  if (perm.empty()) return x;
  std::swap(perm.at(static_cast<size_t>(a)), perm.at(static_cast<size_t>(b)));
  return transpose(x, std::move(perm));
}

ValueId NodeBuilder::pad(ValueId x, int64_t axis, int64_t before, int64_t after, double value) {
  dim(x, axis);
  if (before == 0 && after == 0) return x;
  Ints amounts(static_cast<size_t>(rank(x)) * 2, 0);
  amounts[static_cast<size_t>(axis) * 2] = before;
  amounts[static_cast<size_t>(axis) * 2 + 1] = after;
  return make(Op::Pad, {x}, {{Key::Padding, amounts}, {Key::Mode, std::string("constant")}, {Key::Value, value}});
}

ValueId NodeBuilder::slice(ValueId x, int64_t axis, int64_t start, int64_t end, int64_t step) {
  int64_t size = dim(x, axis);
  if (step <= 0) malformed("a slice has step {}, which must be positive", step);
  auto inside = [size](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size); };
  start = inside(start);
  end = std::max(inside(end), start);
  if (start == 0 && end == size && step == 1) return x;
  step = std::min(step, std::max<int64_t>(size, 1));
  return make(Op::Slice, {x}, {{Key::Axis, axis}, {Key::Start, start}, {Key::End, end}, {Key::Step, step}});
}

ValueId NodeBuilder::select(ValueId x, int64_t axis, int64_t index) {
  int64_t size = dim(x, axis);
  if (index < -size || index >= size) malformed("index {} of an axis with {} elements does not exist", index, size);
  if (index < 0) index += size;
  Shape rest = shape(x);
  rest.erase(rest.begin() + axis);
  return reshape(slice(x, axis, index, index + 1), std::move(rest));
}

ValueId NodeBuilder::concat(std::vector<ValueId> parts, int64_t axis) {
  // The rest behind a rotary embedding of the whole head has no elements.
  auto full = std::find_if(parts.begin(), parts.end(), [&](ValueId part) { return dim(part, axis) > 0; });
  if (full != parts.end()) std::erase_if(parts, [&](ValueId part) { return dim(part, axis) == 0; });
  if (parts.size() == 1) return parts[0];
  return make(Op::Concat, std::move(parts), {{Key::Axis, axis}});
}

ValueId NodeBuilder::expand(ValueId x, const Shape& to) {
  if (shape(x) == to) return x;
  Shape padded = shape(x);
  if (padded.size() > to.size())
    malformed("a tensor of shape {} cannot be expanded to {}", to_text(padded), to_text(to));
  padded.insert(padded.begin(), to.size() - padded.size(), 1);
  x = reshape(x, padded);
  if (padded == to) return x;
  return make(Op::Expand, {x}, {{Key::Shape, to}});
}

ValueId NodeBuilder::unsqueeze(ValueId x, int64_t axis) {
  Shape wider = shape(x);
  if (axis < 0 || axis > rank(x)) malformed("axis {} cannot be added to a tensor with {} dimensions", axis, rank(x));
  wider.insert(wider.begin() + axis, 1);
  return reshape(x, std::move(wider));
}

ValueId NodeBuilder::linear(ValueId x, ValueId weight, ValueId bias) { return make(Op::Linear, {x, weight, bias}); }

}  // namespace swoop
