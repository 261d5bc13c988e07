#include "support/npz.h"

namespace swoop {

namespace {

constexpr std::string_view kExtension = ".npy";

}  // namespace

Result<std::vector<NamedArray>> read_npz(Bytes bytes, ZipLimits limits) {
  TRY_ASSIGN(ZipArchive zip, ZipArchive::open(bytes, limits));
  std::vector<NamedArray> arrays;
  for (const ZipEntry& entry : zip.entries()) {
    if (!entry.name.ends_with(kExtension)) return error("The entry `{}` of the .npz is not an array.", entry.name);
    Buffer storage;
    TRY_ASSIGN(Bytes content, zip.read(entry, storage));
    Result<NpyArray> array = read_npy(content);
    if (!array) return error("{} (array `{}`)", array.error().message, entry.name);
    arrays.push_back({std::string(entry.name.substr(0, entry.name.size() - kExtension.size())), std::move(*array)});
  }
  return arrays;
}

Result<Buffer> write_npz(const std::vector<NamedArray>& arrays) {
  ZipWriter zip;
  for (const NamedArray& one : arrays) TRY(zip.add(one.name + std::string(kExtension), write_npy(one.array)));
  return zip.finish();
}

const NpyArray* find_array(const std::vector<NamedArray>& arrays, std::string_view name) {
  for (const NamedArray& one : arrays)
    if (one.name == name) return &one.array;
  return nullptr;
}

}  // namespace swoop
