// How much room ranges get for what few samples do not show, judged by samples that are left out: what they lose when
// ranges come from the others alone.
#pragma once

#include "quantize/types.h"

namespace swoop {

// Few samples can be judged by one of them, unless they are random or its state comes from the others.
bool can_leave_out(const Graph& graph, const Samples& samples);

// `prepared` is the float graph that was measured, `others` what all samples but the last show. Sets the request's room
// to another value only where that is clearly better. Gives what becomes of the last sample with that room; nothing
// where no output is float.
Result<std::optional<LeftOut>> choose_room(const Graph& prepared, const Samples& samples, const Measured& others,
                                           TypeRequest& request);

}  // namespace swoop
