// Operators that the compiler knows by name alone, computed by the stock runtime's own kernels. So a model can be
// calibrated through them.
#pragma once

#include <memory>

#include "ops/ops.h"

namespace swoop {

// For each operator with its attributes and types, a program of that one operator is made and loaded, once; every later
// call runs it again. Loads nothing before the first call.
std::unique_ptr<OpaqueKernels> make_opaque_kernels();

}  // namespace swoop
