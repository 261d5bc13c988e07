// The command line as data. CLI11's table of commands and flags is the only one; help, completion, man page, settings
// file and docs/OPTIONS.md are made of it. Also: what a person may have meant, and colour.
// Invariant: a flag that is added to a command is in all of these texts.
#pragma once

#include <cstdio>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/result.h"

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace swoop {

struct OptionRow {
  std::string name;                // "--calibrate"; "model" for a word without a flag
  std::string letter;              // "-c", or empty
  std::string value;               // "FILE", "DIR", "int8|int16", "INT", ...; empty: it takes none
  std::vector<std::string> words;  // that the value can be, as far as they can be listed
  std::string text;                // what it is for
  std::string usual;               // the default, or empty
  std::string group;               // heading in the help
  bool positional = false;         // a word without a flag
  bool repeats = false;            // it may be given several times
};

struct CommandRow {
  std::string name;
  std::string text;
  std::string footer;  // examples
  std::vector<OptionRow> options;
};

// `kinds`: the words that stand for a kind of value, "NPU" for instance.
std::vector<CommandRow> command_rows(const CLI::App& app,
                                     const std::map<std::string, std::vector<std::string>>& kinds = {});

Result<std::string> completion(std::span<const CommandRow> commands, std::string_view shell);  // bash, zsh or fish
std::string man_page(std::span<const CommandRow> commands, std::string_view version);
std::string options_markdown(std::span<const CommandRow> commands);
std::string options_json(std::span<const CommandRow> commands);

// The settings of a command as TOML: each with what it is for, commented out, its default beside it.
std::string settings_file(const CommandRow& command);
// Reads such a file into a command that was parsed: a flag on the command line goes before the file.
Result<void> read_settings(CLI::App& command, const std::string& path);

// What is wrong with a command line that was refused, and what may have been meant: a sentence.
std::string refusal(std::span<const CommandRow> commands, std::span<char* const> words, const CLI::ParseError& problem);

// The labels of a text in bold, warnings in yellow, errors in red, where `stream` is a terminal and NO_COLOR is not
// set.
std::string painted(std::string_view text, std::FILE* stream);

}  // namespace swoop
