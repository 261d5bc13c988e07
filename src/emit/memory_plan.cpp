#include "emit/memory_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "support/check.h"

namespace swoop::emit {

namespace {

int64_t aligned(int64_t bytes) { return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment; }

void touch(Plan& plan, int value, int position) {
  if (value < 0) return;
  const PlanValue& v = plan.values[static_cast<size_t>(value)];
  if (const auto* tensor = std::get_if<TensorValue>(&v)) {
    if (tensor->storage < 0) return;
    Storage& storage = plan.storages[static_cast<size_t>(tensor->storage)];
    if (storage.last < storage.first) {
      storage.first = storage.last = position;
    } else {
      storage.first = std::min(storage.first, position);
      storage.last = std::max(storage.last, position);
    }
  } else if (const auto* list = std::get_if<TensorList>(&v)) {
    for (int item : list->items) touch(plan, item, position);
  } else if (const auto* optional = std::get_if<OptionalTensorList>(&v)) {
    for (int item : optional->items) touch(plan, item, position);
  }
}

// One trial: storages in the given order, each at the lowest gap among the placed ones it meets in time (best_fit: the
// tightest gap).
class Packing {
 public:
  explicit Packing(const Plan& plan) : plan_(plan), offsets_(plan.storages.size(), -1) {}

  int64_t run(const std::vector<int>& order, bool best_fit, int64_t give_up_at) {
    std::fill(offsets_.begin(), offsets_.end(), -1);
    placed_.clear();
    int64_t peak = 0;
    for (int index : order) {
      const Storage& storage = plan_.storages[static_cast<size_t>(index)];
      int64_t bytes = aligned(storage.bytes);
      neighbours_.clear();
      for (int other : placed_) {
        const Storage& o = plan_.storages[static_cast<size_t>(other)];
        if (o.first <= storage.last && storage.first <= o.last)
          neighbours_.emplace_back(offsets_[static_cast<size_t>(other)], aligned(o.bytes));
      }
      std::sort(neighbours_.begin(), neighbours_.end());
      int64_t at = find_gap(bytes, best_fit);
      offsets_[static_cast<size_t>(index)] = at;
      placed_.push_back(index);
      peak = std::max(peak, at + bytes);
      if (peak >= give_up_at) return peak;
    }
    return peak;
  }

  const std::vector<int64_t>& offsets() const { return offsets_; }

 private:
  int64_t find_gap(int64_t bytes, bool best_fit) const {
    int64_t end = 0;
    int64_t best = -1;
    int64_t best_size = std::numeric_limits<int64_t>::max();
    for (const auto& [offset, size] : neighbours_) {
      int64_t gap = offset - end;
      if (gap >= bytes && gap < best_size) {
        best = end;
        best_size = gap;
        if (!best_fit) return best;
      }
      end = std::max(end, offset + size);
    }
    return best >= 0 ? best : end;
  }

  const Plan& plan_;
  std::vector<int64_t> offsets_;
  std::vector<int> placed_;
  std::vector<std::pair<int64_t, int64_t>> neighbours_;
};

// For very long host programs: in order of birth, looking only at what is alive, so that time stays linear.
int64_t sweep(Plan& plan, std::vector<int> order) {
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    return plan.storages[static_cast<size_t>(a)].first < plan.storages[static_cast<size_t>(b)].first;
  });
  std::vector<int> alive;
  int64_t peak = 0;
  for (int index : order) {
    Storage& storage = plan.storages[static_cast<size_t>(index)];
    std::erase_if(alive, [&](int other) { return plan.storages[static_cast<size_t>(other)].last < storage.first; });
    int64_t bytes = aligned(storage.bytes);
    int64_t at = 0;
    size_t slot = 0;  // alive is sorted by offset
    for (; slot < alive.size(); ++slot) {
      const Storage& other = plan.storages[static_cast<size_t>(alive[slot])];
      if (other.offset - at >= bytes) break;
      at = std::max(at, other.offset + aligned(other.bytes));
    }
    storage.offset = at;
    auto where = std::upper_bound(alive.begin(), alive.end(), at, [&](int64_t offset, int other) {
      return offset < plan.storages[static_cast<size_t>(other)].offset;
    });
    alive.insert(where, index);
    peak = std::max(peak, at + bytes);
  }
  return peak;
}

using Ranking = int64_t (*)(const Storage&);

// Big first, long-lived first, or both; then by birth and by death.
constexpr Ranking kRankings[] = {
    [](const Storage& s) { return -s.bytes; },
    [](const Storage& s) { return -s.bytes * (s.last - s.first + 1); },
    [](const Storage& s) { return -int64_t{s.last - s.first}; },
    [](const Storage& s) { return int64_t{s.first}; },
    [](const Storage& s) { return -int64_t{s.last}; },
};

