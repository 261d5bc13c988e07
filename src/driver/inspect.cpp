#include <fmt/ranges.h>

#include <cstdio>

#include "driver/commands.h"
#include "driver/json.h"
#include "emit/emit.h"
#include "import/import.h"
#include "stream/stream.h"
#include "support/file.h"
#include "tosa/tosa.h"

namespace swoop {

namespace {

std::string tensor_text(const ProgramTensor& tensor) {
  std::string text = fmt::format("{} {}{}", tensor.name, tensor.dtype, to_text(tensor.shape));
  if (tensor.scale) text += fmt::format(" scale {} zero point {}", *tensor.scale, tensor.zero_point.value_or(0));
  return text;
}

// The map of layers is not text.
std::string map_text(std::string_view bytes) {
  Result<LayerMap> map = unpack_layers(bytes);
  if (!map) return fmt::format("{} bytes: {}", bytes.size(), map.error().message);
  return fmt::format("{} bytes: {} layers, {} operations", bytes.size(), map->layers.size(), map->operations.size());
}

std::string delegate_text(const ProgramDelegate& delegate) {
  std::string text = fmt::format("  delegate {} {} bytes\n", delegate.id, delegate.blob.size());
  for (const auto& [key, value] : delegate.compile_specs)
    text += fmt::format("    {} = {}\n", key, key == kLayersKey ? map_text(value) : value);
  Result<NpuProgram> program = unpack(delegate.blob);
  if (!program) return text + fmt::format("    not an Ethos-U program: {}\n", program.error().message);
  text += fmt::format("    commands {} bytes, weights {} bytes, scratch {} bytes\n", program->commands.size(),
                      program->weights.size(), program->scratch_size);
  auto tensors = [&](std::string_view what, const std::vector<NpuTensor>& list) {
    for (const NpuTensor& tensor : list)
      text += fmt::format("    {} [{}] x {} bytes at {} of region {}\n", what, fmt::join(tensor.shape, ","),
                          tensor.elem_size, tensor.offset, tensor.region);
  };
  tensors("input", program->inputs);
  tensors("output", program->outputs);
  return text;
}

std::string program_text(const ProgramInfo& info) {
  std::string text = fmt::format("ExecuTorch program, {} bytes: flatbuffer {}, constants {}, delegates {}\n",
                                 info.file_bytes, info.program_bytes, info.constant_bytes, info.delegate_bytes);
  for (const ProgramMethod& method : info.methods) {
    text += fmt::format("method {}: planned {} bytes, method about {} bytes, temp {} bytes\n", method.name,
                        method.planned_bytes, method.method_bytes, method.temp_bytes);
    for (const ProgramTensor& tensor : method.inputs) text += "  input " + tensor_text(tensor) + "\n";
    for (const ProgramTensor& tensor : method.outputs) text += "  output " + tensor_text(tensor) + "\n";
    for (const ProgramTensor& tensor : method.states) text += "  state " + tensor_text(tensor) + "\n";
    for (const std::string& op : method.operators) text += "  kernel " + op + "\n";
    for (const ProgramDelegate& delegate : method.delegates) text += delegate_text(delegate);
    for (size_t i = 0; i < method.instructions.size(); ++i)
      text += fmt::format("  {:4} {}\n", i, method.instructions[i]);
  }
  return text;
}

Result<std::string> inspect(const std::string& path, bool data, bool json) {
  TRY_ASSIGN(std::shared_ptr<const MappedFile> file, MappedFile::open(path));
  Bytes bytes = file->bytes();
  auto has = [&](size_t at, std::string_view magic) {
    return contains(bytes, at, magic.size()) && text_of(bytes.subspan(at, magic.size())) == magic;
  };
  if (has(0, "PK")) {
    Result<Graph> graph = import_pt2(file);
    if (!graph) return error("{}: {}", path, graph.error().message);
    return json ? to_json(path, *graph) : print(*graph, {data, true});
  }
  if (has(4, "ET12")) {
    TRY_ASSIGN(ProgramInfo info, read_pte(bytes));
    return json ? to_json(path, info) : program_text(info);
  }
  if (has(4, "TOSA")) {
    TRY_ASSIGN(tosa::Program program, tosa::read(bytes));
    return json ? to_json(path, program) : tosa::text(program);
  }
  return error("{}: neither a .pt2 (zip), nor a .pte (ET12), nor a .tosa file", path);
}

}  // namespace

Command inspect_command(CLI::App& app) {
  struct Flags {
    std::string path;
    bool data = false;
    bool json = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("inspect", "Show what is in a .pt2, .pte or .tosa file");
  command->add_option("file", flags->path, "the .pt2, .pte or .tosa file")->required()->type_name("FILE");
  command->add_flag("--data", flags->data,
                    "for a .pt2: print the constants' bytes too, so that the text can be compiled");
  command->add_flag("--json", flags->json, "print JSON");
  return {command, [flags] {
            Result<std::string> text = inspect(flags->path, flags->data, flags->json);
            if (!text) return fail(text.error());
            fmt::print("{}", *text);
            return 0;
          }};
}

}  // namespace swoop
