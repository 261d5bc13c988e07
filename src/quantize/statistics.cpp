#include "quantize/statistics.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <mutex>

#include "support/check.h"
#include "support/clones.h"
#include "support/parallel.h"

namespace swoop {

namespace {

constexpr size_t kGrain = size_t{1} << 15;
constexpr size_t kLanes = 16;

struct Extent {
  float min = std::numeric_limits<float>::infinity();
  float max = -std::numeric_limits<float>::infinity();
  uint64_t count = 0;
  bool nan = false;
  uint64_t infinite = 0;

  void join(const Extent& other) {
    min = std::min(min, other.min);
    max = std::max(max, other.max);
    count += other.count;
    nan |= other.nan;
    infinite += other.infinite;
  }
};

// True when all elements are finite, which nearly all tensors are; then extent is complete.
SWOOP_CLONES bool plain_extent(const float* x, size_t count, Extent& extent) {
  float low[kLanes], high[kLanes], bad[kLanes] = {};
  for (size_t j = 0; j < kLanes; ++j) low[j] = high[j] = x[0];
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (size_t j = 0; j < kLanes; ++j) {
      float v = x[i + j];
      low[j] = v < low[j] ? v : low[j];
      high[j] = v > high[j] ? v : high[j];
      bad[j] += v * 0.0f;  // NaN for infinities and NaN
    }
  for (size_t j = 0; i < count; ++i, ++j) {
    low[j] = std::min(low[j], x[i]);
    high[j] = std::max(high[j], x[i]);
    bad[j] += x[i] * 0.0f;
  }
  extent.count = count;
  for (size_t j = 0; j < kLanes; ++j) {
    if (bad[j] != 0.0f) return false;
    extent.min = std::min(extent.min, low[j]);
    extent.max = std::max(extent.max, high[j]);
  }
  return true;
}

Extent filtered_extent(const float* x, size_t count, float floor) {
  Extent extent;
  for (size_t i = 0; i < count; ++i) {
    extent.nan |= std::isnan(x[i]);
    extent.infinite += std::isinf(x[i]);
    if (!std::isfinite(x[i]) || x[i] < floor) continue;
    extent.min = std::min(extent.min, x[i]);
    extent.max = std::max(extent.max, x[i]);
    ++extent.count;
  }
  return extent;
}

struct Grid {
  float low;
  float per_width;  // bins per unit
};

Grid grid_of(float min, float max) {
  if (min == max) return {min - 1.0f, static_cast<float>(Statistics::kBins) / 2.0f};  // as torch.histc widens a point
  return {min, static_cast<float>(static_cast<double>(Statistics::kBins) /
                                  (static_cast<double>(max) - static_cast<double>(min)))};
}

// The bin numbers of a block are computed side by side, then counted; four counters per bin keep repeated values apart.
SWOOP_CLONES void bin_block(const float* x, size_t count, Grid grid, int32_t* index) {
  constexpr auto kLast = static_cast<float>(Statistics::kBins - 1);
  for (size_t i = 0; i < count; ++i) {
    float at = (x[i] - grid.low) * grid.per_width;
    at = at > 0.0f ? at : 0.0f;
    index[i] = static_cast<int32_t>(at < kLast ? at : kLast);
  }
}

using BinCounts = std::array<uint32_t, Statistics::kBins>;

SWOOP_CLONES void add_counts(const uint32_t* counts, size_t count, double* to) {
  for (size_t b = 0; b < count; ++b) to[b] += static_cast<double>(static_cast<int32_t>(counts[b]));
}

// Adds to the bins. At most 2^31 elements.
void count_bins(const float* x, size_t count, Grid grid, std::vector<double>& bins) {
  constexpr size_t kBlock = 512, kFew = 4 * Statistics::kBins;
  int32_t index[kBlock];
  if (count <= kFew) {  // more counters would take longer than the counting
    BinCounts counts{};
    for (size_t first = 0; first < count; first += kBlock) {
      const size_t size = std::min(kBlock, count - first);
      bin_block(x + first, size, grid, index);
      for (size_t i = 0; i < size; ++i) ++counts[static_cast<size_t>(index[i])];
    }
    return add_counts(counts.data(), counts.size(), bins.data());
  }
  std::vector<uint32_t> counters(4 * Statistics::kBins);
  for (size_t first = 0; first < count; first += kBlock) {
    size_t size = std::min(kBlock, count - first);
    bin_block(x + first, size, grid, index);
    for (size_t i = 0; i < size; ++i) ++counters[4 * static_cast<size_t>(index[i]) + i % 4];
  }
  BinCounts counts;
  for (size_t b = 0; b < counts.size(); ++b)
    counts[b] = counters[4 * b] + counters[4 * b + 1] + counters[4 * b + 2] + counters[4 * b + 3];
  add_counts(counts.data(), counts.size(), bins.data());
}

void add_histogram(std::span<const float> values, Grid grid, std::vector<double>& bins) {
  constexpr size_t kMost = size_t{1} << 30;
  std::mutex mutex;
  parallel_for(values.size(), kGrain, [&](size_t first, size_t last) {
    for (size_t end = 0; first < last; first = end) {
      end = std::min(last, first + kMost);
      if (end - first == values.size()) return count_bins(values.data(), values.size(), grid, bins);
      std::vector<double> own(Statistics::kBins);
      count_bins(values.data() + first, end - first, grid, own);
      std::lock_guard lock(mutex);
      for (size_t b = 0; b < own.size(); ++b) bins[b] += own[b];  // whole numbers: in any order
    }
  });
}

constexpr int kParts = 16;  // of a bin that is spread: HistogramObserver's upsample rate

double bin_at(double x, Grid grid) {
  const double at = (x - static_cast<double>(grid.low)) * static_cast<double>(grid.per_width);
  return std::clamp(at, 0.0, static_cast<double>(Statistics::kBins - 1));
}

// Where the parts of bin `i` go.
SWOOP_CLONES void bins_of_parts(double min, double width, double i, Grid grid, int32_t* bins) {
  for (int part = 0; part < kParts; ++part)
    bins[part] = static_cast<int32_t>(bin_at(min + (i + (part + 0.5) / kParts) * width, grid));
}

// Where the first and the last part of each bin go.
SWOOP_CLONES void ends_of_bins(double min, double width, Grid grid, int32_t* first, int32_t* last) {
  for (int32_t i = 0; i < static_cast<int32_t>(Statistics::kBins); ++i) {
    first[i] = static_cast<int32_t>(bin_at(min + (i + 0.5 / kParts) * width, grid));
    last[i] = static_cast<int32_t>(bin_at(min + (i + (kParts - 0.5) / kParts) * width, grid));
  }
}

// A histogram over [min, max] that is spread over another grid, part by part.
struct Spreading {
  double low, width;  // of its first bin, and of each
  Grid grid;

