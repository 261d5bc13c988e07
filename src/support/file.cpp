#include "support/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace swoop {

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return error("{}: cannot open it: {}", path, std::strerror(errno));
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    return error("{}: not a regular file", path);
  }
  auto size = static_cast<size_t>(info.st_size);
  Bytes bytes;
  if (size > 0) {
    void* address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (address == MAP_FAILED) {
      ::close(fd);
      return error("{}: cannot map it: {}", path, std::strerror(errno));
    }
    bytes = {static_cast<const std::byte*>(address), size};
  }
  ::close(fd);
  return std::shared_ptr<const MappedFile>(new MappedFile(bytes));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

Result<void> write_file(const std::string& path, Bytes bytes) {
  std::string temporary = fmt::format("{}.{}.part", path, getpid());
  int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return error("{}: cannot write it: {}", path, std::strerror(errno));
  auto fail = [&] {
    Error problem = error("{}: cannot write it: {}", path, std::strerror(errno));
    ::close(fd);
    ::unlink(temporary.c_str());
    return problem;
  };
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  while (left > 0) {
    ssize_t wrote = ::write(fd, at, left);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return fail();
    at += wrote;
    left -= static_cast<size_t>(wrote);
  }
  if (::close(fd) != 0 || std::rename(temporary.c_str(), path.c_str()) != 0) {
    Error problem = error("{}: cannot write it: {}", path, std::strerror(errno));
    ::unlink(temporary.c_str());
    return problem;
  }
  return {};
}

Result<void> write_file(const std::string& path, std::string_view text) { return write_file(path, bytes_of(text)); }

Result<void> make_directory(const std::string& path) {
  std::error_code code;
  std::filesystem::create_directories(path, code);
  if (code) return error("{}: cannot make this folder: {}", path, code.message());
  return {};
}

}  // namespace swoop
