// Which node of a region regor gets wrong. The region's first nodes are compiled alone, as a region of their own: the
// last node of the shortest such piece that goes wrong is the culprit.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "driver/pipeline.h"
#include "tosa/tosa.h"

namespace swoop {

struct RegionFault {
  size_t region = 0;  // of the partition
  std::string what;   // a clause: "regor crashed with SIGSEGV while compiling region0 for ..."
  // With which the region's program computes other numbers, or is refused; absent: there is no program.
  std::optional<std::vector<tosa::TensorData>> inputs = {};
  std::string value = {};  // the first result of the node that did it, where that is known
};

struct Culprit {
  std::string node;
  std::string value;   // its first result, which names it in Verdicts
  bool first = false;  // of its region
};
Culprit find_culprit(const RegionFault& fault, const Graph& region, const tosa::Program& program,
                     const Pipeline& pipeline);

}  // namespace swoop
