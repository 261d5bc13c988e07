#include "support/npy.h"

#include <gtest/gtest.h>

namespace swoop {
namespace {

NpyArray numbers() {
  NpyArray array{"<i2", {2, 3}, {}};
  for (int16_t i = 0; i < 6; ++i) append(array.data, i);
  return array;
}

Buffer with_header(std::string_view header, size_t data) {
  std::string text = "\x93NUMPY";
  text += {'\x01', '\x00', static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  text += header;
  text.resize(text.size() + data);
  Bytes bytes = bytes_of(text);
  Buffer out(bytes.begin(), bytes.end());
  return out;
}

TEST(Npy, reads_back_what_it_writes) {
  for (std::vector<int64_t> shape : {std::vector<int64_t>{}, {6}, {2, 3}, {1, 2, 1, 3}}) {
    NpyArray array{"<f4", shape, Buffer(shape.empty() ? 4 : 24, std::byte{7})};
    Buffer file = write_npy(array);
    EXPECT_EQ(file.size() % 4, 0u);
    Result<NpyArray> back = read_npy(file);
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(back->dtype, "<f4");
    EXPECT_EQ(back->shape, shape);
    EXPECT_EQ(back->data, array.data);
  }
}

TEST(Npy, turns_column_order_into_row_order) {
  Buffer file = with_header("{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3), }\n", 0);
  for (int16_t value : {0, 3, 1, 4, 2, 5}) append(file, value);
  Result<NpyArray> array = read_npy(file);
  ASSERT_TRUE(array) << array.error().message;
  EXPECT_EQ(array->data, numbers().data);
}

TEST(Npy, rejects_what_is_no_plain_array) {
  EXPECT_FALSE(read_npy({}));
  EXPECT_FALSE(read_npy(bytes_of("not a NumPy file at all")));
  EXPECT_FALSE(read_npy(with_header("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }\n", 4)));
  EXPECT_FALSE(read_npy(with_header("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n", 8)));
  EXPECT_FALSE(read_npy(with_header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }\n", 4)));
  EXPECT_FALSE(read_npy(with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", 4)));
  EXPECT_FALSE(read_npy(with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }\n", 4)));
  EXPECT_FALSE(
      read_npy(with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 4), }\n", 4)));
}

TEST(Npy, accepts_empty_arrays) {
  Result<NpyArray> array = read_npy(with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (9, 0, 7), }", 0));
  ASSERT_TRUE(array) << array.error().message;
  EXPECT_TRUE(array->data.empty());
}

TEST(Npy, survives_every_cut_and_every_changed_byte) {
  Buffer whole = write_npy(numbers());
  for (size_t size = 0; size < whole.size(); ++size) EXPECT_FALSE(read_npy(Bytes(whole).first(size)));
  for (size_t at = 0; at < whole.size(); ++at) {
    for (unsigned flip : {1u, 0x80u, 0xffu}) {
      Buffer changed = whole;
      changed[at] ^= static_cast<std::byte>(flip);
      static_cast<void>(read_npy(changed));
    }
  }
}

}  // namespace
}  // namespace swoop
