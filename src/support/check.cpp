#include "support/check.h"

#include <cstdio>
#include <cstdlib>

namespace swoop {

namespace {
thread_local std::string check_context;
}

void set_check_context(std::string step) { check_context = std::move(step); }

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  fmt::print(stderr, "swoop: internal error at {}:{}: {} [{}]\n", file, line, message, condition);
  if (!check_context.empty()) fmt::print(stderr, "  in step {}\n", check_context);
  fmt::print(stderr, "  this is a bug in swoop; run again with --dump DIR and report the last file in it\n");
  std::fflush(stderr);
  std::_Exit(2);
}

}  // namespace swoop
