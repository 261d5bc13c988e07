// operator new and delete as driver/program/allocate.cpp has them, which this test program is linked with.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

namespace swoop {
namespace {

// A block that knows what it should hold.
struct Filled {
  size_t size;
  unsigned char byte;
  std::unique_ptr<unsigned char[]> bytes;

  Filled(size_t count, size_t seed)
      : size(count), byte(static_cast<unsigned char>(seed)), bytes(new unsigned char[count]) {
    std::memset(bytes.get(), byte, size);
  }
  bool intact() const {
    for (size_t i = 0; i < size; ++i)
      if (bytes[i] != byte) return false;
    return true;
  }
};

std::vector<Filled> blocks_of_all_sizes(size_t seed) {
  std::vector<Filled> list;
  for (size_t size = 0; size < 1200; size += 7) list.emplace_back(size, seed + size);
  return list;
}

void expect_intact(const std::vector<Filled>& list) {
  for (const Filled& block : list) {
    EXPECT_TRUE(block.intact()) << block.size << " bytes";
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block.bytes.get()) % __STDCPP_DEFAULT_NEW_ALIGNMENT__, 0u);
  }
}

TEST(Allocate, BlocksDoNotOverlapHoweverTheyComeAndGo) {
  std::vector<std::vector<Filled>> kept;
  for (size_t round = 0; round < 20; ++round) {
    kept.push_back(blocks_of_all_sizes(round));
    if (round % 3 == 2) kept.erase(kept.begin() + static_cast<int64_t>(round % kept.size()));
  }
  for (const auto& list : kept) expect_intact(list);
}

TEST(Allocate, ThreadsFreeEachOthersBlocks) {
  std::vector<Filled> mine = blocks_of_all_sizes(1), theirs;
  for (size_t round = 0; round < 50; ++round) {
    std::thread first([&] { mine.clear(); });
    std::thread second([&] { theirs = blocks_of_all_sizes(round); });
    const std::vector<Filled> meanwhile = blocks_of_all_sizes(2 * round);
    first.join();
    second.join();
    expect_intact(meanwhile);
    expect_intact(theirs);
    theirs.clear();
    mine = blocks_of_all_sizes(3 * round);
    expect_intact(mine);
  }
}

TEST(Allocate, WhatThereIsNoMemoryForIsBadAlloc) {
  volatile size_t most = SIZE_MAX;
  for (size_t less : {size_t{0}, size_t{16}, size_t{1} << 20})
    EXPECT_THROW(operator delete(operator new(most - less)), std::bad_alloc);
}

}  // namespace
}  // namespace swoop
