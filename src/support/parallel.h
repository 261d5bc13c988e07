// parallel_for: splits [0, count) over the machine's cores. Results must not depend on how the range is split.
#pragma once

#include <cstddef>
#include <functional>

namespace swoop {

// 0 = one per core. Set once by the driver (--threads).
void set_thread_count(int threads);
int thread_count();

// Calls body(first, last) on disjoint ranges that cover [0, count), all but the last at least `grain` long, from
// several threads; returns when all are done. Runs in the caller's thread when there is too little to split.
void parallel_for(size_t count, size_t grain, const std::function<void(size_t first, size_t last)>& body);

}  // namespace swoop
