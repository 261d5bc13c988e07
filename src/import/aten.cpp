#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_map>

#include "import/complex.h"
#include "import/import.h"
#include "support/check.h"

namespace swoop {

namespace {

const std::vector<std::span<const Row>>& families() {
  static const std::vector<std::span<const Row>> list = {
      conv_rows(),    pool_rows(),  resize_rows(), window_rows(),   unary_rows(),     binary_rows(),  reduce_rows(),
      move_rows(),    split_rows(), norm_rows(),   product_rows(),  recurrent_rows(), factory_rows(), index_rows(),
      scatter_rows(), sort_rows(),  group_rows(),  diagonal_rows(), loss_rows(),      quant_rows(),   host_rows()};
  return list;
}

std::array<std::span<const Row>, 2> complex_families() { return {complex_rows(), fourier_rows()}; }

const std::unordered_map<std::string_view, const Row*>& table() {
  static const auto* rows = [] {
    auto* map = new std::unordered_map<std::string_view, const Row*>();
    for (std::span<const Row> family : families())
      for (const Row& row : family)
        CHECK(map->emplace(row.name, &row).second, "the ATen table has two rows for {}", row.name);
    return map;
  }();
  return *rows;
}

const Row* exact(std::string_view name) {
  auto at = table().find(name);
  return at == table().end() ? nullptr : at->second;
}

template <typename T>
bool parse_number(std::string_view text, T& value) {
  auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  return status == std::errc() && end == text.data() + text.size();
}

ArgValue parse_default(std::string_view text) {
  int64_t integer = 0;
  double real = 0;
  if (text == "None") return std::monostate{};
  if (text == "True") return true;
  if (text == "False") return false;
  if (text.starts_with('[') && text.ends_with(']')) {  // "[0,1]": without spaces, which part the arguments
    Ints list;
    for (std::string_view rest = text.substr(1, text.size() - 2); !rest.empty();) {
      std::string_view one = rest.substr(0, rest.find(','));
      CHECK(parse_number(one, integer), "a schema of the ATen table has the default {}", text);
      list.push_back(integer);
      rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    }
    return list;
  }
  if (parse_number(text, integer)) return integer;
  if (parse_number(text, real)) return real;
  CHECK(text.size() >= 2 && text.front() == '\'' && text.back() == '\'',
        "a schema of the ATen table has the default {}", text);
  return std::string(text.substr(1, text.size() - 2));
}

}  // namespace

Found find_row(std::string_view target) {
  if (const Row* row = exact(target)) return {row, false, false};
  size_t dot = target.rfind('.');
  if (dot == std::string_view::npos) return {};
  std::string_view op = target.substr(0, dot);
  std::string_view overload = target.substr(dot);
  constexpr std::string_view kCopy = "_copy";
  if (op.ends_with('_')) {
    op.remove_suffix(1);
    return {exact(fmt::format("{}{}", op, overload)), true, false};
  }
  if (op.ends_with(kCopy)) {
    op.remove_suffix(kCopy.size());
    const Row* row = exact(fmt::format("{}{}", op, overload));
    if (row && row->kind == RowKind::View) return {row, false, true};
  }
  return {};
}

Found find_complex_row(std::string_view target) {
  for (std::span<const Row> family : complex_families())
    for (const Row& row : family)
      if (row.name == target) return {&row, false, false};
  Found found = find_row(target);
  const bool view = found.row && found.row->kind != RowKind::Value && found.row->build;
  return view && !found.in_place ? found : Found();
}

std::vector<Param> parse_schema(std::string_view schema) {
  std::vector<Param> params;
  while (!schema.empty()) {
    size_t comma = schema.find(", ");
    std::string_view part = schema.substr(0, comma);
    schema = comma == std::string_view::npos ? std::string_view() : schema.substr(comma + 2);
    if (part == "*") continue;
    size_t equals = part.find('=');
    Param& param = params.emplace_back();
    param.name = part.substr(0, equals);
    param.required = equals == std::string_view::npos;
    if (!param.required) param.fallback = parse_default(part.substr(equals + 1));
  }
  return params;
}

std::vector<AtenOperator> aten_operators() {
  std::vector<AtenOperator> list;
  for (std::span<const Row> family : families())
    for (const Row& row : family)
      list.push_back({row.name, row.schema, row.build == nullptr && row.kind != RowKind::Drop});
  for (std::span<const Row> family : complex_families())
    for (const Row& row : family)
      if (!exact(row.name)) list.push_back({row.name, row.schema, false});
  return list;
}

}  // namespace swoop
