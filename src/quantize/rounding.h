// Rounding weights so that their errors cancel each other out. A layer's sum that reads numbers which vary together
// hardly shows that one weight was rounded up, if another was rounded down. So the columns of the weights are rounded
// one after the other, and each makes up for what those before it got wrong:
//
//   code[i] = round(weight[i] + sum over j < i of error[j] * passed[j][i])
//
// With the covariance of the columns as C = (1 + P) D (1 + P)^T, where P (`passed`) is strictly upper triangular and D
// diagonal, the result's error has the power of D times that of rounding, where nearest rounding has C's diagonal.
// This is LDLQ of QuIP (Chee et al., 2023), which equals GPTQ (Frantar et al., 2022).
#pragma once

#include "quantize/covariance.h"

namespace swoop {

struct Rounding {
  struct Columns {
    int64_t group = 0, first = 0, size = 0;
    std::vector<float> passed;  // P, transposed: row i has what column i gets
  };
  int64_t outputs = 0, depth = 0;  // as Covariance has them
  std::vector<Columns> columns;
};

using Roundings = std::map<ValueId, Rounding>;  // by weights

Roundings roundings_of(const Covariances& covariances);

// The codes of float weights in `type`, which is symmetric.
Buffer round_weights(std::span<const float> weights, const Type& type, const Rounding& rounding);

}  // namespace swoop
