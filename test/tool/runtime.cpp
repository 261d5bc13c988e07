#include "run/runtime.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "support/file.h"
#include "support/json.h"
#include "tool/commands.h"

namespace swoop::test_tool {
namespace {

Result<void> show_program_ports(const std::string& path) {
  TRY_ASSIGN(auto file, MappedFile::open(path));
  TRY_ASSIGN(auto runner, load_program(file->bytes()));
  for (const RunTensor& port : runner->inputs())
    fmt::print("input {} {} [{}]\n", port.name, port.dtype, fmt::join(port.shape, ","));
  for (const RunTensor& port : runner->outputs())
    fmt::print("output {} {} [{}]\n", port.name, port.dtype, fmt::join(port.shape, ","));
  return {};
}

struct RuntimeFlags {
  std::string program, inputs, outputs, dump;
};

Result<void> run_program(const RuntimeFlags& flags) {
  TRY_ASSIGN(auto program, MappedFile::open(flags.program));
  TRY_ASSIGN(auto inputs, MappedFile::open(flags.inputs));
  NpzRunOptions options;
  options.dump_directory = flags.dump;
  Buffer outputs;
  TRY_ASSIGN(NpzRunSummary summary, run_npz(program->bytes(), inputs->bytes(), outputs, options));
  TRY(write_file(flags.outputs, outputs));
  fmt::print("{}", to_line({{"runs", summary.runs},
                            {"milliseconds_per_run", summary.milliseconds_per_run},
                            {"planned_bytes", summary.memory.planned_bytes},
                            {"method_bytes", summary.memory.method_bytes},
                            {"temp_bytes", summary.memory.temp_bytes}}));
  return {};
}

}  // namespace

void add_runtime(Commands& commands) {
  auto flags = std::make_shared<RuntimeFlags>();
  CLI::App* run =
      commands.add("run-pte", "what `swoop run` does; prints the memory it took as JSON", flags, run_program);
  run->add_option("MODEL.pte", flags->program)->required();
  run->add_option("INPUTS.npz", flags->inputs)->required();
  run->add_option("OUTPUTS.npz", flags->outputs)->required();
  run->add_option("DUMP", flags->dump, "folder for what crosses each region's border");
  auto path = std::make_shared<std::string>();
  commands.add("ports", "inputs and outputs of a program", path, show_program_ports)
      ->add_option("MODEL.pte", *path)
      ->required();
}

}  // namespace swoop::test_tool
