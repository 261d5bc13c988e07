// What a person may have meant, and what a terminal shows in colour.
#include <fmt/format.h>
#include <unistd.h>

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

}  // namespace

std::string unknown_command(std::span<const CommandRow> commands, std::span<char* const> words) {
  if (words.size() < 2 || words[1][0] == '-' || find_command(commands, words[1])) return "";
  std::vector<std::string> names;
  for (const CommandRow& row : commands) names.push_back(row.name);
  const std::string_view meant = nearest(words[1], names);
  return fmt::format("There is no command '{}'.{} `swoop --help` lists them.\n", words[1],
                     meant.empty() ? "" : fmt::format(" Did you mean {}?", meant));
}

std::string suggestion(std::span<const CommandRow> commands, std::span<char* const> words) {
  const CommandRow* command = words.size() < 2 ? nullptr : find_command(commands, words[1]);
  if (!command) return "";
  std::vector<std::string> names;
  for (const OptionRow& option : command->options) names.push_back(option.name);
  for (const std::string word : words.subspan(2)) {
    const std::string flag = word.substr(0, word.find('='));
    if (!flag.starts_with("--") || std::find(names.begin(), names.end(), flag) != names.end()) continue;
    if (const std::string_view meant = nearest(flag, names); !meant.empty())
      return fmt::format("swoop {} has no {}. Did you mean {}?\n", command->name, flag, meant);
  }
  return "";
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
