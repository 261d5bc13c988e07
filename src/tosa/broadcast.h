// Walking tensors of equal rank whose sizes are equal or 1, as a few long rows.
#pragma once

#include <array>
#include <cstddef>

#include "tosa/tosa.h"

namespace swoop::tosa {

// The output's axes, merged where every operand allows it. Strides are in elements; 0 repeats.
template <size_t Operands>
struct Walk {
  std::vector<size_t> sizes;
  std::vector<std::array<size_t, Operands>> strides;

  size_t rows() const {
    size_t count = 1;
    for (size_t d = 0; d + 1 < sizes.size(); ++d) count *= sizes[d];
    return count;
  }
  size_t row_length() const { return sizes.back(); }
  const std::array<size_t, Operands>& row_strides() const { return strides.back(); }

  // The offset of each operand at the start of a row.
  std::array<size_t, Operands> offsets(size_t row) const {
    std::array<size_t, Operands> result{};
    for (size_t d = sizes.size() - 1; d-- > 0;) {
      size_t index = row % sizes[d];
      row /= sizes[d];
      for (size_t i = 0; i < Operands; ++i) result[i] += index * strides[d][i];
    }
    return result;
  }
};

template <size_t Operands>
Walk<Operands> make_walk(const Shape& out, const std::array<const Shape*, Operands>& operands) {
  Walk<Operands> walk;
  std::array<size_t, Operands> running;
  running.fill(1);
  // From the last axis to the first; an axis joins the one after it when each operand steps over that one whole.
  for (size_t d = out.size(); d-- > 0;) {
    auto size = static_cast<size_t>(out[d]);
    if (size == 1) continue;
    std::array<size_t, Operands> strides{};
    for (size_t i = 0; i < Operands; ++i) {
      auto own = static_cast<size_t>((*operands[i])[d]);
      strides[i] = own == 1 ? 0 : running[i];
      running[i] *= own;
    }
    bool joins = !walk.sizes.empty();
    for (size_t i = 0; joins && i < Operands; ++i) joins = strides[i] == walk.strides.front()[i] * walk.sizes.front();
    if (joins) {
      walk.sizes.front() *= size;
    } else {
      walk.sizes.insert(walk.sizes.begin(), size);
      walk.strides.insert(walk.strides.begin(), strides);
    }
  }
  if (walk.sizes.empty()) {
    walk.sizes.push_back(1);
    walk.strides.emplace_back();
  }
  return walk;
}

}  // namespace swoop::tosa
