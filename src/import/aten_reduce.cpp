// Reductions.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "import/aten.h"

namespace swoop {

namespace {

Ints all_axes(int rank) {
  Ints axes(static_cast<size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

template <Op op>
Results reduce_all(Call& c) {
  ValueId x = c.cast(c.tensor(0), op == Op::Any || op == Op::All ? DType::Bool : c.result().dtype);
  return c.reduce(op, x, all_axes(c.rank(x)), false);
}

template <Op op>
Results reduce_axes(Call& c) {
  ValueId x = c.tensor(0);
  if (op == Op::Any || op == Op::All)
    x = c.cast(x, DType::Bool);
  else if (op != Op::ReduceMax && op != Op::ReduceMin)
    x = c.cast(x, c.result().dtype);
  return c.reduce(op, x, c.axes(1, c.rank(x)), c.flag(2));
}

// max and min with their positions
template <Op op, Op arg_op>
Results extreme(Call& c) {
  ValueId x = c.tensor(0);
  if (c.rank(x) == 0) unsupported("max or min over an axis of a scalar");
  int64_t axis = c.axis(1, c.rank(x));
  bool keepdim = c.flag(2);
  std::vector<ValueId> values = {kNone, kNone};
  if (c.wants(0)) values[0] = c.reduce(op, x, {axis}, keepdim);
  if (c.wants(1)) values[1] = c.make(arg_op, {x}, {{Key::Axis, axis}, {Key::Keepdim, keepdim}});
  return values;
}

template <Op op>
Results arg_extreme(Call& c) {
  ValueId x = c.tensor(0);
  if (c.none(1)) {  // over all elements
    x = c.reshape(x, {element_count(c.shape(x))});
    return c.reshape(c.make(op, {x}, {{Key::Axis, int64_t{0}}, {Key::Keepdim, false}}), c.result().shape);
  }
  if (c.rank(x) == 0) unsupported("argmax or argmin over an axis of a scalar");
  return c.make(op, {x}, {{Key::Axis, c.axis(1, c.rank(x))}, {Key::Keepdim, c.flag(2)}});
}

Results aminmax(Call& c) {
  ValueId x = c.tensor(0);
  Ints axes = c.axes(1, c.rank(x));
  ValueId low = c.reduce(Op::ReduceMin, x, axes, c.flag(2));
  return std::vector<ValueId>{low, c.reduce(Op::ReduceMax, x, axes, c.flag(2))};
}

// A few factors, as the sides of a box, are multiplied one by one.
Results prod_axis(Call& c) {
  constexpr int64_t kFew = 8;
  ValueId x = c.cast(c.tensor(0), c.result().dtype);
  if (c.rank(x) == 0) return x;
  int64_t axis = c.axis(1, c.rank(x)), count = c.dim(x, axis);
  if (!is_float(c.dtype(x)) || c.type(x).quantized() || count < 1 || count > kFew)
    return c.reduce(Op::Prod, x, {axis}, c.flag(2));
  ValueId product = c.slice(x, axis, 0, 1);
  for (int64_t i = 1; i < count; ++i) product = c.mul(product, c.slice(x, axis, i, i + 1));
  return c.reshape(product, c.result().shape);
}

ValueId variance(Call& c, ValueId x, Ints axes, double correction, bool keepdim) {
  return c.make(Op::Var, {x}, {{Key::Axes, std::move(axes)}, {Key::Keepdim, keepdim}, {Key::Correction, correction}});
}

// The detail says what is wanted of the variance: itself, its root, or with the mean beside it.
Results spread(Call& c, Ints axes, double correction, bool keepdim) {
  ValueId x = c.tensor(0);
  ValueId result = variance(c, x, axes, correction, keepdim);
  if (c.detail().starts_with("std")) result = c.unary("sqrt", result);
  if (!c.detail().ends_with("_mean")) return result;
  return std::vector<ValueId>{result, c.reduce(Op::Mean, x, std::move(axes), keepdim)};
}

Results spread_all(Call& c) { return spread(c, all_axes(c.rank(c.tensor(0))), c.flag(1) ? 1 : 0, false); }
Results spread_axes(Call& c) { return spread(c, c.axes(1, c.rank(c.tensor(0))), c.flag(2) ? 1 : 0, c.flag(3)); }
Results spread_correction(Call& c) {
  return spread(c, c.axes(1, c.rank(c.tensor(0))), c.real_or_none(2).value_or(1), c.flag(3));
}

Results cumsum(Call& c) {
  ValueId x = c.cast(c.tensor(0), c.result().dtype);
  if (c.rank(x) == 0) return x;
  return c.make(Op::CumSum, {x}, {{Key::Axis, c.axis(1, c.rank(x))}});
}

Results linalg_vector_norm(Call& c) {
  ValueId x = c.cast(c.tensor(0), c.result().dtype);
  return c.norm(x, c.real(1), c.axes(2, c.rank(x)), c.flag(3));
}

Results norm(Call& c) {
  ValueId x = c.cast(c.tensor(0), c.result().dtype);
  return c.norm(x, c.real_or_none(1).value_or(2), c.axes(2, c.rank(x)), c.args.size() > 3 && c.flag(3));
}

Results norm_all(Call& c) {
  ValueId x = c.cast(c.tensor(0), c.result().dtype);
  return c.norm(x, c.real_or_none(1).value_or(2), all_axes(c.rank(x)), false);
}

Results frobenius_norm(Call& c) {
  ValueId x = c.tensor(0);
  return c.norm(x, 2, c.axes(1, c.rank(x)), c.flag(2));
}

// Of a vector, or the root of the sum of squares of a matrix
Results linalg_norm(Call& c) {
  ValueId x = c.cast(c.tensor(0), c.result().dtype);
  Ints axes = c.axes(2, c.rank(x));
  bool named = !c.none(1) && !c.is_number(1);
  if (named ? c.text(1) != "fro" : !c.none(1) && (axes.size() > 1 && !(c.none(2) && c.rank(x) == 1)))
    unsupported("the norm of an operator");
  return c.norm(x, named || c.none(1) ? 2 : c.real(1), axes, c.flag(3));
}

Results linalg_matrix_norm(Call& c) {
  ValueId x = c.cast(c.tensor(0), c.result().dtype);
  if (c.is_number(1) || c.text(1) != "fro") unsupported("the norm of an operator");
  return c.norm(x, 2, c.axes(2, c.rank(x)), c.flag(3));
}

ValueId numbers_among(Call& c, ValueId x) { return c.compare("eq", x, x); }

Results nansum(Call& c) {
  ValueId x = c.cast(c.tensor(0), c.result().dtype);
  x = c.where(numbers_among(c, x), x, c.scalar(0, c.dtype(x)));
  return c.reduce(Op::Sum, x, c.axes(1, c.rank(x)), c.flag(2));
}

Results nanmean(Call& c) {
  ValueId x = c.cast(c.tensor(0), c.result().dtype), valid = numbers_among(c, x);
  Ints axes = c.axes(1, c.rank(x));
  ValueId sum = c.reduce(Op::Sum, c.where(valid, x, c.scalar(0, c.dtype(x))), axes, c.flag(2));
  return c.div(sum, c.reduce(Op::Sum, c.cast(valid, c.dtype(x)), axes, c.flag(2)));
}

Results count_nonzero(Call& c) {
  ValueId x = c.tensor(0);
  ValueId used = c.dtype(x) == DType::Bool ? x : c.compare("ne", x, c.scalar(0, c.dtype(x)));
  return c.reduce(Op::Sum, c.cast(used, DType::I64), c.axes(1, c.rank(x)), false);
}

// log(sum(exp(x - m))) + m, m the largest
Results logsumexp(Call& c) {
  ValueId x = c.cast(c.tensor(0), c.result().dtype);
  Ints axes = c.axes(1, c.rank(x));
  ValueId largest = c.reduce(Op::ReduceMax, x, axes, true);
  ValueId sum = c.reduce(Op::Sum, c.unary("exp", c.sub(x, largest)), axes, true);
  return c.reshape(c.add(c.unary("log", sum), largest), c.result().shape);
}

// sum(a * b) / (max(|a|, eps) * max(|b|, eps))
Results cosine_similarity(Call& c) {
  ValueId a = c.tensor(0);
  ValueId b = c.tensor(1);
  int rank = std::max(c.rank(a), c.rank(b));
  Ints axes = {c.axis(2, rank)};
  double eps = c.real(3);
  auto norm_of = [&](ValueId x) {
    Shape wide = c.shape(x);
    wide.insert(wide.begin(), static_cast<size_t>(rank - c.rank(x)), 1);
    x = c.reshape(x, std::move(wide));
    return c.clamp(c.norm(x, 2, axes, false), eps, std::nullopt);
  };
  ValueId dot = c.reduce(Op::Sum, c.mul(a, b), axes, false);
  ValueId na = norm_of(a);
  return c.div(dot, c.mul(na, norm_of(b)));
}

constexpr std::string_view kAll = "self, *, dtype=None";
constexpr std::string_view kDim = "self, dim, keepdim=False";
constexpr std::string_view kDimDtype = "self, dim, keepdim=False, *, dtype=None";
// Half the sum of neighbours, times how far they are apart: along the axis, [n - 1]
ValueId trapezoids(Call& c, ValueId y, int64_t axis) {
  int64_t n = c.dim(y, axis);
  ValueId sums = c.scaled(c.add(c.slice(y, axis, 1, n), c.slice(y, axis, 0, n - 1)), 0.5);
  if (c.is_number(1)) return c.scaled(sums, c.real(1));
  ValueId x = c.cast(c.tensor(1), c.dtype(y));
  if (c.rank(x) == 1) {
    Shape along(c.shape(y).size(), 1);
    along[static_cast<size_t>(axis)] = c.dim(x, 0);
    x = c.reshape(x, std::move(along));
  }
  if (c.rank(x) != c.rank(y) || c.dim(x, axis) != n) unsupported("places of another shape");
  return c.mul(sums, c.sub(c.slice(x, axis, 1, n), c.slice(x, axis, 0, n - 1)));
}

Results trapezoid(Call& c) {
  ValueId y = c.cast(c.tensor(0), c.result().dtype);
  int64_t axis = c.axis(2, c.rank(y));
  if (c.rank(y) == 0 || c.dim(y, axis) < 2) unsupported("an integral over fewer than two places");
  ValueId areas = trapezoids(c, y, axis);
  return c.detail() == "running" ? c.make(Op::CumSum, {areas}, {{Key::Axis, axis}})
                                 : c.reduce(Op::Sum, areas, {axis}, false);
}

// Slices along an axis that are longer than allowed are shortened.
Results renorm(Call& c) {
  ValueId x = c.tensor(0);
  DType dtype = c.dtype(x);
  int64_t kept = c.axis(2, c.rank(x));
  Ints axes;
  for (int64_t d = 0; d < c.rank(x); ++d)
    if (d != kept) axes.push_back(d);
  ValueId size = c.norm(x, c.real(1), axes, true), most = c.scalar(c.real(3), dtype);
  ValueId shorter = c.div(most, c.add(size, c.scalar(1e-7, dtype)));
  return c.mul(x, c.clamp(shorter, std::nullopt, 1.0));
}

constexpr std::string_view kCorrection = "self, dim=None, *, correction=None, keepdim=False";

constexpr Row kReduceRows[] = {
    {"aten.sum.default", kAll, reduce_all<Op::Sum>},
    {"aten.sum.dim_IntList", kDimDtype, reduce_axes<Op::Sum>},
    {"aten.mean.default", kAll, reduce_all<Op::Mean>},
    {"aten.mean.dim", kDimDtype, reduce_axes<Op::Mean>},
    {"aten.amax.default", "self, dim=[], keepdim=False", reduce_axes<Op::ReduceMax>},
    {"aten.amin.default", "self, dim=[], keepdim=False", reduce_axes<Op::ReduceMin>},
    {"aten.max.default", "self", reduce_all<Op::ReduceMax>},
    {"aten.min.default", "self", reduce_all<Op::ReduceMin>},
    {"aten.max.dim", kDim, extreme<Op::ReduceMax, Op::ArgMax>},
    {"aten.min.dim", kDim, extreme<Op::ReduceMin, Op::ArgMin>},
    {"aten.aminmax.default", "self, *, dim=None, keepdim=False", aminmax},
    {"aten.argmax.default", "self, dim=None, keepdim=False", arg_extreme<Op::ArgMax>},
    {"aten.argmin.default", "self, dim=None, keepdim=False", arg_extreme<Op::ArgMin>},
    {"aten.any.default", "self", reduce_all<Op::Any>},
    {"aten.any.dim", kDim, reduce_axes<Op::Any>},
    {"aten.any.dims", "self, dim=None, keepdim=False", reduce_axes<Op::Any>},
    {"aten.all.default", "self", reduce_all<Op::All>},
    {"aten.all.dim", kDim, reduce_axes<Op::All>},
    {"aten.all.dims", "self, dim=None, keepdim=False", reduce_axes<Op::All>},
    {"aten.prod.default", kAll, reduce_all<Op::Prod>},
    {"aten.prod.dim_int", kDimDtype, prod_axis},
    {"aten.var.default", "self, unbiased=True", spread_all, "var"},
    {"aten.var.dim", "self, dim, unbiased=True, keepdim=False", spread_axes, "var"},
    {"aten.var.correction", kCorrection, spread_correction, "var"},
    {"aten.std.default", "self, unbiased=True", spread_all, "std"},
    {"aten.std.dim", "self, dim, unbiased=True, keepdim=False", spread_axes, "std"},
    {"aten.std.correction", kCorrection, spread_correction, "std"},
    {"aten.var_mean.default", "self, unbiased=True", spread_all, "var_mean"},
    {"aten.var_mean.dim", "self, dim, unbiased=True, keepdim=False", spread_axes, "var_mean"},
    {"aten.var_mean.correction", kCorrection, spread_correction, "var_mean"},
    {"aten.std_mean.default", "self, unbiased=True", spread_all, "std_mean"},
    {"aten.std_mean.dim", "self, dim, unbiased=True, keepdim=False", spread_axes, "std_mean"},
    {"aten.std_mean.correction", kCorrection, spread_correction, "std_mean"},
    {"aten.cumsum.default", "self, dim, *, dtype=None", cumsum},
    {"aten.linalg_vector_norm.default", "self, ord=2, dim=None, keepdim=False, *, dtype=None", linalg_vector_norm},
    {"aten.linalg_norm.default", "self, ord=None, dim=None, keepdim=False, *, dtype=None", linalg_norm},
    {"aten.linalg_norm.ord_str", "self, ord, dim=None, keepdim=False, *, dtype=None", linalg_norm},
    {"aten.linalg_matrix_norm.default", "self, ord, dim=[-2,-1], keepdim=False, *, dtype=None", linalg_matrix_norm},
    {"aten.linalg_matrix_norm.str_ord", "self, ord='fro', dim=[-2,-1], keepdim=False, *, dtype=None",
     linalg_matrix_norm},
    {"aten.norm.Scalar", "self, p=2", norm},
    {"aten.norm.ScalarOpt_dim_dtype", "self, p, dim, keepdim, *, dtype", norm},
    {"aten.norm.ScalarOpt_dtype", "self, p, *, dtype", norm_all},
    {"aten.trapezoid.x", "y, x, *, dim=-1", trapezoid},
    {"aten.trapezoid.dx", "y, *, dx=1, dim=-1", trapezoid},
    {"aten.trapz.x", "y, x, *, dim=-1", trapezoid},
    {"aten.trapz.dx", "y, *, dx=1.0, dim=-1", trapezoid},
    {"aten.cumulative_trapezoid.x", "y, x, *, dim=-1", trapezoid, "running"},
    {"aten.cumulative_trapezoid.dx", "y, *, dx=1, dim=-1", trapezoid, "running"},
    {"aten.renorm.default", "self, p, dim, maxnorm", renorm},
    {"aten.nansum.default", "self, dim=None, keepdim=False, *, dtype=None", nansum},
    {"aten.nanmean.default", "self, dim=None, keepdim=False, *, dtype=None", nanmean},
    {"aten.count_nonzero.default", "self, dim=None", count_nonzero},
    {"aten.count_nonzero.dim_IntList", "self, dim", count_nonzero},
    {"aten.norm.ScalarOpt_dim", "self, p, dim, keepdim=False", norm},
    {"aten.frobenius_norm.dim", kDim, frobenius_norm},
    {"aten.logsumexp.default", kDim, logsumexp},
    {"aten.special_logsumexp.default", kDim, logsumexp},
    {"aten.cosine_similarity.default", "x1, x2, dim=1, eps=1e-08", cosine_similarity},
};

}  // namespace

std::span<const Row> reduce_rows() { return kReduceRows; }

}  // namespace swoop
