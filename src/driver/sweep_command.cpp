#include <cstdio>

#include "driver/commands.h"
#include "driver/flags.h"
#include "driver/sweep.h"
#include "support/file.h"

namespace swoop {

Command sweep_command(CLI::App& app) {
  auto flags = std::make_shared<ModelFlags>();
  auto targets = std::make_shared<std::vector<std::string>>();
  auto fast = std::make_shared<bool>(false);
  CompileOptions& o = flags->options;
  CLI::App* command =
      app.add_subcommand("sweep", "Compile a model for every NPU and memory mode, and compare the programs");
  add_model_flags(*command, *flags);
  for (const char* name : {"--target", "--memory-mode"}) command->remove_option(command->get_option(name));
  command->add_option("-t,--target,--targets", *targets, "only these NPUs (a pattern with * and ?): 'ethos-u55-*'");
  command->add_option("--max-sram", o.gates.max_sram, "bytes of SRAM that a program may take and fit (256KiB)")
      ->transform(as_bytes())
      ->type_name("SIZE");
  command->add_option("--max-flash", o.gates.max_flash, "bytes of flash that it may take")
      ->transform(as_bytes())
      ->type_name("SIZE");
  command->add_option("--max-ms", o.gates.max_ms, "milliseconds that one inference may take");
  command->add_flag("--no-verify", *fast, "do not run the finished files: quicker, without SQNR");
  command
      ->add_option("--report", o.report,
                   "write a page for the browser: latency against SRAM, and the fastest build that fits")
      ->type_name("FILE");
  command->add_flag("--json", o.json, "print the table as JSON");
  return {command, [flags, targets, fast] {
            if (Result<void> understood = understand(*flags); !understood) return fail(understood.error());
            const CompileOptions& options = flags->options;
            flags->options.verify = !*fast;
            const std::string reads[] = {options.model, options.samples, options.npu.config_path};
            if (Result<void> free = check_output(options.report, reads); !free) return fail(free.error());
            Result<Sweep> swept = sweep({options, *targets});
            if (!swept) return fail(swept.error());
            if (!options.report.empty())
              if (Result<void> written = write_file(options.report, to_html(swept->best)); !written)
                return fail(written.error());
            fmt::print("{}", options.json ? to_json(swept->points) : to_text(swept->points));
            return 0;
          }};
}

}  // namespace swoop
