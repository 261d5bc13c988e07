#include <cstdio>

#include "accuracy/accuracy.h"
#include "driver/commands.h"
#include "driver/flags.h"
#include "driver/json.h"
#include "driver/pipeline.h"
#include "driver/progress.h"
#include "driver/read_model.h"

namespace swoop {

namespace {

constexpr std::string_view kStages[] = {"reading the model", "quantizing", "measuring each layer"};

// Quantizes and measures, compiles nothing.
Result<std::string> accuracy(const CompileOptions& options) {
  Pipeline pipeline{.options = options};
  TRY_ASSIGN(pipeline.target, parse_target(options.target));
  TRY(check_npu_options(pipeline.target, options.npu));
  Progress progress(kStages);
  progress.stage("reading the model");
  TRY_ASSIGN(Graph graph, read_model(options.model, options.sizes));
  pipeline.following = following_nodes(graph);
  progress.stage("quantizing");
  TRY(run_steps(graph, pipeline, {}, "quantize"));
  if (!pipeline.reference)
    return error("{} is already quantized; give the float model, which its layers are compared with", options.model);
  progress.stage("measuring each layer");
  TRY_ASSIGN(AccuracyReport report,
             measure_accuracy(*pipeline.reference, graph, *pipeline.samples, pipeline.opaque.get()));
  if (options.json) return to_json(options.model, options.target, report);
  return to_text(*pipeline.quantized) + to_text(report);
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
