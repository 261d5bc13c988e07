#include "support/file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

namespace swoop {
namespace {

// Of this process.
size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  size_t all = 0, resident = 0;
  statm >> all >> resident;
  return resident * 4096;
}

TEST(MappedFile, released_pages_leave_memory_and_come_back) {
  constexpr size_t kSize = size_t{16} << 20;
  const std::string path = testing::TempDir() + "/pages";
  ASSERT_TRUE(write_file(path, std::string(kSize, 'x')));
  Result<std::shared_ptr<const MappedFile>> file = MappedFile::open(path);
  ASSERT_TRUE(file);
  const auto count = [&] { return std::ranges::count((*file)->bytes(), std::byte{'x'}); };
  EXPECT_EQ(count(), static_cast<int64_t>(kSize));
  const size_t before = resident_bytes();
  (*file)->release_pages();
  EXPECT_LT(resident_bytes() + kSize / 2, before);
  EXPECT_EQ(count(), static_cast<int64_t>(kSize));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace swoop
