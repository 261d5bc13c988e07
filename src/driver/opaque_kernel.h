// Operators that the compiler knows by name alone, computed by the stock runtime's own kernels: a program of one
// operator is made, loaded and run. So a model can be calibrated through them.
#pragma once

#include <span>

#include "ops/ops.h"

namespace swoop {

// For lend_opaque_kernel.
Result<void> run_opaque(const Node& node, std::span<const Tensor* const> inputs, std::span<Tensor> results);

}  // namespace swoop
