#include "target/target.h"

#include <fmt/ranges.h>

#include "support/check.h"
#include "support/nearest.h"

namespace swoop {
namespace {

#define FACT(type, name, u55, u65, u85) u55,
constexpr NpuFacts kU55 = {
#include "target/facts.def"
};
#undef FACT

#define FACT(type, name, u55, u65, u85) u65,
constexpr NpuFacts kU65 = {
#include "target/facts.def"
};
#undef FACT

#define FACT(type, name, u55, u65, u85) u85,
constexpr NpuFacts kU85 = {
#include "target/facts.def"
};
#undef FACT

constexpr NpuTarget kTargets[] = {
    {"ethos-u55-32", NpuFamily::U55, 32, 1},     {"ethos-u55-64", NpuFamily::U55, 64, 1},
    {"ethos-u55-128", NpuFamily::U55, 128, 1},   {"ethos-u55-256", NpuFamily::U55, 256, 1},
    {"ethos-u65-256", NpuFamily::U65, 256, 1},   {"ethos-u65-512", NpuFamily::U65, 512, 2},
    {"ethos-u85-128", NpuFamily::U85, 128, 1},   {"ethos-u85-256", NpuFamily::U85, 256, 1},
    {"ethos-u85-512", NpuFamily::U85, 512, 1},   {"ethos-u85-1024", NpuFamily::U85, 1024, 1},
    {"ethos-u85-2048", NpuFamily::U85, 2048, 1},
};

}  // namespace

const NpuFacts& facts_of(NpuFamily family) {
  switch (family) {
    case NpuFamily::U55: return kU55;
    case NpuFamily::U65: return kU65;
    case NpuFamily::U85: return kU85;
  }
  CHECK(false, "family {}", static_cast<int>(family));
}

// Cycles per element, roughly, as regor estimates them: a matrix product takes one for a multiplication; a copy into
// groups of eight 2.5, with the outputs that nobody reads; the copies of the first matrix and of the result 1 to 3.
bool NpuTarget::writes_weights(const MatrixProduct& product) const {
  constexpr int64_t kLeast = 8, kBlock = 32;  // inputs of a group; of a block
  constexpr int64_t kMostHeads = 64;          // parts of a CONCAT (TOSA 1.0, level 8K)
  constexpr double kConvolution = 1500, kOnce = 2000, kWorthwhile = 0.9;
  if (!can_write_weights()) return false;
  if (product.depth < kLeast || product.channels < kLeast || product.heads > kMostHeads) return false;
  const auto heads = static_cast<double>(product.heads), rows = static_cast<double>(product.rows),
             depth = static_cast<double>(product.depth), channels = static_cast<double>(product.channels);
  const double outputs = channels * 4 / 3;
  const double blocks = static_cast<double>((product.depth + kBlock - 1) / kBlock * kBlock);
  const double now = heads * rows * depth * channels;
  const double then = 2.5 * outputs * blocks + 1.2 * rows * depth + 0.02 * rows * depth * outputs + 3 * rows * channels;
  return heads * (then + kConvolution) + kOnce < kWorthwhile * now;
}

std::span<const NpuTarget> npu_targets() { return kTargets; }

std::vector<NpuFamily> npu_families() {
  std::vector<NpuFamily> families;
  for (const NpuTarget& target : kTargets)
    if (families.empty() || families.back() != target.family) families.push_back(target.family);
  return families;
}

Result<NpuTarget> parse_target(std::string_view name) {
  std::vector<std::string> names;
  for (const NpuTarget& target : kTargets) {
    if (target.name == name) return target;
    names.emplace_back(target.name);
  }
  return error("There is no NPU called '{}'; the known ones are {}{}", name.substr(0, 64), fmt::join(names, ", "),
               did_you_mean(name, names));
}

}  // namespace swoop
