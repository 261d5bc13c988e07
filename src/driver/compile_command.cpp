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
  const std::string others[] = {flags.quantize_config, options.model,  options.samples,
                                options.test,          options.output, options.npu.config_path};
  if (Result<void> free = check_output(options.report, others); !free) return fail(free.error());
  Result<CompileResult> result = compile(options);
  if (!result) return fail(result.error());
  if (!options.report.empty() && result->stopped.empty())
    if (Result<void> written = write_file(options.report, to_html(result->summary)); !written)
      return fail(written.error());
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

// "int8", "uint8,float"; "nhwc", "x=nhwc"
Result<void> parse_ports(const std::string& io, const std::vector<std::string>& layouts, PortOptions& ports) {
  auto numbers = [&](std::string_view word) -> Result<PortNumbers> {
    if (word == "float") return PortNumbers::Float;
    if (word == "int8") return PortNumbers::Codes;
    if (word == "uint8") return PortNumbers::Bytes;
    return error("--io {}: write float, int8 or uint8, or two of them for inputs and outputs: int8,float", io);
  };
  const size_t comma = io.find(',');
  TRY_ASSIGN(ports.inputs, numbers(std::string_view(io).substr(0, comma)));
  TRY_ASSIGN(ports.outputs, numbers(comma == std::string::npos ? io : std::string_view(io).substr(comma + 1)));
  for (const std::string& layout : layouts) {
    constexpr std::string_view kLast = "nhwc", kFirst = "nchw";
    const size_t equals = layout.find('=');
    const bool named = equals != std::string::npos;
    std::string_view word = std::string_view(layout).substr(named ? equals + 1 : 0);
    if (word != kLast && word != kFirst)
      return error("--io-layout {}: write nhwc for all images, or NAME=nhwc for one", layout);
    if (word == kLast)
      ports.channels_last.push_back(named ? layout.substr(0, equals) : std::string(PortOptions::kImages));
  }
  return {};
}

}  // namespace

Command compile_command(CLI::App& app) {
  auto flags = std::make_shared<ModelFlags>();
  auto io = std::make_shared<std::string>("float");
  auto layouts = std::make_shared<std::vector<std::string>>();
  auto no_verify = std::make_shared<bool>(false);
  CompileOptions& o = flags->options;
  CLI::App* command = app.add_subcommand("compile", "Compile a model exported with torch.export.save");
  add_model_flags(*command, *flags);
  command->add_option("-o,--output", o.output, "the .pte file (default: beside the model)");
  command
      ->add_option(
          "--io", *io,
          "float; int8 or uint8: the caller quantizes inputs and dequantizes outputs; two words for inputs and "
          "outputs: int8,float")
      ->capture_default_str();
  command->add_option(
      "--io-layout", *layouts,
      "nhwc: images come and go channels last, as a camera has them; x=nhwc for one input, out0=nhwc for "
      "one output");
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
  command->add_option("--report", o.report, "write what is known about the build as one .html file");
  command->add_option("--dump", o.dump, "folder for the graph after every step, the TOSA files and the layer tables");
  command->add_option("--stop-after", o.stop_after,
                      "print the graph after this step and stop: import, clean, types, ..., partition, lower");
  command->add_flag("--stats", o.stats, "print what each step and rule did, on standard error");
  command->add_flag("--json", o.json, "print the summary as JSON");
  command->add_flag("-q,--quiet", o.quiet, "print no summary");
  return {command, [flags, io, layouts, no_verify] {
            if (Result<void> known = parse_ports(*io, *layouts, flags->options.ports); !known)
              return fail(known.error());
            flags->options.verify = !*no_verify;
            return run(*flags);
          }};
}

}  // namespace swoop
