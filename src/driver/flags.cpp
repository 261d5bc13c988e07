#include "driver/flags.h"

#include <charconv>
#include <cmath>

#include "cli/cli.h"
#include "driver/boards.h"
#include "driver/commands.h"
#include "driver/quantize_config.h"
#include "support/file.h"
#include "support/memory.h"
#include "support/parallel.h"

namespace swoop {

namespace {
// --target tosa writes what is made for this NPU, which takes most of TOSA's operators as they are.
constexpr std::string_view kTosa = "tosa", kTosaTarget = "ethos-u85-256";
constexpr uint64_t kLeastMemory = uint64_t{256} << 20;  // regor takes some 100 MiB for a small network
std::string at_least_one(const std::string& text) {
  return text.starts_with('-') || text == "0" ? fmt::format("{} is too small; write 1 or more", text) : "";
}
}  // namespace

int fail(const Error& problem) {
  if (!problem.ours) {
    fmt::print(stderr, "{}", painted(fmt::format("swoop: error: {}\n", problem.message), stderr));
    return 1;
  }
  fmt::print(stderr, "{}", painted(fmt::format("swoop: a defect of swoop: {}\n", problem.message), stderr));
  return 2;
}

CLI::Validator as_bytes() {
  auto to_bytes = [](std::string& text) -> std::string {
    constexpr double kMost = 1ULL << 62;
    double number = 0;
    const char* end = text.data() + text.size();
    const auto [unit, problem] = std::from_chars(text.data(), end, number);
    std::string suffix = CLI::detail::to_lower(std::string(unit, end));
    CLI::detail::trim(suffix);
    for (std::string_view tail : {"b", "i"})
      if (suffix.ends_with(tail)) suffix.pop_back();
    const size_t power = suffix.empty() ? 0 : std::string_view("kmg").find(suffix) + 1;  // 0 of npos + 1: none of them
    if (problem != std::errc() || suffix.size() > 1 || (power == 0 && !suffix.empty()))
      return fmt::format("'{}' is no size; write 262144 or 256KiB", text);
    const double bytes = std::ldexp(number, 10 * static_cast<int>(power));
    if (!(bytes >= 0 && bytes <= kMost)) return fmt::format("'{}' is out of range", text);
    text = fmt::format("{}", std::llround(bytes));
    return "";
  };
  return CLI::Validator(to_bytes, "");
}

void add_model_flags(CLI::App& command, ModelFlags& flags) {
  CompileOptions& o = flags.options;
  flags.command = &command;
  command.option_defaults()->group("Model and target");
  command.add_option("model", o.model, "the .pt2 file; `compile` and `sweep` also take a .tosa file")
      ->type_name("FILE");
  command
      .add_option("--config", flags.configs,
                  "settings of the project (.toml, as `swoop init` writes it), or a vela.ini instead of Vela's own")
      ->type_name("FILE")
      ->allow_extra_args(false);
  command
      .add_option("-t,--target", flags.targets,
                  fmt::format("the NPU: ethos-u55-128, ethos-u65-256, ethos-u85-256, ...; `compile` takes several, and "
                              "tosa for a .tosa file (default: {})",
                              o.target))
      ->type_name("NPU")
      ->allow_extra_args(false);
  command
      .add_option("--board", flags.board,
                  "a board of `swoop boards`: its NPU and configuration, and whether the program fits its memories")
      ->type_name("BOARD");
  command.add_option("--batch", o.sizes.batch, "the first dimension of every input that was exported as dynamic")
      ->check(CLI::Validator(at_least_one, ""));
  command.add_option("--shape", flags.shapes, "the shape of an input that was exported as dynamic: x=1x3x96x96");

  command.option_defaults()->group(kQuantizationGroup);
  command
      .add_option("-c,--calibrate", o.samples,
                  "samples for a float model: an .npz with one array per input, a folder of such files or of images, "
                  "or random:SEED for a dry run")
      ->type_name("FILE");
  command.add_option("--mean", o.sample_options.mean,
                     "subtracted from images, after scaling to 0..1: one value, or one per channel");
  command.add_option("--std", o.sample_options.std, "images are divided by it: one value, or one per channel");
  command.add_option("--calibration-method", flags.method, "how ranges are chosen")
      ->type_name("minmax|percentile|histogram|mse")
      ->capture_default_str();
  command
      .add_option("--precision", flags.precision,
                  "type of activations; auto: int8, and int16 where that adds no more than 1 % to the cycles and the "
                  "memory; float runs on the host (for some layers: --keep-float)")
      ->type_name("auto|int8|int16|float")
      ->capture_default_str();
  command.add_option("--weight-bits", o.quantize.weight_bits, "bits per weight")
      ->check(CLI::IsMember({8, 4}).description(""))
      ->type_name("8|4")
      ->capture_default_str();
  command.add_flag("--per-tensor", flags.per_tensor,
                   "one scale for all of a layer's weights instead of one per channel");
  o.quantize.weight_rate = kHardlyHeard;
  command
      .add_option("--weight-rate", o.quantize.weight_rate,
                  "dB of SQNR that an output may lose for smaller weights; 0: none")
      ->check(CLI::Validator(CLI::Range(0.0, 100.0)).description(""))
      ->type_name("DB")
      ->capture_default_str();
  command.add_flag("--equalize", o.quantize.equalize,
                   "first scale the channels of consecutive layers to similar ranges");
  command.add_flag("--no-bias-correction", flags.no_bias_correction,
                   "do not correct biases for the rounding of weights");
  command.add_option("--keep-float", o.quantize.keep_float,
                     "nodes or modules that stay float, on the host (a pattern with * and ?)");
  command
      .add_option("--quantize-config", flags.quantize_config,
                  "a TOML file that sets the precision per module, operator or node")
      ->type_name("FILE");
  command.add_option("--min-sqnr", o.quantize.min_sqnr,
                     "move layers to int16 until every output reaches this SQNR, in dB; fail where that cannot be");

  command.option_defaults()->group("NPU code");
  command.add_option("--system-config", o.npu.system_config, "section of vela.ini (default: the target's)");
  command.add_option("--memory-mode", o.npu.memory_mode, "section of vela.ini (default: the target's)");
  command.add_option("--optimise", flags.optimise, "what the NPU's code is optimised for")
      ->type_name("Performance|Size")
      ->capture_default_str();
  command.add_flag("--plain-stream", o.plain_stream,
                   "the NPU's program as Vela makes it: no weights kept in SRAM, fetched ahead or written by the NPU");
  command
      .add_option("--arena-cache-size", o.npu.arena_cache_size,
                  "bytes of SRAM for staging (default: the memory mode's)")
      ->transform(as_bytes())
      ->type_name("SIZE");

  command.option_defaults()->group("This run");
  command
      .add_option(
          "--max-memory", o.npu.memory_limit,
          "most bytes that the compile may take, and regor once more (16GiB is a number; default: three quarters "
          "of the machine's memory)")
      ->transform(as_bytes())
      ->type_name("SIZE");
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

// --config: the settings first, which may name a vela.ini too.
Result<void> read_configs(ModelFlags& flags) {
  CompileOptions& o = flags.options;
  for (const std::string& path : flags.configs) {
    if (path.ends_with(".toml")) {
      TRY(read_settings(*flags.command, path));
      continue;
    }
    if (!o.npu.config_path.empty())
      return error("--config {}: there is one vela.ini already: {}", path, o.npu.config_path);
    TRY_ASSIGN(std::shared_ptr<const MappedFile> config, MappedFile::open(path));
    o.npu.config = std::string(text_of(config->bytes()));
    o.npu.config_path = path;
  }
  return {};
}

// --board gives what --target, --system-config and --memory-mode do not.
Result<void> apply_board(ModelFlags& flags) {
  if (flags.board.empty()) return {};
  TRY_ASSIGN(const Board* board, find_board(flags.board));
  CompileOptions& o = flags.options;
  o.board = flags.board;
  if (flags.targets.empty()) flags.targets.emplace_back(board->target);
  if (o.npu.system_config.empty()) o.npu.system_config = board->system_config;
  if (o.npu.memory_mode.empty()) o.npu.memory_mode = board->memory_mode;
  return {};
}

}  // namespace

Result<void> understand(ModelFlags& flags) {
  CompileOptions& o = flags.options;
  TRY(read_configs(flags));
  if (o.model.empty())
    return error("give the .pt2 file of a model; `swoop {} --help` lists the flags", flags.command->get_name());
  TRY(apply_board(flags));
  if (!flags.targets.empty()) o.target = flags.targets.front();
  if (o.target == kTosa) {
    if (flags.targets.size() > 1) return error("--target tosa: give it alone");
    if (!o.header.empty() || !o.firmware.empty() || !o.compare.empty())
      return error("--target tosa writes no .pte: leave out --header, --firmware and --compare");
    o.tosa = true;
    o.target = kTosaTarget;
  }
  for (const std::string& text : flags.shapes) {
    TRY_ASSIGN(auto shape, parse_shape(text));
    o.sizes.shapes.insert(std::move(shape));
  }
  set_thread_count(flags.threads);
  if (o.npu.memory_limit != 0 && o.npu.memory_limit < kLeastMemory)
    return error("--max-memory {}: give at least {} MiB", o.npu.memory_limit, kLeastMemory >> 20);
  limit_memory(o.npu.memory_limit != 0 ? o.npu.memory_limit : usable_memory());
  TRY_ASSIGN(o.npu.optimise, parse_optimise(flags.optimise));
  if (o.gates.max_sram) o.sram_with_weights = *o.gates.max_sram;
  TRY(set_precision(o.quantize, flags.precision));
  TRY_ASSIGN(o.quantize.method, parse_method(flags.method));
  o.quantize.per_channel = !flags.per_tensor;
  o.quantize.correct_bias = !flags.no_bias_correction;
  if (!flags.quantize_config.empty()) {
    TRY_ASSIGN(std::shared_ptr<const MappedFile> config, MappedFile::open(flags.quantize_config));
    TRY(read_quantize_config(text_of(config->bytes()), flags.quantize_config, o.quantize));
  }
  return {};
}

}  // namespace swoop
