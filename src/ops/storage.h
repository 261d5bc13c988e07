// Large blocks that tensors let go are kept for the tensors that follow, as long as a StorageReuse lives in this
// thread. Fresh memory is slow: the kernel clears every page of it (whisper-tiny's encoder asks for 54 MB twelve
// times).
#pragma once

#include <cstddef>
#include <map>

namespace swoop {

class StorageReuse {
 public:
  StorageReuse();
  ~StorageReuse();
  StorageReuse(const StorageReuse&) = delete;
  StorageReuse& operator=(const StorageReuse&) = delete;

  static std::byte* take(size_t size);  // from the innermost one of this thread, or new
  static void give(std::byte* bytes, size_t size);

 private:
  std::multimap<size_t, std::byte*> blocks_;
  size_t kept_ = 0;  // bytes in blocks_
  StorageReuse* outer_;
};

}  // namespace swoop
