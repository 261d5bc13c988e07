#include "driver/read_model.h"

#include <algorithm>
#include <set>
#include <utility>

#include "driver/tosa_model.h"
#include "import/import.h"

namespace swoop {

namespace {

// Each once, with the first place that has it.
std::vector<std::string> warnings_of(const std::vector<ImportNote>& notes) {
  std::vector<std::string> warnings;
  for (auto note = notes.begin(); note != notes.end(); ++note) {
    const auto same = [&](const ImportNote& other) { return other.warning && other.message == note->message; };
    if (!note->warning || std::any_of(notes.begin(), note, same)) continue;
    std::set<std::string_view> others;
    for (const ImportNote& other : notes)
      if (same(other) && other.source != note->source) others.insert(other.source);
    std::string place = note->source;
    if (!others.empty()) place += fmt::format(" and {} other place{}", others.size(), others.size() == 1 ? "" : "s");
    warnings.push_back(fmt::format("{}{}{}", place, place.empty() ? "" : ": ", note->message));
  }
  return warnings;
}

}  // namespace

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
  if (warnings) *warnings = warnings_of(notes);
  return graph;
}

}  // namespace swoop
