// A layer with weights (conv, transposed conv, linear) and gain * y + offset per channel of its result, as one layer.
#pragma once

#include "rewriter/rewriter.h"

namespace swoop {

// Floats with constant weights and bias, no clamp, and nothing else reads the result.
bool takes_affine(const Rewriter& rw, const Node& layer);

ValueId with_affine(Rewriter& rw, const Node& layer, const Affine& affine, Attrs attrs, const Type& type);

}  // namespace swoop
