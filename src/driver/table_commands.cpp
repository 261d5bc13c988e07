// swoop init, options, completion: the table of commands and options as a settings file, a page, a manual, a shell's
// completion.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "driver/boards.h"
#include "driver/commands.h"
#include "report/report.h"
#include "support/file.h"
#include "support/json.h"
#include "target/target.h"

namespace swoop {

std::vector<CommandRow> rows_of(const CLI::App& app) {
  std::map<std::string, std::vector<std::string>> kinds;
  for (const NpuTarget& target : npu_targets()) kinds["NPU"].emplace_back(target.name);
  for (const Board& board : boards()) kinds["BOARD"].emplace_back(board.name);
  return command_rows(app, kinds);
}

Command init_command(CLI::App& app) {
  auto path = std::make_shared<std::string>("swoop.toml");
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("init", "Write a settings file for `swoop compile --config`");
  command->add_option("file", *path, "the file; - prints it")->type_name("FILE")->capture_default_str();
  command->add_flag("--json", *json, "print the settings as JSON instead");
  return {command, [&app, path, json] {
            const std::vector<CommandRow> rows = rows_of(app);
            if (*json) {
              fmt::print("{}", options_json({&rows.front(), 1}));
              return 0;
            }
            const std::string text = settings_file(rows.front());  // compile comes first
            if (*path == "-") {
              fmt::print("{}", text);
              return 0;
            }
            if (std::FILE* there = std::fopen(path->c_str(), "r")) {
              std::fclose(there);
              return fail(error("{} is there already; give another name", *path));
            }
            if (Result<void> written = write_file(*path, text); !written) return fail(written.error());
            fmt::print("written to {}: change it, then `swoop compile --config {}`\n", *path, *path);
            return 0;
          }};
}

Command options_command(CLI::App& app) {
  struct Flags {
    bool markdown = false, man = false, json = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("options", "List every option of every command");
  command->add_flag("--markdown", flags->markdown,
                    "print docs/OPTIONS.md (this is also what is printed without a flag)");
  command->add_flag("--man", flags->man, "print the manual page");
  command->add_flag("--json", flags->json, "print JSON");
  return {command, [&app, flags] {
            const std::vector<CommandRow> rows = rows_of(app);
            fmt::print("{}", flags->json  ? options_json(rows)
                             : flags->man ? man_page(rows, kSwoopVersion)
                                          : options_markdown(rows));
            return 0;
          }};
}

Command completion_command(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("completion", "Print a script that completes commands and options in a shell");
  command->add_option("shell", *shell, "the shell")->required()->type_name("bash|zsh|fish");
  command->add_flag("--json", *json, "print the script as JSON");
  return {command, [&app, shell, json] {
            Result<std::string> text = completion(rows_of(app), *shell);
            if (!text) return fail(text.error());
            fmt::print("{}", *json ? to_line(Json{{"schema", 1}, {"shell", *shell}, {"script", *text}}) : *text);
            return 0;
          }};
}

}  // namespace swoop
