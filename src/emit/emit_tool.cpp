// For the Python tests: `emit_tool GRAPH.ir OUT.pte [--segments]` emits a graph in text form (with data) that has no
// regions; `emit_tool --read FILE.pte` prints what read_pte finds.
#include <fmt/ranges.h>

#include <cstdio>
#include <cstring>

#include "emit/emit.h"
#include "support/file.h"

namespace swoop {
namespace {

void show_ports(std::string_view kind, const std::vector<ProgramTensor>& ports) {
  for (const ProgramTensor& port : ports) {
    fmt::print("{} {} {}{}", kind, port.name.empty() ? "-" : port.name, port.dtype, to_text(port.shape));
    if (port.arena_offset) fmt::print(" @{}", *port.arena_offset);
    if (port.scale) fmt::print(" scale {} zero_point {}", *port.scale, *port.zero_point);
    fmt::print("\n");
  }
}

Result<void> read(const char* path) {
  TRY_ASSIGN(auto file, MappedFile::open(path));
  TRY_ASSIGN(ProgramInfo info, read_pte(file->bytes()));
  fmt::print("file {} program {} constants {} initial {} delegates {}\n", info.file_bytes, info.program_bytes,
             info.constant_bytes, info.initial_bytes, info.delegate_bytes);
  for (const ProgramMethod& method : info.methods) {
    fmt::print("method {} values {} planned {} method_bytes {} temp {}\n", method.name, method.values,
               method.planned_bytes, method.method_bytes, method.temp_bytes);
    show_ports("input", method.inputs);
    show_ports("output", method.outputs);
    show_ports("state", method.states);
    for (const ProgramDelegate& delegate : method.delegates)
      fmt::print("delegate {} {} bytes at {}{}\n", delegate.id, delegate.blob.size(),
                 delegate.blob.data() - file->bytes().data(), delegate.in_segment ? " in a segment" : "");
    for (size_t i = 0; i < method.instructions.size(); ++i) fmt::print("{:4} {}\n", i, method.instructions[i]);
  }
  return {};
}

Result<void> emit_text(const char* from, const char* to, bool segments) {
  TRY_ASSIGN(auto file, MappedFile::open(from));
  TRY_ASSIGN(Graph graph, parse(text_of(file->bytes())));
  EmitOptions options;
  options.delegate_segments = segments;
  TRY_ASSIGN(Buffer program, emit_pte(graph, {}, options));
  return write_file(to, program);
}

}  // namespace
}  // namespace swoop

int main(int argc, char** argv) {
  swoop::Result<void> done = swoop::error("usage: emit_tool GRAPH.ir OUT.pte [--segments] | --read FILE.pte");
  if (argc == 3 && std::strcmp(argv[1], "--read") == 0)
    done = swoop::read(argv[2]);
  else if (argc == 3 || argc == 4)
    done = swoop::emit_text(argv[1], argv[2], argc == 4);
  if (done) return 0;
  fmt::print(stderr, "{}\n", done.error().message);
  return 1;
}
