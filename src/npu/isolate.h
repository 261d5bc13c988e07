// run_isolated: calls a function in a forked child and brings its bytes back, so that a crash, an endless loop or a memory blow-up
// of third-party code costs the child and not this program.
// Safe when the parent has threads: the child runs nothing but `body`, which must not take a lock that another thread of the parent
// may hold (malloc and C++ exceptions are fine with glibc), writes to no stream of the parent, and leaves by _exit.
#pragma once

#include <functional>

#include "support/bytes.h"
#include "support/result.h"

namespace swoop {

struct IsolationLimits {
  double timeout_seconds = 900;
  uint64_t memory_bytes = 0;  // on top of what the parent had at the fork; 0 = three quarters of the machine's memory
};

// The error completes a sentence about the third party: "crashed with SIGSEGV", "did not finish within 900 s", "threw: ...", "ran out
// of memory (limit 4.0 GiB)", "could not be started: ...". `body` may throw.
Result<Buffer> run_isolated(const std::function<Buffer()>& body, const IsolationLimits& limits);

}  // namespace swoop
