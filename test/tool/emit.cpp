#include "emit/emit.h"

#include <fmt/ranges.h>

#include "support/file.h"
#include "tool/commands.h"

namespace swoop::test_tool {
namespace {

void show_ports(std::string_view kind, const std::vector<ProgramTensor>& ports) {
  for (const ProgramTensor& port : ports) {
    fmt::print("{} {} {}{}", kind, port.name.empty() ? "-" : port.name, port.dtype, to_text(port.shape));
    if (port.arena_offset) fmt::print(" @{}", *port.arena_offset);
    if (port.scale) fmt::print(" scale {} zero_point {}", *port.scale, *port.zero_point);
    fmt::print("\n");
  }
}

Result<void> read(const std::string& path) {
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

struct EmitFlags {
  std::string graph, program;
  bool segments = false;
};

Result<void> emit_text(const EmitFlags& flags) {
  TRY_ASSIGN(auto file, MappedFile::open(flags.graph));
  TRY_ASSIGN(Graph graph, parse(text_of(file->bytes())));
  EmitOptions options;
  options.delegate_segments = flags.segments;
  TRY_ASSIGN(Buffer program, emit_pte(graph, {}, options));
  return write_file(flags.program, program);
}

}  // namespace

void add_emit(Commands& commands) {
  auto flags = std::make_shared<EmitFlags>();
  CLI::App* emit =
      commands.add("emit", "a graph in text form, with data and without regions, as a .pte", flags, emit_text);
  emit->add_option("GRAPH.ir", flags->graph)->required();
  emit->add_option("OUT.pte", flags->program)->required();
  emit->add_flag("--segments", flags->segments, "delegates in segments of the file");

  auto path = std::make_shared<std::string>();
  commands.add("read-pte", "what read_pte finds", path, read)->add_option("FILE.pte", *path)->required();
}

}  // namespace swoop::test_tool
