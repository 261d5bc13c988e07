// How this room gives up. Some 300 small builders read arguments that a file may have wrong; threading a Result through
// each of their lines would bury them. So inside the room they throw Malformed or Unsupported, importer.cpp catches
// both around each node, and the room's door returns Result like every other.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

namespace swoop {

// The file is broken, or asks for what no version of this program can give: becomes the user's error.
struct Malformed {
  std::string message;
};

// Valid PyTorch that the core operators do not express: the node stays opaque.
struct Unsupported {
  std::string reason;
};

// No refusal: a buffer that was taken for a constant is written to later. The import starts anew and knows it as state.
struct BecomesState {
  std::string name;
};

template <typename... Args>
[[noreturn]] void malformed(fmt::format_string<Args...> format, Args&&... args) {
  throw Malformed{fmt::format(format, std::forward<Args>(args)...)};
}

template <typename... Args>
[[noreturn]] void unsupported(fmt::format_string<Args...> format, Args&&... args) {
  throw Unsupported{fmt::format(format, std::forward<Args>(args)...)};
}

}  // namespace swoop
