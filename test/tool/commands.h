// The commands of swoop_test_tool, through which the Python tests reach single rooms: one file per room, each adds its
// commands to the app. A command's action runs when the command is given; its error is printed, and the exit code is 1.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>

#include "support/result.h"

namespace swoop::test_tool {

struct NoFlags {};

class Commands {
 public:
  explicit Commands(CLI::App& app) : app_(app) {}
  // `flags` lives as long as the action; the caller adds its options to what is returned.
  template <typename Flags>
  CLI::App* add(const std::string& name, const std::string& help, std::shared_ptr<Flags> flags,
                Result<void> (*action)(const Flags&)) {
    CLI::App* command = app_.add_subcommand(name, help);
    command->callback([this, flags, action] { result_ = action(*flags); });
    return command;
  }
  const Result<void>& result() const { return result_; }

 private:
  CLI::App& app_;
  Result<void> result_;
};

void add_emit(Commands& commands);
void add_import(Commands& commands);
void add_npu(Commands& commands);
void add_ops(Commands& commands);
void add_quantize(Commands& commands);
void add_runtime(Commands& commands);
void add_stream(Commands& commands);
void add_tosa(Commands& commands);

}  // namespace swoop::test_tool
