#include <cstdio>

#include "accuracy/accuracy.h"
#include "driver/commands.h"
#include "driver/compile.h"
#include "driver/flags.h"
#include "driver/json.h"
#include "driver/pipeline.h"
#include "driver/trial.h"

namespace swoop {

namespace {

// Of the types that a build gives the model.
Result<std::string> accuracy(const CompileOptions& options) {
  Scratch scratch("accuracy");  // for what a build leaves beside its file
  TRY(scratch.make());
  CompileOptions build = options;
  build.output = scratch.file(0);
  std::string text;
  TRY(compile_for_types(build, [&](const Pipeline& pipeline) -> Result<void> {
    if (!pipeline.reference)
      return error("{} is already quantized; give the float model, which its layers are compared with", options.model);
    TRY_ASSIGN(AccuracyReport report,
               measure_accuracy(*pipeline.reference, *pipeline.typed, *pipeline.samples, pipeline.opaque.get()));
    const bool json = options.json;
    text = json ? to_json(options.model, options.target, report) : to_text(*pipeline.quantized) + to_text(report);
    return {};
  }));
  return text;
}

}  // namespace

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
