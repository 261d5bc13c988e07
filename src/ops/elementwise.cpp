// Elementwise operators: functions of one value, arithmetic with broadcasting, comparisons, logic.
#include <algorithm>
#include <cmath>

#include "ops/infer.h"
#include "ops/ref.h"
#include "ops/rows.h"
#include "ops/window.h"

namespace swoop {

namespace {

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

Result<Types> infer_unary(const Graph& graph, const Node& node) {
  const Type& x = in_type(graph, node, 0);
  TRY_ASSIGN(std::string_view fn, text_attr(node, Key::Fn));
  const UnaryFunction* function = unary_function(fn);
  if (!function) return error("unary has no function {}", fn);
  DType dtype = real_dtype(x);
  bool keeps = is_integer(dtype) && function->keeps_integers && function->keeps_integers(real_or(node, Key::Alpha, 0));
  if (!is_float(dtype) && !keeps) dtype = DType::F32;
  return one(node, dtype, x.shape);
}

Result<Types> infer_clamp(const Graph& graph, const Node& node) {
  const Type& x = in_type(graph, node, 0);
  DType dtype = real_dtype(x);
  if (dtype == DType::Bool) return error("clamp works on numbers, not on bool");
  for (Key key : {Key::Min, Key::Max}) {
    if (!node.has(key)) continue;
    TRY_ASSIGN(double bound, real_attr(node, key));
    if (!is_float(dtype) && bound != std::floor(bound)) dtype = DType::F32;
  }
  return one(node, dtype, x.shape);
}

Result<Types> infer_prelu(const Graph& graph, const Node& node) {
  const Type& x = in_type(graph, node, 0);
  const Type& w = in_type(graph, node, 1);
  if (!is_float(real_dtype(x)) || !is_float(real_dtype(w)))
    return error("prelu works on floats, not on {}", to_text(x));
  int axis = channel_axis(node, x.shape);
  int64_t channels = axis < x.rank() ? x.shape[static_cast<size_t>(axis)] : 1;
  if (w.rank() > 1 || (element_count(w.shape) != 1 && element_count(w.shape) != channels))
    return error("prelu of {} has weights {}: one, or one per channel", to_text(x.shape), to_text(w.shape));
  return one(node, promote(x, w), x.shape);
}

Result<Types> infer_binary(const Graph& graph, const Node& node) {
  const Type& a = in_type(graph, node, 0);
  const Type& b = in_type(graph, node, 1);
  TRY_ASSIGN(Shape shape, broadcast(node, a.shape, b.shape));
  DType dtype = promote(a, b);
  if (dtype == DType::Bool && (node.op == Op::Sub || node.op == Op::Pow || node.op == Op::Remainder))
    return error("{} works on numbers, not on bool", name_of(node.op));
  if (node.op == Op::Div) {
    std::string_view mode = node.text(Key::Mode, "");
    if (!is_one_of(mode, {"", "floor", "trunc"})) return error("div has no mode {}", mode);
    if (mode.empty()) dtype = to_float(dtype);
    if (dtype == DType::Bool) return error("div with mode {} works on numbers, not on bool", mode);
  }
  return one(node, dtype, std::move(shape));
}

Result<Types> infer_compare(const Graph& graph, const Node& node) {
  TRY_ASSIGN(std::string_view fn, text_attr(node, Key::Fn));
  bool known = node.op == Op::Logical ? is_one_of(fn, {"and", "or", "xor"})
                                      : is_one_of(fn, {"eq", "ne", "lt", "le", "gt", "ge"});
  if (!known) return error("{} has no function {}", name_of(node.op), fn);
  TRY_ASSIGN(Shape shape, broadcast(node, in_type(graph, node, 0).shape, in_type(graph, node, 1).shape));
  return one(node, DType::Bool, std::move(shape));
}

Result<Types> infer_logical_not(const Graph& graph, const Node& node) {
  return one(node, DType::Bool, in_type(graph, node, 0).shape);
}

Result<Types> infer_bitwise(const Graph& graph, const Node& node) {
  const Type& a = in_type(graph, node, 0);
  const Type& b = in_type(graph, node, node.op == Op::BitwiseNot ? 0 : 1);
  DType dtype = promote(a, b);
  if (is_float(dtype)) return error("{} works on integers, not on {} and {}", name_of(node.op), to_text(a), to_text(b));
  if (node.op == Op::Bitwise) {
    TRY_ASSIGN(std::string_view fn, text_attr(node, Key::Fn));
    if (!is_one_of(fn, {"and", "or", "xor", "shl", "shr"})) return error("bitwise has no function {}", fn);
    if (dtype == DType::Bool && is_one_of(fn, {"shl", "shr"}))
      return error("bitwise {} works on integers, not on bool", fn);
  }
  TRY_ASSIGN(Shape shape, broadcast(node, a.shape, b.shape));
  return one(node, dtype, std::move(shape));
}

Result<Types> infer_where(const Graph& graph, const Node& node) {
  const Type& condition = in_type(graph, node, 0);
  const Type& a = in_type(graph, node, 1);
  const Type& b = in_type(graph, node, 2);
  if (condition.dtype != DType::Bool) return error("where needs a bool condition, not {}", to_text(condition));
  TRY_ASSIGN(Shape both, broadcast(node, a.shape, b.shape));
  TRY_ASSIGN(Shape shape, broadcast(node, condition.shape, both));
  return one(node, promote(a, b), std::move(shape));
}

constexpr Traits kMap = {.elementwise = true};
constexpr Traits kMapClamp = {.elementwise = true, .fuses_clamp = true};

}  // namespace

const OpInfo kElementwiseOps[] = {
    {Op::Unary, Policy::OwnRange, kMap, 1, 1, infer_unary, ref_unary},
    {Op::Clamp, Policy::OwnRange, kMap, 1, 1, infer_clamp, ref_clamp},
    {Op::Prelu, Policy::OwnRange, {.channels = true, .parameters = true}, 2, 2, infer_prelu, ref_prelu},
    {Op::Add, Policy::OwnRange, kMapClamp, 2, 2, infer_binary, ref_binary},
    {Op::Sub, Policy::OwnRange, kMapClamp, 2, 2, infer_binary, ref_binary},
    {Op::Mul, Policy::OwnRange, kMapClamp, 2, 2, infer_binary, ref_binary},
    {Op::Div, Policy::OwnRange, kMapClamp, 2, 2, infer_binary, ref_binary},
    {Op::Maximum, Policy::OwnRange, kMapClamp, 2, 2, infer_binary, ref_binary},
    {Op::Minimum, Policy::OwnRange, kMapClamp, 2, 2, infer_binary, ref_binary},
    {Op::Pow, Policy::OwnRange, kMap, 2, 2, infer_binary, ref_binary},
    {Op::Remainder, Policy::OwnRange, kMap, 2, 2, infer_binary, ref_binary},
    {Op::Compare, Policy::ReadsCodes, kMap, 2, 2, infer_compare, ref_compare},
    {Op::Logical, Policy::KeepFloat, kMap, 2, 2, infer_compare, ref_compare},
    {Op::LogicalNot, Policy::KeepFloat, kMap, 1, 1, infer_logical_not, ref_logical_not},
    {Op::Bitwise, Policy::KeepFloat, kMap, 2, 2, infer_bitwise, ref_bitwise},
    {Op::BitwiseNot, Policy::KeepFloat, kMap, 1, 1, infer_bitwise, ref_bitwise_not},
    {Op::Where, Policy::Joins, {.elementwise = true, .selector = 0}, 3, 3, infer_where, ref_where},
};

}  // namespace swoop
