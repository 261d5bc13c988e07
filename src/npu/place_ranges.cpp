// Addresses for ranges of bytes, found by hill climbing as regor does it: each range takes the lowest free address, in
// an order that begins with the ranges of the busiest times; then two that had to do with the highest end change places
// in that order, at random but always in the same way, and the change stays unless the end becomes higher.
#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <tuple>

#include "npu/regor_parts.h"

namespace swoop {
namespace {

constexpr int kNobody = -1;
constexpr int64_t kNowhere = -1;

class Placement {
 public:
  explicit Placement(const std::vector<TimedRange>& ranges)
      : ranges_(ranges), count_(ranges.size()), neighbours_(count_), places_(count_), order_(count_), ends_(count_) {
    std::vector<std::vector<int>> at_time;
    for (const TimedRange& range : ranges)
      at_time.resize(std::max(at_time.size(), static_cast<size_t>(std::max(0, range.end + 1))));
    for (size_t i = 0; i < count_; ++i)
      for (int time = ranges[i].start; time <= ranges[i].end; ++time)
        at_time[static_cast<size_t>(time)].push_back(static_cast<int>(i));
    std::vector<int64_t> bytes_at;
    for (size_t time = 0; time < at_time.size(); ++time) {
      int64_t bytes = 0;
      for (int i : at_time[time]) bytes += range(i).size;
      bytes_at.push_back(bytes);
      lowest_end_ = std::max(lowest_end_, bytes);
      meet(at_time[time], static_cast<int>(time));
    }
    sort_by_urgency(bytes_at);
  }

  int64_t search(int64_t limit) {
    constexpr int kMost = 99999, kPatience = 5000;  // changes in all, and without an improvement if it fits
    int64_t best = place_all();
    int improved = 0;
    for (int i = 0; best > lowest_end_ && i < kMost; ++i) {
      const int64_t end = change(best, i - improved);
      if (end < best) {
        improved = i;
        best = end;
      } else if (best <= limit && i - improved > kPatience) {
        break;
      }
    }
    return best;
  }

  int64_t address(size_t i) const { return places_[i].address; }

 private:
  struct Place {
    int64_t address = kNowhere;
    int64_t end = 0;
    int below = kNobody;  // whose end is the address
    int turn = 0;         // in the order
  };

  struct Taken {
    int64_t address, end;
    int id;
  };

  const TimedRange& range(int i) const { return ranges_[static_cast<size_t>(i)]; }
  Place& place(int i) { return places_[static_cast<size_t>(i)]; }
  const std::vector<int>& neighbours(int i) const { return neighbours_[static_cast<size_t>(i)]; }
  int& at_turn(int turn) { return order_[static_cast<size_t>(turn)]; }

  // Ranges that are in use at one time are neighbours. Who meets first comes first in the lists, then the smaller
  // number.
  void meet(const std::vector<int>& in_use, int time) {
    std::vector<int> new_ones;
    for (int i : in_use)
      if (range(i).start == time) new_ones.push_back(i);
    for (int i : in_use)
      for (int j : range(i).start == time ? in_use : new_ones) {
        if (j <= i) continue;
        neighbours_[static_cast<size_t>(i)].push_back(j);
        neighbours_[static_cast<size_t>(j)].push_back(i);
      }
  }

  void sort_by_urgency(const std::vector<int64_t>& bytes_at) {
    std::vector<int64_t> urgency(count_, 0);
    for (size_t i = 0; i < count_; ++i)
      for (int time = ranges_[i].start; time <= ranges_[i].end; ++time)
        urgency[i] = std::max(urgency[i], bytes_at[static_cast<size_t>(time)]);
    std::iota(order_.begin(), order_.end(), 0);
    std::sort(order_.begin(), order_.end(), [&](int a, int b) {
      const auto key = [&](int i) {
        const TimedRange& r = range(i);
        // One that nobody uses goes from INT_MAX to -1: the difference wraps, as it does in regor.
        const auto length = static_cast<int>(static_cast<uint32_t>(r.start) - static_cast<uint32_t>(r.end));
        return std::tuple(-urgency[static_cast<size_t>(i)], length, r.start, -r.size, i);
      };
      return key(a) < key(b);
    });
  }

  // The lowest address at which no neighbour is in the way that had its turn before.
  void place_one(int i) {
    Place& to = place(i);
    taken_.clear();
    for (int other : neighbours(i))
      if (const Place& at = place(other); at.turn < to.turn) taken_.push_back({at.address, at.end, other});
    to.address = 0;
    to.below = kNobody;
    for (bool fits = false; !fits;) {
      fits = true;
      for (const Taken& other : taken_)
        if (other.end > to.address && other.address < to.address + range(i).size) {
          fits = false;
          to.address = other.end;
          to.below = other.id;
        }
    }
    to.end = to.address + range(i).size;
  }

  int64_t place_all() {
    for (size_t turn = 0; turn < count_; ++turn) place(order_[turn]).turn = static_cast<int>(turn);
    must_move_.assign(count_, true);
    return place_from(0, std::numeric_limits<int64_t>::max());
  }

  // Those whose turn has changed, and their neighbours that had their turn after them and now before, or the other way
  // round.
  void find_moves() {
    must_move_.assign(count_, false);
    for (int turn : changed_) {
      must_move_[static_cast<size_t>(at_turn(turn))] = true;
      place(at_turn(turn)).turn = turn;
    }
    for (int turn : changed_) {
      const int i = at_turn(turn);
      const int before = places_before_[static_cast<size_t>(i)].turn;
      for (int other : neighbours(i)) {
        const bool was_later = before < places_before_[static_cast<size_t>(other)].turn;
        if (was_later != (turn < place(other).turn)) must_move_[static_cast<size_t>(other)] = true;
      }
    }
  }

