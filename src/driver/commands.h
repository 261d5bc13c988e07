// The commands of the program, one file each: adds its flags to the app and returns what to do when it is chosen.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "cli/cli.h"
#include "support/result.h"

namespace swoop {

struct Command {
  CLI::App* app;
  std::function<int()> run;  // the exit code
};

Command compile_command(CLI::App& app);
Command accuracy_command(CLI::App& app);
Command inspect_command(CLI::App& app);
Command run_command(CLI::App& app);
Command diff_command(CLI::App& app);
Command ops_command(CLI::App& app);
Command sweep_command(CLI::App& app);
Command advise_command(CLI::App& app);
Command explain_command(CLI::App& app);
Command boards_command(CLI::App& app);
Command doctor_command(CLI::App& app);
// These three print the table of commands and options itself, as it is when they run.
Command init_command(CLI::App& app);
Command options_command(CLI::App& app);
Command completion_command(CLI::App& app);

// The table of commands and options, with the names of NPUs and boards.
std::vector<CommandRow> rows_of(const CLI::App& app);

// Prints the sentence and returns the exit code: 1 where the user's input or a flag is at fault, 2 where we are.
int fail(const Error& problem);

}  // namespace swoop
