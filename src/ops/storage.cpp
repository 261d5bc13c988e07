#include <map>
#include <mutex>
#include <new>

#include "ops/ops.h"

namespace swoop {

namespace {

constexpr std::align_val_t kAlignment{kVectorAlignment};
constexpr size_t kLarge = size_t{1} << 18;  // smaller blocks the allocator itself keeps
constexpr size_t kMost = size_t{1} << 28;   // kept at a time: a run must not need much more than what lives in it

// What is kept, for all threads: one piece of state that cannot be a constant.
struct Kept {
  std::mutex mutex;
  int users = 0;  // StorageReuse there are
  std::multimap<size_t, std::byte*> blocks;
  size_t bytes = 0;
};

Kept& kept() {
  static Kept& instance = *new Kept;  // tensors may end after all else
  return instance;
}

// Blocks are kept by the size they were made with, rounded so that similar tensors share them.
size_t rounded(size_t size) { return size < kLarge ? size : (size + kLarge - 1) / kLarge * kLarge; }

}  // namespace

StorageReuse::StorageReuse() {
  Kept& all = kept();
  const std::lock_guard lock(all.mutex);
  ++all.users;
}

StorageReuse::~StorageReuse() {
  Kept& all = kept();
  const std::lock_guard lock(all.mutex);
  if (--all.users > 0) return;
  for (auto [size, bytes] : all.blocks) ::operator delete(bytes, kAlignment);
  all.blocks.clear();
  all.bytes = 0;
}

namespace {

std::byte* take(size_t size) {
  if (size >= kLarge) {
    Kept& all = kept();
    const std::lock_guard lock(all.mutex);
    if (auto found = all.blocks.find(rounded(size)); found != all.blocks.end()) {
      std::byte* bytes = found->second;
      all.blocks.erase(found);
      all.bytes -= rounded(size);
      return bytes;
    }
  }
  return static_cast<std::byte*>(::operator new(rounded(size), kAlignment));
}

void give(std::byte* bytes, size_t size) {
  if (size >= kLarge) {
    Kept& all = kept();
    const std::lock_guard lock(all.mutex);
    if (all.users > 0 && all.bytes + rounded(size) <= kMost) {
      all.blocks.emplace(rounded(size), bytes);
      all.bytes += rounded(size);
      return;
    }
  }
  ::operator delete(bytes, kAlignment);
}

}  // namespace

Storage::Storage(size_t size) : size_(size), bytes_(size ? take(size) : nullptr) {}

Storage Storage::borrowed(Bytes bytes) {
  Storage storage;
  storage.size_ = bytes.size();
  storage.bytes_ = const_cast<std::byte*>(bytes.data());
  storage.owned_ = false;
  return storage;
}

Storage::~Storage() {
  if (bytes_ && owned_) give(bytes_, size_);
}

}  // namespace swoop
