// NumPy's .npy format (versions 1 to 3): one array with type and shape. Arrays of an .npz are such files in a zip.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/bytes.h"
#include "support/result.h"

namespace swoop {

struct NpyArray {
  std::string dtype;  // as NumPy writes it: "<f4", "|i1", "|b1", "<i8", ...; little endian
  std::vector<int64_t> shape;
  Buffer data;  // row major, also when the file was in column order
};

// The bytes come from a user: anything but a complete array of plain numbers is an error.
Result<NpyArray> read_npy(Bytes bytes);

Buffer write_npy(const NpyArray& array);

// Bytes per element of a type as above; 0 for a type that is no plain little-endian number or bool.
size_t npy_element_bytes(std::string_view dtype);

}  // namespace swoop
