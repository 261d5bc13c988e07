#include <cstdio>

#include "driver/commands.h"
#include "driver/compile.h"
#include "driver/flags.h"
#include "support/file.h"

namespace swoop {

namespace {

int run(ModelFlags& flags) {
  if (Result<void> understood = understand(flags); !understood) return fail(understood.error());
  const CompileOptions& options = flags.options;
  const std::string reads[] = {flags.quantize_config};
  if (Result<void> free = check_output(options.output, reads); !free) return fail(free.error());
  Result<CompileResult> result = compile(options);
  if (!result) return fail(result.error());
  if (!result->stopped.empty()) {
    fmt::print("{}", result->stopped);
  } else if (options.json) {
    fmt::print("{}", to_json(result->summary));
  } else if (!options.quiet) {
    fmt::print("{}", to_text(result->summary));
  }
  if (options.stats) fmt::print(stderr, "{}", result->stats);
  return 0;
}

}  // namespace

Command compile_command(CLI::App& app) {
  auto flags = std::make_shared<ModelFlags>();
  auto io = std::make_shared<std::string>("float");
  auto no_verify = std::make_shared<bool>(false);
  CompileOptions& o = flags->options;
  CLI::App* command = app.add_subcommand("compile", "Compile a model exported with torch.export.save");
  add_model_flags(*command, *flags);
  command->add_option("-o,--output", o.output, "the .pte file (default: beside the model)");
  command->add_option("--io", *io, "float; or int8: the caller quantizes inputs and dequantizes outputs")
      ->check(CLI::IsMember({"float", "int8"}))
      ->capture_default_str();
  command->add_flag("--segments", o.segments, "put NPU programs after the flatbuffer, each aligned to 128 bytes");
  command->add_flag("--strip", o.strip, "leave out the map of layers that `swoop run --layers` and `--trace` read");
  command
      ->add_option("--max-sram", o.gates.max_sram, "fail where the NPU takes more bytes of SRAM (256KiB is a number)")
      ->transform(CLI::AsSizeValue(false));
  command->add_option("--max-flash", o.gates.max_flash, "fail where the NPU takes more bytes of flash")
      ->transform(CLI::AsSizeValue(false));
  command->add_option("--max-cycles", o.gates.max_cycles, "fail where more cycles are estimated");
  command->add_option("--max-ms", o.gates.max_ms, "fail where one inference is estimated to take more milliseconds");
  command->add_flag("--one-region", o.gates.one_region, "fail where the NPU's part is not in one piece");
  command->add_option("--allow-flat", o.gates.allow_flat,
                      "parts of outputs that may have one value in the file though they vary in the float model (a "
                      "pattern with * and ?)");
  command->add_flag("--no-host", o.gates.no_host, "fail where an operator stays on the host");
  command->add_option("--test", o.test,
                      "an .npz with held-out inputs, and `labels` or the outputs to expect (`out0`, ...): accuracy is "
                      "measured on them");
  command->add_flag("--no-verify", *no_verify, "do not run and check the finished file");
  command->add_option("--dump", o.dump, "folder for the graph after every step, the TOSA files and the layer tables");
  command->add_option("--stop-after", o.stop_after,
                      "print the graph after this step and stop: import, clean, types, ..., partition, lower");
  command->add_flag("--stats", o.stats, "print what each step and rule did, on standard error");
  command->add_flag("--json", o.json, "print the summary as JSON");
  command->add_flag("-q,--quiet", o.quiet, "print no summary");
  return {command, [flags, io, no_verify] {
            flags->options.integer_io = *io == "int8";
            flags->options.verify = !*no_verify;
            return run(*flags);
          }};
}

}  // namespace swoop
