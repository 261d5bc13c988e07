#include "driver/read_model.h"

#include <utility>

#include "driver/tosa_model.h"
#include "import/import.h"

namespace swoop {

Result<Graph> read_model(const std::string& path, const OpenSizes& sizes, std::vector<std::string>* warnings,
                         std::shared_ptr<const MappedFile>* opened) {
  TRY_ASSIGN(const bool is_tosa, is_tosa_file(path));
  if (is_tosa) return error("{}: a .tosa file is quantized already; `swoop compile` takes it", path);
  TRY_ASSIGN(std::shared_ptr<const MappedFile> file, MappedFile::open(path));
  bool is_text = text_of(file->bytes()).starts_with("graph \"");
  std::vector<ImportNote> notes;
  Result<Graph> graph = is_text ? parse(text_of(file->bytes())) : import_pt2(file, {.sizes = sizes}, &notes);
  if (!graph) return error("{}: {}", path, graph.error().message);
  graph->mark_origins();
  if (opened) *opened = std::move(file);
  for (const ImportNote& note : notes)
    if (warnings && note.warning)
      warnings->push_back(fmt::format("{}{}{}", note.source, note.source.empty() ? "" : ": ", note.message));
  return graph;
}

}  // namespace swoop
