// Weights as the NPU reads them: a palette of the most common ones, then slices of symbols. A symbol is a place in the
// palette, or comes after it. A slice writes symbols with a Golomb-Rice code: quotients in units of up to three, 12
// units at a time, and what is left of their symbols after the next 12. Where most weights are zeros, the lengths of
// their runs are written in between. How regor chooses all of this, number for number.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <utility>

#include "npu/weight_slices.h"

namespace swoop {
namespace {

constexpr int kMost = 255;  // weight, with its zero point taken off
constexpr int kWeights = 512;
constexpr int kPalette = 32;
constexpr int kLongestSlice = (1 << 15) - 1;
constexpr int kDivisors = 6, kOneWidth = 12;  // of the codings
constexpr int kUnits = 12;                    // of quotients that are written together
constexpr uint64_t kNoZeroRuns = 6, kEnd = 7, kNoQuotients = 7;

class Bits {
 public:
  explicit Bits(std::vector<uint8_t>& bytes) : bytes_(bytes), start_(bytes.size()) {}

  // At most 60 of them.
  void put(int count, uint64_t bits) {
    word_ |= bits << filled_;
    filled_ += count;
    if (filled_ < 64) return;
    write();
    filled_ -= 64;
    word_ = filled_ > 0 ? bits >> (count - filled_) : 0;
  }

  // Ones up to the next multiple of 16 bytes.
  void finish() {
    while (filled_ % 8 != 0) put(1, 1);
    const auto whole = static_cast<size_t>(filled_ / 8);
    write();
    at_ = at_ - sizeof(word_) + whole;
    const size_t length = at_ - start_;
    bytes_.resize(start_ + length);
    bytes_.resize(start_ + (length + 15) / 16 * 16, 0xff);
  }

 private:
  void write() {
    // More room for what this call writes, not for all that earlier calls wrote: a layer has thousands of calls.
    if (at_ + sizeof(word_) > bytes_.size()) bytes_.resize(bytes_.size() + std::max<size_t>(4096, at_ - start_));
    std::memcpy(bytes_.data() + at_, &word_, sizeof(word_));
    at_ += sizeof(word_);
  }

