// The NPU's command streams of a .pte, with the map of their layers where the file carries one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "run/run.h"

namespace swoop {

struct NpuStream {
  std::string npu;  // "ethos-u55-128"
  std::vector<NpuCommand> commands;
  std::optional<LayerMap> map;  // nullopt: another compiler's file, or --strip
  std::vector<TransferUse> transfers;

  // What the map says of an operation; null when it says nothing. A kernel that it does not list (one of many that a
  // matrix product takes on U55, say) belongs to the next one that it lists; a transfer that it does not list works for
  // the operation that uses what it brings.
  const StreamOperation* operation_of(const NpuStep& step) const;
};

// Of the method that `swoop run` runs, in the order in which the runtime loads them. A damaged map is an error; layers
// are integers or booleans, and their texts printable.
Result<std::vector<NpuStream>> read_streams(Bytes pte);

}  // namespace swoop
