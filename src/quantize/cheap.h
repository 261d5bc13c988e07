// Raises values from int8 to int16 where that is nearly free: a layer that waits for its weights computes on 16 bits in
// the time that it waits, and an accumulator gives 16 bits as fast as 8.
#pragma once

#include "quantize/types.h"

namespace swoop {

// Adds names of values to request.raised: those that take most noise off the outputs per cost, as long as all of them
// together add no more than options.int16_budget to the cost and to each memory. The graph is compiled with them, and
// with the weights that the samples confirm, and where it breaks that limit, with fewer.
Result<void> raise_what_is_cheap(const Graph& prepared, const Samples& samples, TypeRequest& request,
                                 QuantizeReport& report);

}  // namespace swoop
