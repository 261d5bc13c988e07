// What a person may have meant, and what a terminal shows in colour.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>

#include "cli/cli.h"
#include "support/nearest.h"

namespace swoop {

namespace {

const CommandRow* find_command(std::span<const CommandRow> commands, std::string_view name) {
  auto found = std::find_if(commands.begin(), commands.end(), [&](const CommandRow& row) { return row.name == name; });
  return found == commands.end() ? nullptr : &*found;
}

template <typename Rows>
std::vector<std::string> names_of(const Rows& rows) {
  std::vector<std::string> names;
  for (const auto& row : rows) names.push_back(row.name);
  return names;
}

// The first flag of the words that the command does not have, or nothing.
std::string unknown_flag(const CommandRow& command, std::span<char* const> words) {
  for (const std::string word : words.subspan(2)) {
    const std::string flag = word.substr(0, word.find('='));
    if (flag == "--") break;
    auto same = [&](const OptionRow& option) { return option.name == flag; };
    if (flag.starts_with("--") && std::none_of(command.options.begin(), command.options.end(), same)) return flag;
  }
  return "";
}

// CLI11's sentences about one option begin with its name, or with "Could not convert:" and its name.
const OptionRow* named_first(const CommandRow& command, std::string_view said) {
  constexpr std::string_view kConvert = "Could not convert: ";
  if (said.starts_with(kConvert)) said.remove_prefix(kConvert.size());
  const std::string_view name = said.substr(0, said.find_first_of(": ="));
  auto found = std::find_if(command.options.begin(), command.options.end(),
                            [&](const OptionRow& option) { return option.name == name; });
  return found == command.options.end() ? nullptr : &*found;
}

std::string a_value(const std::string& kind) {
  if (kind == "INT" || kind == "UINT") return "a whole number";
  if (kind == "FLOAT") return "a number";
  return kind;
}

// What is wrong with the words of a command, as a sentence without its beginning.
std::string refusal(const CommandRow& command, std::span<char* const> words, const CLI::ParseError& problem) {
  const std::string said = problem.what();
  const std::string help = fmt::format("; `swoop {} --help` lists what it takes", command.name);
  if (const std::string flag = unknown_flag(command, words); !flag.empty()) {
    const std::string near = did_you_mean(flag, names_of(command.options));
    return fmt::format("swoop {} has no {}{}", command.name, flag, near.empty() ? help : near);
  }
  const OptionRow* option = named_first(command, said);
  if (dynamic_cast<const CLI::ExtrasError*>(&problem))  // "...: A B"
    return fmt::format("swoop {} does not know what to do with '{}'{}", command.name,
                       said.substr(std::min(said.size(), said.find(": ") + 2)), help);
  if (!option) return said + help;
  const std::string name = option->positional ? "" : option->name + " ";
  if (dynamic_cast<const CLI::RequiredError*>(&problem))
    return fmt::format("swoop {} needs {}{}: {}", command.name, name, option->value, option->text);
  if (said.find("At Most 1") != std::string::npos) return fmt::format("give {}once", name);
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&problem))
    return fmt::format("{}needs {} after it: {}", name, option->value, option->text);
  if (const size_t value = said.find(" = "); value != std::string::npos)
    return fmt::format("{}cannot be '{}': it takes {}", name, said.substr(value + 3), a_value(option->value));
  return said;
}

}  // namespace

std::string refusal(std::span<const CommandRow> commands, std::span<char* const> words,
                    const CLI::ParseError& problem) {
  constexpr std::string_view kHelp = "`swoop --help` lists them";
  if (words.size() < 2) return fmt::format("give a command, such as compile or run; {}", kHelp);
  if (const CommandRow* command = find_command(commands, words[1])) return refusal(*command, words, problem);
  if (words[1][0] == '-') return fmt::format("give a command before {}; {}", words[1], kHelp);
  const std::string near = did_you_mean(words[1], names_of(commands));
  return fmt::format("there is no command '{}'{}; {}", words[1], near, kHelp);
}

std::string painted(std::string_view text, std::FILE* stream) {
  const char* no_colour = std::getenv("NO_COLOR");
  if (isatty(fileno(stream)) == 0 || (no_colour && *no_colour != '\0')) return std::string(text);
  constexpr std::string_view kBold = "\033[1m", kYellow = "\033[33m", kRed = "\033[31m", kEnd = "\033[0m";
  std::string result;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, std::min(text.find('\n'), text.size()));
    const size_t space = line.find("  ");
    const size_t label = line.find(' ');
    auto paint = [&](std::string_view colour, size_t length) {
      result.append(colour).append(line.substr(0, length)).append(kEnd).append(line.substr(length));
    };
    if (line.starts_with("swoop: "))
      paint(kRed, line.find(':', 7) == std::string_view::npos ? 6 : line.find(':', 7) + 1);
    else if (line.starts_with("warning:"))
      paint(kYellow, 8);
    else if (label != 0 && label != std::string_view::npos && space == label)
      paint(kBold, label);  // "target    ethos-u55-128"
    else
      result.append(line);
    text.remove_prefix(line.size());
    if (!text.empty()) {
      result += '\n';
      text.remove_prefix(1);
    }
  }
  return result;
}

}  // namespace swoop