constexpr size_t kExhaustiveLimit = 2000;  // storages; above it every trial would cost millions of comparisons
constexpr int kSwaps = 400;                // random exchanges tried when no order reaches the bound

}  // namespace

void find_lifetimes(Plan& plan) {
  int end = static_cast<int>(plan.instructions.size());
  for (Storage& storage : plan.storages) {
    storage.first = 0;
    storage.last = -2;
  }
  for (int input : plan.inputs) touch(plan, input, -1);
  for (int output : plan.outputs) touch(plan, output, end);
  for (int i = 0; i < end; ++i) {
    const Instruction& instruction = plan.instructions[static_cast<size_t>(i)];
    if (const auto* kernel = std::get_if<KernelCall>(&instruction)) {
      for (int arg : kernel->args) touch(plan, arg, i);
    } else if (const auto* call = std::get_if<DelegateCall>(&instruction)) {
      for (int arg : call->args) touch(plan, arg, i);
    } else {
      touch(plan, std::get<JumpFalse>(instruction).condition, i);
    }
  }
  for (Storage& storage : plan.storages)  // a tensor that nothing touches must still be inside the arena
    if (storage.last < storage.first) storage.first = storage.last = -1;
  for (const Hold& hold : plan.holds) {
    Storage& storage = plan.storages[static_cast<size_t>(hold.storage)];
    storage.first = std::min(storage.first, hold.first);
    storage.last = std::max(storage.last, hold.last);
  }
  // What a loop reads from before it must survive until the loop's last turn. Inner loops end earlier, so they come
  // first.
  for (int i = 0; i < end; ++i) {
    const auto* jump = std::get_if<JumpFalse>(&plan.instructions[static_cast<size_t>(i)]);
    if (!jump || jump->destination > i) continue;
    for (Storage& storage : plan.storages)
      if (storage.first < jump->destination && storage.last >= jump->destination)
        storage.last = std::max(storage.last, i);
  }
}

int64_t live_bytes_bound(const Plan& plan) {
  std::vector<std::pair<int, int64_t>> events;  // position, change; a death counts after its last instruction
  for (const Storage& storage : plan.storages) {
    events.emplace_back(storage.first, aligned(storage.bytes));
    events.emplace_back(storage.last + 1, -aligned(storage.bytes));
  }
  std::sort(events.begin(), events.end());
  int64_t alive = 0;
  int64_t most = 0;
  for (const auto& [position, change] : events) {
    alive += change;  // at equal positions deaths (negative) sort first
    most = std::max(most, alive);
  }
  return most;
}

void place_storages(Plan& plan) {
  std::vector<int> used(plan.storages.size());
  std::iota(used.begin(), used.end(), 0);
  if (used.size() > kExhaustiveLimit) {
    plan.arena_bytes = sweep(plan, std::move(used));
    return;
  }

  const int64_t bound = live_bytes_bound(plan);
  Packing packing(plan);
  std::vector<int64_t> best_offsets(plan.storages.size(), 0);
  std::vector<int> best_order;
  int64_t best = std::numeric_limits<int64_t>::max();
  auto attempt = [&](const std::vector<int>& order, bool best_fit) {
    int64_t peak = packing.run(order, best_fit, best);
    if (peak >= best) return;
    best = peak;
    best_offsets = packing.offsets();
    best_order = order;
  };
  for (Ranking ranking : kRankings) {
    std::vector<int> order = used;
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return ranking(plan.storages[static_cast<size_t>(a)]) < ranking(plan.storages[static_cast<size_t>(b)]);
    });
    for (bool best_fit : {false, true})
      if (best > bound) attempt(order, best_fit);
  }
  // A fixed pseudo-random walk around the best order; xorshift32, so that every machine tries the same exchanges.
  uint32_t state = 0x9e3779b9u;
  auto random = [&](size_t limit) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state % limit;
  };
  int swaps = used.size() > 256 ? kSwaps / 10 : kSwaps;
  for (int i = 0; i < swaps && best > bound && used.size() > 2; ++i) {
    std::vector<int> order = best_order;
    std::swap(order[random(order.size())], order[random(order.size())]);
    attempt(order, (i & 1) != 0);
  }
  CHECK(used.empty() || best >= bound, "an arena of {} bytes cannot hold {} live bytes", best, bound);
  plan.arena_bytes = used.empty() ? 0 : best;
  for (int index : used) plan.storages[static_cast<size_t>(index)].offset = best_offsets[static_cast<size_t>(index)];
}

}  // namespace swoop::emit
