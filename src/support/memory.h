// How much memory this program may take, so that it ends with a sentence and not by the system's choice.
#pragma once

#include <cstdint>

namespace swoop {

// Three quarters of the machine's memory, or of what the control group allows.
uint64_t usable_memory();

// Allocations that would bring this process above `bytes`, on top of what it has now, throw std::bad_alloc; and where
// nobody catches it (or another exception), the program ends with a sentence. Children are not limited by it.
void limit_memory(uint64_t bytes);

// Gives memory that was freed, but kept for later, back to the system where it is much. It takes milliseconds, and what
// is used again has to be cleared by the system: for times when another process has work to do.
void return_freed_memory();

}  // namespace swoop
