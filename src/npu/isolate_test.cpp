#include "npu/isolate.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <thread>

#include "support/sanitized.h"

namespace swoop {
namespace {

Buffer join(Bytes head, Bytes tail) {
  Buffer out(head.begin(), head.end());
  append(out, tail);
  return out;
}
Buffer crash(Bytes, Bytes) {
  raise(SIGSEGV);
  return {};
}
Buffer abort_loudly(Bytes, Bytes) { abort(); }
Buffer throw_error(Bytes, Bytes) { throw std::runtime_error("no such operator"); }
Buffer throw_number(Bytes, Bytes) { throw 7; }
Buffer sleep_long(Bytes, Bytes) {
  sleep(100);
  return {};
}
Buffer take_memory(Bytes, Bytes) { return Buffer(size_t{200} << 20); }
Buffer leave(Bytes, Bytes) { _exit(0); }
Buffer recurse(Bytes head, Bytes tail) {
  volatile char room[4096] = {};
  if (head.size() + static_cast<size_t>(room[0]) > 100) return {};
  Buffer out = recurse(head, tail);
  out.push_back(std::byte{static_cast<unsigned char>(room[1])});
  return out;
}

std::string text(const Result<Buffer>& result) {
  return result ? std::string(text_of(*result)) : "error: " + result.error().message;
}

// Every case both ways: forked from this process, and from the server.
class Isolate : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam()) {
      start_isolation_server();
    } else {
      stop_isolation_server();
    }
  }
  static Result<Buffer> run(IsolatedBody body, const IsolationLimits& limits = {}) {
    return run_isolated(body, bytes_of("head"), bytes_of("tail"), limits);
  }
};
INSTANTIATE_TEST_SUITE_P(, Isolate, testing::Values(false, true),
                         [](const auto& way) { return way.param ? "server" : "direct"; });

TEST_P(Isolate, brings_the_bytes_back) {
  EXPECT_EQ(text(run(join)), "headtail");
  EXPECT_EQ(text(run_isolated(join, {}, {}, {})), "");
  const Buffer large(10 << 20, std::byte{42});
  const auto result = run_isolated(join, large, large, {});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->size(), 2 * large.size());
}

TEST_P(Isolate, names_what_went_wrong) {
  EXPECT_EQ(text(run(crash)), "error: crashed with SIGSEGV");
  EXPECT_EQ(text(run(abort_loudly)), "error: crashed with SIGABRT");
  EXPECT_EQ(text(run(recurse)), "error: crashed with SIGSEGV");
  EXPECT_EQ(text(run(throw_error)), "error: threw: no such operator");
  EXPECT_EQ(text(run(throw_number)), "error: threw: an unknown exception");
  EXPECT_EQ(text(run(leave)), "error: ended without a result");
}

TEST_P(Isolate, stops_what_takes_too_long) {
  EXPECT_EQ(text(run(sleep_long, {.timeout_seconds = 0.05})), "error: did not finish within 0.05 s");
}

TEST_P(Isolate, stops_what_takes_too_much_memory) {
#if SWOOP_SANITIZED
  GTEST_SKIP() << "AddressSanitizer ends the process where new would throw";
#endif
  EXPECT_EQ(text(run(take_memory, {.memory_bytes = 100 << 20})), "error: ran out of memory (limit 0.1 GiB)");
  EXPECT_TRUE(run(take_memory, {.memory_bytes = size_t{1} << 30}));
}

TEST_P(Isolate, leaves_no_children_behind) {
  for (int i = 0; i < 5; ++i) run(i % 2 ? join : crash).has_value();
  // The server itself, if any, is alive: nothing has ended that was not collected.
  EXPECT_LE(waitpid(-1, nullptr, WNOHANG), 0);
}

TEST_P(Isolate, works_from_many_threads) {
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const std::string head = "thread " + std::to_string(t);
      for (int i = 0; i < 20; ++i) {
        if (text(run_isolated(join, bytes_of(head), bytes_of("!"), {})) != head + "!") ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_P(Isolate, works_in_a_fork_of_this_process) {
  const pid_t child = fork();
  if (child == 0) _exit(text(run(join)) == "headtail" ? 0 : 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace swoop
