// swoop ops prints all tables of what is supported (--markdown is docs/SUPPORT.md), swoop explain a word's rows of
// them.
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "driver/commands.h"
#include "driver/ops_tables.h"
#include "support/json.h"
#include "support/nearest.h"

namespace swoop {

namespace {

std::string markdown(const SupportTable& table) {
  std::string text =
      fmt::format("\n## {}\n\n{}\n\n| {} |\n|{}\n", table.title, table.text, fmt::join(table.head, " | "),
                  fmt::join(std::vector<std::string>(table.head.size(), "---|"), ""));
  for (const std::vector<std::string>& row : table.rows) text += fmt::format("| {} |\n", fmt::join(row, " | "));
  return text;
}

std::string plain(const SupportTable& table) {
  std::vector<size_t> widths(table.head.size());
  for (size_t i = 0; i < widths.size(); ++i) {
    widths[i] = table.head[i].size();
    for (const std::vector<std::string>& row : table.rows) widths[i] = std::max(widths[i], row[i].size());
  }
  auto line = [&](const std::vector<std::string>& cells) {
    std::string text;
    for (size_t i = 0; i < cells.size(); ++i)
      text += fmt::format("{:<{}}  ", cells[i], i + 1 < cells.size() ? widths[i] : 0);
    return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  };
  std::string text = fmt::format("{} ({})\n", table.title, table.rows.size()) + line(table.head);
  for (const std::vector<std::string>& row : table.rows) text += line(row);
  return text + "\n";
}

Json rows_json(const SupportTable& table) {
  Json rows = Json::array();
  for (const std::vector<std::string>& row : table.rows) {
    Json& one = rows.emplace_back(Json::object());
    for (size_t i = 0; i < row.size(); ++i) one[table.head[i]] = row[i];
  }
  return rows;
}

std::string json(const std::vector<SupportTable>& tables) {
  Json result = {{"schema", 1}, {"tables", Json::array()}};
  for (const SupportTable& table : tables)
    result["tables"].push_back({{"title", table.title}, {"text", table.text}, {"rows", rows_json(table)}});
  return to_line(result);
}

struct OpsFlags {
  std::string word;  // of explain
  std::string target;
  bool markdown = false;
  bool json = false;
};

Result<std::string> operators(const OpsFlags& flags) {
  std::optional<NpuTarget> target;
  if (!flags.target.empty()) {
    TRY_ASSIGN(target, parse_target(flags.target));
  }
  const std::vector<SupportTable> tables = support_tables(target);
  if (flags.json) return json(tables);
  std::string text;
  if (flags.markdown)
    text =
        "# What swoop supports\n\n`swoop ops --markdown` prints this page from the tables that the compiler uses. "
        "`make docs` "
        "renews it.\n";
  for (const SupportTable& table : tables) text += flags.markdown ? markdown(table) : plain(table);
  return text;
}

// A table's column that names its rows: of rules the second, after their step.
size_t name_column(const SupportTable& table) { return table.head.front() == "step" ? 1 : 0; }

// "aten.add" is asked for as "add" too.
bool names(const std::string& cell, std::string_view word) {
  return cell == word ||
         (cell.ends_with(word) && cell.size() > word.size() && cell[cell.size() - word.size() - 1] == '.');
}

// What can be explained, each table's words in a line.
std::string words_of(const std::vector<SupportTable>& tables) {
  std::string text = "Words that `swoop explain WORD` knows:\n";
  for (const SupportTable& table : tables) {
    std::set<std::string_view> words;
    for (const std::vector<std::string>& row : table.rows) words.insert(row[name_column(table)]);
    text += fmt::format("\n{}\n  {}\n", table.title, fmt::join(words, " "));
  }
  return text;
}

Result<std::string> explain(const OpsFlags& flags) {
  std::vector<SupportTable> found = support_tables(std::nullopt);
  if (flags.word.empty()) return flags.json ? json(found) : words_of(found);
  std::vector<std::string> known;
  for (SupportTable& table : found) {
    const size_t column = name_column(table);
    for (const std::vector<std::string>& row : table.rows) known.push_back(row[column]);
    std::erase_if(table.rows, [&](const std::vector<std::string>& row) { return !names(row[column], flags.word); });
  }
  std::erase_if(found, [](const SupportTable& table) { return table.rows.empty(); });
  if (found.empty())
    return error("'{}' is no operator, function, limit, warning or rule{}", flags.word,
                 did_you_mean(flags.word, known));
  if (flags.json) return json(found);
  std::string text;
  for (const SupportTable& table : found) {
    text += fmt::format("{}\n{}\n", table.title, table.text);
    for (const std::vector<std::string>& row : table.rows) {
      text += "\n";
      for (size_t i = 0; i < row.size(); ++i) text += fmt::format("  {:<20} {}\n", table.head[i], row[i]);
    }
    text += "\n";
  }
  return text;
}

std::function<int()> print_of(Result<std::string> (*make)(const OpsFlags&), const std::shared_ptr<OpsFlags>& flags) {
  return [make, flags] {
    Result<std::string> text = make(*flags);
    if (!text) return fail(text.error());
    fmt::print("{}", *text);
    return 0;
  };
}

}  // namespace

Command ops_command(CLI::App& app) {
  auto flags = std::make_shared<OpsFlags>();
  CLI::App* command = app.add_subcommand("ops", "List the supported operators and the NPUs' limits");
  command->add_option("-t,--target", flags->target, "one NPU (default: U55, U65 and U85 side by side)")
      ->type_name("NPU");
  command->add_flag("--markdown", flags->markdown, "print docs/SUPPORT.md");
  command->add_flag("--json", flags->json, "print JSON");
  return {command, print_of(operators, flags)};
}

Command explain_command(CLI::App& app) {
  auto flags = std::make_shared<OpsFlags>();
  CLI::App* command =
      app.add_subcommand("explain", "Explain a limit (u55.c3), a warning, a rule, an operator or a function");
  command->add_option("word", flags->word, "as a summary or a report shows it (default: list all)");
  command->add_flag("--json", flags->json, "print JSON");
  return {command, print_of(explain, flags)};
}

}  // namespace swoop
