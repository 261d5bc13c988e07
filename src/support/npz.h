// NumPy's .npz format: named arrays, each a .npy file in a zip. Samples and results come and go this way.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "support/npy.h"
#include "support/zip.h"

namespace swoop {

struct NamedArray {
  std::string name;  // without ".npy"
  NpyArray array;
};

// In the archive's order. Entries that are not .npy files are an error, as in NumPy.
Result<std::vector<NamedArray>> read_npz(Bytes bytes, ZipLimits limits = {});

Result<Buffer> write_npz(const std::vector<NamedArray>& arrays);

const NpyArray* find_array(const std::vector<NamedArray>& arrays, std::string_view name);

}  // namespace swoop
