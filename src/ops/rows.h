// The families' tables of operators. Each family file owns the rows of its operators; ops.cpp joins them, and the
// compiler counts them.
#pragma once

#include "ops/ops.h"

namespace swoop {

extern const OpInfo kTypeOps[3];
extern const OpInfo kConvOps[4];
extern const OpInfo kPoolOps[5];
extern const OpInfo kElementwiseOps[17];
extern const OpInfo kReduceOps[11];
extern const OpInfo kNormOps[7];
extern const OpInfo kMovementOps[11];
extern const OpInfo kControlOps[5];

static_assert(std::size(kTypeOps) + std::size(kConvOps) + std::size(kPoolOps) + std::size(kElementwiseOps) +
                      std::size(kReduceOps) + std::size(kNormOps) + std::size(kMovementOps) + std::size(kControlOps) ==
                  kOpCount,
              "an operator of ir/ops.def has no row, or two");

}  // namespace swoop
