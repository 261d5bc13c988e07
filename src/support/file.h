// Files: mapped for reading, written whole or not at all.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "support/bytes.h"
#include "support/result.h"

namespace swoop {

// A read-only mapping; unmapped with the last shared owner. Values of a graph may point into it.
class MappedFile {
 public:
  static Result<std::shared_ptr<const MappedFile>> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  Bytes bytes() const { return bytes_; }
  // Its pages leave this process's memory; those that are read again come back from the file.
  void release_pages() const;

 private:
  explicit MappedFile(Bytes bytes) : bytes_(bytes) {}
  Bytes bytes_;
};

// Writes to a temporary name beside `path` and renames, so that a reader never sees half a file. A link is followed:
// the file that it points to is replaced. A file that is replaced keeps its mode. Devices, pipes and folders are
// refused.
Result<void> write_file(const std::string& path, Bytes bytes);
Result<void> write_file(const std::string& path, std::string_view text);

// An error where `output` is the same file as one of `inputs` (by another name or a link, too), or something that
// write_file refuses: said before the work, not after it. Empty names are passed over.
Result<void> check_output(const std::string& output, std::span<const std::string> inputs);

// mkdir -p
Result<void> make_directory(const std::string& path);

}  // namespace swoop
