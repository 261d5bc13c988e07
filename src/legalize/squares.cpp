// Roots and logarithms of sums of squares, or of other products: magnitudes of a spectrum, lengths of gradients, root
// mean squares. A square has twice the bits of what it is of. In 16 bits, all that is a hundred times smaller than the
// largest has next to no steps left, and the function of it shows that. In 32 bits nothing is lost.
#include <algorithm>
#include <cmath>
#include <optional>

#include "legalize/compose.h"
#include "legalize/legalize.h"

namespace swoop {

namespace {

bool is_square(const Node& n) { return n.op == Op::Unary && n.text(Key::Fn) == "square"; }

// The positive number that an operand is: a mean has one over the count of its elements.
std::optional<double> factor_of(const Rewriter& rw, ValueId id) {
  const Value& value = rw.value(id);
  if (!value.constant || !is_codes(value.type) || element_count(value.type.shape) != 1) return std::nullopt;
  const double factor = static_cast<double>(codes_of(value)[0] - value.type.zero_point()) * value.type.scale();
  return factor > 0 ? std::optional(factor) : std::nullopt;
}

bool is_sum(const Node& n) { return n.op == Op::Sum || n.op == Op::Mean; }

int64_t summed(const Rewriter& rw, const Node& n) {
  return element_count(rw.type(n.inputs[0]).shape) / element_count(rw.type(n.outputs[0]).shape);
}

double largest(const Range& range) { return std::max(std::fabs(range.min), std::fabs(range.max)); }

std::optional<double> reach_of(const Rewriter& rw, ValueId id);

std::optional<double> reach_of_product(const Rewriter& rw, const Node& n) {
  const std::optional<double> factor = factor_of(rw, n.inputs[1]);
  if (const std::optional<double> sum = factor ? reach_of(rw, n.inputs[0]) : std::nullopt) return *factor * *sum;
  double all = 1;
  for (ValueId input : n.inputs) {
    if (!is_codes(rw.type(input)) || rw.type(input).dtype == DType::I32) return std::nullopt;
    all *= largest(range_of(rw.type(input)));
  }
  return all;
}

// How large a sum of products of 16 bits can be, from the types of what is multiplied; nothing for anything else.
std::optional<double> reach_of(const Rewriter& rw, ValueId id) {
  const Node* n = rw.graph().producer(id);
  if (!n || !rw.used_once(id) || rw.type(id).dtype != DType::I16 || !computes_on_codes(rw, *n)) return std::nullopt;
  if (is_square(*n)) return std::pow(largest(range_of(rw.type(n->inputs[0]))), 2);
  if (n->op == Op::Mul) return reach_of_product(rw, *n);
  if (n->op == Op::Reshape || n->op == Op::Slice) return reach_of(rw, n->inputs[0]);
  if (is_sum(*n)) {
    const std::optional<double> each = reach_of(rw, n->inputs[0]);
    const auto count = static_cast<double>(summed(rw, *n));
    return each && n->op == Op::Sum ? *each * count : each;
  }
  if (n->op != Op::Add) return std::nullopt;
  double all = 0;
  for (ValueId input : n->inputs) {
    const bool number = rw.value(input).constant && is_codes(rw.type(input));
    const std::optional<double> part = number ? largest(range_of(rw.type(input))) : reach_of(rw, input);
    if (!part) return std::nullopt;
    all += *part;
  }
  return all;
}

// What is above zero stays there: it is what keeps a logarithm finite.
int64_t code_of(double real, double step) {
  const auto code = std::clamp<int64_t>(std::llround(real / step), -(int64_t{1} << 30), int64_t{1} << 30);
  return real > 0 ? std::max<int64_t>(code, 1) : code;
}

ValueId bounded(Rewriter& rw, Op op, ValueId x, double real) {
  const Type type = rw.type(x);
  const int64_t code = code_of(real, type.scale());
  return rw.make(op, {x, scalar(rw, DType::I32, type.rank(), code, type.scale())}, {}, type);
}

// The same numbers in 32 bits, in steps of `step`. reach_of() knows it.
ValueId wide(Rewriter& rw, ValueId id, double step) {
  const Type type = i32_type(rw.type(id).shape, step);
  if (rw.value(id).constant) {
    const Type from = rw.type(id);
    std::vector<int64_t> values = codes_of(rw.value(id));
    for (int64_t& value : values) value = code_of(static_cast<double>(value - from.zero_point()) * from.scale(), step);
    return codes(rw, type, values, rw.value(id).name);
  }
  const Node& n = *rw.graph().producer(id);
  const Op op = n.op;
  const Attrs clamp = clamp_of(n);
  Attrs attrs = n.attrs;
  attrs.erase(Key::ActMin);
  attrs.erase(Key::ActMax);
  std::vector<ValueId> operands = n.inputs;
  const std::optional<double> factor =
      op == Op::Mul && reach_of(rw, n.inputs[0]) ? factor_of(rw, n.inputs[1]) : std::nullopt;
  ValueId y = kNone;
  if (factor) {  // the scales carry it
    ValueId one = scalar(rw, DType::I32, type.rank(), 1, *factor);
    y = rw.make(Op::Mul, {wide(rw, operands[0], step / *factor), one}, {}, type);
  } else if (op == Op::Mul || is_square(n)) {
    y = rw.make(Op::Mul, {operands.front(), operands.back()}, {}, type);
  } else {
    const double inner = op == Op::Mean ? step * static_cast<double>(summed(rw, n)) : step;
    for (ValueId& operand : operands) operand = wide(rw, operand, inner);
    y = rw.make(op, operands, attrs, type);
  }
  if (const Attr* least = clamp.find(Key::ActMin)) y = bounded(rw, Op::Maximum, y, std::get<double>(*least));
  if (const Attr* most = clamp.find(Key::ActMax)) y = bounded(rw, Op::Minimum, y, std::get<double>(*most));
  return y;
}

// sqrt, rsqrt or log of a sum of products  ->  of the sum in 32 bits
bool function_of_wide_sum(Rewriter& rw, const Node& n) {
  static constexpr std::string_view kOfAnySize[] = {"sqrt", "rsqrt", "log", "log2", "log10"};
  if (std::ranges::find(kOfAnySize, n.text(Key::Fn)) == std::end(kOfAnySize)) return false;
  if (element_count(rw.type(n.outputs[0]).shape) == 0 || !computes_on_codes(rw, n)) return false;
  const std::optional<double> reach = reach_of(rw, n.inputs[0]);
  if (!reach || *reach <= 0) return false;
  rw.set_input(n, 0, wide(rw, n.inputs[0], *reach / 0x1p30));
  return true;
}

}  // namespace

std::span<const Rule> square_rules() {
  static const Rule kRules[] = {{"function-of-wide-sum", {Op::Unary}, function_of_wide_sum}};
  return kRules;
}

}  // namespace swoop
