// The settings file: a command's flags as keys of a TOML file.
#include <toml++/toml.h>

#include <CLI/CLI.hpp>

#include "cli/cli.h"
#include "support/file.h"
#include "support/nearest.h"

namespace swoop {

namespace {

// Flags that say what to do with this call, not how the model is built.
bool is_setting(const OptionRow& option) {
  return option.name != "--help" && option.name != "--config" && option.name != "--stop-after";
}

std::string key_of(const OptionRow& option) { return option.positional ? option.name : option.name.substr(2); }

std::string toml_value(const OptionRow& option) {
  if (option.value.empty()) return "false";
  if (option.repeats) return "[]";
  const std::string& usual = option.usual;
  const bool number = !usual.empty() && usual.find_first_not_of("0123456789.-") == std::string::npos;
  return number ? usual : fmt::format("\"{}\"", usual);
}

std::string wrapped(std::string_view text, std::string_view before, size_t width) {
  std::string lines, line(before);
  while (!text.empty()) {
    const size_t space = text.find(' ');
    const std::string_view word = text.substr(0, space);
    if (line.size() > before.size() && line.size() + 1 + word.size() > width) {
      lines += line + "\n";
      line = before;
    }
    if (line.size() > before.size()) line += ' ';
    line += word;
    text.remove_prefix(space == std::string_view::npos ? text.size() : space + 1);
  }
  return lines + line + "\n";
}

Result<std::string> text_of_value(const toml::node& node, std::string_view where) {
  if (std::optional<bool> flag = node.value<bool>(); flag && node.is_boolean())
    return std::string(*flag ? "true" : "false");
  if (node.is_integer()) return fmt::format("{}", *node.value<int64_t>());
  if (node.is_floating_point()) return fmt::format("{}", *node.value<double>());
  if (node.is_string()) return *node.value<std::string>();
  return error("{} takes a string, a number, true or false, or a list of them", where);
}

Result<void> set_option(CLI::Option& option, const toml::node& node, const std::string& where) {
  std::vector<std::string> values;
  if (const toml::array* list = node.as_array()) {
    for (const toml::node& element : *list) {
      TRY_ASSIGN(std::string value, text_of_value(element, where));
      values.push_back(std::move(value));
    }
  } else {
    TRY_ASSIGN(std::string value, text_of_value(node, where));
    values.push_back(std::move(value));
  }
  if (option.count() > 0 || values.empty()) return {};  // the command line goes first
  const bool is_switch = option.get_items_expected_max() == 0;
  if (is_switch && !node.is_boolean()) return error("{} takes true or false", where);
  if (is_switch && values[0] == "false") return {};
  try {
    for (std::string& value : values) option.add_result(std::move(value));
    option.run_callback();
  } catch (const CLI::ParseError& problem) {
    return error("{}: {}", where, problem.what());
  }
  return {};
}

}  // namespace

std::string settings_file(const CommandRow& command) {
  std::string text = fmt::format(
      "# Settings of `swoop {0}`. Take away the # of the lines that you change, then: swoop {0} --config FILE.toml\n"
      "# A flag on the command line goes before its line here. Paths are those of the folder that swoop is called "
      "in.\n",
      command.name);
  std::string group;
  for (const OptionRow& option : command.options) {
    if (!is_setting(option)) continue;
    if (option.group != group) text += fmt::format("\n# ---- {} ----\n", group = option.group);
    text += "\n" + wrapped(option.text, "# ", 100);
    text += fmt::format("#{} = {}\n", key_of(option), toml_value(option));
  }
  return text;
}

Result<void> read_settings(CLI::App& command, const std::string& path) {
  TRY_ASSIGN(std::shared_ptr<const MappedFile> file, MappedFile::open(path));
  toml::table table;
  try {
    table = toml::parse(text_of(file->bytes()), path);
  } catch (const toml::parse_error& problem) {
    return error("{}:{}: {}", path, problem.source().begin.line, problem.description());
  }
  std::vector<std::string> known;
  for (const CLI::Option* option : command.get_options())
    known.push_back(option->get_lnames().empty() ? option->get_name(true) : option->get_lnames().front());
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    const std::string where = fmt::format("{}:{}: {}", path, node.source().begin.line, name);
    CLI::Option* option = command.get_option_no_throw("--" + name);
    if (!option) option = command.get_option_no_throw(name);
    if (!option)
      return error("{}: swoop {} has no such setting{}", where, command.get_name(), did_you_mean(name, known));
    TRY(set_option(*option, node, where));
  }
  return {};
}

}  // namespace swoop
