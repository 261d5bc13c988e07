// What reading and writing by indices share.
#pragma once

#include "import/call.h"

namespace swoop {

// Indices from the end count backwards. Known ones are turned round at import, computed ones by the model, in 32 bits.
ValueId from_start(Call& c, ValueId index, int64_t size);

// 32 bits, which the NPU has. A known index stays as it is.
inline ValueId as_32_bits(NodeBuilder& c, ValueId index) {
  return c.graph.value(index).constant || c.dtype(index) != DType::I64 ? index : c.cast(index, DType::I32);
}

// The nearest element that exists: where a mask hides the result, an index may be anything.
inline ValueId inside(NodeBuilder& c, ValueId index, int64_t size) {
  return c.clamp(index, 0.0, static_cast<double>(size - 1));
}

// x with x[start::step] replaced by part, along one axis. All of part has a place.
ValueId write_slice(NodeBuilder& c, ValueId x, int64_t axis, int64_t start, int64_t step, ValueId part);

// x with x[..., index, ...] replaced by source, the index running along one axis from its start.
ValueId write_rows(NodeBuilder& c, ValueId x, int64_t axis, ValueId index, ValueId source);

}  // namespace swoop