  Spreading(float min, float max, Grid to)
      : low(static_cast<double>(min)),
        width((static_cast<double>(max) - low) / static_cast<double>(Statistics::kBins)),
        grid(to) {}

  int32_t bin_of(size_t i, int part) const {
    return static_cast<int32_t>(bin_at(low + (static_cast<double>(i) + (part + 0.5) / kParts) * width, grid));
  }

  // How many parts of bin `i` go where its first one goes, which is `bin`, and not where its last one does. Computed
  // from the border between the two, then looked up, because that is rounded.
  int parts_before(size_t i, int32_t bin) const {
    const double border = static_cast<double>(grid.low) + (bin + 1) / static_cast<double>(grid.per_width);
    const double at = ((border - low) / width - static_cast<double>(i)) * kParts + 0.5;
    int count = std::clamp(static_cast<int>(at), 1, kParts - 1);
    while (count > 1 && bin_of(i, count - 1) != bin) --count;
    while (count < kParts - 1 && bin_of(i, count) == bin) ++count;
    return count;
  }
};

// Where no sum is rounded, parts that follow one another into a bin can be added at once.
void spread_exactly(const std::vector<double>& from, const Spreading& how, std::vector<double>& to) {
  std::array<int32_t, Statistics::kBins> firsts, lasts;
  ends_of_bins(how.low, how.width, how.grid, firsts.data(), lasts.data());
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] == 0) continue;
    double mass = from[i];
    // The grid's bins are not narrower, up to rounding: a bin meets two of them, or three.
    for (int32_t bin = firsts[i]; bin < lasts[i] && mass > 0; ++bin) {
      double before = 0;
      if (lasts[i] == firsts[i] + 1)
        before = how.parts_before(i, bin) * (from[i] / kParts);
      else
        for (int part = 0; part < kParts; ++part) before += how.bin_of(i, part) == bin ? from[i] / kParts : 0;
      to[static_cast<size_t>(bin)] += before;
      mass -= before;
    }
    to[static_cast<size_t>(lasts[i])] += mass;
  }
}

