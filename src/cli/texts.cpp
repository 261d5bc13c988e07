// The man page, docs/OPTIONS.md and their JSON.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "support/json.h"

namespace swoop {

namespace {

// troff reads a leading dot or quote as a request, and backslashes as escapes.
std::string troff(std::string_view text) {
  std::string safe;
  bool line_begins = true;
  for (char c : text) {
    if (line_begins && (c == '.' || c == '\'')) safe += "\\&";
    if (c == '\\')
      safe += "\\e";
    else if (c == '-')
      safe += "\\-";
    else
      safe += c;
    line_begins = c == '\n';
  }
  return safe;
}

std::string call_of(const OptionRow& option) {
  std::string call = option.letter.empty() ? option.name : option.letter + ", " + option.name;
  if (!option.value.empty() && !option.positional) call += " " + option.value;
  return call;
}

std::string with_default(const OptionRow& option) {
  if (option.usual.empty()) return option.text;
  return fmt::format("{} (default: {})", option.text, option.usual);
}

// In a cell of a table.
std::string cell_text(std::string_view text) {
  std::string safe;
  for (char c : text) safe += c == '|' ? "\\|" : std::string(1, c);
  return safe;
}

}  // namespace

std::string man_page(std::span<const CommandRow> commands, std::string_view version) {
  std::string text = fmt::format(
      ".TH SWOOP 1 \"\" \"swoop {}\"\n.SH NAME\nswoop \\- PyTorch to Ethos\\-U in one fell swoop\n"
      ".SH SYNOPSIS\n.B swoop\n.I command\n[\\fIoptions\\fR]\n.SH COMMANDS\n",
      version);
  for (const CommandRow& command : commands) text += fmt::format(".TP\n.B {}\n{}\n", command.name, troff(command.text));
  for (const CommandRow& command : commands) {
    text += fmt::format(".SH SWOOP {}\n{}\n", command.name, troff(command.text));
    std::string group;
    for (const OptionRow& option : command.options) {
      if (option.group != group) text += fmt::format(".SS {}\n", troff(group = option.group));
      text += fmt::format(".TP\n.B {}\n{}\n", troff(call_of(option)), troff(with_default(option)));
    }
    if (!command.footer.empty()) text += fmt::format(".SS Examples\n.nf\n{}\n.fi\n", troff(command.footer));
  }
  return text + ".SH EXIT STATUS\n0: done. 1: the input or a flag is at fault. 2: a bug in swoop.\n";
}

std::string options_markdown(std::span<const CommandRow> commands) {
  std::string text =
      "# Commands and options\n\n`swoop options --markdown` prints this page from the table that the program parses "
      "its "
      "command line\nwith. `make docs` renews it. The settings of `swoop compile` can be kept in a file: `swoop init` "
      "writes one.\n";
  for (const CommandRow& command : commands) {
    text += fmt::format("\n## swoop {}\n\n{}.\n", command.name, command.text);
    std::string group;
    for (const OptionRow& option : command.options) {
      if (option.name == "--help") continue;
      if (option.group != group) {
        group = option.group;
        text += fmt::format("\n{}:\n\n| option | meaning |\n|---|---|\n", group);
      }
      text += fmt::format("| `{}` | {} |\n", cell_text(call_of(option)), cell_text(with_default(option)));
    }
    if (!command.footer.empty()) text += fmt::format("\n```\n{}\n```\n", command.footer);
  }
  return text;
}

std::string options_json(std::span<const CommandRow> commands) {
  Json json = {{"schema", 1}, {"commands", Json::array()}};
  for (const CommandRow& command : commands) {
    Json& one =
        json["commands"].emplace_back(Json{{"name", command.name}, {"text", command.text}, {"options", Json::array()}});
    for (const OptionRow& option : command.options)
      one["options"].push_back({{"name", option.name},
                                {"letter", option.letter},
                                {"value", option.value},
                                {"default", option.usual},
                                {"group", option.group},
                                {"positional", option.positional},
                                {"repeats", option.repeats},
                                {"text", option.text}});
  }
  return to_line(json);
}

}  // namespace swoop
