#include "npu/isolate.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <new>
#include <stdexcept>

#include "support/memory.h"

namespace swoop {
namespace {

// What the child leaves in the shared file: this byte, then the bytes or the text. Written last, so a crash on the way
// leaves Nothing.
enum class Outcome : uint8_t { Nothing = 0, Bytes = 1, Exception = 2, OutOfMemory = 3 };
constexpr off_t kPayloadOffset = 8;

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

bool write_all(int fd, const void* data, size_t size, off_t offset) {
  const auto* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = pwrite(fd, at, size, offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    at += written;
    offset += written;
    size -= static_cast<size_t>(written);
  }
  return true;
}

uint64_t page_size() { return static_cast<uint64_t>(sysconf(_SC_PAGESIZE)); }

uint64_t memory_limit(const IsolationLimits& limits) {
  return limits.memory_bytes != 0 ? limits.memory_bytes : usable_memory();
}

// RLIMIT_AS counts everything mapped, and the parent may have mapped terabytes (AddressSanitizer, PyTorch): the limit
// goes on top.
void limit_address_space(uint64_t bytes) {
  char text[64] = {};
  const int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  const ssize_t size = read(fd, text, sizeof(text) - 1);
  close(fd);
  if (size <= 0) return;
  const uint64_t limit = strtoull(text, nullptr, 10) * page_size() + bytes;
  const rlimit wanted{limit, limit};
  setrlimit(RLIMIT_AS, &wanted);
}

// The child must die quietly and first: no signal handlers of the parent, no core file, no words on its terminal,
// chosen before the parent when the machine runs out of memory, and gone when the parent is.
void become_child(const IsolationLimits& limits) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM, SIGPIPE}) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  if (const int null = open("/dev/null", O_RDWR | O_CLOEXEC); null >= 0) {
    for (int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, stream);
    close(null);
  }
  if (const int score = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC); score >= 0) {
    if (write(score, "1000", 4) < 0) errno = 0;  // an older kernel: then the machine chooses
    close(score);
  }
  limit_address_space(memory_limit(limits));
}

// True when the child is over; false when the time is.
bool wait_until(int pidfd, double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::duration<double>(std::min(seconds, 1e9));
  for (;;) {
    const double left = std::chrono::duration<double, std::milli>(deadline - Clock::now()).count();
    pollfd event{pidfd, POLLIN, 0};
    const int ready = poll(&event, 1, static_cast<int>(std::clamp(std::ceil(left), 0.0, 1e9)));
    if (ready > 0) return true;
    if (ready == 0 && left <= 0) return false;
  }
}

std::string signal_name(int number) {
  const char* name = sigabbrev_np(number);
  return name ? fmt::format("SIG{}", name) : fmt::format("signal {}", number);
}

Result<Buffer> read_outcome(int fd, const IsolationLimits& limits) {
  struct stat info {};
  if (fstat(fd, &info) != 0 || info.st_size < static_cast<off_t>(kPayloadOffset))
    return error("ended without a result");
  Buffer content(static_cast<size_t>(info.st_size));
  for (size_t done = 0; done < content.size();) {
    const ssize_t size = pread(fd, content.data() + done, content.size() - done, static_cast<off_t>(done));
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return error("left a result that cannot be read: {}", std::strerror(errno));
    done += static_cast<size_t>(size);
  }
  const auto outcome = static_cast<Outcome>(content[0]);
  content.erase(content.begin(), content.begin() + kPayloadOffset);
  switch (outcome) {
    case Outcome::Bytes: return content;
    case Outcome::Exception: return error("threw: {}", text_of(content));
    case Outcome::OutOfMemory:
      return error("ran out of memory (limit {:.1f} GiB)", static_cast<double>(memory_limit(limits)) / (1 << 30));
    case Outcome::Nothing: break;
  }
  return error("ended without a result");
}

}  // namespace

[[noreturn]] void isolated_child(const IsolatedCall& call, Bytes head, Bytes tail, int result_fd) {
  become_child(call.limits);
  Outcome outcome = Outcome::Nothing;
  const auto leave = [&](Outcome what, const void* data, size_t size) {
    if (write_all(result_fd, data, size, kPayloadOffset)) outcome = what;
  };
  try {
    const Buffer result = call.body(head, tail);
    leave(Outcome::Bytes, result.data(), result.size());
  } catch (const std::bad_alloc&) {
    leave(Outcome::OutOfMemory, "", 0);
  } catch (const std::exception& exception) {
    leave(Outcome::Exception, exception.what(), std::strlen(exception.what()));
  } catch (...) {
    leave(Outcome::Exception, "an unknown exception", 20);
  }
  write_all(result_fd, &outcome, sizeof(outcome), 0);
  _exit(0);
}

Result<Buffer> run_isolated(IsolatedBody body, Bytes head, Bytes tail, const IsolationLimits& limits) {
  const File result(memfd_create("swoop-isolated", MFD_CLOEXEC));
  if (result.fd() < 0 || ftruncate(result.fd(), kPayloadOffset) != 0) {
    return error("could not be started: no shared memory ({})", std::strerror(errno));
  }
  IsolatedCall call{body, limits};
  call.limits.memory_bytes = memory_limit(limits);  // here, where it is known already
  pid_t child = fork_from_server(call, head, tail, result.fd());
  if (child < 0) child = fork();
  if (child < 0) return error("could not be started: no process ({})", std::strerror(errno));
  if (child == 0) isolated_child(call, head, tail, result.fd());

  const File pidfd(static_cast<int>(syscall(SYS_pidfd_open, child, 0)));
  const bool finished = pidfd.fd() >= 0 && wait_until(pidfd.fd(), limits.timeout_seconds);
  if (!finished) kill(child, SIGKILL);
  int status = 0;
  pid_t waited = 0;
  do {
    waited = waitpid(child, &status, 0);
  } while (waited < 0 && errno == EINTR);
  if (pidfd.fd() < 0) return error("could not be watched: this needs Linux 5.3 or newer");
  if (!finished) return error("did not finish within {:g} s", limits.timeout_seconds);
  // Someone else in this program may have collected the child (waited < 0); then only what it left tells.
  if (waited == child && WIFSIGNALED(status)) {
    if (WTERMSIG(status) == SIGKILL) return error("was killed, most likely because the machine ran out of memory");
    return error("crashed with {}", signal_name(WTERMSIG(status)));
  }
  return read_outcome(result.fd(), limits);
}

}  // namespace swoop