  std::vector<uint8_t>& bytes_;
  size_t start_, at_ = start_;
  uint64_t word_ = 0;
  int filled_ = 0;
};

using Counts = std::array<uint32_t, kWeights>;  // by weight, from -256 on

Counts count_weights(const int16_t* weights, int64_t count) {
  constexpr int kLists = 4;  // equal weights follow one another: a count waits for the one before it
  std::array<Counts, kLists> lists{};
  for (int64_t i = 0; i < count; ++i) ++lists[i % kLists][static_cast<size_t>(weights[i] + kMost + 1)];
  Counts sum{};
  for (size_t weight = 0; weight < sum.size(); ++weight)
    for (const Counts& list : lists) sum[weight] += list[weight];
  return sum;
}

// Whether zeros are written as runs: they are much more common than any other weight, and most have neighbours.
bool has_zero_runs(const Counts& counts, const int16_t* weights, int64_t count) {
  constexpr uint32_t kMuch = 5;
  constexpr int64_t kShortest = 2;
  uint32_t common = 0;
  for (size_t weight = 0; weight < counts.size(); ++weight)
    if (weight != kMost + 1) common = std::max(common, counts[weight]);
  const uint32_t zeros = counts[kMost + 1];
  if (zeros <= kMuch * common) return false;
  int64_t in_runs = 0;
  for (int64_t i = 0; i < count;) {
    int64_t end = i;
    while (end < count && weights[end] == 0) ++end;
    if (end - i >= kShortest) in_runs += end - i;
    i = std::max(end, i + 1);
  }
  return in_runs >= zeros / 2;
}

struct Palette {
  std::array<uint16_t, kPalette> entries{};  // twice the magnitude, and the sign
  int size = 0;
  int entry_bits = 2;
  int first = 0;                            // entry of the smallest weight: those before it need no symbol
  int width = 0;                            // of symbols, where all may have the same; 0: they may not
  std::array<int16_t, kWeights> symbols{};  // by weight, from -256 on
};

Palette palette_of(const Counts& counts, int64_t count) {
  // By how common they are; among equals, large entries first.
  std::array<uint64_t, kWeights> ranks;
  int used = 0, largest = 0;
  Palette palette;
  palette.first = kPalette - 1;
  for (int weight = -kMost; weight <= kMost; ++weight) {
    const uint32_t times = counts[static_cast<size_t>(weight + kMost + 1)];
    if (times == 0) continue;
    const int entry = 2 * std::abs(weight) + (weight < 0 ? 1 : 0);
    largest = std::max(largest, entry);
    palette.first = std::min(palette.first, entry);
    ranks[static_cast<size_t>(used++)] = uint64_t{times} << 16 | static_cast<uint64_t>(entry);
  }
  const bool holds_all = used <= kPalette;
  int most = holds_all ? kPalette : std::min(kPalette, 2 * kMost + 1 - largest);
  if (most == 1) most = 0;
  palette.size = std::min(used, most);
  std::partial_sort(ranks.begin(), ranks.begin() + palette.size, ranks.begin() + used, std::greater<>());
  int64_t covered = 0;
  int largest_entry = 0;
  for (int i = 0; i < palette.size; ++i) {
    const uint64_t rank = ranks[static_cast<size_t>(i)];
    palette.entries[static_cast<size_t>(i)] = static_cast<uint16_t>(rank);
    largest_entry = std::max(largest_entry, static_cast<int>(static_cast<uint16_t>(rank)));
    covered += static_cast<int64_t>(rank >> 16);
  }
  if (palette.size == 1) palette.size = 2;  // the second is never used
  const bool worthwhile = covered >= count / 2;
  if (!worthwhile) palette.size = 0;
  palette.entry_bits =
      std::max(2, static_cast<int>(std::bit_width(static_cast<unsigned>(worthwhile ? largest_entry : largest))));
  if (holds_all)
    palette.width = static_cast<int>(std::bit_width(static_cast<unsigned>(std::max(palette.size, 1) - 1)));
  else if (palette.size == 0)
    palette.width = palette.entry_bits;

  int symbol = palette.size - palette.first;
  for (int size = 0; size <= kMost; ++size, symbol += 2) {
    palette.symbols[static_cast<size_t>(kMost + 1 + size)] = static_cast<int16_t>(symbol);
    palette.symbols[static_cast<size_t>(kMost + 1 - size)] = static_cast<int16_t>(symbol + 1);
  }
  for (int i = 0; i < palette.size; ++i) {
    const int entry = palette.entries[static_cast<size_t>(i)];
    const int weight = entry % 2 == 1 ? -(entry / 2) : entry / 2;
    palette.symbols[static_cast<size_t>(kMost + 1 + weight)] = static_cast<int16_t>(i);
  }
  return palette;
}

void put_header(Bits& out, int64_t count, int coding, uint64_t zero_runs, const Palette* palette) {
  out.put(3, zero_runs);
  out.put(15, static_cast<uint64_t>(count - 1));
  out.put(3, coding == kOneWidth ? kNoQuotients : static_cast<uint64_t>(coding % kDivisors));
  out.put(1, coding >= kDivisors && coding != kOneWidth ? 1 : 0);
  out.put(1, palette ? 1 : 0);
  if (!palette) return;
  out.put(5, static_cast<uint64_t>(palette->first));
  out.put(5, static_cast<uint64_t>(std::max(0, palette->size - 1)));
  out.put(3, static_cast<uint64_t>(palette->entry_bits - 2));
  for (int i = 0; i < palette->size; ++i) out.put(palette->entry_bits, palette->entries[static_cast<size_t>(i)]);
}

// Units of quotients wait until there are 12. A unit is 0, or 1 and another bit: of a quotient that is cut off it is 0,
// 1 or 2; of the others there is one for each 2 in it, and one for what is left.
template <bool cut_off>
void put_quotients(Bits& out, const int16_t* symbols, int64_t count, int divisor) {
  uint64_t units = 0, seconds = 0;  // not written yet
  int unit_count = 0, second_count = 0;
  uint64_t rests = 0, rests_before = 0;  // of the symbols that end in these 12 units, and in the 12 before
  int rest_bits = 0, rest_bits_before = 0;
  const auto flush = [&] {
    const uint64_t now = units & ((1u << kUnits) - 1);
    const int both = std::popcount(now);
    out.put(kUnits, now);
    out.put(both, seconds & ((1u << both) - 1));
    out.put(rest_bits_before, rests_before);
    units >>= kUnits;
    seconds >>= both;
    unit_count -= kUnits;
    second_count -= both;
    rests_before = std::exchange(rests, 0);
    rest_bits_before = std::exchange(rest_bits, 0);
  };
  for (int64_t i = 0; i < count; ++i) {
    const auto symbol = static_cast<unsigned>(symbols[i]);
    const unsigned quotient = symbol >> divisor;
    if (cut_off) {
      units |= uint64_t{quotient > 0} << unit_count;
      seconds |= uint64_t{quotient > 1} << second_count;
      ++unit_count;
      second_count += quotient > 0;
    } else {
      const unsigned pairs = quotient / 2, odd = quotient % 2;
      const uint64_t ones = (uint64_t{1} << pairs) - 1;
      units |= (ones | uint64_t{odd} << pairs) << unit_count;
      seconds |= ones << second_count;
      unit_count += static_cast<int>(pairs) + 1;
      second_count += static_cast<int>(pairs + odd);
    }
    while (unit_count > kUnits) flush();
    rests |= uint64_t{symbol & ((1u << divisor) - 1)} << rest_bits;
    rest_bits += divisor;
    if (unit_count == kUnits) flush();
  }
  if (unit_count > 0) flush();
  out.put(rest_bits_before, rests_before);
}

void put_slice(Bits& out, const int16_t* symbols, int64_t count, int coding, int width) {
  if (coding == kOneWidth)
    for (int64_t i = 0; i < count; ++i) out.put(width, static_cast<uint64_t>(symbols[i]));
  else if (coding >= kDivisors)
    put_quotients<true>(out, symbols, count, coding - kDivisors);
  else
    put_quotients<false>(out, symbols, count, coding);
}

// The coding of runs of zeros: its divisor. Regor changes it where another one has saved 40 bits, from the first run
// on.
int divisor_of_runs(const std::vector<int32_t>& runs) {
  constexpr int kCodings = 4, kChange = 40;
  std::array<int64_t, kCodings> bits{};
  size_t chosen = kCodings;
  for (int32_t run : runs) {
    const int64_t before = chosen < kCodings ? bits[chosen] : 0;
    for (int divisor = 0; divisor < kCodings; ++divisor)
      bits[static_cast<size_t>(divisor)] += (run >> divisor) + 1 + divisor;
    const auto best = static_cast<size_t>(std::min_element(bits.begin(), bits.end()) - bits.begin());
    if (chosen == kCodings || bits[best] + kChange < before) chosen = best;
  }
  return static_cast<int>(chosen);
}

// Numbers that are written in turn with others: some units of quotients, and the rests of those that ended in the units
// before.
template <typename Number>
struct InTurn {
  const Number* numbers;
  int64_t count;
  int divisor;
  int64_t done = 0, done_before = 0, written = 0;  // whose quotients are in these units, in those before, all of it
  bool active = false;
  uint64_t units = 0, seconds = 0;
  int second_count = 0;

