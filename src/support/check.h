// CHECK(condition, format, ...): our own bug, not the user's. Prints what was being done and stops with exit code 2.
#pragma once

#include <fmt/format.h>

#include <string>

namespace swoop {

// The step that is being run; named in the message of a failed CHECK. One per thread.
void set_check_context(std::string step);

[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& message);

}  // namespace swoop

#define CHECK(condition, ...)                                                          \
  do {                                                                                 \
    if (!(condition)) [[unlikely]]                                                     \
      ::swoop::check_failed(__FILE__, __LINE__, #condition, fmt::format(__VA_ARGS__)); \
  } while (false)
