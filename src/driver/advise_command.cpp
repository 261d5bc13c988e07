#include <cstdio>

#include "driver/advise.h"
#include "driver/commands.h"
#include "driver/flags.h"
#include "driver/search.h"

namespace swoop {

Command advise_command(CLI::App& app) {
  auto flags = std::make_shared<ModelFlags>();
  auto time = std::make_shared<std::string>("1m");
  auto most = std::make_shared<size_t>(5);
  CLI::App* command = app.add_subcommand(
      "advise", "Show what changes of a model would save: other channels, smaller kernels, cheaper functions");
  add_model_flags(*command, *flags);
  command->option_defaults()->group("Advice");
  command->add_option("--time", *time, "how long changes are compiled: 90s, 5m")
      ->type_name("TIME")
      ->capture_default_str();
  command->add_option("--most", *most, "changes that are shown, the best first")->capture_default_str();
  command->add_flag("--json", flags->options.json, "print JSON");
  command->footer("Example:\n  swoop advise model.pt2 --target ethos-u85-256");
  return {command, [flags, time, most] {
            if (Result<void> understood = understand(*flags); !understood) return fail(understood.error());
            if (flags->targets.size() > 1) return fail(error("--target: give one NPU here"));
            Result<double> seconds = parse_duration("--time", *time);
            if (!seconds) return fail(seconds.error());
            Result<AdviceReport> report = advise(flags->options, *seconds);
            if (!report) return fail(report.error());
            fmt::print("{}", flags->options.json ? to_json(*report, *most) : to_text(*report, *most));
            return 0;
          }};
}

}  // namespace swoop
