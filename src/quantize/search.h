// --min-sqnr: raises values from int8 to int16, the best measured gain per cost first, until the outputs are good
// enough.
#pragma once

#include "quantize/types.h"

namespace swoop {

// `prepared` is the float graph that was measured. Fills report.raised, sqnr_db and the costs; gives the names to
// raise.
Result<std::set<std::string>> search_precision(const Graph& prepared, const Measured& measured, const Samples& samples,
                                               const QuantizeOptions& options, QuantizeReport& report);

// Multiply-accumulates and elements moved, those of 16-bit operands twice.
double estimate_cost(const Graph& graph);

}  // namespace swoop
