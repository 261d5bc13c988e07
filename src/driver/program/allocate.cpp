// The program's operator new and delete. Graphs, here and in regor, are millions of small blocks that come and go: the
// main thread keeps those that were freed in a list per size, which takes a fraction of malloc's time. All else is
// malloc's.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace {

constexpr size_t kUnit = 16;  // bytes: the alignment that new promises
constexpr size_t kMost = 32;  // units
constexpr size_t kChunk = size_t{1} << 16;

// Before each block, however it was made.
struct alignas(kUnit) Header {
  size_t units;  // with this one; 0: the block is malloc's
  Header* next;  // while it is free
};
static_assert(sizeof(Header) == kUnit && __STDCPP_DEFAULT_NEW_ALIGNMENT__ == kUnit);

std::array<Header*, kMost + 1> free_blocks;  // by units
std::byte* fresh = nullptr;                  // of the chunk at hand
std::byte* fresh_end = nullptr;
std::atomic<Header*> returned = nullptr;  // what other threads freed of the main thread's

thread_local bool has_lists = false;
[[maybe_unused]] const bool kMainThread = has_lists = true;  // the program's start initialises it

Header* from_malloc(size_t bytes) {
  auto* block = static_cast<Header*>(std::malloc(bytes));
  if (!block) throw std::bad_alloc();
  block->units = 0;
  return block;
}

void take_back() {
  for (Header* block = returned.exchange(nullptr, std::memory_order_acquire); block;) {
    Header* next = block->next;
    block->next = free_blocks[block->units];
    free_blocks[block->units] = block;
    block = next;
  }
}

Header* new_block(size_t units) {
  if (returned.load(std::memory_order_relaxed)) {
    take_back();
    if (Header* block = free_blocks[units]) {
      free_blocks[units] = block->next;
      return block;
    }
  }
  if (static_cast<size_t>(fresh_end - fresh) < units * kUnit) {  // what is left of the chunk is never used
    fresh = static_cast<std::byte*>(std::malloc(kChunk));
    fresh_end = fresh ? fresh + kChunk : nullptr;
    if (!fresh) throw std::bad_alloc();
  }
  auto* block = reinterpret_cast<Header*>(fresh);
  fresh += units * kUnit;
  block->units = units;
  return block;
}

}  // namespace

void* operator new(size_t bytes) {
  if (bytes > SIZE_MAX - kUnit) throw std::bad_alloc();
  if (bytes > (kMost - 1) * kUnit || !has_lists) return from_malloc(bytes + kUnit) + 1;
  const size_t units = (bytes + kUnit - 1) / kUnit + 1;
  Header* block = free_blocks[units];
  if (block)
    free_blocks[units] = block->next;
  else
    block = new_block(units);
  return block + 1;
}

void operator delete(void* pointer) noexcept {
  if (!pointer) return;
  Header* block = static_cast<Header*>(pointer) - 1;
  if (block->units == 0) return std::free(block);
  if (has_lists) {
    block->next = free_blocks[block->units];
    free_blocks[block->units] = block;
    return;
  }
  block->next = returned.load(std::memory_order_relaxed);
  while (!returned.compare_exchange_weak(block->next, block, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

void operator delete(void* pointer, size_t) noexcept { operator delete(pointer); }
