#include "support/memory.h"

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <new>

namespace swoop {

namespace {

uint64_t limit_in_bytes = 0;

// Nothing here allocates: there may be nothing left.
[[noreturn]] void end_with_a_sentence() {
  try {
    if (std::current_exception()) std::rethrow_exception(std::current_exception());
  } catch (const std::bad_alloc&) {
    std::fprintf(
        stderr,
        "swoop: error: there is not enough memory: %.1f GiB may be used. Use a smaller model or input, or allow "
        "more with --max-memory.\n",
        static_cast<double>(limit_in_bytes) / (1 << 30));
    std::_Exit(1);
  } catch (const std::exception& exception) {
    std::fprintf(stderr, "swoop: internal error: %s\n  this is a bug in swoop\n", exception.what());
  } catch (...) {
    std::fprintf(stderr, "swoop: internal error: an unknown exception\n  this is a bug in swoop\n");
  }
  std::_Exit(2);
}

// The number in a file of the control group; "max", or no such file: no limit.
uint64_t group_limit(const char* path) {
  uint64_t bytes = 0;
  std::ifstream file(path);
  return file >> bytes ? bytes : ~uint64_t{0};
}

}  // namespace

uint64_t usable_memory() {
  static const uint64_t bytes = [] {
    const uint64_t machine =
        static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    const uint64_t group =
        std::min(group_limit("/sys/fs/cgroup/memory.max"), group_limit("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
    return std::min(machine, group) / 4 * 3;
  }();
  return bytes;
}

void limit_memory(uint64_t bytes) {
  limit_in_bytes = bytes;
  std::set_terminate(end_with_a_sentence);
  uint64_t pages[6] = {};  // /proc/self/statm: size, resident, shared, text, lib, data
  std::ifstream statm("/proc/self/statm");
  for (uint64_t& count : pages) statm >> count;
  if (!statm) return;
  // RLIMIT_DATA counts what is private and writable: not the model's file, which is mapped.
  const uint64_t limit = pages[5] * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) + bytes;
  rlimit wanted{};
  if (getrlimit(RLIMIT_DATA, &wanted) != 0) return;
  wanted.rlim_cur = std::min<rlim_t>(limit, wanted.rlim_max);
  setrlimit(RLIMIT_DATA, &wanted);
}

void return_freed_memory() {
#ifdef __GLIBC__
  constexpr size_t kMuch = size_t{32} << 20;
  if (mallinfo2().fordblks >= kMuch) malloc_trim(0);
#endif
}

}  // namespace swoop
