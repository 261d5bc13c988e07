// Weights are encoded in slices, each with one of 13 codings: Golomb-Rice codes with a divisor of 2^0 to 2^5, plain or
// cut off after two, or numbers of one width. The search walks over the symbols once and keeps, per coding, how many
// bits all symbols so far take if the slice at hand has it. All codings are looked at side by side, in vector
// registers.
#include "npu/weight_slices.h"

#include <array>
#include <cstring>
#include <limits>

#include "support/check.h"
#include "support/clones.h"

namespace swoop {
namespace {

constexpr int kCodings = 13, kDivisors = 6;
constexpr int kOneWidth = 12;      // the coding without Golomb-Rice
constexpr int kNewSlice = 40;      // bits that a change of the coding costs
constexpr int kNever = kNewSlice;  // instead of a symbol's bits: the coding does not have it; no code is that long
constexpr int kLongest = 31;       // quotient
constexpr size_t kSymbols = 512;

// Two registers hold all codings.
constexpr int kLanes = 8, kRegisters = 2;
using Lanes = int32_t __attribute__((vector_size(kLanes * sizeof(int32_t))));
using Words = int64_t __attribute__((vector_size(sizeof(Lanes))));
using SymbolBits = std::array<int32_t, kLanes * kRegisters>;

// The bits of each symbol, by coding. Those of numbers of one width are added later.
constexpr std::array<SymbolBits, kSymbols> kBits = [] {
  std::array<SymbolBits, kSymbols> rows{};
  for (size_t symbol = 0; symbol < kSymbols; ++symbol) {
    SymbolBits& row = rows[symbol];
    row.fill(kNever);
    row[kOneWidth] = 0;
    for (int divisor = 0; divisor < kDivisors; ++divisor) {
      const int quotient = static_cast<int>(symbol) >> divisor;
      if (quotient <= kLongest) row[static_cast<size_t>(divisor)] = quotient + 1 + divisor;
      if (quotient <= 2)
        row[static_cast<size_t>(kDivisors) + static_cast<size_t>(divisor)] = (quotient < 1 ? 1 : 2) + divisor;
    }
  }
  return rows;
}();

int32_t lane(const Lanes (&registers)[kRegisters], int coding) { return registers[coding / kLanes][coding % kLanes]; }

SWOOP_CLONES void find_slices(const int16_t* symbols, int count, int width, std::vector<grc_param_t>& slices) {
  const Lanes widths[kRegisters] = {{}, {0, 0, 0, 0, width}};
  static_assert(kOneWidth == kLanes + 4);
  Lanes bits[kRegisters] = {}, fits[kRegisters] = {};
  Lanes since[kRegisters] = {};  // where the run of symbols that the coding has begins
  int coding = -1, bits_now = 0,
      width_now = 0;  // of the slice at hand; `width_now` only if it has numbers of one width
  for (int i = 0; i < count; ++i) {
    const SymbolBits& row = kBits[static_cast<size_t>(symbols[i])];
    Lanes better = {};  // codings that make up for a new slice
    for (int r = 0; r < kRegisters; ++r) {
      Lanes more;
      std::memcpy(&more, row.data() + r * kLanes, sizeof(more));
      const Lanes can = more != kNever;
      const Lanes again = can & ~fits[r];
      bits[r] = ((again & bits_now) | (~again & bits[r])) + more + widths[r];
      since[r] = (can & since[r]) | (~can & (i + 1));
      fits[r] = can;
      better |= can & (bits[r] + kNewSlice < bits_now);
    }
    const Words any = reinterpret_cast<Words>(better);
    if (coding >= 0 && row[static_cast<size_t>(coding)] != kNever && (any[0] | any[1] | any[2] | any[3]) == 0) {
      bits_now += row[static_cast<size_t>(coding)] + width_now;
      continue;
    }
    int best = 0, fewest = std::numeric_limits<int>::max();
    for (int other = 0; other < kCodings; ++other)
      if (lane(fits, other) != 0 && lane(bits, other) < fewest) {
        best = other;
        fewest = lane(bits, other);
      }
    // If the other coding had all symbols of this slice in fewer bits, it takes the whole of it.
    const bool instead =
        coding >= 0 && lane(bits, best) < lane(bits, coding) && lane(since, best) <= lane(since, coding);
    if (coding >= 0 && !instead) slices.push_back({coding, i});
    coding = best;
    bits_now = fewest;
    width_now = best == kOneWidth ? width : 0;
  }
  if (slices.empty() || slices.back().cfg != coding) slices.push_back({coding, 0});
  slices.back().end_pos = count;
}

}  // namespace
}  // namespace swoop

int search_grc_params(const int16_t* symbols, int count, int is_zero_runs, int uncompressed_bits,
                      std::vector<grc_param_t>& slices, bool single_slice) {
  CHECK(!is_zero_runs && !single_slice, "regor encodes weights in another way than Vela 5.1.0");
  constexpr int kForbidden = 100;  // bits, where numbers of one width are not possible
  swoop::find_slices(symbols, count, uncompressed_bits > 0 ? uncompressed_bits : kForbidden, slices);
  return 0;  // nobody reads it
}
