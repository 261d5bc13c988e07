// What reading and writing by indices share.
#pragma once

#include "import/call.h"

namespace swoop {

// Indices from the end count backwards. Known ones are turned round at import, computed ones by the model.
ValueId from_start(Call& c, ValueId index, int64_t size);

// The nearest element that exists: where a mask hides the result, an index may be anything.
inline ValueId inside(Call& c, ValueId index, int64_t size) {
  return c.clamp(index, 0.0, static_cast<double>(size - 1));
}

}  // namespace swoop
