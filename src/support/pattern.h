// Names that a person gives as the shell has them: "head.*", "conv?_1".
#pragma once

#include <fnmatch.h>

#include <string>
#include <string_view>

namespace swoop {

inline bool matches(const std::string& pattern, std::string_view text) {
  return fnmatch(pattern.c_str(), std::string(text).c_str(), 0) == 0;
}

}  // namespace swoop
