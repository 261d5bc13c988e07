// quantize_tool MODEL.pt2 SAMPLES [TEST.npz] [key=value ...]: quantizes a float model and prints the signal-to-noise
// ratio of its fake-quantized execution against float on TEST.npz (default: the samples), mean over the inputs and over
// all elements of all inputs, and the seconds that quantizing took, with those of them that calibrating took. Keys:
// method, precision, percentile, per_channel, weight_bits, correct_bias, equalize, config, keep_float, min_sqnr,
// print=ir|layers|values. For tests and benchmarks.
#include <fmt/format.h>

#include <cstdlib>

#include "clean/clean.h"
#include "import/import.h"
#include "quantize/quantize.h"
#include "support/timer.h"

namespace swoop {
namespace {

Result<int> run(int argc, char** argv) {
  if (argc < 3) return error("usage: quantize_tool MODEL.pt2 SAMPLES [TEST.npz] [key=value ...]");
  QuantizeOptions options;
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
      TRY_ASSIGN(options.method, parse_method(value));
    } else if (key == "precision") {
      TRY_ASSIGN(options.precision, parse_precision(value));
    } else if (key == "percentile") {
      options.percentile = std::atof(value.c_str());
    } else if (key == "per_channel") {
      options.per_channel = value == "1";
    } else if (key == "weight_bits") {
      options.weight_bits = std::atoi(value.c_str());
    } else if (key == "correct_bias") {
      options.correct_bias = value == "1";
    } else if (key == "equalize") {
      options.equalize = value == "1";
    } else if (key == "keep_float") {
      options.keep_float.push_back(value);
    } else if (key == "min_sqnr") {
      options.min_sqnr = std::atof(value.c_str());
    } else if (key == "config") {
      TRY_ASSIGN(auto file, MappedFile::open(value));
      TRY(read_quantize_config(text_of(file->bytes()), value, options));
    } else if (key == "print") {
      what = value;
    } else {
      return error("unknown key {}", key);
    }
  }
  TRY_ASSIGN(Graph graph, import_pt2(argv[1]));
  std::vector<Rule> rules;
  for (auto table : {constant_rules(), movement_rules(), fold_rules()})
    rules.insert(rules.end(), table.begin(), table.end());
  rewrite(graph, rules, Repeat::Fixpoint);
  TRY_ASSIGN(Samples samples, load_samples(argv[2], graph));
  Samples tests = samples;
  if (test != argv[2]) {
    TRY_ASSIGN(tests, load_samples(test, graph));
  }
  Graph reference = clone(graph);
  if (auto fault = verify(reference)) return error("the clone is broken: {}", *fault);
  Timer timer;
  TRY_ASSIGN(QuantizeReport report, quantize(graph, samples, options));
  double seconds = timer.seconds();
  if (auto fault = verify(graph)) return error("the graph is broken: {}", *fault);
  double sum = 0;
  std::vector<Tensor> all_exact, all_actual;
  for (const std::vector<Tensor>& inputs : tests.inputs) {
    TRY_ASSIGN(std::vector<Tensor> exact, execute(reference, inputs));
    TRY_ASSIGN(std::vector<Tensor> actual, execute(graph, inputs));
    sum += sqnr_db(exact, actual);
    std::move(exact.begin(), exact.end(), std::back_inserter(all_exact));
    std::move(actual.begin(), actual.end(), std::back_inserter(all_actual));
  }
  if (what == "ir") fmt::print("{}", print(graph, {false, true}));
  if (what == "values" || options.min_sqnr) fmt::print("{}", to_text(report));
  if (what == "layers") {
    TRY_ASSIGN(AccuracyReport accuracy, measure_accuracy(reference, graph, tests));
    fmt::print("{}", to_text(accuracy));
  }
  fmt::print("sqnr_db {:.2f} pooled_db {:.2f} seconds {:.3f} calibrate_seconds {:.3f}\n",
             sum / static_cast<double>(tests.inputs.size()), sqnr_db(all_exact, all_actual), seconds,
             report.calibrate_seconds);
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
