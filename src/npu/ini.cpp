// The reader of vela.ini text. Accepts what Python's ConfigParser and regor read alike, refuses the rest.
#include <algorithm>

#include "npu/config.h"

namespace swoop {
namespace {

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

bool is_key(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  });
}

}  // namespace

Result<std::vector<IniSection>> parse_ini(std::string_view text, std::string_view path) {
  constexpr size_t kMaxSize = 1 << 16;  // Vela's own file has 8 KiB; the searches below are plain loops
  if (text.size() > kMaxSize) return error("{}: {} bytes are too many for a configuration file.", path, text.size());
  if (text.find('\0') != std::string_view::npos)
    return error("{}: this is a binary file, not a configuration file.", path);

  std::vector<IniSection> sections;
  int line_number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view raw = text.substr(begin, end - begin);
    const std::string_view line = trim(raw);
    begin = end + 1;
    ++line_number;

    if (line.empty() || line.front() == ';') continue;
    if (line.front() == '#') {
      return error("{}:{}: write comments with ';'. regor does not know '#' and would ignore the rest of the file.",
                   path, line_number);
    }
    if (raw.front() == ' ' || raw.front() == '\t') {
      return error("{}:{}: the line starts with a space, which makes it part of the line before. Remove the space.",
                   path, line_number);
    }
    if (line.front() == '[') {
      if (line.back() != ']' || line.size() < 3) return error("{}:{}: a section looks like [Name].", path, line_number);
      const std::string_view name = line.substr(1, line.size() - 2);
      if (name.find_first_of("[]") != std::string_view::npos)
        return error("{}:{}: a section looks like [Name].", path, line_number);
      for (const IniSection& other : sections) {
        if (other.name == name) {
          return error("{}:{}: the section [{}] was already given in line {}.", path, line_number, name, other.line);
        }
      }
      sections.push_back({name, line_number, {}});
      continue;
    }
    const size_t equals = line.find('=');
    const std::string_view key = trim(line.substr(0, equals));
    if (equals == std::string_view::npos || !is_key(key)) {
      return error("{}:{}: expected a section [Name], a line key=value or a comment, not '{}'.", path, line_number,
                   line.substr(0, 60));
    }
    if (sections.empty()) return error("{}:{}: '{}' stands before the first section.", path, line_number, key);
    for (const IniEntry& other : sections.back().entries) {
      if (other.key == key) {
        return error("{}:{}: '{}' was already given in line {}.", path, line_number, key, other.line);
      }
    }
    sections.back().entries.push_back({key, trim(line.substr(equals + 1)), line_number});
  }
  return sections;
}

}  // namespace swoop