  uint64_t number(int64_t i) const { return static_cast<uint64_t>(static_cast<uint32_t>(numbers[i])); }

  void put_rests(Bits& out) {
    for (; written < done_before; ++written) out.put(divisor, number(written) & ((uint64_t{1} << divisor) - 1));
    done_before = done;
  }
};

struct Symbols : InTurn<int16_t> {
  bool cut_off, one_width;
  int64_t loaded = 0;
  uint64_t pending_units = 0, pending_seconds = 0;
  int unit_count = 0, pending_count = 0;
  uint64_t ends = 0;  // by unit: it is the last of its symbol

  void next() {
    if (one_width) {
      done = std::min(count, done + (divisor > 5 ? 8 : kUnits));
      return;
    }
    while (unit_count < kUnits && loaded < count) {
      const auto quotient = static_cast<unsigned>(number(loaded++) >> divisor);
      const unsigned pairs = cut_off ? 0 : quotient / 2, left = quotient - 2 * pairs;
      const uint64_t ones = (uint64_t{1} << pairs) - 1;
      pending_units |= (ones | uint64_t{left > 0} << pairs) << unit_count;
      pending_seconds |= (ones | uint64_t{left > 1} << pairs) << pending_count;
      unit_count += static_cast<int>(pairs) + 1;
      pending_count += static_cast<int>(pairs) + (left > 0 ? 1 : 0);
      ends |= uint64_t{1} << (unit_count - 1);
    }
    constexpr uint64_t kMask = (1u << kUnits) - 1;
    units = pending_units & kMask;
    second_count = std::popcount(units);
    seconds = pending_seconds & ((uint64_t{1} << second_count) - 1);
    done += std::popcount(ends & kMask);
    pending_units >>= kUnits;
    pending_seconds >>= second_count;
    pending_count -= second_count;
    ends >>= kUnits;
    unit_count = std::max(0, unit_count - kUnits);
  }
};

struct Runs : InTurn<int32_t> {
  int unit_count = divisor < 3 ? 12 : 8;
  int64_t left = -1;  // ones of the run at hand; none: it is not begun

