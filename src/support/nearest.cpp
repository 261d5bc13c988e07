#include "support/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace swoop {

namespace {

// Levenshtein's distance, row by row.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t changed = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string_view nearest(std::string_view wanted, std::span<const std::string> names) {
  std::string_view best;
  size_t fewest = std::max<size_t>(2, wanted.size() / 3) + 1;
  for (const std::string& name : names) {
    const bool part = wanted.size() > 2 && name.find(wanted) != std::string::npos;
    const size_t steps = part ? 1 : distance(wanted, name);
    if (steps >= fewest) continue;
    fewest = steps;
    best = name;
  }
  return best;
}

std::string did_you_mean(std::string_view wanted, std::span<const std::string> names) {
  std::string_view name = nearest(wanted, names);
  return name.empty() ? "" : fmt::format("; did you mean {}?", name);
}

}  // namespace swoop
