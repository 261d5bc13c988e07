// What executorch::runtime::Method allocates from the method allocator while it loads a plan: the figure a firmware
// engineer reserves.
#pragma once

#include <cstdint>

#include "schema/program.h"

namespace swoop::emit {

// A vector that may be absent in the file.
template <typename T>
size_t length(const swoop_flatbuffers::Vector<T>* vector) {
  return vector ? vector->size() : 0;
}

// Bytes of a bump allocator on a 64-bit machine, allocation by allocation as executorch 1.5.1 makes them (without what
// a delegate's init adds; Ethos-U's adds nothing). The verifier has passed the plan. `temp_bytes`: the size of the
// temporary allocator, which the runtime borrows while it looks for kernels, if it is large enough.
int64_t method_memory(const executorch_flatbuffer::ExecutionPlan& plan, int64_t temp_bytes);

}  // namespace swoop::emit
