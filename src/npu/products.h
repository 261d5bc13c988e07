// MATMUL on cores that have none, as a CONV2D whose weights the NPU writes itself; see stream/computed_weights.h.
#pragma once

#include <optional>
#include <vector>

#include "stream/stream.h"
#include "target/target.h"
#include "tosa/tosa.h"

namespace swoop {

// A program for regor. It computes what the original does once its stream has the weights written into it
// (write_computed_weights() of run/): until then the CONV2Ds have weights of zero.
struct ProgramWithProducts {
  tosa::Program program;
  std::vector<ComputedWeights> products;
  int64_t count = 0;  // of MATMULs
};

// nullopt: the core has products, or none of the program's MATMULs gains by it. A MATMUL can be written so if its
// second operand is known to be between -127 and 127, with a zero point of 0.
// `own_scales`: with room for scales, for where regor cuts a convolution into parts.
std::optional<ProgramWithProducts> with_products(const tosa::Program& program, const NpuTarget& target,
                                                 bool own_scales = false);

// A program of one operation on [rows, 8, 8], like those that write codes of weights: for its estimate. Its table is
// not among it, which is loaded once for all of them.
tosa::Program copy_of_groups(int rows);

}  // namespace swoop
