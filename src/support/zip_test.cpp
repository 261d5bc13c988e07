#include "support/zip.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>

#include "support/npz.h"

namespace swoop {

namespace {

Buffer archive_of(std::initializer_list<std::pair<std::string_view, std::string_view>> entries) {
  ZipWriter writer;
  for (auto [name, data] : entries) EXPECT_TRUE(writer.add(name, bytes_of(data)));
  Result<Buffer> bytes = writer.finish();
  EXPECT_TRUE(bytes);
  return *bytes;
}

template <typename T>
void patch(Buffer& bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

size_t find_signature(const Buffer& bytes, uint32_t signature) {
  for (size_t at = 0; at + 4 <= bytes.size(); ++at)
    if (load<uint32_t>(bytes.data() + at) == signature) return at;
  return bytes.size();
}

constexpr uint32_t kLocal = 0x04034b50;
constexpr uint32_t kCentral = 0x02014b50;
constexpr uint32_t kEnd = 0x06054b50;

// One deflated entry, its stated size as given.
Buffer deflated(std::string_view text, uint32_t stated) {
  Buffer packed(compressBound(text.size()) + 64);
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  ZipWriter writer;
  EXPECT_TRUE(writer.add("a", packed));
  Buffer bytes = *writer.finish();
  size_t central = find_signature(bytes, kCentral);
  patch(bytes, central + 10, uint16_t{8});
  patch(bytes, central + 16,
        static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(text.data()), static_cast<uInt>(text.size()))));
  patch(bytes, central + 24, stated);
  return bytes;
}

std::string read_only_entry(const Buffer& bytes, ZipLimits limits = {}) {
  Result<ZipArchive> zip = ZipArchive::open(bytes, limits);
  if (!zip) return zip.error().message;
  Buffer storage;
  Result<Bytes> data = zip->read(zip->entries().at(0), storage);
  return data ? "ok: " + std::string(text_of(*data)) : data.error().message;
}

TEST(Zip, gives_back_what_was_written_in_place_and_aligned) {
  Buffer bytes = archive_of({{"one", "first"}, {"two/three", ""}, {"four", "4444"}});
  Result<ZipArchive> zip = ZipArchive::open(bytes);
  ASSERT_TRUE(zip);
  ASSERT_EQ(zip->entries().size(), 3u);
  Buffer storage;
  Result<Bytes> data = zip->read(*zip->find("four"), storage);
  ASSERT_TRUE(data);
  EXPECT_EQ(text_of(*data), "4444");
  EXPECT_TRUE(storage.empty());
  EXPECT_EQ((data->data() - bytes.data()) % 64, 0);
  EXPECT_EQ(zip->find("five"), nullptr);
}

TEST(Zip, inflates) {
  EXPECT_EQ(read_only_entry(deflated("hello hello hello hello", 23)), "ok: hello hello hello hello");
}

TEST(Zip, refuses_bombs) {
  std::string zeros(10'000'000, '\0');
  Buffer bomb = deflated(zeros, static_cast<uint32_t>(zeros.size()));
  EXPECT_NE(read_only_entry(bomb, {.inflate_budget = 1'000'000}).find("more than is accepted"), std::string::npos);
  EXPECT_NE(read_only_entry(deflated("abc", 0xfffffff0)).find("more than is accepted"), std::string::npos);
}

TEST(Zip, notices_sizes_that_lie) {
  EXPECT_NE(read_only_entry(deflated("hello hello hello hello", 22)).find("does not give the 22 bytes"),
            std::string::npos);
  EXPECT_NE(read_only_entry(deflated("hello hello hello hello", 24)).find("does not give the 24 bytes"),
            std::string::npos);
  Buffer stored = archive_of({{"a", "data"}});
  patch(stored, find_signature(stored, kCentral) + 24, uint32_t{5});
  EXPECT_NE(read_only_entry(stored).find("two different sizes"), std::string::npos);
}

TEST(Zip, notices_damage) {
  Buffer good = archive_of({{"a", "data"}});
  Buffer bytes = good;
  *std::search(bytes.begin(), bytes.end(), bytes_of("data").begin(), bytes_of("data").end()) = std::byte{'D'};
  EXPECT_NE(read_only_entry(bytes).find("checksum"), std::string::npos);
  bytes = good;
  patch(bytes, find_signature(bytes, kLocal), uint32_t{0});
  EXPECT_NE(read_only_entry(bytes).find("not where the directory says"), std::string::npos);
  bytes = good;
  patch(bytes, find_signature(bytes, kCentral) + 42, uint32_t{0xfffffff0});
  EXPECT_NE(read_only_entry(bytes).find("not where the directory says"), std::string::npos);
  bytes = good;
  patch(bytes, find_signature(bytes, kCentral) + 8, uint16_t{1});
  EXPECT_NE(read_only_entry(bytes).find("encrypted"), std::string::npos);
  bytes = good;
  patch(bytes, find_signature(bytes, kCentral) + 10, uint16_t{12});
  EXPECT_NE(read_only_entry(bytes).find("compression method 12"), std::string::npos);
  bytes = good;
  patch(bytes, find_signature(bytes, kEnd) + 16, uint32_t{0xffffff});
  EXPECT_NE(read_only_entry(bytes).find("directory is outside"), std::string::npos);
  bytes = good;
  patch(bytes, find_signature(bytes, kEnd) + 10, uint16_t{60000});
  EXPECT_NE(read_only_entry(bytes).find("claims 60000 entries"), std::string::npos);
  EXPECT_NE(read_only_entry(Buffer(100)).find("not a zip archive"), std::string::npos);
  EXPECT_NE(read_only_entry(Buffer(3)).find("too short"), std::string::npos);
}

TEST(Zip, refuses_two_entries_of_one_name) {
  Buffer bytes = archive_of({{"a", "1"}, {"a", "2"}});
  EXPECT_NE(read_only_entry(bytes).find("two entries named `a`"), std::string::npos);
}

// Sizes in the zip64 extra field, as writers of large files put them.
TEST(Zip, reads_zip64_fields) {
  Buffer bytes = archive_of({{"a", "data"}});
  size_t central = find_signature(bytes, kCentral);
  Buffer extra;
  append(extra, uint16_t{1});
  append(extra, uint16_t{24});
  append(extra, uint64_t{4});
  append(extra, uint64_t{4});
  append(extra, uint64_t{0});
  for (size_t at : {20, 24, 42}) patch(bytes, central + at, uint32_t{0xffffffff});
  patch(bytes, central + 30, static_cast<uint16_t>(extra.size()));
  bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(central) + 47, extra.begin(), extra.end());
  size_t end = find_signature(bytes, kEnd);
  patch(bytes, end + 12, static_cast<uint32_t>(end - central));
  EXPECT_EQ(read_only_entry(bytes), "ok: data");
  patch(bytes, central + 49, uint16_t{8});  // the field ends before the sizes do
  EXPECT_NE(read_only_entry(bytes).substr(0, 2), "ok");
}

TEST(Npz, gives_back_what_was_written) {
  NpyArray array{"<f4", {2, 2}, Buffer(16, std::byte{1})};
  Result<Buffer> bytes = write_npz({{"x", array}, {"y", {"|i1", {3}, Buffer(3, std::byte{7})}}});
  ASSERT_TRUE(bytes);
  Result<std::vector<NamedArray>> arrays = read_npz(*bytes);
  ASSERT_TRUE(arrays) << arrays.error().message;
  ASSERT_EQ(arrays->size(), 2u);
  const NpyArray* x = find_array(*arrays, "x");
  ASSERT_NE(x, nullptr);
  EXPECT_EQ(x->dtype, "<f4");
  EXPECT_EQ(x->shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(x->data, array.data);
  EXPECT_EQ(find_array(*arrays, "z"), nullptr);
}

TEST(Npz, refuses_other_entries) {
  Buffer bytes = archive_of({{"readme.txt", "hello"}});
  EXPECT_FALSE(read_npz(bytes));
  bytes = archive_of({{"x.npy", "hello"}});
  EXPECT_FALSE(read_npz(bytes));
}

}  // namespace

}  // namespace swoop
