#include <cstdio>

#include "driver/commands.h"
#include "driver/compile.h"
#include "driver/flags.h"

namespace swoop {

Command accuracy_command(CLI::App& app) {
  auto flags = std::make_shared<ModelFlags>();
  CLI::App* command = app.add_subcommand("accuracy", "Show the quantization error (SQNR) of each layer, worst first");
  add_model_flags(*command, *flags);
  command->add_flag("--json", flags->options.json, "print JSON");
  return {command, [flags] {
            if (Result<void> understood = understand(*flags); !understood) return fail(understood.error());
            if (flags->targets.size() > 1) return fail(error("--target: give one NPU here"));
            Result<std::string> report = accuracy(flags->options);
            if (!report) return fail(report.error());
            fmt::print("{}", *report);
            return 0;
          }};
}

}  // namespace swoop