  void next() {
    units = 0;
    for (int unit = 0; unit < unit_count && done < count; ++unit) {
      if (left < 0) left = static_cast<int64_t>(number(done) >> divisor);
      if (left > 0) units |= uint64_t{1} << unit;
      if (--left < 0) ++done;
    }
  }
};

// Weights are at most eight ahead of the runs before them.
void put_in_turn(Bits& out, Symbols symbols, Runs runs) {
  constexpr int64_t kAhead = 8;
  bool symbols_before = false, runs_before = false;
  do {
    const int64_t ahead = symbols.done - runs.done;
    symbols.active = ahead < kAhead && symbols.done < symbols.count;
    runs.active = ahead >= 0 && runs.done < runs.count;
    if (symbols.active) symbols.next();
    if (runs.active) runs.next();
    if (symbols.active && !symbols.one_width) out.put(kUnits, symbols.units);
    if (runs.active) out.put(runs.unit_count, runs.units);
    if (symbols.active && !symbols.one_width) out.put(symbols.second_count, symbols.seconds);
    symbols.put_rests(out);
    runs.put_rests(out);
    symbols_before = symbols.active;
    runs_before = runs.active;
  } while (symbols_before || runs_before);
}

// Zeros are left out of the symbols; before each of those, and at the end, is a run of them.
struct Symbolic {
  std::vector<int16_t> symbols;
  std::vector<int32_t> runs;
};
Symbolic without_zeros(const Palette& palette, const int16_t* weights, int64_t count) {
  Symbolic result;
  result.runs.push_back(0);
  for (int64_t i = 0; i < count; ++i) {
    if (weights[i] == 0) {
      ++result.runs.back();
      continue;
    }
    result.symbols.push_back(palette.symbols[static_cast<size_t>(weights[i] + kMost + 1)]);
    result.runs.push_back(0);
  }
  return result;
}

Symbolic with_zeros(const Palette& palette, const int16_t* weights, int64_t count) {
  Symbolic result;
  result.symbols.resize(static_cast<size_t>(count));
  for (size_t i = 0; i < result.symbols.size(); ++i)
    result.symbols[i] = palette.symbols[static_cast<size_t>(weights[i] + kMost + 1)];
  return result;
}

// Returns the zeros that are written as runs.
int64_t put_part(Bits& out, Counts counts, const int16_t* weights, int64_t count, bool zero_runs) {
  const int64_t zeros = zero_runs ? std::exchange(counts[kMost + 1], 0) : 0;
  const Palette palette = palette_of(counts, count - zeros);
  const Symbolic parts = zero_runs ? without_zeros(palette, weights, count) : with_zeros(palette, weights, count);
  const auto symbols = static_cast<int>(parts.symbols.size());
  const int run_divisor = zero_runs ? divisor_of_runs(parts.runs) : 0;
  std::vector<grc_param_t> slices;
  search_grc_params(parts.symbols.data(), symbols, 0, palette.width, slices, false);
  int at = 0;
  for (const grc_param_t& slice : slices)
    while (at < slice.end_pos) {
      const int size = std::min(slice.end_pos - at, kLongestSlice);
      const bool first = at == 0;  // it begins with a run too
      put_header(out, size, slice.cfg, zero_runs ? static_cast<uint64_t>(run_divisor) : kNoZeroRuns,
                 first ? &palette : nullptr);
      if (zero_runs) {
        const bool one_width = slice.cfg == kOneWidth;
        const int divisor = one_width ? palette.width : slice.cfg % kDivisors;
        put_in_turn(out, {{parts.symbols.data() + at, size, divisor}, slice.cfg >= kDivisors, one_width},
                    {{parts.runs.data() + at + (first ? 0 : 1), size + (first ? 1 : 0), run_divisor}});
      } else {
        put_slice(out, parts.symbols.data() + at, size, slice.cfg, palette.width);
      }
      at += size;
    }
  return zeros;
}

}  // namespace

int64_t encode_weights(const int16_t* weights, int64_t count, int64_t part, std::vector<uint8_t>& stream) {
  const size_t before = stream.size();
  int64_t zeros = 0;
  Bits out(stream);
  for (int64_t at = 0; at < count; at += part) {
    const int64_t size = std::min(part, count - at);
    const Counts counts = count_weights(weights + at, size);
    if (counts[kMost + 1] == size) {
      stream.resize(before);
      return -1;
    }
    zeros += put_part(out, counts, weights + at, size, has_zero_runs(counts, weights + at, size));
  }
  out.put(3, kEnd);
  out.finish();
  return zeros;
}

}  // namespace swoop
