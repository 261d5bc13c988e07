// Reductions over axes, arg-extrema and running sums.
#include <algorithm>

#include "ops/infer.h"
#include "ops/ref.h"
#include "ops/rows.h"

namespace swoop {

namespace {

// Axes strictly increasing is not asked for, distinct and in range is.
Result<Shape> reduced_shape(const Node& node, const Shape& shape, const Ints& axes) {
  std::vector<bool> gone(shape.size(), false);
  for (int64_t axis : axes) {
    if (axis < 0 || axis >= static_cast<int64_t>(shape.size()))
      return error("{} over axis {} of an operand of shape {}", name_of(node.op), axis, to_text(shape));
    if (gone[static_cast<size_t>(axis)]) return error("{} names axis {} twice", name_of(node.op), axis);
    gone[static_cast<size_t>(axis)] = true;
  }
  Shape result;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!gone[i])
      result.push_back(shape[i]);
    else if (node.flag(Key::Keepdim))
      result.push_back(1);
  }
  return result;
}

bool needs_elements(Op op) {
  return op == Op::ReduceMax || op == Op::ReduceMin || op == Op::ArgMax || op == Op::ArgMin;
}

Result<DType> reduced_dtype(const Node& node, const Type& x) {
  DType dtype = real_dtype(x);
  if (node.op == Op::Any || node.op == Op::All) return DType::Bool;
  if (node.op == Op::ArgMax || node.op == Op::ArgMin) return DType::I64;
  if (node.op == Op::ReduceMax || node.op == Op::ReduceMin) return dtype;
  if (is_float(dtype)) return dtype;
  if (node.op == Op::Mean || node.op == Op::Var)
    return error("{} works on floats, not on {}", name_of(node.op), to_text(x));
  return DType::I64;
}

Result<Types> infer_reduction(const Graph& graph, const Node& node) {
  const Type& x = in_type(graph, node, 0);
  Ints axes;
  if (node.op == Op::ArgMax || node.op == Op::ArgMin) {
    TRY_ASSIGN(int64_t axis, axis_attr(node, x.rank()));
    axes = {axis};
  } else {
    TRY_ASSIGN(const Ints* given, ints_attr(node, Key::Axes));
    axes = *given;
  }
  TRY_ASSIGN(Shape shape, reduced_shape(node, x.shape, axes));
  if (needs_elements(node.op) &&
      std::any_of(axes.begin(), axes.end(), [&](int64_t a) { return x.shape[static_cast<size_t>(a)] == 0; }))
    return error("{} over axes {} of {}: there is no element to choose", name_of(node.op), to_text(axes),
                 to_text(x.shape));
  TRY_ASSIGN(DType dtype, reduced_dtype(node, x));
  TRY_ASSIGN(Types types, one(node, dtype, std::move(shape)));
  if (node.op == Op::ReduceMax || node.op == Op::ReduceMin) carry_quantization(x, types[0]);
  return types;
}

Result<Types> infer_cumsum(const Graph& graph, const Node& node) {
  const Type& x = in_type(graph, node, 0);
  if (x.rank() > 0) TRY(axis_attr(node, x.rank()));
  DType dtype = real_dtype(x);
  return one(node, is_float(dtype) ? dtype : DType::I64, x.shape);
}

constexpr Traits kReduction = {.reduction = true};

}  // namespace

const OpInfo kReduceOps[] = {
    {Op::Sum, Policy::OwnRange, kReduction, 1, 1, infer_reduction, ref_reduce},
    {Op::Mean, Policy::OwnRange, kReduction, 1, 1, infer_reduction, ref_reduce},
    {Op::ReduceMax, Policy::SameAsInput, kReduction, 1, 1, infer_reduction, ref_reduce},
    {Op::ReduceMin, Policy::SameAsInput, kReduction, 1, 1, infer_reduction, ref_reduce},
    {Op::Prod, Policy::OwnRange, kReduction, 1, 1, infer_reduction, ref_reduce},
    {Op::Any, Policy::KeepFloat, kReduction, 1, 1, infer_reduction, ref_reduce},
    {Op::All, Policy::KeepFloat, kReduction, 1, 1, infer_reduction, ref_reduce},
    {Op::Var, Policy::OwnRange, kReduction, 1, 1, infer_reduction, ref_reduce, {0, kInfinity}},
    {Op::ArgMax, Policy::ReadsCodes, kReduction, 1, 1, infer_reduction, ref_arg_extremum},
    {Op::ArgMin, Policy::ReadsCodes, kReduction, 1, 1, infer_reduction, ref_arg_extremum},
    {Op::CumSum, Policy::OwnRange, {}, 1, 1, infer_cumsum, ref_cumsum},
};

}  // namespace swoop
