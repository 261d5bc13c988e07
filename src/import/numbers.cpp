// Arithmetic on sizes and other Python numbers. With static shapes every operand is known, so nothing of it remains.
#include <algorithm>
#include <cmath>

#include "import/importer.h"

namespace swoop {

namespace {

struct Pair {
  double a = 0;
  double b = 0;
  int64_t i = 0;
  int64_t j = 0;
  bool whole = true;  // both are integers or flags
};

bool read(const Number& number, double& real, int64_t& integer) {
  if (const bool* flag = std::get_if<bool>(&number)) integer = *flag ? 1 : 0;
  if (const int64_t* value = std::get_if<int64_t>(&number)) integer = *value;
  if (const double* value = std::get_if<double>(&number)) {
    real = *value;
    integer = std::fabs(real) < 0x1p62 ? static_cast<int64_t>(real) : 0;
    return false;
  }
  real = static_cast<double>(integer);
  return true;
}

// Beyond any sensible size, where arithmetic could overflow.
bool huge(const Pair& p) {
  constexpr int64_t kLimit = int64_t{1} << 31;
  return p.whole && (p.i > kLimit || p.i < -kLimit || p.j > kLimit || p.j < -kLimit);
}

int64_t floor_div(int64_t a, int64_t b) { return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0); }

Number choose(const Pair& p, int64_t whole, double real) { return p.whole ? Number(whole) : Number(real); }

std::optional<Number> fold_unary(std::string_view fn, const Pair& p) {
  if (fn == "neg") return choose(p, -p.i, -p.a);
  if (fn == "abs") return choose(p, p.i < 0 ? -p.i : p.i, std::fabs(p.a));
  if (fn == "sym_int" || fn == "trunc") return Number(p.i);
  if (fn == "floor") return Number(p.whole ? p.i : static_cast<int64_t>(std::floor(std::clamp(p.a, -0x1p62, 0x1p62))));
  if (fn == "ceil") return Number(p.whole ? p.i : static_cast<int64_t>(std::ceil(std::clamp(p.a, -0x1p62, 0x1p62))));
  if (fn == "sym_float") return Number(p.a);
  if (fn == "sym_not") return Number(p.a == 0);
  if (fn == "sym_sqrt" || fn == "_sym_sqrt") return Number(std::sqrt(p.a));
  return std::nullopt;
}

std::optional<Number> fold_binary(std::string_view fn, const Pair& p) {
  if (fn == "add") return choose(p, p.i + p.j, p.a + p.b);
  if (fn == "sub") return choose(p, p.i - p.j, p.a - p.b);
  if (fn == "mul") return choose(p, p.i * p.j, p.a * p.b);
  if (fn == "truediv") return Number(p.a / p.b);
  if (fn == "pow")
    return p.whole && p.j >= 0 ? Number(static_cast<int64_t>(std::clamp(std::pow(p.a, p.b), -0x1p62, 0x1p62)))
                               : Number(std::pow(p.a, p.b));
  if (fn == "eq") return Number(p.a == p.b);
  if (fn == "ne") return Number(p.a != p.b);
  if (fn == "lt") return Number(p.a < p.b);
  if (fn == "le") return Number(p.a <= p.b);
  if (fn == "gt") return Number(p.a > p.b);
  if (fn == "ge") return Number(p.a >= p.b);
  if (fn == "sym_max") return choose(p, std::max(p.i, p.j), std::max(p.a, p.b));
  if (fn == "sym_min") return choose(p, std::min(p.i, p.j), std::min(p.a, p.b));
  if (!p.whole) return std::nullopt;
  if (fn == "and_") return Number(p.i & p.j);
  if (fn == "or_") return Number(p.i | p.j);
  if (p.j == 0) return std::nullopt;
  if (fn == "floordiv") return Number(floor_div(p.i, p.j));
  if (fn == "mod") return Number(p.i - floor_div(p.i, p.j) * p.j);
  return std::nullopt;
}

}  // namespace

std::optional<Number> fold_number(std::string_view target, const std::vector<Number>& operands) {
  std::string_view fn = target.substr(target.rfind('.') + 1);
  Pair p;
  for (const Number& operand : operands)
    if (std::holds_alternative<std::string>(operand)) return std::nullopt;
  if (fn == "sym_ite" && operands.size() == 3)
    return read(operands[0], p.a, p.i) && p.i != 0 ? operands[1] : operands[2];
  if (operands.empty() || operands.size() > 2) return std::nullopt;
  p.whole = read(operands[0], p.a, p.i);
  if (operands.size() == 2) p.whole &= read(operands[1], p.b, p.j);
  if (std::isnan(p.a) || std::isnan(p.b) || huge(p)) return std::nullopt;
  return operands.size() == 1 ? fold_unary(fn, p) : fold_binary(fn, p);
}

}  // namespace swoop
