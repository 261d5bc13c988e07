#include "import/meta.h"

#include <fmt/format.h>

#include <algorithm>

#include "import/expression.h"
#include "import/refuse.h"

namespace swoop {

namespace {

constexpr size_t kMaxRank = 64;                     // PyTorch's own limit
constexpr int64_t kMaxElements = int64_t{1} << 40;  // no model that anyone runs has an array of more

// Calls found(name) for each Symbol('name', ...) of a sympy expression.
template <typename Found>
void each_symbol(std::string_view expression, Found found) {
  constexpr std::string_view kOpening = "Symbol('";
  for (size_t at = expression.find(kOpening); at != std::string_view::npos; at = expression.find(kOpening, at)) {
    at += kOpening.size();
    size_t end = expression.find('\'', at);
    if (end == std::string_view::npos) return;
    found(expression.substr(at, end - at));
    at = end;
  }
}

// In sympy's notation; empty where the size is a plain number.
std::string_view expression_of(Json symint) {
  std::optional<Json> expression = find(symint, "as_expr");
  std::optional<Json> text = expression ? find(*expression, "expr_str") : std::nullopt;
  return text ? as_text(*text, "expr_str") : std::string_view();
}

}  // namespace

Symbols::Symbols(Json program) {
  std::optional<Json> constraints = find(program, "range_constraints");
  if (!constraints) return;
  for (auto [name, range] : as_object(*constraints, "range_constraints")) {
    Range bounds;
    // Infinite bounds are null, absent or beyond int64: open either way.
    int64_t bound = 0;
    if (std::optional<Json> min = find(range, "min_val"); min && min->get(bound) == simdjson::SUCCESS)
      bounds.min = bound;
    if (std::optional<Json> max = find(range, "max_val"); max && max->get(bound) == simdjson::SUCCESS)
      bounds.max = bound;
    ranges_.emplace(name, bounds);
  }
}

std::optional<int64_t> Symbols::value_of(std::string_view symbol) const {
  auto at = ranges_.find(symbol);
  if (at == ranges_.end() || !at->second.min || at->second.min != at->second.max) return std::nullopt;
  return at->second.min;
}

std::string Symbols::open_symbol(Json symint) const {
  std::string open;
  each_symbol(expression_of(symint), [&](std::string_view name) {
    if (!open.empty() || value_of(name)) return;
    auto at = ranges_.find(name);
    const bool bounded = at != ranges_.end() && at->second.min && at->second.max;
    open = bounded ? fmt::format("{}, {} to {}", name, *at->second.min, *at->second.max)
                   : fmt::format("{}, of any size", name);
  });
  return open;
}

bool Symbols::give(Json symint, int64_t size) {
  const std::string_view expression = expression_of(symint);
  std::string_view symbol;
  each_symbol(expression, [&](std::string_view name) {
    if (!value_of(name)) symbol = name;
  });
  if (symbol.empty()) return true;
  // A size may be derived: 4 * s0 + 1. torch.export derives none that is not linear.
  auto at = [&](int64_t value) {
    return evaluate_size(expression, [&](std::string_view name) {
      return name == symbol ? std::optional<int64_t>(value) : value_of(name);
    });
  };
  const std::optional<int64_t> first = at(1), second = at(2);
  if (!first || !second || *first == *second) return true;  // check_sizes says what is still open
  const int64_t step = *second - *first, steps = size - *first;
  if (steps % step != 0) return false;
  size = 1 + steps / step;
  if (at(size) != steps + *first) return true;
  Range& range = ranges_[symbol];
  // torch.export does not try sizes of 0 and 1 and writes that a size is at least 2; its graphs hold for 1 as well.
  const bool one = size == 1 && range.min == 2 && range.max != 2;
  if (!one && ((range.min && size < *range.min) || (range.max && size > *range.max))) return false;
  range = {size, size};
  return true;
}

int64_t Symbols::value(Json symint, std::string_view what) const {
  if (std::optional<Json> plain = find(symint, "as_int")) return as_integer(*plain, what);
  std::optional<Json> expression = find(symint, "as_expr");
  if (!expression) malformed("`{}` has a size that is neither a number nor an expression.", what);
  if (std::string open = open_symbol(symint); !open.empty()) {
    if (open.starts_with('u'))
      malformed("the size of `{}` depends on the data ({}); give it a static shape before export", what, open);
    malformed("the size of `{}` is dynamic ({}); export the model with static shapes", what, open);
  }
  std::optional<int64_t> value =
      evaluate_size(expression_of(symint), [&](std::string_view symbol) { return value_of(symbol); });
  if (!value) malformed("`{}` has a size that cannot be computed: {}", what, expression_of(symint).substr(0, 200));
  return *value;
}

bool TensorMeta::contiguous() const {
  int64_t expected = 1;
  for (size_t i = type.shape.size(); i-- > 0;) {
    if (type.shape[i] == 0) return true;
    if (type.shape[i] != 1 && (i >= strides.size() || strides[i] != expected)) return false;
    expected *= type.shape[i];
  }
  return true;
}

DType dtype_from_code(int64_t code, std::string_view what) {
  switch (code) {
    case 1: return DType::U8;
    case 2: return DType::I8;
    case 3: return DType::I16;
    case 4: return DType::I32;
    case 5: return DType::I64;
    case 6: return DType::F16;
    case 7: return DType::F32;
    case 8: return DType::F64;
    case 12: return DType::Bool;
    case 13: return DType::BF16;
    case 9: return DType::F16;
    case 10: return DType::F32;
    case 11: return DType::F64;
    default: malformed("`{}` has an element type that is not supported (ScalarType {} of torch.export).", what, code);
  }
}

int64_t checked_count(const Shape& shape, std::string_view what) {
  if (shape.size() > kMaxRank) malformed("`{}` has {} dimensions; PyTorch allows {}.", what, shape.size(), kMaxRank);
  int64_t count = 1;
  bool empty = false;
  for (int64_t size : shape) {
    if (size < 0) malformed("`{}` has the shape {}, and a size cannot be negative.", what, to_text(shape));
    empty |= size == 0;
    if (size > kMaxElements || (size > 0 && count > kMaxElements / size))
      malformed("`{}` has the shape {}, which is too large for any machine.", what, to_text(shape));
    count *= std::max<int64_t>(size, 1);
  }
  return empty ? 0 : count;
}

namespace {

// Strides of a few elements more than any machine holds: doubled, they must not run over.
int64_t twice(int64_t elements, std::string_view what) {
  if (elements > kMaxElements || elements < -kMaxElements) malformed("`{}` has strides that no machine holds", what);
  return 2 * elements;
}

void add_parts(TensorMeta& meta, std::string_view what) {
  meta.type.shape.push_back(2);
  checked_count(meta.type.shape, what);
  meta.offset = twice(meta.offset, what);
  for (int64_t& stride : meta.strides) stride = twice(stride, what);
  meta.strides.push_back(1);
}

}  // namespace

TensorMeta read_meta(Json meta, const Symbols& symbols, std::string_view what) {
  TensorMeta result;
  const int64_t code = as_integer(member(meta, "dtype"), "dtype");
  result.type.dtype = dtype_from_code(code, what);
  result.complex = code >= 9 && code <= 11;
  for (Json size : as_array(member(meta, "sizes"), "sizes")) {
    if (result.type.shape.size() >= kMaxRank) malformed("`{}` has more than {} dimensions.", what, kMaxRank);
    result.type.shape.push_back(symbols.value(size, what));
  }
  checked_count(result.type.shape, what);
  if (std::optional<Json> strides = find(meta, "strides")) {
    JsonArray list = as_array(*strides, "strides");
    if (list.size() != result.type.shape.size())
      malformed("`{}` has {} sizes but {} strides.", what, result.type.shape.size(), list.size());
    for (Json stride : list) result.strides.push_back(symbols.value(stride, what));
  }
  // The results of a loop are said to begin anywhere in their storage (u0); here they have one of their own.
  if (std::optional<Json> offset = find(meta, "storage_offset"); offset && symbols.open_symbol(*offset).empty())
    result.offset = symbols.value(*offset, what);
  if (result.complex) add_parts(result, what);
  return result;
}

}  // namespace swoop
