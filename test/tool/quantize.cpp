#include "quantize/quantize.h"

#include <fmt/format.h>

#include "accuracy/accuracy.h"
#include "driver/pipeline.h"
#include "driver/read_model.h"
#include "samples/samples.h"
#include "tool/commands.h"

namespace swoop::test_tool {
namespace {

struct QuantizeFlags {
  CompileOptions options;
  std::string test, method, precision, print;
};

Result<void> quantize_model(const QuantizeFlags& flags) {
  CompileOptions options = flags.options;
  if (!flags.method.empty()) {
    TRY_ASSIGN(options.quantize.method, parse_method(flags.method));
  }
  if (!flags.precision.empty()) {
    TRY_ASSIGN(options.quantize.precision, parse_precision(flags.precision));
  }
  Pipeline pipeline{.options = options};
  TRY_ASSIGN(pipeline.target, parse_target(options.target));
  TRY_ASSIGN(Graph graph, read_model(options.model));
  TRY(run_steps(graph, pipeline, {}, "quantize"));
  if (!pipeline.quantized) return error("{} is quantized already", options.model);
  Samples tests = *pipeline.samples;
  if (!flags.test.empty()) {
    TRY_ASSIGN(tests, load_samples(flags.test, graph));
  }
  const QuantizeReport& report = *pipeline.quantized;
  double sum = 0;
  std::vector<Tensor> all_exact, all_actual;
  for (const std::vector<Tensor>& inputs : tests.inputs) {
    TRY_ASSIGN(std::vector<Tensor> exact, execute(*pipeline.reference, inputs, {pipeline.opaque.get()}));
    TRY_ASSIGN(std::vector<Tensor> actual, execute(graph, inputs, {pipeline.opaque.get()}));
    sum += sqnr_db(exact, actual);
    std::move(exact.begin(), exact.end(), std::back_inserter(all_exact));
    std::move(actual.begin(), actual.end(), std::back_inserter(all_actual));
  }
  if (flags.print == "values" || options.quantize.min_sqnr) fmt::print("{}", to_text(report));
  if (flags.print == "layers") {
    TRY_ASSIGN(AccuracyReport accuracy, measure_accuracy(*pipeline.reference, graph, tests, pipeline.opaque.get()));
    fmt::print("{}", to_text(accuracy));
  }
  fmt::print("sqnr_db {:.2f} pooled_db {:.2f} seconds {:.3f} calibrate_seconds {:.3f}\n",
             sum / static_cast<double>(tests.inputs.size()), sqnr_db(all_exact, all_actual),
             pipeline.stats.back().microseconds * 1e-6, report.calibrate_seconds);
  return {};
}

}  // namespace

void add_quantize(Commands& commands) {
  auto flags = std::make_shared<QuantizeFlags>();
  CLI::App* quantize =
      commands.add("quantize",
                   "quantizes a float model; prints the signal-to-noise ratio of its fake-quantized execution "
                   "against float, mean over the inputs and over all elements, and the seconds that quantizing "
                   "took, with those of them that calibrating took",
                   flags, quantize_model);
  quantize->add_option("MODEL.pt2", flags->options.model)->required();
  quantize->add_option("SAMPLES", flags->options.samples)->required();
  quantize->add_option("TEST.npz", flags->test, "what the ratio is measured on; the samples, if absent");
  quantize->add_option("--method", flags->method);
  quantize->add_option("--precision", flags->precision);
  quantize->add_option("--min-sqnr", flags->options.quantize.min_sqnr);
  quantize->add_option("--print", flags->print)->check(CLI::IsMember({"layers", "values"}));
}

}  // namespace swoop::test_tool
