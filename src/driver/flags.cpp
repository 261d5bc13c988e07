#include "driver/flags.h"

#include <charconv>

#include "driver/commands.h"
#include "driver/quantize_config.h"
#include "support/file.h"
#include "support/memory.h"
#include "support/parallel.h"

namespace swoop {

namespace {
constexpr uint64_t kLeastMemory = uint64_t{256} << 20;  // regor takes some 100 MiB for a small network
}

int fail(const Error& problem) {
  if (!problem.ours) {
    fmt::print(stderr, "swoop: error: {}\n", problem.message);
    return 1;
  }
  fmt::print(stderr, "swoop: a defect of swoop: {}\n", problem.message);
  return 2;
}

void add_model_flags(CLI::App& command, ModelFlags& flags) {
  CompileOptions& o = flags.options;
  command.add_option("model", o.model, "the .pt2 file")->required();
  command.add_option("--batch", o.sizes.batch, "the first dimension of every input that was exported as dynamic")
      ->check(CLI::PositiveNumber);
  command.add_option("--shape", flags.shapes, "the shape of an input that was exported as dynamic: x=1x3x96x96");
  command.add_option("-t,--target", o.target, "ethos-u55-128, ethos-u65-256, ethos-u85-256, ...")
      ->capture_default_str();
  command.add_option(
      "-c,--calibrate", o.samples,
      "samples for a float model: an .npz with one array per input, a folder of such files or of images, "
      "or random:SEED for a dry run");
  command.add_option("--mean", o.sample_options.mean,
                     "subtracted from images, after scaling to 0..1: one value, or one per channel");
  command.add_option("--std", o.sample_options.std, "images are divided by it: one value, or one per channel");
  command
      .add_option("--calibration-method", flags.method, "how ranges are chosen: minmax, percentile, histogram or mse")
      ->capture_default_str();
  command.add_option("--precision", flags.precision, "type of activations: int8 or int16")->capture_default_str();
  command.add_option("--weight-bits", o.quantize.weight_bits, "bits per weight: 8 or 4")
      ->check(CLI::IsMember({8, 4}))
      ->capture_default_str();
  command.add_flag("--per-tensor", flags.per_tensor,
                   "one scale for all of a layer's weights instead of one per channel");
  command.add_flag("--equalize", o.quantize.equalize,
                   "first scale the channels of consecutive layers to similar ranges");
  command.add_flag("--no-bias-correction", flags.no_bias_correction,
                   "do not correct biases for the rounding of weights");
  command.add_option("--keep-float", o.quantize.keep_float,
                     "nodes or modules that stay float, on the host (a pattern with * and ?)");
  command.add_option("--quantize-config", flags.quantize_config,
                     "a TOML file that sets the precision per module, operator or node");
  command.add_option("--min-sqnr", o.quantize.min_sqnr,
                     "move layers to int16 until every output reaches this SQNR, in dB; fail where that cannot be");
  command.add_option("--system-config", o.npu.system_config, "section of vela.ini (default: the target's)");
  command.add_option("--memory-mode", o.npu.memory_mode, "section of vela.ini (default: the target's)");
  command.add_option("--config", flags.config_path, "a vela.ini file, instead of the one that comes with Vela");
  command.add_option("--optimise", flags.optimise, "what the NPU's code is optimised for: Performance or Size")
      ->capture_default_str();
  command.add_option("--arena-cache-size", o.npu.arena_cache_size,
                     "bytes of SRAM for staging (default: the memory mode's)");
  command
      .add_option(
          "--max-memory", o.npu.memory_limit,
          "most bytes that the compile may take, and regor once more (16GiB is a number; default: three quarters "
          "of the machine's memory)")
      ->transform(CLI::AsSizeValue(false));
  command.add_option("--threads", flags.threads, "number of threads; 0: one per core")->capture_default_str();
}

namespace {

// "x=1x3x96x96"
Result<std::pair<std::string, Shape>> parse_shape(const std::string& text) {
  const size_t equals = text.find('=');
  Shape shape;
  const char* at = text.data() + (equals == std::string::npos ? text.size() : equals + 1);
  const char* end = text.data() + text.size();
  while (at < end) {
    int64_t size = 0;
    auto [next, fault] = std::from_chars(at, end, size);
    if (fault != std::errc() || size < 1 || (next < end && *next != 'x')) break;
    shape.push_back(size);
    if (next == end) return std::pair(text.substr(0, equals), std::move(shape));
    at = next + 1;
  }
  return error("--shape {}: write it as NAME=1x3x96x96", text);
}

}  // namespace

Result<void> understand(ModelFlags& flags) {
  CompileOptions& o = flags.options;
  for (const std::string& text : flags.shapes) {
    TRY_ASSIGN(auto shape, parse_shape(text));
    o.sizes.shapes.insert(std::move(shape));
  }
  set_thread_count(flags.threads);
  if (o.npu.memory_limit != 0 && o.npu.memory_limit < kLeastMemory)
    return error("--max-memory {}: give at least {} MiB", o.npu.memory_limit, kLeastMemory >> 20);
  limit_memory(o.npu.memory_limit != 0 ? o.npu.memory_limit : usable_memory());
  TRY_ASSIGN(o.npu.optimise, parse_optimise(flags.optimise));
  TRY_ASSIGN(o.quantize.precision, parse_precision(flags.precision));
  TRY_ASSIGN(o.quantize.method, parse_method(flags.method));
  o.quantize.per_channel = !flags.per_tensor;
  o.quantize.correct_bias = !flags.no_bias_correction;
  if (!flags.config_path.empty()) {
    TRY_ASSIGN(std::shared_ptr<const MappedFile> config, MappedFile::open(flags.config_path));
    o.npu.config = std::string(text_of(config->bytes()));
    o.npu.config_path = flags.config_path;
  }
  if (!flags.quantize_config.empty()) {
    TRY_ASSIGN(std::shared_ptr<const MappedFile> config, MappedFile::open(flags.quantize_config));
    TRY(read_quantize_config(text_of(config->bytes()), flags.quantize_config, o.quantize));
  }
  return {};
}

}  // namespace swoop
