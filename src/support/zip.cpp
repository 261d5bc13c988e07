#include "support/zip.h"

#include <zlib.h>

#include <algorithm>
#include <limits>

#include "support/check.h"
#include "support/deflate.h"

namespace swoop {

namespace {

// Signatures and sizes of PKWARE's APPNOTE 6.3.
constexpr uint32_t kLocalSignature = 0x04034b50;
constexpr uint32_t kCentralSignature = 0x02014b50;
constexpr uint32_t kEndSignature = 0x06054b50;
constexpr uint32_t kEnd64Signature = 0x06064b50;
constexpr uint32_t kLocator64Signature = 0x07064b50;
constexpr size_t kLocalSize = 30;
constexpr size_t kCentralSize = 46;
constexpr size_t kEndSize = 22;
constexpr size_t kEnd64Size = 56;
constexpr size_t kLocator64Size = 20;
constexpr size_t kMaxComment = 65535;
constexpr uint16_t kZip64Extra = 1;
constexpr uint32_t kInZip64 = 0xffffffff;
constexpr size_t kAlignment = 64;

struct Directory {
  uint64_t offset = 0;
  uint64_t size = 0;
  uint64_t count = 0;
};

template <typename T>
T field(Bytes bytes, size_t offset) {
  return load<T>(bytes.data() + offset);
}

// The end record is the last thing in the file, followed only by a comment of the length that it states.
Result<size_t> find_end_record(Bytes file) {
  if (file.size() < kEndSize) return error("The file is too short to be a zip archive ({} bytes).", file.size());
  size_t last = file.size() - kEndSize;
  size_t first = last > kMaxComment ? last - kMaxComment : 0;
  for (size_t at = last + 1; at-- > first;)
    if (field<uint32_t>(file, at) == kEndSignature && at + kEndSize + field<uint16_t>(file, at + 20) == file.size())
      return at;
  return error("The file is not a zip archive, or its end is missing: no end-of-archive record was found.");
}

Result<Directory> find_directory(Bytes file) {
  TRY_ASSIGN(size_t end, find_end_record(file));
  if (field<uint16_t>(file, end + 4) != 0 || field<uint16_t>(file, end + 6) != 0)
    return error("The zip archive is split over several disks, which is not supported.");
  Directory directory{field<uint32_t>(file, end + 16), field<uint32_t>(file, end + 12),
                      field<uint16_t>(file, end + 10)};
  if (end >= kLocator64Size && field<uint32_t>(file, end - kLocator64Size) == kLocator64Signature) {
    auto end64 = field<uint64_t>(file, end - kLocator64Size + 8);
    if (!contains(file, end64, kEnd64Size) || field<uint32_t>(file, end64) != kEnd64Signature)
      return error("The zip archive is damaged: its 64-bit end record is not where it should be.");
    directory = {field<uint64_t>(file, end64 + 48), field<uint64_t>(file, end64 + 40),
                 field<uint64_t>(file, end64 + 32)};
  }
  if (!contains(file, directory.offset, directory.size))
    return error("The zip archive is damaged: its directory is outside of the file.");
  if (directory.count > directory.size / kCentralSize)
    return error("The zip archive is damaged: it claims {} entries in a directory of {} bytes.", directory.count,
                 directory.size);
  return directory;
}

// Sizes and offset that do not fit 32 bits stand in the zip64 extra field, in this order, each only if its short form
// is all ones.
bool read_zip64(Bytes extra, ZipEntry& entry) {
  while (extra.size() >= 4) {
    auto id = field<uint16_t>(extra, 0);
    size_t size = field<uint16_t>(extra, 2);
    if (size > extra.size() - 4) return false;
    if (id == kZip64Extra) {
      Bytes body = extra.subspan(4, size);
      for (uint64_t* value : {&entry.size, &entry.packed_size, &entry.header_offset}) {
        if (*value != kInZip64) continue;
        if (body.size() < 8) return false;
        *value = field<uint64_t>(body, 0);
        body = body.subspan(8);
      }
      return true;
    }
    extra = extra.subspan(4 + size);
  }
  return true;
}

uint32_t crc_of(Bytes bytes) {
  return static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace

Result<ZipArchive> ZipArchive::open(Bytes file, ZipLimits limits) {
  ZipArchive archive;
  archive.file_ = file;
  archive.limits_ = limits;
  TRY_ASSIGN(Directory directory, find_directory(file));
  Bytes rest = file.subspan(directory.offset, directory.size);
  archive.entries_.reserve(directory.count);
  for (uint64_t i = 0; i < directory.count; ++i) {
    if (rest.size() < kCentralSize || field<uint32_t>(rest, 0) != kCentralSignature)
      return error("The zip archive is damaged: entry {} of its directory is broken.", i);
    size_t name_size = field<uint16_t>(rest, 28);
    size_t extra_size = field<uint16_t>(rest, 30);
    size_t whole = kCentralSize + name_size + extra_size + field<uint16_t>(rest, 32);
    if (whole > rest.size()) return error("The zip archive is damaged: entry {} of its directory is cut off.", i);
    ZipEntry entry;
    entry.name = text_of(rest.subspan(kCentralSize, name_size));
    entry.encrypted = (field<uint16_t>(rest, 8) & 1) != 0;
    entry.method = field<uint16_t>(rest, 10);
    entry.crc = field<uint32_t>(rest, 16);
    entry.packed_size = field<uint32_t>(rest, 20);
    entry.size = field<uint32_t>(rest, 24);
    entry.header_offset = field<uint32_t>(rest, 42);
    if (!read_zip64(rest.subspan(kCentralSize + name_size, extra_size), entry))
      return error("The zip archive is damaged: the extra field of entry {} is broken.", i);
    if (!archive.by_name_.try_emplace(entry.name, archive.entries_.size()).second)
      return error("The zip archive has two entries named `{}`.", entry.name);
    archive.entries_.push_back(entry);
    rest = rest.subspan(whole);
  }
  return archive;
}

const ZipEntry* ZipArchive::find(std::string_view name) const {
  auto at = by_name_.find(name);
  return at == by_name_.end() ? nullptr : &entries_[at->second];
}

Result<Bytes> ZipArchive::read(const ZipEntry& entry, Buffer& storage) {
  if (entry.encrypted) return error("The zip entry `{}` is encrypted, which is not supported.", entry.name);
  if (entry.method != 0 && entry.method != 8)
    return error("The zip entry `{}` uses compression method {}; only stored and deflated entries are supported.",
                 entry.name, entry.method);
  if (!contains(file_, entry.header_offset, kLocalSize) ||
      field<uint32_t>(file_, entry.header_offset) != kLocalSignature)
    return error("The zip archive is damaged: the entry `{}` is not where the directory says.", entry.name);
  // The local extra field may be longer than the directory's: PyTorch pads there for alignment.
  uint64_t data = entry.header_offset + kLocalSize + field<uint16_t>(file_, entry.header_offset + 26) +
                  field<uint16_t>(file_, entry.header_offset + 28);
  if (!contains(file_, data, entry.packed_size))
    return error("The zip archive is cut off: the entry `{}` reaches beyond the end of the file.", entry.name);
  Bytes bytes = file_.subspan(data, entry.packed_size);
  if (entry.method == 0) {
    if (entry.size != entry.packed_size)
      return error("The zip archive is damaged: the stored entry `{}` states two different sizes.", entry.name);
  } else {
    if (entry.size > limits_.inflate_budget || entry.size / kMaxDeflateRatio > entry.packed_size)
      return error("The zip entry `{}` claims to inflate from {} to {} bytes, which is more than is accepted.",
                   entry.name, entry.packed_size, entry.size);
    limits_.inflate_budget -= entry.size;
    storage.assign(entry.size, std::byte{});
    if (!inflate_into(bytes, storage))
      return error("The zip entry `{}` is damaged: its compressed data does not give the {} bytes it states.",
                   entry.name, storage.size());
    bytes = storage;
  }
  if (limits_.check_crc && crc_of(bytes) != entry.crc)
    return error("The zip entry `{}` is damaged: its checksum does not match its contents.", entry.name);
  return bytes;
}

Result<void> ZipWriter::add(std::string_view name, Bytes data) {
  constexpr uint64_t kLimit = std::numeric_limits<uint32_t>::max();
  if (name.size() > std::numeric_limits<uint16_t>::max() ||
      bytes_.size() + data.size() + name.size() + 2 * kAlignment > kLimit ||
      count_ == std::numeric_limits<uint16_t>::max())
    return error("The archive would be larger than 4 GiB, which is not supported.");
  auto offset = static_cast<uint32_t>(bytes_.size());
  auto size = static_cast<uint32_t>(data.size());
  uint32_t crc = crc_of(data);
  auto name_size = static_cast<uint16_t>(name.size());
  // An extra field of id "FB" carries the padding; it needs 4 bytes for itself.
  size_t start = bytes_.size() + kLocalSize + name.size() + 4;
  auto padding = static_cast<uint16_t>((kAlignment - start % kAlignment) % kAlignment);
  constexpr uint16_t kVersion = 20;
  constexpr uint16_t kUtf8 = 0x800;
  constexpr uint32_t kDate1980 = 0x00210000;  // 1980-01-01, the same in every file

  append(bytes_, kLocalSignature);
  append(bytes_, kVersion);
  append(bytes_, kUtf8);
  append(bytes_, uint16_t{0});
  append(bytes_, kDate1980);
  append(bytes_, crc);
  append(bytes_, size);
  append(bytes_, size);
  append(bytes_, name_size);
  append(bytes_, static_cast<uint16_t>(padding + 4));
  append(bytes_, bytes_of(name));
  append(bytes_, uint16_t{0x4246});
  append(bytes_, padding);
  bytes_.resize(bytes_.size() + padding, std::byte{'Z'});
  append(bytes_, data);

  append(directory_, kCentralSignature);
  append(directory_, kVersion);
  append(directory_, kVersion);
  append(directory_, kUtf8);
  append(directory_, uint16_t{0});
  append(directory_, kDate1980);
  append(directory_, crc);
  append(directory_, size);
  append(directory_, size);
  append(directory_, name_size);
  append(directory_, uint16_t{0});  // extra
  append(directory_, uint16_t{0});  // comment
  append(directory_, uint16_t{0});  // disk
  append(directory_, uint16_t{0});  // internal attributes
  append(directory_, uint32_t{0});  // external attributes
  append(directory_, offset);
  append(directory_, bytes_of(name));
  ++count_;
  return {};
}

Result<Buffer> ZipWriter::finish() {
  if (bytes_.size() + directory_.size() > std::numeric_limits<uint32_t>::max())
    return error("The archive would be larger than 4 GiB, which is not supported.");
  auto offset = static_cast<uint32_t>(bytes_.size());
  auto size = static_cast<uint32_t>(directory_.size());
  auto count = static_cast<uint16_t>(count_);
  append(bytes_, Bytes(directory_));
  append(bytes_, kEndSignature);
  append(bytes_, uint32_t{0});  // disks
  append(bytes_, count);
  append(bytes_, count);
  append(bytes_, size);
  append(bytes_, offset);
  append(bytes_, uint16_t{0});
  directory_.clear();
  count_ = 0;
  return std::move(bytes_);
}

}  // namespace swoop
