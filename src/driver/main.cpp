// The command line: flags in, exit code out. 0: done; 1: the input or a flag is at fault and the sentence says how; 2: our bug.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "driver/compile.h"
#include "driver/inspect.h"
#include "support/file.h"
#include "support/parallel.h"

namespace swoop {

namespace {

int fail(const Error& problem) {
  fmt::print(stderr, "swoop: error: {}\n", problem.message);
  return 1;
}

int run_compile(CompileOptions& options, const std::string& config_path, const std::string& optimise) {
  Result<Optimise> how = parse_optimise(optimise);
  if (!how) return fail(how.error());
  options.npu.optimise = *how;
  if (!config_path.empty()) {
    Result<std::shared_ptr<const MappedFile>> config = MappedFile::open(config_path);
    if (!config) return fail(config.error());
    options.npu.config = std::string(text_of((*config)->bytes()));
    options.npu.config_path = config_path;
  }
  Result<CompileResult> result = compile(options);
  if (!result) return fail(result.error());
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

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"PyTorch to Ethos-U in one fell swoop: .pt2 in, ExecuTorch .pte out.", "swoop"};
  app.set_version_flag("--version", std::string(kSwoopVersion));
  app.require_subcommand(1);

  CompileOptions options;
  std::string config_path;
  std::string optimise = "Performance";
  std::string io = "float";
  int threads = 0;
  CLI::App* compile_command = app.add_subcommand("compile", "Compile a model exported with torch.export.save");
  compile_command->add_option("model", options.model, "the .pt2 file")->required();
  compile_command->add_option("-o,--output", options.output, "the .pte file (default: beside the model)");
  compile_command->add_option("-t,--target", options.target, "ethos-u55-128, ethos-u65-256, ethos-u85-256, ...")->capture_default_str();
  compile_command->add_option("--system-config", options.npu.system_config, "section of vela.ini (default: the target's)");
  compile_command->add_option("--memory-mode", options.npu.memory_mode, "section of vela.ini (default: the target's)");
  compile_command->add_option("--config", config_path, "a vela.ini of your own");
  compile_command->add_option("--optimise", optimise, "Performance or Size")->capture_default_str();
  compile_command->add_option("--arena-cache-size", options.npu.arena_cache_size, "bytes of SRAM for staging (default: the memory mode's)");
  compile_command->add_option("--io", io, "float, or int8 to leave quantize and dequantize to the caller")->check(CLI::IsMember({"float", "int8"}))->capture_default_str();
  compile_command->add_flag("--segments", options.segments, "put NPU programs behind the flatbuffer, each aligned to 128 bytes");
  compile_command->add_option("--dump", options.dump, "folder for the graph after every step, the TOSA files and the layer tables");
  compile_command->add_option("--stop-after", options.stop_after, "print the graph after this step and stop: import, clean, types, ..., partition, lower");
  compile_command->add_option("--threads", threads, "0: one per core")->capture_default_str();
  compile_command->add_flag("--stats", options.stats, "what each step and rule did, on standard error");
  compile_command->add_flag("--json", options.json, "the summary as JSON");
  compile_command->add_flag("-q,--quiet", options.quiet, "no summary");

  std::string inspected;
  bool data = false;
  CLI::App* inspect_command = app.add_subcommand("inspect", "Show what is in a .pt2, .pte or .tosa file");
  inspect_command->add_option("file", inspected, "the file")->required();
  inspect_command->add_flag("--data", data, "the constants' bytes too");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    return app.exit(problem) == 0 ? 0 : 1;
  }
  set_thread_count(threads);
  options.integer_io = io == "int8";
  if (compile_command->parsed()) return run_compile(options, config_path, optimise);
  Result<std::string> text = inspect(inspected, data);
  if (!text) return fail(text.error());
  fmt::print("{}", *text);
  return 0;
}

}  // namespace swoop

int main(int argc, char** argv) { return swoop::main(argc, argv); }
