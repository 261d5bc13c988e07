// swoop run: a finished .pte on the host, on the stock runtime with the NPU in software.
#include <fmt/ranges.h>

#include <cstdio>
#include <optional>

#include "driver/commands.h"
#include "driver/trace.h"
#include "report/report.h"
#include "run/runtime.h"
#include "support/file.h"
#include "support/npz.h"

namespace swoop {

namespace {

struct RunFlags {
  std::string model;
  std::string inputs;
  std::string output;
  std::string dump;
  bool trace = false;
  bool layers = false;
  bool json = false;
  int threads = 0;
};

std::string to_json(const RunFlags& flags, const NpzRunSummary& s) {
  return fmt::format(
      "{{\"schema\": 1, \"swoop\": {}, \"model\": {}, \"runs\": {}, \"milliseconds_per_run\": {}, "
      "\"memory\": {{\"planned_bytes\": {}, \"method_bytes\": {}, \"temp_bytes\": {}}}}}\n",
      json_string(kSwoopVersion), json_string(flags.model), s.runs, s.milliseconds_per_run, s.memory.planned_bytes, s.memory.method_bytes,
      s.memory.temp_bytes);
}

std::string to_text(const RunFlags& flags, const NpzRunSummary& s, const std::vector<NamedArray>& outputs) {
  std::string text = fmt::format("{}: {} run{}, {:.2f} ms each\n", flags.model, s.runs, s.runs == 1 ? "" : "s", s.milliseconds_per_run);
  text += fmt::format("memory: planned {} B, method {} B (on this machine), temp {} B\n", s.memory.planned_bytes, s.memory.method_bytes,
                      s.memory.temp_bytes);
  for (const NamedArray& output : outputs)
    text += fmt::format("{} {}[{}]\n", output.name, output.array.dtype, fmt::join(output.array.shape, ","));
  text += flags.output.empty() ? "not written: give -o FILE.npz to keep the outputs\n" : fmt::format("written to {}\n", flags.output);
  return text;
}

// What a .pte alone cannot tell, and who can.
constexpr std::string_view kLayersHint =
    "A .pte carries neither float values nor source lines: `swoop accuracy MODEL.pt2 --calibrate SAMPLES` compares each layer with its float "
    "value, `swoop compile --json` names the layers with their source lines.\n";

// The runtime quotes what it finds in a file; a terminal must not meet control characters.
std::string printable(std::string_view text) {
  std::string result;
  for (char c : text) {
    if (c >= ' ' && c <= '~')
      result += c;
    else
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return result;
}

Result<void> run(const RunFlags& flags) {
  TRY_ASSIGN(std::shared_ptr<const MappedFile> program, MappedFile::open(flags.model));
  TRY_ASSIGN(std::shared_ptr<const MappedFile> inputs, MappedFile::open(flags.inputs));
  if (Result<ZipArchive> archive = ZipArchive::open(inputs->bytes()); !archive)
    return error("{}: not an .npz file: {}", flags.inputs, archive.error().message);
  std::optional<Tracer> tracer;
  if (flags.trace || flags.layers) {
    Result<Tracer> made = Tracer::of_program(program->bytes(), flags.trace);
    if (!made) return error("{}: {}", flags.model, made.error().message);
    tracer = std::move(*made);
  }
  NpzRunOptions options;
  options.runtime.threads = flags.threads;
  options.runtime.npu.observer = tracer ? &*tracer : nullptr;
  options.dump_directory = flags.dump;
  Buffer outputs;
  Result<NpzRunSummary> summary = run_npz(program->bytes(), inputs->bytes(), outputs, options);
  if (tracer) fmt::print("{}", tracer->regions() > 0 ? tracer->text() : "no region runs on the NPU: there is nothing to trace\n");
  if (!summary) return error("{}: {}", flags.model, printable(summary.error().message));
  if (flags.layers && !flags.json) fmt::print("{}", kLayersHint);
  if (!flags.output.empty()) TRY(write_file(flags.output, outputs));
  TRY_ASSIGN(std::vector<NamedArray> arrays, read_npz(outputs));
  fmt::print("{}", flags.json ? to_json(flags, *summary) : to_text(flags, *summary, arrays));
  return {};
}

}  // namespace

Command run_command(CLI::App& app) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App* command = app.add_subcommand("run", "Run a .pte on this machine, NPU included, bit for bit");
  command->add_option("model", flags->model, "the .pte file, of this compiler or of ExecuTorch's own")->required();
  command->add_option("-i,--inputs", flags->inputs, "an .npz with an array per input; one more axis in front means that many runs")->required();
  command->add_option("-o,--output", flags->output, "the .npz for the outputs (out0, out1, ...)");
  command->add_option("--dump", flags->dump, "folder for what crosses each region's border in the last run (region0_in0.npy, ...)");
  command->add_flag("--trace", flags->trace, "every NPU command, and what each operation does");
  command->add_flag("--layers", flags->layers, "what each NPU operation does, without the register commands");
  command->add_option("--threads", flags->threads, "0: one per core")->check(CLI::NonNegativeNumber)->capture_default_str();
  command->add_flag("--json", flags->json, "the summary as JSON");
  return {command, [flags] {
            Result<void> done = run(*flags);
            return done ? 0 : fail(done.error());
          }};
}

}  // namespace swoop
