// Views of raw bytes, and a reader that checks every access: files may be hostile.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

namespace swoop {

static_assert(std::endian::native == std::endian::little, "every file format here is little endian and read in place");

// Where bytes may begin that vector units read as numbers.
constexpr size_t kVectorAlignment = 64;

template <typename T>
struct VectorAllocator {
  using value_type = T;
  VectorAllocator() = default;
  template <typename U>
  VectorAllocator(const VectorAllocator<U>&) {}
  T* allocate(size_t count) {
    return static_cast<T*>(::operator new (count * sizeof(T), std::align_val_t{kVectorAlignment}));
  }
  void deallocate(T* at, size_t) { ::operator delete (at, std::align_val_t{kVectorAlignment}); }
  bool operator==(const VectorAllocator&) const = default;
};

using Bytes = std::span<const std::byte>;
using Buffer = std::vector<std::byte, VectorAllocator<std::byte>>;

inline Bytes bytes_of(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }
inline std::string_view text_of(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// offset and size come from a file: false if the range is not inside the bytes, without overflow.
inline bool contains(Bytes bytes, uint64_t offset, uint64_t size) {
  return offset <= bytes.size() && size <= bytes.size() - offset;
}

// Reads a trivially copyable T at any alignment. The caller has checked the range.
template <typename T>
T load(const std::byte* at) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

template <typename T>
void append(Buffer& buffer, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  const auto* first = reinterpret_cast<const std::byte*>(&value);
  buffer.insert(buffer.end(), first, first + sizeof(T));
}

inline void append(Buffer& buffer, Bytes bytes) { buffer.insert(buffer.end(), bytes.begin(), bytes.end()); }

}  // namespace swoop
