// What the keys of --quantize-config mean. The TOML itself is read by toml++.
#include "driver/quantize_config.h"

#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <span>

namespace swoop {

namespace {

struct Entry {
  const std::string& path;  // of the file
  std::string_view key;
  const toml::node& value;
};

Error fault(const std::string& path, const toml::source_region& at, std::string_view message) {
  return error("{}:{}: {}", path, at.begin.line, message);
}

Error fault(const Entry& entry, std::string_view message) { return fault(entry.path, entry.value.source(), message); }

template <typename T>
Result<T> as(const Entry& entry, std::string_view what) {
  if (std::optional<T> value = entry.value.value<T>()) return *value;
  return fault(entry, fmt::format("{} takes {}", entry.key, what));
}

Result<void> read(const Entry& entry, std::string& text) {
  TRY_ASSIGN(text, as<std::string>(entry, "a string"));
  return {};
}

Result<void> read(const Entry& entry, bool& flag) {
  if (!entry.value.is_boolean()) return fault(entry, fmt::format("{} takes true or false", entry.key));
  TRY_ASSIGN(flag, as<bool>(entry, "true or false"));  // which takes numbers too
  return {};
}

Result<void> read(const Entry& entry, double& number) {
  TRY_ASSIGN(number, as<double>(entry, "a number"));
  return {};
}

Result<void> read(const Entry& entry, std::vector<std::string>& texts) {
  const toml::array* array = entry.value.as_array();
  if (!array) return fault(entry, fmt::format("{} takes an array of strings", entry.key));
  for (const toml::node& element : *array) {
    TRY_ASSIGN(std::string text, as<std::string>({entry.path, entry.key, element}, "an array of strings"));
    texts.push_back(std::move(text));
  }
  return {};
}

template <typename T>
Result<void> read_name(const Entry& entry, Result<T> (*parse_name)(std::string_view), T& into) {
  TRY_ASSIGN(std::string text, as<std::string>(entry, "a string"));
  Result<T> parsed = parse_name(text);
  if (!parsed) return fault(entry, parsed.error().message);
  into = *parsed;
  return {};
}

Result<void> read(const Entry& entry, Precision& precision) { return read_name(entry, parse_precision, precision); }

Result<void> read(const Entry& entry, Method& method) { return read_name(entry, parse_method, method); }

template <typename T>
Result<void> read(const Entry& entry, std::optional<T>& value) {
  return read(entry, value.emplace());
}

Result<void> read_percentile(const Entry& entry, QuantizeOptions& options) {
  TRY(read(entry, options.percentile));
  if (!(options.percentile > 50 && options.percentile <= 100))
    return fault(entry, "percentile is above 50 and at most 100");
  return {};
}

Result<void> read_weight_rate(const Entry& entry, QuantizeOptions& options) {
  TRY(read(entry, options.weight_rate));
  if (!(options.weight_rate >= 0)) return fault(entry, "weight_rate is 0 dB or more");
  return {};
}

Result<void> read_precision(const Entry& entry, QuantizeOptions& options) {
  TRY_ASSIGN(const std::string text, as<std::string>(entry, "a string"));
  if (Result<void> set = set_precision(options, text); !set) return fault(entry, set.error().message);
  return {};
}

Result<void> read_weight_bits(const Entry& entry, int& weight_bits) {
  TRY_ASSIGN(int64_t bits, as<int64_t>(entry, "8 or 4"));
  if (bits != 8 && bits != 4) return fault(entry, "weight_bits takes 8 or 4");
  weight_bits = static_cast<int>(bits);
  return {};
}

template <typename T>
struct Setting {
  std::string_view key;
  Result<void> (*set)(const Entry& entry, T& options);
};

template <typename T>
Result<void> read_table(const std::string& path, const toml::table& table, std::span<const Setting<T>> settings,
                        T& options) {
  for (const auto& [key, value] : table) {
    auto setting = std::find_if(settings.begin(), settings.end(),
                                [name = key.str()](const Setting<T>& candidate) { return candidate.key == name; });
    if (setting == settings.end()) {
      std::vector<std::string_view> known;
      for (const Setting<T>& one : settings) known.push_back(one.key);
      return fault(path, key.source(),
                   fmt::format("{} is not known here; the keys are {}", key.str(), fmt::join(known, ", ")));
    }
    TRY(setting->set({path, setting->key, value}, options));
  }
  return {};
}

const Setting<Scope> kScopeSettings[] = {
    {"name", [](const Entry& entry, Scope& scope) { return read(entry, scope.pattern); }},
    {"precision", [](const Entry& entry, Scope& scope) { return read(entry, scope.precision); }},
    {"method", [](const Entry& entry, Scope& scope) { return read(entry, scope.method); }},
    {"weight_bits",
     [](const Entry& entry, Scope& scope) { return read_weight_bits(entry, scope.weight_bits.emplace()); }},
};

template <Scope::Kind kind>
Result<void> read_scopes(const Entry& entry, QuantizeOptions& options) {
  const toml::array* list = entry.value.as_array();
  if (!list || !list->is_array_of_tables())
    return fault(entry, fmt::format("{0} is a list of tables: write [[{0}]]", entry.key));
  for (const toml::node& element : *list) {
    Scope scope;
    scope.kind = kind;
    TRY(read_table<Scope>(entry.path, *element.as_table(), kScopeSettings, scope));
    if (scope.pattern.empty()) return fault(entry.path, element.source(), fmt::format("[[{}]] has no name", entry.key));
    if (!scope.precision && !scope.method && !scope.weight_bits)
      return fault(
          entry.path, element.source(),
          fmt::format("[[{}]] for {} has none of precision, method and weight_bits", entry.key, scope.pattern));
    options.scopes.push_back(std::move(scope));
  }
  return {};
}

const Setting<QuantizeOptions> kSettings[] = {
    {"precision", read_precision},
    {"method", [](const Entry& entry, QuantizeOptions& o) { return read(entry, o.method); }},
    {"percentile", read_percentile},
    {"weight_bits", [](const Entry& entry, QuantizeOptions& o) { return read_weight_bits(entry, o.weight_bits); }},
    {"weight_rate", read_weight_rate},
    {"per_channel", [](const Entry& entry, QuantizeOptions& o) { return read(entry, o.per_channel); }},
    {"correct_bias", [](const Entry& entry, QuantizeOptions& o) { return read(entry, o.correct_bias); }},
    {"equalize", [](const Entry& entry, QuantizeOptions& o) { return read(entry, o.equalize); }},
    {"keep_float", [](const Entry& entry, QuantizeOptions& o) { return read(entry, o.keep_float); }},
    {"min_sqnr", [](const Entry& entry, QuantizeOptions& o) { return read(entry, o.min_sqnr); }},
    {"module", read_scopes<Scope::Kind::Module>},
    {"op", read_scopes<Scope::Kind::Op>},
    {"node", read_scopes<Scope::Kind::Node>},
};

}  // namespace

Result<void> read_quantize_config(std::string_view text, const std::string& path, QuantizeOptions& options) {
  try {
    return read_table<QuantizeOptions>(path, toml::parse(text), kSettings, options);
  } catch (const toml::parse_error& problem) {
    return fault(path, problem.source(), problem.description());
  }
}

}  // namespace swoop
