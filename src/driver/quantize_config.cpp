// The TOML that --quantize-config takes: keys with strings, numbers, booleans and arrays of strings; [[module]], [[op]]
// and [[node]] tables.
#include "driver/quantize_config.h"

#include <charconv>
#include <variant>

namespace swoop {

namespace {

using Setting = std::variant<bool, double, std::string, std::vector<std::string>>;

class Reader {
 public:
  Reader(std::string_view text, const std::string& path, QuantizeOptions& options)
      : rest_(text), path_(path), options_(options) {}

  Result<void> run() {
    while (!rest_.empty()) {
      ++line_;
      size_t end = rest_.find('\n');
      std::string_view text = rest_.substr(0, end);
      rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
      TRY(read_line(trim(text)));
    }
    return end_table();
  }

 private:
  template <typename... Args>
  Error fault(fmt::format_string<Args...> format, Args&&... args) const {
    return error("{}:{}: {}", path_, line_, fmt::format(format, std::forward<Args>(args)...));
  }

  static std::string_view trim(std::string_view text) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.remove_suffix(1);
    return text;
  }

  Result<void> read_line(std::string_view text) {
    if (text.empty() || text.front() == '#') return {};
    if (text.front() == '[') return read_table(text);
    size_t equals = text.find('=');
    if (equals == std::string_view::npos) return fault("a line is a [[table]] or key = value");
    std::string_view key = trim(text.substr(0, equals));
    text = trim(text.substr(equals + 1));
    TRY_ASSIGN(Setting setting, read_setting(text));
    text = trim(text);
    if (!text.empty() && text.front() != '#') return fault("\"{}\" follows the value of {}", text, key);
    return scope_ ? set_in_scope(key, setting) : set(key, setting);
  }

  Result<void> read_table(std::string_view text) {
    TRY(end_table());
    if (size_t comment = text.find('#'); comment != std::string_view::npos) text = trim(text.substr(0, comment));
    scope_.emplace();
    if (text == "[[module]]")
      scope_->kind = Scope::Kind::Module;
    else if (text == "[[op]]")
      scope_->kind = Scope::Kind::Op;
    else if (text == "[[node]]")
      scope_->kind = Scope::Kind::Node;
    else
      return fault("{} is not known; the tables are [[module]], [[op]] and [[node]]", text);
    return {};
  }

  Result<void> end_table() {
    if (!scope_) return {};
    if (scope_->pattern.empty()) return fault("the table above this line has no name");
    if (!scope_->precision && !scope_->method)
      return fault("the table for {} says neither precision nor method", scope_->pattern);
    options_.scopes.push_back(std::move(*scope_));
    scope_.reset();
    return {};
  }

  Result<Setting> read_setting(std::string_view& text) {
    if (text.starts_with("true")) return text.remove_prefix(4), Setting(true);
    if (text.starts_with("false")) return text.remove_prefix(5), Setting(false);
    if (text.starts_with('"') || text.starts_with('\'')) {
      TRY_ASSIGN(std::string value, read_string(text));
      return Setting(std::move(value));
    }
    if (text.starts_with('[')) return read_array(text);
    double number = 0;
    auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (problem != std::errc()) return fault("\"{}\" is no value; strings stand in quotes", text);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    return Setting(number);
  }

  Result<std::string> read_string(std::string_view& text) {
    char quote = text.front();
    std::string value;
    for (size_t i = 1; i < text.size(); ++i) {
      if (text[i] == quote) {
        text.remove_prefix(i + 1);
        return value;
      }
      if (text[i] == '\\' && quote == '"') {
        if (++i < text.size() && text[i] != '"' && text[i] != '\\')
          return fault("of the escapes only \\\" and \\\\ are read");
        if (i == text.size()) break;
      }
      value += text[i];
    }
    return fault("a string does not end on its line");
  }

  Result<Setting> read_array(std::string_view& text) {
    std::vector<std::string> values;
    text = trim(text.substr(1));
    while (!text.starts_with(']')) {
      if (!text.starts_with('"') && !text.starts_with('\''))
        return fault("an array holds strings in quotes and ends on its line");
      TRY_ASSIGN(std::string value, read_string(text));
      values.push_back(std::move(value));
      text = trim(text);
      if (text.starts_with(','))
        text = trim(text.substr(1));
      else if (!text.starts_with(']'))
        return fault("a comma or ] is missing in an array");
    }
    text.remove_prefix(1);
    return Setting(std::move(values));
  }

  template <typename T>
  Result<T> as(std::string_view key, const Setting& setting, std::string_view what) const {
    if (const T* value = std::get_if<T>(&setting)) return *value;
    return fault("{} takes {}", key, what);
  }

  Result<void> set_precision(std::string_view key, const Setting& setting, Precision& precision) {
    TRY_ASSIGN(std::string text, as<std::string>(key, setting, "a string"));
    Result<Precision> parsed = parse_precision(text);
    if (!parsed) return fault("{}", parsed.error().message);
    precision = *parsed;
    return {};
  }

  Result<void> set_method(std::string_view key, const Setting& setting, Method& method) {
    TRY_ASSIGN(std::string text, as<std::string>(key, setting, "a string"));
    Result<Method> parsed = parse_method(text);
    if (!parsed) return fault("{}", parsed.error().message);
    method = *parsed;
    return {};
  }

  Result<void> set_in_scope(std::string_view key, const Setting& setting) {
    if (key == "name") {
      TRY_ASSIGN(scope_->pattern, as<std::string>(key, setting, "a string"));
      return {};
    }
    if (key == "precision") return set_precision(key, setting, scope_->precision.emplace());
    if (key == "method") return set_method(key, setting, scope_->method.emplace());
    return fault("{} is not known here; a table has name, precision and method", key);
  }

  Result<void> set(std::string_view key, const Setting& setting) {
    if (key == "precision") return set_precision(key, setting, options_.precision);
    if (key == "method") return set_method(key, setting, options_.method);
    if (key == "keep_float") {
      TRY_ASSIGN(std::vector<std::string> patterns, as<std::vector<std::string>>(key, setting, "an array of strings"));
      options_.keep_float.insert(options_.keep_float.end(), patterns.begin(), patterns.end());
      return {};
    }
    if (key == "percentile" || key == "min_sqnr" || key == "weight_bits") {
      TRY_ASSIGN(double number, as<double>(key, setting, "a number"));
      if (key == "min_sqnr") options_.min_sqnr = number;
      if (key == "percentile" && !(number > 50 && number <= 100))
        return fault("percentile lies above 50 and goes to 100");
      if (key == "percentile") options_.percentile = number;
      if (key == "weight_bits" && number != 8 && number != 4) return fault("weight_bits is 8 or 4");
      if (key == "weight_bits") options_.weight_bits = static_cast<int>(number);
      return {};
    }
    bool* flag = key == "per_channel"    ? &options_.per_channel
                 : key == "correct_bias" ? &options_.correct_bias
                 : key == "equalize"     ? &options_.equalize
                                         : nullptr;
    if (!flag)
      return fault(
          "{} is not known; the keys are precision, method, percentile, weight_bits, per_channel, correct_bias, "
          "equalize, keep_float and min_sqnr",
          key);
    TRY_ASSIGN(*flag, as<bool>(key, setting, "true or false"));
    return {};
  }

  std::string_view rest_;
  const std::string& path_;
  QuantizeOptions& options_;
  std::optional<Scope> scope_;
  int line_ = 0;
};

}  // namespace

Result<void> read_quantize_config(std::string_view text, const std::string& path, QuantizeOptions& options) {
  return Reader(text, path, options).run();
}

}  // namespace swoop
