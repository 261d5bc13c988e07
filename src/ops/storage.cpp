#include "ops/storage.h"

#include <new>

#include "ops/ops.h"

namespace swoop {

namespace {

constexpr std::align_val_t kAlignment{kVectorAlignment};
constexpr size_t kLarge = size_t{1} << 18;  // smaller blocks the allocator itself keeps
constexpr size_t kMost = size_t{1} << 28;   // kept at a time: a run must not need much more than what lives in it
thread_local StorageReuse* innermost = nullptr;

// Blocks are kept by the size they were made with, rounded so that similar tensors share them.
size_t rounded(size_t size) { return size < kLarge ? size : (size + kLarge - 1) / kLarge * kLarge; }

}  // namespace

// A body's run inside a run shares the outer one's blocks.
StorageReuse::StorageReuse() : outer_(innermost) {
  if (!outer_) innermost = this;
}

StorageReuse::~StorageReuse() {
  if (!outer_) innermost = nullptr;
  for (auto [size, bytes] : blocks_) ::operator delete(bytes, kAlignment);
}

std::byte* StorageReuse::take(size_t size) {
  if (innermost && size >= kLarge) {
    auto found = innermost->blocks_.find(rounded(size));
    if (found != innermost->blocks_.end()) {
      std::byte* bytes = found->second;
      innermost->blocks_.erase(found);
      innermost->kept_ -= rounded(size);
      return bytes;
    }
  }
  return static_cast<std::byte*>(::operator new(rounded(size), kAlignment));
}

void StorageReuse::give(std::byte* bytes, size_t size) {
  if (innermost && size >= kLarge && innermost->kept_ + rounded(size) <= kMost) {
    innermost->blocks_.emplace(rounded(size), bytes);
    innermost->kept_ += rounded(size);
  } else {
    ::operator delete(bytes, kAlignment);
  }
}

Storage::Storage(size_t size) : size_(size), bytes_(size ? StorageReuse::take(size) : nullptr) {}

Storage Storage::borrowed(Bytes bytes) {
  Storage storage;
  storage.size_ = bytes.size();
  storage.bytes_ = const_cast<std::byte*>(bytes.data());
  storage.owned_ = false;
  return storage;
}

Storage::~Storage() {
  if (bytes_ && owned_) StorageReuse::give(bytes_, size_);
}

}  // namespace swoop
