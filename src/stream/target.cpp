// The NPUs by name. The default configs are those of executorch's compile specs, except that U85 takes the dedicated
// SRAM that its boards have (executorch: Sram_Only).
#include <fmt/ranges.h>

#include "stream/stream.h"

namespace swoop {
namespace {

constexpr std::string_view kU55System = "Ethos_U55_High_End_Embedded";
constexpr std::string_view kU65System = "Ethos_U65_High_End";
constexpr std::string_view kU85System = "Ethos_U85_SYS_DRAM_Mid";
constexpr std::string_view kShared = "Shared_Sram";
constexpr std::string_view kDedicated = "Dedicated_Sram_384KB";

constexpr NpuTarget kTargets[] = {
    {"ethos-u55-32", NpuFamily::U55, 32, 1, kU55System, kShared},
    {"ethos-u55-64", NpuFamily::U55, 64, 1, kU55System, kShared},
    {"ethos-u55-128", NpuFamily::U55, 128, 1, kU55System, kShared},
    {"ethos-u55-256", NpuFamily::U55, 256, 1, kU55System, kShared},
    {"ethos-u65-256", NpuFamily::U65, 256, 1, kU65System, kDedicated},
    {"ethos-u65-512", NpuFamily::U65, 512, 2, kU65System, kDedicated},
    {"ethos-u85-128", NpuFamily::U85, 128, 1, kU85System, kDedicated},
    {"ethos-u85-256", NpuFamily::U85, 256, 1, kU85System, kDedicated},
    {"ethos-u85-512", NpuFamily::U85, 512, 1, kU85System, kDedicated},
    {"ethos-u85-1024", NpuFamily::U85, 1024, 1, kU85System, kDedicated},
    {"ethos-u85-2048", NpuFamily::U85, 2048, 1, kU85System, kDedicated},
};

}  // namespace

std::span<const NpuTarget> npu_targets() { return kTargets; }

Result<NpuTarget> parse_target(std::string_view name) {
  std::vector<std::string_view> names;
  for (const NpuTarget& target : kTargets) {
    if (target.name == name) return target;
    names.push_back(target.name);
  }
  return error("There is no NPU called '{}'; the known ones are {}.", name.substr(0, 64), fmt::join(names, ", "));
}

std::string_view family_name(NpuFamily family) {
  switch (family) {
    case NpuFamily::U55: return "Ethos-U55";
    case NpuFamily::U65: return "Ethos-U65";
    case NpuFamily::U85: return "Ethos-U85";
  }
  return "";
}

}  // namespace swoop
