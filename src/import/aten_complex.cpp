// Complex numbers, as pairs of real ones.
#include <algorithm>
#include <array>
#include <deque>

#include "import/complex.h"
#include "import/scope.h"

namespace swoop {

bool is_complex(const ArgValue& value) {
  auto holds = [](const TensorArg& arg) { return arg.binding && arg.binding->complex; };
  if (const auto* one = std::get_if<TensorArg>(&value)) return holds(*one);
  const auto* list = std::get_if<std::vector<TensorArg>>(&value);
  return list && std::any_of(list->begin(), list->end(), holds);
}

Complex complex_arg(Call& c, size_t index) {
  const ArgValue& arg = c.args[index];
  const DType dtype = c.result().dtype;
  if (const auto* number = std::get_if<ComplexArg>(&arg))
    return {c.scalar(number->real, dtype), c.scalar(number->imag, dtype)};
  if (!is_complex(arg)) return {c.operand(index, dtype), kNone};
  ValueId x = c.tensor(index);
  return {c.select(x, c.rank(x) - 1, 0), c.select(x, c.rank(x) - 1, 1)};
}

ValueId joined(Call& c, Complex value) {
  if (value.im == kNone) value.im = c.scaled(value.re, 0.0);
  if (value.re == kNone) value.re = c.scaled(value.im, 0.0);
  // a + 1j * b: the parts may be broadcast against each other
  Shape shape = c.shape(value.re);
  if (shape != c.shape(value.im)) {
    ValueId both = c.add(value.re, value.im);
    shape = c.shape(both);
  }
  ValueId re = c.expand(value.re, shape), im = c.expand(value.im, shape);
  const int rank = c.rank(re);
  return c.concat({c.unsqueeze(re, rank), c.unsqueeze(im, rank)}, rank);
}

namespace {

Complex product_of(Call& c, Complex a, Complex b) {
  if (a.im == kNone) std::swap(a, b);
  if (b.im == kNone) return {c.mul(a.re, b.re), a.im == kNone ? kNone : c.mul(a.im, b.re)};
  return {c.sub(c.mul(a.re, b.re), c.mul(a.im, b.im)), c.add(c.mul(a.re, b.im), c.mul(a.im, b.re))};
}

ValueId square_of_abs(Call& c, Complex x) { return c.add(c.unary("square", x.re), c.unary("square", x.im)); }

Complex conjugate(Call& c, Complex x) { return {x.re, x.im == kNone ? kNone : c.unary("neg", x.im)}; }

ValueId plus(Call& c, ValueId a, ValueId b, double factor) {
  if (b == kNone) return a;
  b = c.scaled(b, factor);
  return a == kNone ? b : c.add(a, b);
}

Results complex_sum(Call& c, double sign) {
  Complex a = complex_arg(c, 0), b = complex_arg(c, 1);
  const double factor = sign * c.real(2);
  return joined(c, {plus(c, a.re, b.re, factor), plus(c, a.im, b.im, factor)});
}
Results complex_add(Call& c) { return complex_sum(c, 1); }
Results complex_sub(Call& c) { return complex_sum(c, -1); }
Results complex_mul(Call& c) { return joined(c, product_of(c, complex_arg(c, 0), complex_arg(c, 1))); }

Results complex_div(Call& c) {
  Complex a = complex_arg(c, 0), b = complex_arg(c, 1);
  if (b.im == kNone) return joined(c, {c.div(a.re, b.re), a.im == kNone ? kNone : c.div(a.im, b.re)});
  Complex product = product_of(c, a, conjugate(c, b));
  ValueId square = square_of_abs(c, b);
  return joined(c, {c.div(product.re, square), c.div(product.im, square)});
}

// matmul, einsum: the plain row for each pair of parts.
Results complex_product(Call& c) { return by_products(c, *find_row(c.row->name).row); }

// Zeros are added to both parts; another number would be a real one.
Results complex_pad(Call& c) {
  const size_t value = c.args.size() - 1;
  if (c.none(value) || c.real(value) == 0) return by_parts(c, *find_row(c.row->name).row);
  unsupported("padding with {}", c.real(value));
}

Results complex_exp(Call& c) {
  Complex x = complex_arg(c, 0);
  ValueId size = c.unary("exp", x.re);
  return joined(c, {c.mul(size, c.unary("cos", x.im)), c.mul(size, c.unary("sin", x.im))});
}

Results complex_abs(Call& c) { return c.unary("sqrt", square_of_abs(c, complex_arg(c, 0))); }
Results complex_angle(Call& c) {
  Complex x = complex_arg(c, 0);
  return c.angle_of(x.im == kNone ? c.scalar(0, c.dtype(x.re)) : x.im, x.re);
}
Results complex_conj(Call& c) { return joined(c, conjugate(c, complex_arg(c, 0))); }
Results real_part(Call& c) { return complex_arg(c, 0).re; }
Results imaginary_part(Call& c) { return complex_arg(c, 0).im; }
Results as_it_is(Call& c) { return c.tensor(0); }
Results from_parts(Call& c) { return joined(c, {c.tensor(0), c.tensor(1)}); }
Results to_complex(Call& c) { return is_complex(c.args[0]) ? c.tensor(0) : joined(c, complex_arg(c, 0)); }

Results complex_full(Call& c) {
  Complex value = complex_arg(c, 1);
  Shape shape = c.result().shape;
  shape.pop_back();
  value.re = c.expand(value.re, shape);
  return joined(c, value);
}

Results polar_form(Call& c) {
  ValueId size = c.tensor(0), angle = c.tensor(1);
  return joined(c, {c.mul(size, c.unary("cos", angle)), c.mul(size, c.unary("sin", angle))});
}

constexpr std::string_view kComplexOne = "self";

constexpr Row kComplexRows[] = {
    {"aten.view_as_real.default", kComplexOne, as_it_is, "", RowKind::View},
    {"aten.view_as_complex.default", kComplexOne, as_it_is, "", RowKind::View},
    {"aten.real.default", kComplexOne, real_part, "", RowKind::View},
    {"aten.imag.default", kComplexOne, imaginary_part, "", RowKind::View},
    {"aten.complex.default", "real, imag", from_parts},
    {"aten.polar.default", "abs, angle", polar_form},
    {"aten.add.Tensor", {}, complex_add},
    {"aten.sub.Tensor", {}, complex_sub},
    {"aten.mul.Tensor", {}, complex_mul},
    {"aten.mul.Scalar", {}, complex_mul},
    {"aten.div.Tensor", {}, complex_div},
    {"aten.div.Scalar", {}, complex_div},
    {"aten.matmul.default", {}, complex_product},
    {"aten.mm.default", {}, complex_product},
    {"aten.bmm.default", {}, complex_product},
    {"aten.exp.default", {}, complex_exp},
    {"aten.abs.default", {}, complex_abs},
    {"aten.angle.default", kComplexOne, complex_angle},
    {"aten.conj.default", {}, complex_conj},
    {"aten._conj.default", {}, complex_conj},
    {"aten.conj_physical.default", {}, complex_conj},
    {"aten._conj_physical.default", kComplexOne, complex_conj},
    {"aten.resolve_conj.default", {}, as_it_is},
    {"aten.resolve_neg.default", {}, as_it_is},
    {"aten.to.dtype", {}, to_complex},
    {"aten._to_copy.default", {}, to_complex},
    {"aten.clone.default", {}, as_it_is},
    {"aten.contiguous.default", {}, as_it_is},
    {"aten.alias.default", {}, as_it_is, "", RowKind::View},
    {"aten.detach.default", {}, as_it_is, "", RowKind::View},
    {"aten.lift_fresh_copy.default", {}, as_it_is},
    {"aten.einsum.default", {}, complex_product},
    {"aten.pad.default", {}, complex_pad},
    {"aten.constant_pad_nd.default", {}, complex_pad},
    {"aten.full.default", {}, complex_full},
    {"aten.zeros.default", {}},
    {"aten.zeros_like.default", {}},
    {"aten.neg.default", {}},
    {"aten.sum.default", {}},
    {"aten.mean.default", {}},
    {"aten.where.self", {}},
    {"aten.sum.dim_IntList", {}},
    {"aten.mean.dim", {}},
    {"aten.cat.default", {}},
    {"aten.stack.default", {}},
    {"aten.index_select.default", {}},
    {"aten.roll.default", {}},
    {"aten.flip.default", {}},
    {"aten.repeat.default", {}},
};

}  // namespace

std::span<const Row> complex_rows() { return kComplexRows; }

namespace {

// What `row` gives when its complex tensors, one after the other, are replaced by these parts; `zeros`: real tensors
// too, which have no imaginary part.
std::vector<ValueId> built_of(Call& c, const Row& row, std::span<const int64_t> parts, bool zeros) {
  const std::vector<ArgValue> args = c.args;
  const std::vector<Type> results = c.results;
  for (Type& type : c.results) type.shape.pop_back();
  std::deque<Binding> held;  // what the arguments point at
  size_t next = 0;
  auto part_of = [&](const TensorArg& arg) {
    if (!arg.binding) return arg;
    ValueId x = c.scope.read(*arg.binding, c);
    if (arg.binding->complex)
      x = c.select(x, c.rank(x) - 1, parts[std::min(next++, parts.size() - 1)]);
    else if (zeros && is_float(c.dtype(x)))
      x = c.scaled(x, 0.0);
    held.push_back(c.scope.unnamed(x));
    return TensorArg{&held.back()};
  };
  for (ArgValue& arg : c.args) {
    if (auto* one = std::get_if<TensorArg>(&arg)) *one = part_of(*one);
    if (auto* list = std::get_if<std::vector<TensorArg>>(&arg))
      for (TensorArg& each : *list) each = part_of(each);
  }
  std::vector<ValueId> values = row.build(c).values;
  c.args = args;
  c.results = results;
  return values;
}

}  // namespace

Results by_parts(Call& c, const Row& row) {
  const std::vector<ValueId> re = built_of(c, row, std::array<int64_t, 1>{0}, false);
  const std::vector<ValueId> im = built_of(c, row, std::array<int64_t, 1>{1}, true);
  std::vector<ValueId> values;
  for (size_t i = 0; i < re.size(); ++i) values.push_back(re[i] == kNone ? kNone : joined(c, {re[i], im[i]}));
  return values;
}

Results by_products(Call& c, const Row& row) {
  auto part = [&](std::initializer_list<int64_t> parts) { return built_of(c, row, parts, false)[0]; };
  return joined(c, {c.sub(part({0, 0}), part({1, 1})), c.add(part({0, 1}), part({1, 0}))});
}

}  // namespace swoop
