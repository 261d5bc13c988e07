#include "import/locations.h"

#include <charconv>

#include "support/hash.h"

namespace swoop {

namespace {

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\n')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\n')) text.remove_suffix(1);
  return text;
}

struct Frame {
  std::string_view file;
  int line = 0;
  std::string_view code;
};

// PyTorch's own frames say nothing about the model. Those of packages that hold models do.
bool is_library(std::string_view file) {
  constexpr std::string_view kPyTorch[] = {"/site-packages/torch/", "/dist-packages/torch/", "/torch/nn/"};
  for (std::string_view folder : kPyTorch)
    if (file.find(folder) != std::string_view::npos) return true;
  return file.starts_with('<');
}

// One `File "net.py", line 31, in forward` with the source line below it, when it is there.
bool next_frame(std::string_view& rest, Frame& frame) {
  constexpr std::string_view kFile = "File \"";
  constexpr std::string_view kLine = "\", line ";
  size_t at = rest.find(kFile);
  if (at == std::string_view::npos) return false;
  rest.remove_prefix(at + kFile.size());
  size_t end = rest.find(kLine);
  size_t newline = rest.find('\n');
  if (end == std::string_view::npos || end > newline) return false;
  frame.file = rest.substr(0, end);
  rest.remove_prefix(end + kLine.size());
  std::from_chars(rest.data(), rest.data() + rest.size(), frame.line);
  newline = rest.find('\n');
  if (newline == std::string_view::npos) {
    frame.code = {};
    return true;
  }
  rest.remove_prefix(newline + 1);
  std::string_view below = rest.substr(0, rest.find('\n'));
  frame.code = trim(below).starts_with(kFile) ? std::string_view() : trim(below);
  return true;
}

}  // namespace

Loc read_location(std::string_view stack_trace, std::string_view module_stack) {
  Loc loc;
  Frame frame;
  Frame chosen;
  bool user = false;
  while (next_frame(stack_trace, frame)) {
    bool library = is_library(frame.file);
    if (!library || !user) chosen = frame;  // the innermost frame of the user's, or the innermost of all
    user |= !library;
  }
  loc.file = chosen.file.substr(chosen.file.rfind('/') + 1);
  loc.line = chosen.line;
  loc.code = chosen.code;

  std::string_view inner = module_stack.substr(module_stack.rfind(';') + 1);
  size_t first = inner.find(',');
  size_t last = inner.rfind(',');
  if (first == std::string_view::npos || last == first) return loc;
  std::string_view type = inner.substr(last + 1);
  // A program that was exported, unlifted and exported again is wrapped in a nameless module of PyTorch's.
  if (type.find("<locals>.Wrapper") != std::string_view::npos) return loc;
  loc.module_path = inner.substr(first + 1, last - first - 1);
  constexpr std::string_view kSelf = "L['self'].";
  if (loc.module_path.starts_with(kSelf)) loc.module_path.erase(0, kSelf.size());
  loc.module_type = type.substr(type.rfind('.') + 1);
  return loc;
}

size_t Locations::Hash::operator()(const Key& key) const {
  return hash_bytes(bytes_of(key.modules), hash_bytes(bytes_of(key.trace)));
}

LocId Locations::intern(Graph& graph, Json metadata) {
  Key key;
  for (auto [name, value] : as_object(metadata, "metadata")) {
    if (!value.is_string()) continue;
    if (name == "stack_trace") key.trace = as_text(value, name);
    if (name == "nn_module_stack") key.modules = as_text(value, name);
  }
  if (key.trace.empty() && key.modules.empty()) return kNone;
  auto [at, fresh] = known_.try_emplace(key, kNone);
  if (fresh) {
    Loc loc = read_location(key.trace, key.modules);
    if (loc != Loc{}) at->second = graph.intern(loc);
  }
  return at->second;
}

}  // namespace swoop
