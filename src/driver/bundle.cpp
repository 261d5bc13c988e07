#include "driver/bundle.h"

#include <filesystem>
#include <system_error>

#include "support/file.h"

namespace swoop {

Result<void> keep_bundle(const std::string& folder, const RegionFault& fault, std::string_view region, Bytes tosa,
                         Bytes pte, const Pipeline& pipeline) {
  remove_bundle(folder);
  TRY(keep_reproducer(tosa, pipeline.target, pipeline.options.npu, region, folder));
  if (!fault.inputs) return {};
  TRY(write_file(folder + "/program.pte", pte));
  for (size_t i = 0; i < fault.inputs->size(); ++i)
    TRY(write_file(fmt::format("{}/input{}.bin", folder, i), (*fault.inputs)[i].data));
  return {};
}

void remove_bundle(const std::string& folder) {
  std::error_code ignored;  // a folder that is not there, or not ours to change, stays as it is
  std::vector<std::filesystem::path> ours;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name == "vela.ini" || name == "vela.sh" || name == "program.pte" ||
        (name.starts_with("region") && name.ends_with(".tosa")) ||
        (name.starts_with("input") && name.ends_with(".bin")))
      ours.push_back(entry.path());
  }
  for (const std::filesystem::path& path : ours) std::filesystem::remove(path, ignored);
  std::filesystem::remove(folder, ignored);  // fails when something else is in it
}

}  // namespace swoop
