#include <CLI/CLI.hpp>

#include "cli/cli.h"

namespace swoop {

namespace {

using Kinds = std::map<std::string, std::vector<std::string>>;

// Of "int8|int16" two, of a kind its own, of "FILE" none.
std::vector<std::string> words_of(const std::string& value, const Kinds& kinds) {
  if (auto kind = kinds.find(value); kind != kinds.end()) return kind->second;
  std::vector<std::string> words;
  for (size_t at = 0; value.find('|') != std::string::npos && at <= value.size();) {
    const size_t bar = std::min(value.find('|', at), value.size());
    words.push_back(value.substr(at, bar - at));
    at = bar + 1;
  }
  return words;
}

OptionRow row_of(const CLI::Option& option, const Kinds& kinds) {
  OptionRow row;
  row.positional = option.get_positional() && option.get_lnames().empty();
  row.name = row.positional ? option.get_name(true) : "--" + option.get_lnames().front();
  if (!option.get_snames().empty()) row.letter = "-" + option.get_snames().front();
  const bool takes_value = option.get_items_expected_max() > 0;
  if (takes_value) {
    row.value = option.get_type_name();
    row.value = row.value.substr(0, row.value.find(':'));  // after it, CLI11 says what a validator checks
    row.words = words_of(row.value, kinds);
    row.usual = option.get_default_str();
  }
  row.text = option.get_description();
  row.group = option.get_group();
  row.repeats = takes_value && option.get_items_expected_max() > 1;
  return row;
}

}  // namespace

std::vector<CommandRow> command_rows(const CLI::App& app, const Kinds& kinds) {
  std::vector<CommandRow> rows;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    CommandRow& row = rows.emplace_back();
    row.name = command->get_name();
    row.text = command->get_description();
    row.footer = command->get_footer();
    for (const CLI::Option* option : command->get_options()) row.options.push_back(row_of(*option, kinds));
  }
  return rows;
}

}  // namespace swoop
