// How much memory a file may make us allocate.
#pragma once

#include <cstdint>
#include <string_view>

#include "import/refuse.h"

namespace swoop {

struct Budget {
  uint64_t left = 0;

  void take(uint64_t bytes, std::string_view what) {
    if (bytes > left)
      malformed("`{}` would take {} bytes of memory, more than the limit leaves ({} bytes).", what, bytes, left);
    left -= bytes;
  }
};

}  // namespace swoop
