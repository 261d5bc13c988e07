// Files: mapped for reading, written whole or not at all.
#pragma once

#include <memory>
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

 private:
  explicit MappedFile(Bytes bytes) : bytes_(bytes) {}
  Bytes bytes_;
};

// Writes to a temporary name beside `path`, syncs and renames, so that a reader never sees half a file.
Result<void> write_file(const std::string& path, Bytes bytes);
Result<void> write_file(const std::string& path, std::string_view text);

// mkdir -p
Result<void> make_directory(const std::string& path);

}  // namespace swoop
