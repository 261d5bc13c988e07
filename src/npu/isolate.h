// run_isolated: calls a function in a child process and brings its bytes back, so that a crash, an endless loop or a
// memory blow-up of third-party code costs the child and not this program.
// The child is forked from this process or, after start_isolation_server(), from a small process that was forked early:
// a fork costs 1 ms per 30 MB in use here, and the early one has no threads whose locks the child could inherit.
// Invariant: the child runs nothing but `body`, writes to no stream of the parent, and leaves by _exit.
#pragma once

#include <cstdint>

#include "support/bytes.h"
#include "support/result.h"

namespace swoop {

struct IsolationLimits {
  double timeout_seconds = 900;
  uint64_t memory_bytes = 0;  // on top of what the child starts with; 0 = usable_memory()
};

// A plain function, because the server cannot receive captured variables. It may throw. Without a server it must not
// take a lock that another thread of this process may hold (malloc and C++ exceptions are fine with glibc).
using IsolatedBody = Buffer (*)(Bytes head, Bytes tail);

// The error completes a sentence about the third party: "crashed with SIGSEGV", "did not finish within 900 s", "threw:
// ...", "ran out of memory (limit 4.0 GiB)", "could not be started: ...".
Result<Buffer> run_isolated(IsolatedBody body, Bytes head, Bytes tail, const IsolationLimits& limits);

// Optional; call it early, before threads and large memory. Does nothing the second time.
void start_isolation_server();
void stop_isolation_server();

// ---- for isolate.cpp and isolation_server.cpp ----

// Two views that a child is started with, and the file in which it leaves its result.
struct IsolatedCall {
  IsolatedBody body;
  IsolationLimits limits;
};

// In the child: limits, body, result. Never returns.
[[noreturn]] void isolated_child(const IsolatedCall& call, Bytes head, Bytes tail, int result_fd);

// A child of this process that the server has forked, or -1 when there is no server to ask.
int fork_from_server(const IsolatedCall& call, Bytes head, Bytes tail, int result_fd);

}  // namespace swoop
