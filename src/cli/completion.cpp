// Scripts that complete commands, flags and values in a shell.
#include <fmt/ranges.h>

#include "cli/cli.h"

namespace swoop {

namespace {

bool is_path(const OptionRow& option) { return option.value == "FILE" || option.value == "DIR"; }

// Flags of a command, and per flag what can follow it.
std::string bash(std::span<const CommandRow> commands) {
  std::vector<std::string> names;
  std::string cases;
  for (const CommandRow& command : commands) {
    names.push_back(command.name);
    std::vector<std::string> flags;
    std::string values;
    for (const OptionRow& option : command.options) {
      if (option.positional) continue;
      flags.push_back(option.name);
      if (option.value.empty()) continue;
      const std::string pattern = option.letter.empty() ? option.name : option.name + "|" + option.letter;
      values += fmt::format("        {}) COMPREPLY=($(compgen {} -- \"$word\")); return ;;\n", pattern,
                            option.value == "DIR" ? "-d"
                            : is_path(option)     ? "-f"
                                                  : fmt::format("-W '{}'", fmt::join(option.words, " ")));
    }
    cases += fmt::format(
        "    {})\n      case \"$before\" in\n{}      esac\n"
        "      if [[ $word == -* ]]; then COMPREPLY=($(compgen -W '{}' -- \"$word\")); return; fi ;;\n",
        command.name, values, fmt::join(flags, " "));
  }
  return fmt::format(
      "# swoop completion bash >/etc/bash_completion.d/swoop\n"
      "_swoop() {{\n"
      "  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}\n"
      "  if ((COMP_CWORD == 1)); then COMPREPLY=($(compgen -W '{} --help --version' -- \"$word\")); return; fi\n"
      "  case \"${{COMP_WORDS[1]}}\" in\n{}  esac\n"
      "  COMPREPLY=($(compgen -f -- \"$word\"))\n"
      "}}\n"
      "complete -o filenames -F _swoop swoop\n",
      fmt::join(names, " "), cases);
}

// In single quotes of a shell.
std::string quoted(std::string_view text) {
  std::string safe;
  for (char c : text) safe += c == '\'' ? "'\\''" : std::string(1, c);
  return safe;
}

// In the [...] of an _arguments specification, where brackets, colons and quotes mean something.
std::string zsh_text(std::string_view text) {
  std::string safe;
  for (char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') safe += '\\';
    safe += c;
  }
  return quoted(safe);
}

std::string zsh(std::span<const CommandRow> commands) {
  std::string names, cases;
  for (const CommandRow& command : commands) {
    names += fmt::format("    '{}:{}'\n", command.name, quoted(command.text));
    cases += fmt::format("        {}) _arguments", command.name);
    for (const OptionRow& option : command.options) {
      if (option.positional) continue;
      const std::string action = option.value == "DIR"  ? "_files -/"
                                 : is_path(option)      ? "_files"
                                 : option.words.empty() ? ""
                                                        : fmt::format("({})", fmt::join(option.words, " "));
      const std::string value =
          option.value.empty() ? "" : fmt::format(":{}:{}", option.name.substr(2), action.empty() ? " " : action);
      cases += fmt::format(" \\\n          '{}{}[{}]{}'", option.repeats ? "*" : "", option.name, zsh_text(option.text),
                           value);
    }
    cases += " \\\n          '*:file:_files' ;;\n";
  }
  return fmt::format(
      "#compdef swoop\n"
      "# swoop completion zsh >\"${{fpath[1]}}/_swoop\"\n"
      "_swoop() {{\n"
      "  local -a commands=(\n{}  )\n"
      "  _arguments -C '1:command:->command' '*::argument:->argument'\n"
      "  case $state in\n"
      "    command) _describe command commands ;;\n"
      "    argument)\n      case $words[1] in\n{}      esac ;;\n"
      "  esac\n"
      "}}\n"
      "compdef _swoop swoop\n",
      names, cases);
}

std::string fish(std::span<const CommandRow> commands) {
  std::string text = "# swoop completion fish >~/.config/fish/completions/swoop.fish\n";
  for (const CommandRow& command : commands)
    text += fmt::format("complete -c swoop -n __fish_use_subcommand -f -a {} -d '{}'\n", command.name,
                        quoted(command.text));
  for (const CommandRow& command : commands) {
    for (const OptionRow& option : command.options) {
      if (option.positional) continue;
      text += fmt::format("complete -c swoop -n '__fish_seen_subcommand_from {}' -l {}", command.name,
                          option.name.substr(2));
      if (!option.letter.empty()) text += fmt::format(" -s {}", option.letter.substr(1));
      if (option.value == "DIR")
        text += " -x -a '(__fish_complete_directories)'";
      else if (is_path(option))
        text += " -r";
      else if (!option.value.empty())
        text += fmt::format(" -x -a '{}'", fmt::join(option.words, " "));
      text += fmt::format(" -d '{}'\n", quoted(option.text));
    }
  }
  return text;
}

}  // namespace

Result<std::string> completion(std::span<const CommandRow> commands, std::string_view shell) {
  if (shell == "bash") return bash(commands);
  if (shell == "zsh") return zsh(commands);
  if (shell == "fish") return fish(commands);
  return error("there is no completion for '{}': give bash, zsh or fish", shell);
}

}  // namespace swoop
