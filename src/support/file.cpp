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

void MappedFile::release_pages() const {
  if (!bytes_.empty()) madvise(const_cast<std::byte*>(bytes_.data()), bytes_.size(), MADV_DONTNEED);
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

namespace {

// Where the bytes of `path` go: the end of its links.
Result<std::filesystem::path> end_of_links(const std::string& path) {
  std::filesystem::path end = path;
  std::error_code code;
  for (int links = 0; std::filesystem::is_symlink(end, code); ++links) {
    constexpr int kMostLinks = 40;  // as the kernel: a longer chain is a loop
    if (links == kMostLinks) return error("{}: too many links", path);
    std::filesystem::path next = std::filesystem::read_symlink(end, code);
    if (code) return error("{}: cannot follow this link: {}", path, code.message());
    end = end.parent_path() / next;  // next alone where it is absolute
  }
  return end;
}

Result<void> check_replaceable(const std::string& path, const std::filesystem::path& file) {
  std::error_code code;
  std::filesystem::file_status status = std::filesystem::status(file, code);
  if (!std::filesystem::exists(status) || std::filesystem::is_regular_file(status)) return {};
  return error("{}: cannot write it: it is not a regular file", path);
}

}  // namespace

Result<void> check_output(const std::string& output, std::span<const std::string> inputs) {
  TRY_ASSIGN(std::filesystem::path file, end_of_links(output));
  TRY(check_replaceable(output, file));
  std::error_code code;
  if (file.has_parent_path() && !std::filesystem::is_directory(file.parent_path(), code))
    return error("{}: cannot write it: there is no folder {}", output, file.parent_path().string());
  for (const std::string& input : inputs) {
    if (!input.empty() && std::filesystem::equivalent(file, input, code))
      return error("{}: the output would replace {}, which this command reads; give another name", output,
                   input == output ? "the file" : input);
  }
  return {};
}

Result<void> write_file(const std::string& path, Bytes bytes) {
  TRY_ASSIGN(std::filesystem::path file, end_of_links(path));
  TRY(check_replaceable(path, file));
  std::string temporary = fmt::format("{}.{}.part", file.string(), getpid());
  int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return error("{}: cannot write it: {}", path, std::strerror(errno));
  struct stat replaced {};
  if (::stat(file.c_str(), &replaced) == 0) ::fchmod(fd, replaced.st_mode & 07777);
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
  if (::close(fd) != 0 || std::rename(temporary.c_str(), file.c_str()) != 0) {
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
