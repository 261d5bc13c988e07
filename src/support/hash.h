// A stable 64-bit hash (FNV-1a over 8-byte words): the same on every machine and run. For deduplication and dumps, not
// for security.
#pragma once

#include "support/bytes.h"

namespace swoop {

inline uint64_t hash_bytes(Bytes bytes, uint64_t seed = 0xcbf29ce484222325ull) {
  constexpr uint64_t kPrime = 0x100000001b3ull;
  uint64_t hash = seed;
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    hash = (hash ^ load<uint64_t>(bytes.data() + i)) * kPrime;
    hash ^= hash >> 32;
  }
  for (; i < bytes.size(); ++i) hash = (hash ^ static_cast<uint64_t>(bytes[i])) * kPrime;
  return hash ^ (hash >> 29);
}

}  // namespace swoop
