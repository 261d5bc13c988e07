#include "import/expression.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

namespace swoop {

namespace {

constexpr int kMaxNesting = 200;   // of nested calls: a file may be hostile
constexpr double kExact = 0x1p53;  // integers up to here are exact

struct Function {
  std::string_view name;
  size_t operands;  // 0: any number, at least one
  double (*of)(const std::vector<double>& x);
};

double floor_of_quotient(const std::vector<double>& x) { return std::floor(x[0] / x[1]); }
double remainder_of(const std::vector<double>& x) { return x[0] - std::floor(x[0] / x[1]) * x[1]; }
double quotient(const std::vector<double>& x) { return x[0] / x[1]; }
double itself(const std::vector<double>& x) { return x[0]; }

const Function kFunctions[] = {
    {"Integer", 1, itself},
    {"ToFloat", 1, itself},
    {"Rational", 2, quotient},
    {"CleanDiv", 2, quotient},
    {"IntTrueDiv", 2, quotient},
    {"FloorDiv", 2, floor_of_quotient},
    {"CeilDiv", 2, [](const std::vector<double>& x) { return std::ceil(x[0] / x[1]); }},
    {"Mod", 2, remainder_of},
    {"PythonMod", 2, remainder_of},
    {"Pow", 2, [](const std::vector<double>& x) { return std::pow(x[0], x[1]); }},
    {"floor", 1, [](const std::vector<double>& x) { return std::floor(x[0]); }},
    {"FloorToInt", 1, [](const std::vector<double>& x) { return std::floor(x[0]); }},
    {"ceiling", 1, [](const std::vector<double>& x) { return std::ceil(x[0]); }},
    {"CeilToInt", 1, [](const std::vector<double>& x) { return std::ceil(x[0]); }},
    {"TruncToInt", 1, [](const std::vector<double>& x) { return std::trunc(x[0]); }},
    {"Abs", 1, [](const std::vector<double>& x) { return std::fabs(x[0]); }},
    {"Max", 0, [](const std::vector<double>& x) { return *std::max_element(x.begin(), x.end()); }},
    {"Min", 0, [](const std::vector<double>& x) { return *std::min_element(x.begin(), x.end()); }},
    {"Add", 0,
     [](const std::vector<double>& x) {
       double sum = 0;
       for (double term : x) sum += term;
       return sum;
     }},
    {"Mul", 0,
     [](const std::vector<double>& x) {
       double product = 1;
       for (double factor : x) product *= factor;
       return product;
     }},
};

class Parser {
 public:
  Parser(std::string_view text, const std::function<std::optional<int64_t>(std::string_view)>& value_of)
      : left_(text), value_of_(value_of) {}

  std::optional<double> whole() {
    std::optional<double> value = expression(0);
    skip_spaces();
    return left_.empty() ? value : std::nullopt;
  }

 private:
  void skip_spaces() {
    while (left_.starts_with(' ')) left_.remove_prefix(1);
  }

  bool take(char wanted) {
    skip_spaces();
    if (!left_.starts_with(wanted)) return false;
    left_.remove_prefix(1);
    return true;
  }

  std::optional<double> expression(int depth) {
    skip_spaces();
    if (depth > kMaxNesting || left_.empty()) return std::nullopt;
    if (left_[0] == '-' || (left_[0] >= '0' && left_[0] <= '9')) return number();
    size_t end = left_.find('(');
    if (end == std::string_view::npos) return std::nullopt;
    std::string_view name = left_.substr(0, end);
    left_.remove_prefix(end + 1);
    return name == "Symbol" ? symbol() : call(name, depth);
  }

  std::optional<double> number() {
    int64_t value = 0;
    auto [end, fault] = std::from_chars(left_.data(), left_.data() + left_.size(), value);
    if (fault != std::errc()) return std::nullopt;
    left_.remove_prefix(static_cast<size_t>(end - left_.data()));
    return static_cast<double>(value);
  }

  // 's0', positive=True, integer=True)
  std::optional<double> symbol() {
    if (!take('\'')) return std::nullopt;
    size_t quote = left_.find('\'');
    if (quote == std::string_view::npos) return std::nullopt;
    std::string_view name = left_.substr(0, quote);
    size_t close = left_.find(')', quote);
    if (close == std::string_view::npos) return std::nullopt;
    left_.remove_prefix(close + 1);
    std::optional<int64_t> value = value_of_(name);
    return value ? std::optional<double>(static_cast<double>(*value)) : std::nullopt;
  }

  std::optional<double> call(std::string_view name, int depth) {
    const auto* function =
        std::find_if(std::begin(kFunctions), std::end(kFunctions), [&](const Function& f) { return f.name == name; });
    if (function == std::end(kFunctions)) return std::nullopt;
    std::vector<double> operands;
    do {
      std::optional<double> operand = expression(depth + 1);
      if (!operand) return std::nullopt;
      operands.push_back(*operand);
    } while (take(','));
    if (!take(')') || (function->operands != 0 && operands.size() != function->operands)) return std::nullopt;
    return function->of(operands);
  }

  std::string_view left_;
  const std::function<std::optional<int64_t>(std::string_view)>& value_of_;
};

}  // namespace

std::optional<int64_t> evaluate_size(std::string_view expression,
                                     const std::function<std::optional<int64_t>(std::string_view)>& value_of) {
  std::optional<double> value = Parser(expression, value_of).whole();
  if (!value || !(std::fabs(*value) < kExact) || *value != std::floor(*value)) return std::nullopt;
  return static_cast<int64_t>(*value);
}

}  // namespace swoop
