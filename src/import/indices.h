// What reading and writing by indices share.
#pragma once

#include "import/call.h"

namespace swoop {

// Indices from the end count backwards. Known ones are turned round at import, computed ones by the model.
ValueId from_start(Call& c, ValueId index, int64_t size);

}  // namespace swoop
