// Runs a .pte for the Python tests: `runtime_tool MODEL.pte INPUTS.npz OUTPUTS.npz [DUMP]` does what `swoop run` does
// and prints the memory it took as JSON; `runtime_tool --ports MODEL.pte` prints inputs and outputs.
#include <fmt/ranges.h>

#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "run/runtime.h"
#include "support/file.h"
#include "support/json.h"

namespace swoop {
namespace {

Result<void> show_ports(const char* path) {
  TRY_ASSIGN(auto file, MappedFile::open(path));
  TRY_ASSIGN(auto runner, load_program(file->bytes()));
  for (const RunTensor& port : runner->inputs())
    fmt::print("input {} {} [{}]\n", port.name, port.dtype, fmt::join(port.shape, ","));
  for (const RunTensor& port : runner->outputs())
    fmt::print("output {} {} [{}]\n", port.name, port.dtype, fmt::join(port.shape, ","));
  return {};
}

Result<void> run(char** argv, const char* dump) {
  TRY_ASSIGN(auto program, MappedFile::open(argv[1]));
  TRY_ASSIGN(auto inputs, MappedFile::open(argv[2]));
  NpzRunOptions options;
  if (dump) options.dump_directory = dump;
  Buffer outputs;
  TRY_ASSIGN(NpzRunSummary summary, run_npz(program->bytes(), inputs->bytes(), outputs, options));
  TRY(write_file(argv[3], outputs));
  fmt::print("{}", to_line({{"runs", summary.runs},
                            {"milliseconds_per_run", summary.milliseconds_per_run},
                            {"planned_bytes", summary.memory.planned_bytes},
                            {"method_bytes", summary.memory.method_bytes},
                            {"temp_bytes", summary.memory.temp_bytes}}));
  return {};
}

}  // namespace
}  // namespace swoop

int main(int argc, char** argv) {
  swoop::Result<void> done =
      swoop::error("usage: runtime_tool MODEL.pte INPUTS.npz OUTPUTS.npz [DUMP] | --ports MODEL.pte");
  if (argc == 3 && std::strcmp(argv[1], "--ports") == 0) done = swoop::show_ports(argv[2]);
  if (argc == 4 || argc == 5) done = swoop::run(argv, argc == 5 ? argv[4] : nullptr);
  if (done) return 0;
  fmt::print(stderr, "{}\n", done.error().message);
  return 1;
}
