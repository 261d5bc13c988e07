// The memory the NPU sees: up to eight regions, each with a bit that says "was written" for every byte, and the
// internal memory for look-up tables. Why: what a device would do with a wild address or a stale byte is undefined;
// here it is an Error with the address. Invariants: no pointer leaves a check() without its whole range being inside
// the region.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "run/hazards.h"
#include "run/run.h"

namespace swoop::ethos {

struct Region {
  std::byte* data = nullptr;  // read-only regions are never written through this
  uint64_t size = 0;
  bool present = false;
  bool writable = false;
  std::vector<uint64_t> written;  // a bit per byte; empty means all of it is initialised (read-only data)
  std::vector<uint16_t> in_page;  // how many of them are set in each page

  void clear(uint64_t bytes);                 // nothing is written
  void mark(uint64_t first, uint64_t bytes);  // written
  void unmark(uint64_t at);
  std::optional<uint64_t> hole(uint64_t first, uint64_t bytes) const;  // the first byte that is not; null: all are
};

class Memory {
 public:
  void add_read_only(int region, Bytes bytes);
  void add_scratch(int region, Buffer& storage);
  void set_internal_size(uint32_t bytes);

  // Names the region in messages: "region 1", "internal memory".
  static std::string region_name(int region);

  // A range the operation may read; every byte must have been written before.
  Result<const std::byte*> readable(int region, int64_t first, uint64_t size, const char* what) const;
  // A range it may write; marked as written.
  Result<std::byte*> writable(int region, int64_t first, uint64_t size, const char* what);
  // The same for `count` runs of `size` bytes, `step` > 0 apart; what is between them is neither read nor written.
  struct Runs {
    int64_t first = 0;
    uint64_t size = 0;
    int64_t step = 1;
    int count = 1;

    uint64_t reach() const { return static_cast<uint64_t>(step) * static_cast<uint64_t>(count - 1) + size; }
    uint64_t bytes() const { return size * static_cast<uint64_t>(count); }
    // One run, where there is nothing between them.
    Runs joined() const { return static_cast<uint64_t>(step) == size ? Runs{first, bytes()} : *this; }
    bool operator==(const Runs&) const = default;
  };
  Result<const std::byte*> readable(int region, const Runs& runs, const char* what) const;
  Result<std::byte*> writable(int region, const Runs& runs, const char* what);
  // Somebody reads a look-up table in the internal memory. The position of the transfer that came too early, if one
  // did: it overwrote a part of the table, or all of it before anybody read it.
  std::optional<uint32_t> read_table(int64_t first, uint64_t size);
  // Copies bytes together with their "was written" marks: a transfer of padding is harmless until somebody computes
  // with it.
  Result<void> copy(int from, int64_t source, int to, int64_t destination, uint64_t size);

  void begin_transfer(uint32_t position) { transfer_ = position; }

  void mark_written(int region, uint64_t first, uint64_t size);
  Bytes region_bytes(int region) const;

  // What was touched since the last call: the smallest range around each operand.
  Accesses take_accesses();

 private:
  Result<const Region*> find(int region, int64_t first, uint64_t size, const char* what) const;
  Result<Region*> find(int region, int64_t first, uint64_t size, const char* what);
  void note(bool write, const char* what, int region, uint64_t first, uint64_t last, uint64_t bytes) const;

  std::array<Region, kNpuRegionCount> regions_;
  Region internal_;
  Buffer internal_storage_;
  static constexpr uint64_t kInternalUnit = 16;  // bytes, that transfers into the internal memory are multiples of
  struct Unit {
    uint32_t brought_by = 0;      // position of the transfer
    uint32_t overwritten_by = 0;  // of the first that changed it before somebody read it; 0: none did
    bool read = true;
  };
  std::vector<Unit> units_;
  // Runs with gaps between them that were found to be written, of late. A matrix product writes and reads the same
  // thousands of runs for each of its columns.
  static constexpr int kManyRuns = 16;
  struct Known {
    int region = 0;
    Runs runs = {};
    bool operator==(const Known&) const = default;
  };
  Known& place_of(const Runs& runs) const;
  bool is_known(int region, const Runs& runs) const;
  void remember(int region, const Runs& runs) const;
  mutable std::array<Known, 64> known_;
  uint32_t transfer_ = 0;
  mutable Accesses touched_;
};

}  // namespace swoop::ethos