// Adds the mass of `from` over [min, max] to bins over `grid`. `exact`: no sum is rounded.
void spread(const std::vector<double>& from, float min, float max, Grid grid, bool exact, std::vector<double>& to) {
  const Spreading how(min, max, grid);
  if (min == max) {
    for (double mass : from) to[static_cast<size_t>(bin_at(how.low, grid))] += mass;
    return;
  }
  if (exact) return spread_exactly(from, how, to);
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] == 0) continue;
    int32_t bins[kParts];
    bins_of_parts(how.low, how.width, static_cast<double>(i), grid, bins);
    const double mass = from[i] / kParts;
    for (int32_t bin : bins) to[static_cast<size_t>(bin)] += mass;
  }
}

}  // namespace

void Statistics::add(std::span<const float> values, float floor) {
  if (values.empty()) return;
  Extent extent;
  bool plain = floor == -std::numeric_limits<float>::infinity();
  std::mutex mutex;
  parallel_for(values.size(), kGrain, [&](size_t first, size_t last) {
    Extent part;
    bool complete = plain_extent(values.data() + first, last - first, part) && part.min >= floor;
    if (!complete) part = filtered_extent(values.data() + first, last - first, floor);
    std::lock_guard lock(mutex);
    plain &= complete;
    extent.join(part);
  });
  has_nan |= extent.nan;
  infinite += extent.infinite;
  if (extent.count == 0) return;

  // The new elements are counted on the joint grid at once, as HistogramObserver does; only what was seen before is
  // spread anew.
  const float low = std::min(min, extent.min);
  const float high = std::max(max, extent.max);
  const Grid grid = grid_of(low, high);
  const bool moves = !empty() && (low != min || high != max);
  std::vector<double> before;
  if (moves) before = std::move(bins);
  if (moves || bins.empty()) bins.assign(kBins, 0.0);
  if (extent.count == values.size()) {
    add_histogram(values, grid, bins);
  } else {
    std::vector<float> kept;
    std::copy_if(values.begin(), values.end(), std::back_inserter(kept),
                 [&](float x) { return std::isfinite(x) && x >= floor; });
    add_histogram(kept, grid, bins);
  }
  if (moves) {
    ++spreads;
    spread(before, min, max, grid, is_exact(count + extent.count), bins);
  }
  mins.add(static_cast<double>(extent.min));
  maxs.add(static_cast<double>(extent.max));
  ++batches;
  count += extent.count;
  min = low;
  max = high;
}

// Each time that bins are spread, they are multiples of a sixteenth of what they were multiples of before.
bool Statistics::is_exact(uint64_t elements) const {
  constexpr int kDigits = std::numeric_limits<double>::digits;
  return std::bit_width(elements) + 4 * static_cast<int>(spreads) <= kDigits;
}

void Statistics::merge(const Statistics& other) {
  has_nan |= other.has_nan;
  infinite += other.infinite;
  if (other.empty()) return;
  if (empty()) {
    bool nan = has_nan;
    uint64_t infinities = infinite;
    *this = other;
    has_nan = nan;
    infinite = infinities;
    return;
  }
  float low = std::min(min, other.min);
  float high = std::max(max, other.max);
  Grid grid = grid_of(low, high);
  std::vector<double> joint(kBins);
  spreads = std::max(spreads, other.spreads) + 1;
  const bool exact = is_exact(count + other.count);
  spread(bins, min, max, grid, exact, joint);
  spread(other.bins, other.min, other.max, grid, exact, joint);
  bins = std::move(joint);
  mins.add(other.mins);
  maxs.add(other.maxs);
  batches = std::max(batches, other.batches);
  count += other.count;
  min = low;
  max = high;
}

double Moments::deviation() const {
  if (count < 2) return 0;
  auto n = static_cast<double>(count);
  return std::sqrt(std::max(0.0, (squares - sum * sum / n) / (n - 1)));
}

