// The tables of `swoop ops`, `swoop explain` and docs/SUPPORT.md.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "target/target.h"

namespace swoop {

struct SupportTable {
  std::string title;
  std::string text;  // sentences below the title
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;
};

// Of one NPU, or of all side by side.
std::vector<SupportTable> support_tables(const std::optional<NpuTarget>& target);

}  // namespace swoop
