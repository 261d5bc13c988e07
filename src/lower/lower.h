// A region of legalized nodes becomes a TOSA program: one function per family of core ops, exact integer arithmetic
// derived from the types alone. Nothing is optimized here; equal constants are shared.
#pragma once

#include "ir/ir.h"
#include "support/result.h"
#include "tosa/tosa.h"

namespace swoop {

// Operators carry the name of the node they come from as their location. With an error, `culprit` names the first
// result of the node that has no TOSA form.
Result<tosa::Program> lower(const Graph& region, std::string* culprit = nullptr);

// What lower's own form of an operator may be off by where its first operand has 8 or 16 bits, as an ErrorBound
// (rewriter.h) has it: quotients and functions are no rule's.
double lowered_off(Op op, int bits);

}  // namespace swoop