namespace {

// Deviations from the mean of the tensors' extremes beyond which few others are. A large tensor loses little where a
// few of its elements are clipped, so it gets less. Of a small one with few samples the deviation itself is hardly
// known, so it gets more. 208 small networks, judged on 32 other inputs: with 4 samples 33.3 dB in the mean where 3
// deviations for all gave 32.2, and 68 of their 423 outputs below 25 dB instead of 90; with 16 samples 36.1 dB instead
// of 35.8. 18 networks with large tensors: 31.5 instead of 31.4.
double how_far(const Statistics& s) {
  constexpr uint64_t kLarge = 2048;
  const uint64_t tensors = std::max<uint64_t>(4, s.mins.count);
  return s.count / std::max<uint64_t>(1, s.batches) < kLarge ? 3 + 8.0 / static_cast<double>(tensors) : 2;
}

}  // namespace

double Statistics::likely_min() const {
  return std::min(static_cast<double>(min), mins.mean() - how_far(*this) * mins.deviation());
}

double Statistics::likely_max() const {
  return std::max(static_cast<double>(max), maxs.mean() + how_far(*this) * maxs.deviation());
}

double Statistics::share_outside(double low, double high) const {
  if (empty() || min == max) return 0;
  double width = (static_cast<double>(max) - static_cast<double>(min)) / static_cast<double>(kBins);
  double outside = 0;
  double total = 0;
  for (size_t b = 0; b < kBins; ++b) {
    double middle = static_cast<double>(min) + (static_cast<double>(b) + 0.5) * width;
    total += bins[b];
    if (middle < low || middle > high) outside += bins[b];
  }
  return total > 0 ? outside / total : 0;
}

void ChannelStatistics::merge(const ChannelStatistics& other) {
  sum.resize(other.sum.size());
  largest.resize(other.largest.size());
  for (size_t c = 0; c < sum.size(); ++c) sum[c] += other.sum[c];
  for (size_t c = 0; c < largest.size(); ++c) largest[c] = std::max(largest[c], other.largest[c]);
  count += other.count;
}

void ChannelExtents::add(std::span<const float> values, size_t channels, size_t inner) {
  if (channels == 0 || inner == 0) return;
  min.resize(channels, std::numeric_limits<float>::infinity());
  max.resize(channels, -std::numeric_limits<float>::infinity());
  for (size_t i = 0; i < values.size(); ++i) {
    size_t c = i / inner % channels;
    min[c] = std::min(min[c], values[i]);
    max[c] = std::max(max[c], values[i]);
  }
}

namespace {

constexpr size_t kTogether = 8;

// A sum has to wait for its last element, but not for those of other channels.
template <size_t count>
void add_channels(const float* x, size_t inner, double* sums, float* largest) {
  double totals[count] = {};
  float most[count];
  std::copy_n(largest, count, most);
  for (size_t i = 0; i < inner; ++i)
    for (size_t c = 0; c < count; ++c) {
      const float value = x[c * inner + i];
      totals[c] += static_cast<double>(value);
      const float size = std::fabs(value);
      most[c] = size > most[c] ? size : most[c];
    }
  for (size_t c = 0; c < count; ++c) sums[c] += totals[c];
  std::copy_n(most, count, largest);
}

}  // namespace

void ChannelStatistics::add(std::span<const float> values, size_t channels, size_t inner) {
  if (channels == 0 || inner == 0) return;
  sum.resize(channels);
  largest.resize(channels);
  size_t cycles = values.size() / (channels * inner);
  count += cycles * inner;
  // Split by channels, never by elements: each sum is made in one order.
  parallel_for(channels, kGrain / std::max<size_t>(1, cycles * inner) + 1, [&](size_t first, size_t last) {
    for (size_t cycle = 0; cycle < cycles; ++cycle) {
      const float* x = values.data() + (cycle * channels + first) * inner;
      size_t c = first;
      for (; c + kTogether <= last; c += kTogether, x += kTogether * inner)
        add_channels<kTogether>(x, inner, &sum[c], &largest[c]);
      for (; c < last; ++c, x += inner) add_channels<1>(x, inner, &sum[c], &largest[c]);
    }
  });
}

}  // namespace swoop
