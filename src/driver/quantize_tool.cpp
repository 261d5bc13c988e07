// quantize_tool MODEL.pt2 SAMPLES [TEST.npz] [key=value ...]: quantizes a float model and prints the signal-to-noise
// ratio of its fake-quantized execution against float on TEST.npz (default: the samples), mean over the inputs and over
// all elements of all inputs, and the seconds that the step `quantize` took, with those of them that calibrating took.
// Keys:
// method, precision, percentile, per_channel, weight_bits, correct_bias, equalize, config, keep_float, min_sqnr,
// print=ir|layers|values. For tests and benchmarks.
#include <fmt/format.h>

#include <cstdlib>

#include "accuracy/accuracy.h"
#include "driver/compile.h"
#include "driver/pipeline.h"
#include "driver/quantize_config.h"
#include "samples/samples.h"
#include "support/file.h"

namespace swoop {
namespace {

Result<int> run(int argc, char** argv) {
  if (argc < 3) return error("usage: quantize_tool MODEL.pt2 SAMPLES [TEST.npz] [key=value ...]");
  CompileOptions options;
  options.model = argv[1];
  options.samples = argv[2];
  std::string test = argv[2];
  std::string what;
  for (int i = 3; i < argc; ++i) {
    std::string_view text = argv[i];
    size_t equals = text.find('=');
    if (equals == std::string_view::npos) {
      test = argv[i];
      continue;
    }
    std::string_view key = text.substr(0, equals);
    std::string value(text.substr(equals + 1));
    if (key == "method") {
      TRY_ASSIGN(options.quantize.method, parse_method(value));
    } else if (key == "precision") {
      TRY_ASSIGN(options.quantize.precision, parse_precision(value));
    } else if (key == "percentile") {
      options.quantize.percentile = std::atof(value.c_str());
    } else if (key == "per_channel") {
      options.quantize.per_channel = value == "1";
    } else if (key == "weight_bits") {
      options.quantize.weight_bits = std::atoi(value.c_str());
    } else if (key == "correct_bias") {
      options.quantize.correct_bias = value == "1";
    } else if (key == "equalize") {
      options.quantize.equalize = value == "1";
    } else if (key == "keep_float") {
      options.quantize.keep_float.push_back(value);
    } else if (key == "min_sqnr") {
      options.quantize.min_sqnr = std::atof(value.c_str());
    } else if (key == "config") {
      TRY_ASSIGN(auto file, MappedFile::open(value));
      TRY(read_quantize_config(text_of(file->bytes()), value, options.quantize));
    } else if (key == "print") {
      what = value;
    } else {
      return error("unknown key {}", key);
    }
  }
  Pipeline pipeline{.options = options};
  TRY_ASSIGN(pipeline.target, parse_target(options.target));
  TRY_ASSIGN(Graph graph, read_model(options.model));
  TRY(run_steps(graph, pipeline, {}, "quantize"));
  if (!pipeline.quantized) return error("{} is quantized already", options.model);
  Samples tests = *pipeline.samples;
  if (test != options.samples) {
    TRY_ASSIGN(tests, load_samples(test, graph));
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
  if (what == "ir") fmt::print("{}", print(graph, {false, true}));
  if (what == "values" || options.quantize.min_sqnr) fmt::print("{}", to_text(report));
  if (what == "layers") {
    TRY_ASSIGN(AccuracyReport accuracy, measure_accuracy(*pipeline.reference, graph, tests, pipeline.opaque.get()));
    fmt::print("{}", to_text(accuracy));
  }
  fmt::print("sqnr_db {:.2f} pooled_db {:.2f} seconds {:.3f} calibrate_seconds {:.3f}\n",
             sum / static_cast<double>(tests.inputs.size()), sqnr_db(all_exact, all_actual),
             pipeline.stats.back().microseconds * 1e-6, report.calibrate_seconds);
  return 0;
}

}  // namespace
}  // namespace swoop

int main(int argc, char** argv) {
  swoop::Result<int> result = swoop::run(argc, argv);
  if (result) return *result;
  fmt::print(stderr, "{}\n", result.error().message);
  return 1;
}
