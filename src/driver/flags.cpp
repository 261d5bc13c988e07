#include "driver/flags.h"

#include "driver/commands.h"
#include "support/file.h"
#include "support/parallel.h"

namespace swoop {

int fail(const Error& problem) {
  fmt::print(stderr, "swoop: error: {}\n", problem.message);
  return 1;
}

void add_model_flags(CLI::App& command, ModelFlags& flags) {
  CompileOptions& o = flags.options;
  command.add_option("model", o.model, "the .pt2 file")->required();
  command.add_option("-t,--target", o.target, "ethos-u55-128, ethos-u65-256, ethos-u85-256, ...")
      ->capture_default_str();
  command.add_option("-c,--calibrate", o.samples,
                     "samples for a float model: an .npz with an array per input, a folder of them or of images, "
                     "random:SEED for a dry run");
  command.add_option("--mean", o.sample_options.mean, "of images, after scaling to 0..1: one value or one per channel");
  command.add_option("--std", o.sample_options.std, "of images: one value or one per channel");
  command.add_option("--calibration-method", flags.method, "minmax, percentile, histogram or mse")
      ->capture_default_str();
  command.add_option("--precision", flags.precision, "of activations: int8 or int16")->capture_default_str();
  command.add_option("--weight-bits", o.quantize.weight_bits, "8 or 4")
      ->check(CLI::IsMember({8, 4}))
      ->capture_default_str();
  command.add_flag("--per-tensor", flags.per_tensor,
                   "one scale for all of a layer's weights instead of one per channel");
  command.add_flag("--equalize", o.quantize.equalize, "bring the channels of consecutive layers to like ranges first");
  command.add_flag("--no-bias-correction", flags.no_bias_correction, "leave biases as they are");
  command.add_option("--keep-float", o.quantize.keep_float, "nodes or modules that stay float (a pattern with *)");
  command.add_option("--quantize-config", flags.quantize_config, "a TOML file with precision per module, op or node");
  command.add_option("--min-sqnr", o.quantize.min_sqnr, "dB; raises layers to int16 until the outputs reach it");
  command.add_option("--system-config", o.npu.system_config, "section of vela.ini (default: the target's)");
  command.add_option("--memory-mode", o.npu.memory_mode, "section of vela.ini (default: the target's)");
  command.add_option("--config", flags.config_path, "a vela.ini of your own");
  command.add_option("--optimise", flags.optimise, "Performance or Size")->capture_default_str();
  command.add_option("--arena-cache-size", o.npu.arena_cache_size,
                     "bytes of SRAM for staging (default: the memory mode's)");
  command.add_option("--threads", flags.threads, "0: one per core")->capture_default_str();
}

Result<void> understand(ModelFlags& flags) {
  CompileOptions& o = flags.options;
  set_thread_count(flags.threads);
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
