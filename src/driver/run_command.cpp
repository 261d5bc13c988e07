// swoop run: a finished .pte on the host, on the stock runtime with the NPU in software.
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "driver/commands.h"
#include "driver/json.h"
#include "driver/layers.h"
#include "driver/trace.h"
#include "report/report.h"
#include "run/runtime.h"
#include "support/file.h"
#include "support/npz.h"

namespace swoop {

namespace {

struct RunFlags {
  std::string program;
  std::string inputs;
  std::string output;
  std::string dump;
  std::string model;  // of --layers
  bool trace = false;
  bool layers = false;
  bool json = false;
  int threads = 0;
};

std::string run_text(const RunFlags& flags, const NpzRunSummary& s, const std::vector<NamedArray>& outputs) {
  std::string text = fmt::format("{}: {} run{}, {:.2f} ms each\n", flags.program, s.runs, s.runs == 1 ? "" : "s",
                                 s.milliseconds_per_run);
  text += fmt::format("memory: planned {} B, method {} B (on this machine), temp {} B\n", s.memory.planned_bytes,
                      s.memory.method_bytes, s.memory.temp_bytes);
  for (const NamedArray& output : outputs)
    text += fmt::format("{} {}[{}]\n", output.name, output.array.dtype, fmt::join(output.array.shape, ","));
  text += flags.output.empty() ? "not written: give -o FILE.npz to keep the outputs\n"
                               : fmt::format("written to {}\n", flags.output);
  return text;
}

// Several observers of one run.
class Observers final : public NpuObserver {
 public:
  std::vector<NpuObserver*> all;

  bool wants_blocks() const override {
    return std::any_of(all.begin(), all.end(), [](const NpuObserver* one) { return one->wants_blocks(); });
  }
  void on_call(int delegate) override {
    for (NpuObserver* one : all) one->on_call(delegate);
  }
  void on_step(const NpuStep& step, const std::array<Bytes, kNpuRegionCount>& regions) override {
    for (NpuObserver* one : all) one->on_step(step, regions);
  }
};

Result<void> check_flags(const RunFlags& flags) {
  if (!flags.model.empty() && !flags.layers) return error("--model compares layers: add --layers");
  if (flags.json && flags.trace) return error("--trace prints text: leave out --json");
  const std::string reads[] = {flags.program, flags.inputs, flags.model};
  return check_output(flags.output, reads);
}

Result<std::optional<LayerReport>> layer_report(const RunFlags& flags, std::span<const NpuStream> streams) {
  std::optional<LayerReport> report;
  if (!flags.layers) return report;
  if (std::none_of(streams.begin(), streams.end(), [](const NpuStream& stream) { return stream.map.has_value(); }))
    return error("{}: {}", flags.program,
                 streams.empty()
                     ? "no region runs on the NPU: there are no layers to show"
                     : "the file does not name its layers: it was compiled with --strip, or by another compiler");
  report.emplace(streams);
  if (!flags.model.empty()) TRY(report->compare_with(flags.model, flags.inputs));
  return report;
}

Result<void> run(const RunFlags& flags) {
  TRY(check_flags(flags));
  TRY_ASSIGN(std::shared_ptr<const MappedFile> program, MappedFile::open(flags.program));
  TRY_ASSIGN(std::shared_ptr<const MappedFile> inputs, MappedFile::open(flags.inputs));
  if (Result<ZipArchive> archive = ZipArchive::open(inputs->bytes()); !archive)
    return error("{}: not an .npz file: {}", flags.inputs, archive.error().message);
  std::vector<NpuStream> streams;
  if (flags.trace || flags.layers) {
    Result<std::vector<NpuStream>> read = read_streams(program->bytes());
    if (!read) return error("{}: {}", flags.program, read.error().message);
    streams = std::move(*read);
  }
  TRY_ASSIGN(std::optional<LayerReport> layers, layer_report(flags, streams));
  Tracer tracer(streams);
  Observers observers;
  if (flags.trace) observers.all.push_back(&tracer);
  if (layers) observers.all.push_back(&layers->observer());
  NpzRunOptions options;
  options.runtime.threads = flags.threads;
  options.runtime.npu.observer = observers.all.empty() ? nullptr : &observers;
  options.dump_directory = flags.dump;
  if (layers)
    options.after_run = [&](int64_t index, std::span<const RunTensor> outputs) {
      return layers->after_run(index, outputs);
    };
  Buffer outputs;
  Result<NpzRunSummary> summary = run_npz(program->bytes(), inputs->bytes(), outputs, options);
  if (flags.trace)
    fmt::print("{}", streams.empty() ? "no region runs on the NPU: there is nothing to trace\n" : tracer.text());
  if (!summary) return error("{}: {}", flags.program, printable(summary.error().message));
  if (layers && !flags.dump.empty()) TRY(layers->dump(flags.dump));
  if (layers && !flags.json) fmt::print("{}", layers->to_text());
  if (!flags.output.empty()) TRY(write_file(flags.output, outputs));
  TRY_ASSIGN(std::vector<NamedArray> arrays, read_npz(outputs));
  fmt::print("{}", flags.json ? to_json(flags.program, *summary, layers ? &*layers : nullptr)
                              : run_text(flags, *summary, arrays));
  return {};
}

}  // namespace

Command run_command(CLI::App& app) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App* command = app.add_subcommand("run", "Run a .pte on this machine, NPU included, bit for bit");
  command->add_option("program", flags->program, "the .pte file, from swoop or from ExecuTorch")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("-i,--inputs", flags->inputs,
                   "an .npz with one array per input; an extra first axis holds several samples")
      ->required()
      ->type_name("FILE");
  command->add_option("-o,--output", flags->output, "the .npz for the outputs (out0, out1, ...)")->type_name("FILE");
  command
      ->add_option("--dump", flags->dump,
                   "folder for the inputs and outputs of each NPU region in the last run (region0_in0.npy, ...), and "
                   "with --layers each layer's output")
      ->type_name("DIR");
  command->add_flag("--trace", flags->trace, "print every NPU command, and each operation with its layer");
  command->add_flag("--layers", flags->layers, "show the output of every layer");
  command
      ->add_option("--model", flags->model,
                   "with --layers: the .pt2 that the program was compiled from, to compare each layer with")
      ->type_name("FILE");
  command->add_option("--threads", flags->threads, "number of threads; 0: one per core")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_flag("--json", flags->json, "print the summary as JSON, with --layers the layers too");
  return {command, [flags] {
            Result<void> done = run(*flags);
            return done ? 0 : fail(done.error());
          }};
}

}  // namespace swoop
