// Places the storages of a plan in one arena.
#pragma once

#include "emit/plan.h"

namespace swoop::emit {

constexpr int64_t kArenaAlignment = 16;  // of every tensor, as ExecuTorch's own planner has it

// From the instructions: when each storage is first and last touched, loops included.
void find_lifetimes(Plan& plan);

// Gives every storage an offset such that no two live at the same time overlap, and sets the arena's size. Tries
// several orders and keeps the smallest arena; the same plan always gets the same offsets.
void place_storages(Plan& plan);

// What no placement can beat: the most bytes alive at once.
int64_t live_bytes_bound(const Plan& plan);

}  // namespace swoop::emit
