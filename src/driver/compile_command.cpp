#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "cli/cli.h"
#include "driver/commands.h"
#include "driver/compile.h"
#include "driver/figures.h"
#include "driver/flags.h"
#include "driver/overlay.h"
#include "driver/search.h"
#include "driver/tosa_model.h"
#include "support/file.h"

namespace swoop {

namespace {

// --compare: the finished program beside another one.
Result<void> compare_builds(const std::string& path, Summary& summary) {
  TRY_ASSIGN(std::shared_ptr<const MappedFile> before, MappedFile::open(path));
  TRY_ASSIGN(std::shared_ptr<const MappedFile> now, MappedFile::open(summary.output));
  TRY_ASSIGN(const ProgramFigures a, read_figures(path, before->bytes()));
  TRY_ASSIGN(const ProgramFigures b, read_figures(summary.output, now->bytes()));
  BuildComparison& comparison = summary.comparison.emplace();
  comparison.path = path;
  for (const std::vector<FigureLine>& lines : {estimate_lines(a, b), byte_lines(a, b)})
    for (const FigureLine& line : lines) comparison.lines.push_back({line.name, line.a, line.b});
  return {};
}

Result<void> write_overlay(const CompileOptions& options, const Summary& summary) {
  if (options.tosa) return write_file(options.overlay, overlay_json(summary, nullptr));
  TRY_ASSIGN(std::shared_ptr<const MappedFile> pte, MappedFile::open(summary.output));
  TRY_ASSIGN(const ProgramInfo program, read_pte(pte->bytes()));
  return write_file(options.overlay, overlay_json(summary, &program));
}

// What is made of a finished program: --report, --overlay, --header, --firmware.
Result<void> write_beside(const CompileOptions& options, Summary& summary) {
  if (!options.compare.empty()) TRY(compare_builds(options.compare, summary));
  if (!options.report.empty()) TRY(write_file(options.report, to_html(summary)));
  if (!options.overlay.empty()) TRY(write_overlay(options, summary));
  if (options.header.empty() && options.firmware.empty()) return {};
  TRY_ASSIGN(std::shared_ptr<const MappedFile> pte, MappedFile::open(summary.output));
  if (!options.header.empty()) TRY(write_file(options.header, to_header(summary, pte->bytes(), options.header)));
  if (options.firmware.empty()) return {};
  TRY(make_directory(options.firmware));
  for (const auto& [name, text] : to_firmware(summary, pte->bytes())) {
    const std::string path = options.firmware + "/" + name;
    if (name == kFirmwareHeader || !std::filesystem::exists(path))
      TRY(write_file(path, text));  // the rest may be changed
  }
  return {};
}

// A .tosa file has its numbers, shapes and ports: flags about those would have no effect.
Result<void> check_settled(const CLI::App& command, const std::string& model) {
  TRY_ASSIGN(const bool is_tosa, is_tosa_file(model));
  if (!is_tosa) return {};
  const std::string_view others[] = {"--test", "--io", "--io-layout", "--batch", "--shape"};
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    const bool settled =
        option->get_group() == kQuantizationGroup || std::ranges::find(others, name) != std::end(others);
    if (option->count() > 0 && settled && name != "--calibrate")
      return error("{}: {} is a .tosa file, which is quantized already", name, model);
  }
  return {};
}

// "out.pte" with a target's name: "out.ethos-u55-128.pte". Of a folder: "out.ethos-u55-128".
std::string with_target(const std::string& path, const std::string& target) {
  if (path.empty()) return path;
  const std::filesystem::path file(path);
  return (file.parent_path() / (file.stem().string() + "." + target + file.extension().string())).string();
}

int run_one(const CompileOptions& asked, const std::string& quantize_config, const std::string& time) {
  CompileOptions options = asked;
  const std::string reads[] = {quantize_config, options.compare};
  if (Result<void> free = check_output(options.output, reads); !free) return fail(free.error());
  const std::string others[] = {quantize_config, options.model,           options.samples, options.test,
                                options.output,  options.npu.config_path, options.compare};
  for (const std::string& written : {options.report, options.header, options.overlay})
    if (Result<void> free = check_output(written, others); !free) return fail(free.error());
  std::vector<SearchPoint> points;
  if (!time.empty()) {
    Result<double> seconds = parse_duration("--search", time);
    if (!seconds) return fail(seconds.error());
    Result<Searched> searched = search(options, *seconds);
    if (!searched) return fail(searched.error());
    options = std::move(searched->options);
    points = std::move(searched->points);
  }
  Result<CompileResult> result = compile(options);
  if (!result) return fail(result.error());
  result->summary.search = std::move(points);
  if (result->stopped.empty())
    if (Result<void> written = write_beside(options, result->summary); !written) return fail(written.error());
  if (!result->stopped.empty()) {
    fmt::print("{}", result->stopped);
  } else if (options.json) {
    fmt::print("{}", to_json(result->summary));
  } else if (!options.quiet) {
    fmt::print("{}", painted(to_text(result->summary), stdout));
  }
  if (options.stats) fmt::print(stderr, "{}", result->stats);
  return 0;
}

// With several targets, each file's name has its target's, and --json prints a line for each. The worst exit code
// counts.
int run(ModelFlags& flags, const std::string& time) {
  if (flags.targets.size() < 2) return run_one(flags.options, flags.quantize_config, time);
  int worst = 0;
  for (const std::string& target : flags.targets) {
    CompileOptions options = flags.options;
    options.target = target;
    if (options.output.empty())
      options.output = std::filesystem::path(options.model).replace_extension(".pte").string();
    for (std::string* path : {&options.output, &options.report, &options.overlay, &options.header, &options.firmware})
      *path = with_target(*path, target);
    worst = std::max(worst, run_one(options, flags.quantize_config, time));
  }
  return worst;
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
  auto time = std::make_shared<std::string>();
  CompileOptions& o = flags->options;
  CLI::App* command = app.add_subcommand("compile", "Compile a model exported with torch.export.save, or a .tosa file");
  add_model_flags(*command, *flags);

  command->option_defaults()->group("The program");
  command->add_option("-o,--output", o.output, "the .pte file (default: beside the model)")->type_name("FILE");
  command
      ->add_option(
          "--io", *io,
          "float; int8 or uint8: the caller quantizes inputs and dequantizes outputs; two words for inputs and "
          "outputs: int8,float")
      ->type_name("float|int8|uint8")
      ->capture_default_str();
  command->add_option(
      "--io-layout", *layouts,
      "nhwc: images come and go channels last, as a camera has them; x=nhwc for one input, out0=nhwc for "
      "one output");
  command->add_flag("--segments", o.segments, "put NPU programs after the flatbuffer, each aligned to 128 bytes");
  command->add_flag("--strip", o.strip, "leave out the map of layers that `swoop run --layers` and `--trace` read");
  command
      ->add_option("--header", o.header,
                   "write the program as a C header: an aligned array, what to reserve, ports, kernels")
      ->type_name("FILE");
  command
      ->add_option("--firmware", o.firmware,
                   "write a folder with that header and a C++ example that runs it, on a device or here")
      ->type_name("DIR");

  command
      ->add_option(
          "--search", *time,
          "build in many ways for this long (90s, 5m), show the best ones of cycles, bytes and SQNR, and write "
          "the one that keeps the limits best")
      ->type_name("TIME");

  command->option_defaults()->group("Limits: fail, and write no file");
  command
      ->add_option("--max-sram", o.gates.max_sram,
                   "where the NPU takes more bytes of SRAM (256KiB is a number); what is left of them holds weights "
                   "ahead of their turn")
      ->transform(as_bytes())
      ->type_name("SIZE");
  command->add_option("--max-flash", o.gates.max_flash, "where the NPU takes more bytes of flash")
      ->transform(as_bytes())
      ->type_name("SIZE");
  command->add_option("--max-cycles", o.gates.max_cycles, "where more cycles are estimated");
  command->add_option("--max-ms", o.gates.max_ms, "where one inference is estimated to take more milliseconds");
  command->add_flag("--one-region", o.gates.one_region, "where the NPU's part is not in one piece");
  command->add_flag("--no-host", o.gates.no_host, "where an operator stays on the host");
  command->add_option("--allow-flat", o.gates.allow_flat,
                      "not for these parts of outputs, which may have one value in the file though they vary in the "
                      "float model (a pattern with * and ?)");

  command->option_defaults()->group("Check and report");
  command
      ->add_option("--test", o.test,
                   "an .npz with held-out inputs, and `labels` or the outputs to expect (`out0`, ...): accuracy is "
                   "measured on them")
      ->type_name("FILE");
  command->add_flag("--no-verify", *no_verify, "do not run and check the finished file");
  command->add_option("--report", o.report, "write what is known about the build as one .html file")->type_name("FILE");
  command->add_option("--compare", o.compare, "another build's .pte: what changed is in the report and in the JSON")
      ->type_name("FILE");
  command
      ->add_option(
          "--overlay", o.overlay,
          "write the cycles of each node as Model Explorer's node data, for the .pte, or for the .tosa file of "
          "--target tosa and --dump")
      ->type_name("FILE");
  command->add_flag("--json", o.json, "print the summary as JSON");
  command->add_flag("-q,--quiet", o.quiet, "print no summary");

  command->option_defaults()->group("To see how it works");
  command->add_option("--dump", o.dump, "folder for the graph after every step, the TOSA files and the layer tables")
      ->type_name("DIR");
  command->add_option("--stop-after", o.stop_after,
                      "print the graph after this step and stop: import, clean, types, ..., partition, lower");
  command->add_flag("--stats", o.stats, "print what each step and rule did, on standard error");
  command->footer(
      "Examples:\n"
      "  swoop compile model.pt2 --calibrate samples.npz --target ethos-u55-128 -o model.pte\n"
      "  swoop compile model.pt2 -c samples.npz --board corstone-300 --test test.npz --report report.html\n"
      "  swoop compile quantized.pt2 --io int8 --no-host --max-sram 512KiB --firmware firmware");
  return {command, [flags, io, layouts, no_verify, time] {
            if (Result<void> understood = understand(*flags); !understood) return fail(understood.error());
            if (Result<void> free = check_settled(*flags->command, flags->options.model); !free)
              return fail(free.error());
            if (Result<void> known = parse_ports(*io, *layouts, flags->options.ports); !known)
              return fail(known.error());
            flags->options.verify = !*no_verify;
            return run(*flags, *time);
          }};
}

}  // namespace swoop
