// Zip archives over bytes in memory, usually a mapped file. Stored entries are used in place; deflated ones are
// inflated within a budget, so that a zip bomb costs a sentence and not the machine. Every offset and size of the file
// is checked before it is used.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "support/bytes.h"
#include "support/result.h"

namespace swoop {

struct ZipEntry {
  std::string_view name;  // inside the archive's bytes
  uint64_t size = 0;      // inflated
  uint64_t packed_size = 0;
  uint64_t header_offset = 0;
  uint32_t crc = 0;
  uint16_t method = 0;  // 0: stored, 8: deflated
  bool encrypted = false;
};

struct ZipLimits {
  uint64_t inflate_budget = uint64_t{1} << 30;  // bytes that all inflated entries of one archive may take together
  bool check_crc = true;                        // off only in the fuzzer, which could not get past it
};

class ZipArchive {
 public:
  static Result<ZipArchive> open(Bytes file, ZipLimits limits = {});

  const std::vector<ZipEntry>& entries() const { return entries_; }
  const ZipEntry* find(std::string_view name) const;

  // The entry's contents: in the archive's own bytes when stored, else inflated into `storage`.
  Result<Bytes> read(const ZipEntry& entry, Buffer& storage);

 private:
  Bytes file_;
  ZipLimits limits_;
  std::vector<ZipEntry> entries_;
  std::unordered_map<std::string_view, size_t> by_name_;
};

// Makes an archive of stored entries in memory; each entry's data starts at a multiple of 64 bytes, as PyTorch writes
// them.
class ZipWriter {
 public:
  Result<void> add(std::string_view name, Bytes data);
  Result<Buffer> finish();

 private:
  Buffer bytes_;
  Buffer directory_;
  uint64_t count_ = 0;
};

}  // namespace swoop