  // Places those that must move from a turn on, as long as none ends above `best`, and whoever has a neighbour that
  // moved before. All others would come to where they are.
  int64_t place_from(int first, int64_t best) {
    int64_t end = first > 0 ? ends_[static_cast<size_t>(first) - 1] : 0;
    for (size_t turn = static_cast<size_t>(first); turn < count_ && end <= best; ++turn) {
      const int i = order_[turn];
      if (must_move_[static_cast<size_t>(i)]) {
        const int64_t before = place(i).address;
        place_one(i);
        if (place(i).address != before)
          for (int other : neighbours(i)) must_move_[static_cast<size_t>(other)] = true;
      }
      end = std::max(end, place(i).end);
      ends_[turn] = end;
    }
    return end;
  }

  // Changes the order and places all again; takes it back if they end above `best`. Returns their end.
  int64_t change(int64_t best, int stuck) {
    changed_.clear();
    choose_change(stuck);
    const int first = *std::min_element(changed_.begin(), changed_.end());
    places_before_ = places_;
    ends_before_ = ends_;
    find_moves();
    const int64_t end = place_from(first, best);
    if (end <= best) return end;
    places_ = places_before_;
    ends_ = ends_before_;
    for (size_t i = changed_.size(); i > 0; i -= 2) std::swap(at_turn(changed_[i - 1]), at_turn(changed_[i - 2]));
    return end;
  }

  void swap_turns(int a, int b) {
    std::swap(at_turn(a), at_turn(b));
    changed_.push_back(a);
    changed_.push_back(b);
  }

  // Two of those that the highest range, its neighbours and all below them are; and where that has not helped for
  // long, two of all that have to do with it over any number of others.
  void choose_change(int stuck) {
    constexpr int kStuck = 25;
    constexpr uint32_t kOutsiders = 30;  // per cent
    const auto highest = static_cast<int>(
        std::max_element(places_.begin(), places_.end(), [](const Place& a, const Place& b) { return a.end < b.end; }) -
        places_.begin());
    involved_.assign(count_, false);
    involve(highest);
    for (int other : neighbours(highest)) involve(other);
    turns_.clear();
    outsiders_.clear();  // those that are not in use together with the highest make the gaps
    for (size_t turn = 0; turn < count_; ++turn) {
      const int i = order_[turn];
      if (!involved_[static_cast<size_t>(i)]) continue;
      turns_.push_back(static_cast<int>(turn));
      const bool together = range(highest).start <= range(i).end && range(i).start <= range(highest).end;
      if (!together) outsiders_.push_back(static_cast<int>(turn));
    }
    const bool outsider = random_() % 100 < kOutsiders && !outsiders_.empty();
    const int first = any_of(outsider ? outsiders_ : turns_);
    const int second = any_of(turns_);
    swap_turns(first, first != second ? second : turns_.back());
    if (stuck <= kStuck) return;
    for (int i : reached_from(highest))
      if (!involved_[static_cast<size_t>(i)]) turns_.push_back(place(i).turn);
    const int third = any_of(turns_);
    const int fourth = any_of(turns_);
    swap_turns(third, third != fourth ? fourth : turns_.back());
  }

  int any_of(const std::vector<int>& turns) { return turns[random_() % turns.size()]; }

  // With all below it. Who is involved has brought those already.
  void involve(int i) {
    for (; i != kNobody && !involved_[static_cast<size_t>(i)]; i = place(i).below)
      involved_[static_cast<size_t>(i)] = true;
  }

  // Neighbours, their neighbours and so on, the nearest first: the same each time.
  const std::vector<int>& reached_from(int start) {
    constexpr size_t kMostKept = size_t{1} << 24;
    if (reached_.size() * count_ > kMostKept) reached_.clear();
    auto [known, fresh] = reached_.try_emplace(start);
    std::vector<int>& list = known->second;
    if (!fresh) return list;
    std::vector<bool> seen(count_, false);
    seen[static_cast<size_t>(start)] = true;
    const auto see = [&](int i) {
      for (int other : neighbours(i)) {
        if (seen[static_cast<size_t>(other)]) continue;
        seen[static_cast<size_t>(other)] = true;
        list.push_back(other);
      }
    };
    see(start);
    for (size_t i = 0; i < list.size(); ++i) see(list[i]);
    return list;
  }

  const std::vector<TimedRange>& ranges_;
  const size_t count_;
  std::vector<std::vector<int>> neighbours_;
  std::vector<Place> places_;
  std::vector<int> order_;     // by turn: who is placed
  std::vector<int64_t> ends_;  // by turn: of all that are placed by then
  std::vector<int> changed_;   // turns that changed places, in pairs
  std::vector<Place> places_before_;
  std::vector<int64_t> ends_before_;
  std::vector<Taken> taken_;     // what place_one() works with
  std::vector<bool> must_move_;  // what place_from() works with
  std::vector<bool> involved_;   // what choose_change() works with
  std::vector<int> turns_, outsiders_;
  std::map<int, std::vector<int>> reached_;
  int64_t lowest_end_ = 0;  // what is in use at the busiest time
  std::mt19937 random_;     // regor's: its sequence is part of the result
};

}  // namespace

int64_t place_ranges(std::vector<TimedRange>& ranges, int64_t limit) {
  Placement placement(ranges);
  const int64_t end = placement.search(limit);
  for (size_t i = 0; i < ranges.size(); ++i) ranges[i].address = placement.address(i);
  return end;
}

}  // namespace swoop
