// The small process that forks children for run_isolated(). A call travels as one packet with two files: the bytes and
// the place for the result. The child is cloned with CLONE_PARENT, so it is a child of the asking process, which waits
// for it as for its own.
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mutex>

#include "npu/isolate.h"

namespace swoop {
namespace {

struct Packet {
  IsolatedCall call;
  uint64_t head_size;
  uint64_t tail_size;  // the tail comes first in the file, so that it starts on a page
};

constexpr int kFiles = 2;  // request, result
union FileMessage {
  cmsghdr header;
  char space[CMSG_SPACE(kFiles * sizeof(int))];
};

bool send_packet(int socket, Packet packet, int request, int result) {
  FileMessage files{};
  iovec data{&packet, sizeof(packet)};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = files.space;
  message.msg_controllen = sizeof(files.space);
  cmsghdr* control = CMSG_FIRSTHDR(&message);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(kFiles * sizeof(int));
  const int numbers[kFiles] = {request, result};
  memcpy(CMSG_DATA(control), numbers, sizeof(numbers));
  return sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof(packet));
}

bool receive_packet(int socket, Packet& packet, int (&numbers)[kFiles]) {
  FileMessage files{};
  iovec data{&packet, sizeof(packet)};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = files.space;
  message.msg_controllen = sizeof(files.space);
  ssize_t size = 0;
  do {
    size = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (size < 0 && errno == EINTR);
  const cmsghdr* control = CMSG_FIRSTHDR(&message);
  if (size != static_cast<ssize_t>(sizeof(packet)) || !control || control->cmsg_len != CMSG_LEN(sizeof(numbers)))
    return false;
  memcpy(numbers, CMSG_DATA(control), sizeof(numbers));
  return true;
}

[[noreturn]] void server_main(int socket) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_NAME, "swoop-isolate");
  signal(SIGINT, SIG_IGN);  // the parent decides what an interrupt means; its end ends this process
  Packet packet{};
  int files[kFiles];
  while (receive_packet(socket, packet, files)) {
    const auto size = packet.head_size + packet.tail_size;
    // fork() itself cannot say CLONE_PARENT. No threads here, so there is no lock that it would have to prepare.
    const auto child =
        static_cast<pid_t>(syscall(SYS_clone, CLONE_PARENT | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
    if (child == 0) {
      signal(SIGINT, SIG_DFL);
      // One byte more, which is never read, because an empty mapping is an error.
      void* bytes = mmap(nullptr, size + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE, files[0], 0);
      if (bytes == MAP_FAILED) _exit(1);
      const Bytes all(static_cast<const std::byte*>(bytes), size);
      isolated_child(packet.call, all.subspan(packet.tail_size), all.first(packet.tail_size), files[1]);
    }
    for (int file : files) close(file);
    if (send(socket, &child, sizeof(child), MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof(child))) break;
  }
  _exit(0);
}

// There is one server per process, found again by every call: the one piece of state that cannot be a constant.
struct Server {
  std::mutex mutex;
  int socket = -1;
  pid_t server = -1;
  pid_t owner = -1;  // a fork of this process inherits the socket, but children would not be its own
};

Server& server() {
  static Server instance;
  return instance;
}

bool write_bytes(int fd, Bytes bytes, uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset += static_cast<uint64_t>(written);
  }
  return true;
}

}  // namespace

void start_isolation_server() {
  Server& state = server();
  const std::lock_guard lock(state.mutex);
  if (state.owner == getpid()) return;
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return;  // then run_isolated forks by itself
  const pid_t child = fork();
  if (child == 0) {
    close(pair[0]);
    server_main(pair[1]);
  }
  close(pair[1]);
  if (child < 0) {
    close(pair[0]);
    return;
  }
  state.socket = pair[0];
  state.server = child;
  state.owner = getpid();
}

void stop_isolation_server() {
  Server& state = server();
  const std::lock_guard lock(state.mutex);
  if (state.owner != getpid()) return;
  if (state.socket >= 0) close(state.socket);  // on which the server ends
  while (waitpid(state.server, nullptr, 0) < 0 && errno == EINTR) {
  }
  state.socket = state.server = state.owner = -1;
}

int fork_from_server(const IsolatedCall& call, Bytes head, Bytes tail, int result_fd) {
  Server& state = server();
  const std::lock_guard lock(state.mutex);
  if (state.socket < 0 || state.owner != getpid()) return -1;
  const int request = memfd_create("swoop-request", MFD_CLOEXEC);
  if (request < 0) return -1;
  pid_t child = -1;
  if (write_bytes(request, tail, 0) && write_bytes(request, head, tail.size()) &&
      send_packet(state.socket, {call, head.size(), tail.size()}, request, result_fd)) {
    ssize_t size = 0;
    do {
      size = recv(state.socket, &child, sizeof(child), 0);
    } while (size < 0 && errno == EINTR);
    if (size != static_cast<ssize_t>(sizeof(child)) || child <= 0) {
      child = -1;
      close(state.socket);  // the server is gone; from here on this process forks by itself
      state.socket = -1;
    }
  }
  close(request);
  return child;
}

}  // namespace swoop
