#include "quantize/statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>

#include "support/check.h"
#include "support/parallel.h"

// Compiled for plain x86-64 and for AVX2; only comparisons, additions and one multiplication, so both give the same
// bits.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define STATISTICS_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define STATISTICS_CLONES
#endif

namespace swoop {

namespace {

constexpr size_t kGrain = size_t{1} << 15;
constexpr size_t kLanes = 16;

struct Extent {
  float min = std::numeric_limits<float>::infinity();
  float max = -std::numeric_limits<float>::infinity();
  uint64_t count = 0;
  bool nan = false;

  void join(const Extent& other) {
    min = std::min(min, other.min);
    max = std::max(max, other.max);
    count += other.count;
    nan |= other.nan;
  }
};

// True when all elements are finite, which nearly all tensors are; then extent is complete.
STATISTICS_CLONES bool plain_extent(const float* x, size_t count, Extent& extent) {
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
STATISTICS_CLONES void bin_block(const float* x, size_t count, Grid grid, int32_t* index) {
  constexpr auto kLast = static_cast<float>(Statistics::kBins - 1);
  for (size_t i = 0; i < count; ++i) {
    float at = (x[i] - grid.low) * grid.per_width;
    at = at > 0.0f ? at : 0.0f;
    index[i] = static_cast<int32_t>(at < kLast ? at : kLast);
  }
}

void count_bins(const float* x, size_t count, Grid grid, std::span<uint64_t> totals) {
  constexpr size_t kBlock = 512;
  std::vector<uint32_t> counters(4 * Statistics::kBins);
  int32_t index[kBlock];
  for (size_t first = 0; first < count; first += kBlock) {
    size_t size = std::min(kBlock, count - first);
    bin_block(x + first, size, grid, index);
    for (size_t i = 0; i < size; ++i) ++counters[4 * static_cast<size_t>(index[i]) + i % 4];
  }
  for (size_t b = 0; b < Statistics::kBins; ++b)
    totals[b] += uint64_t{counters[4 * b]} + counters[4 * b + 1] + counters[4 * b + 2] + counters[4 * b + 3];
}

std::vector<double> histogram(std::span<const float> values, Grid grid) {
  std::vector<uint64_t> totals(Statistics::kBins);
  std::mutex mutex;
  parallel_for(values.size(), kGrain, [&](size_t first, size_t last) {
    std::vector<uint64_t> own(Statistics::kBins);
    count_bins(values.data() + first, last - first, grid, own);
    std::lock_guard lock(mutex);
    for (size_t b = 0; b < own.size(); ++b) totals[b] += own[b];
  });
  return {totals.begin(), totals.end()};
}

// Adds the mass of `from` over [min, max] to bins over `grid`.
void spread(const std::vector<double>& from, float min, float max, Grid grid, std::vector<double>& to) {
  constexpr int kParts = 16;  // HistogramObserver's upsample rate
  auto place = [&](double x, double mass) {
    double at = (x - static_cast<double>(grid.low)) * static_cast<double>(grid.per_width);
    to[static_cast<size_t>(std::clamp(at, 0.0, static_cast<double>(Statistics::kBins - 1)))] += mass;
  };
  double width = (static_cast<double>(max) - static_cast<double>(min)) / static_cast<double>(Statistics::kBins);
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] == 0) continue;
    if (min == max) {
      place(static_cast<double>(min), from[i]);
      continue;
    }
    for (int part = 0; part < kParts; ++part)
      place(static_cast<double>(min) + (static_cast<double>(i) + (part + 0.5) / kParts) * width, from[i] / kParts);
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
  if (extent.count == 0) return;

  Statistics batch;
  batch.count = extent.count;
  batch.min = extent.min;
  batch.max = extent.max;
  // The new elements are counted on the joint grid at once, as HistogramObserver does; only what was seen before is
  // spread anew.
  float low = std::min(min, extent.min);
  float high = std::max(max, extent.max);
  Grid grid = grid_of(low, high);
  if (extent.count == values.size()) {
    batch.bins = histogram(values, grid);
  } else {
    std::vector<float> kept;
    std::copy_if(values.begin(), values.end(), std::back_inserter(kept),
                 [&](float x) { return std::isfinite(x) && x >= floor; });
    batch.bins = histogram(kept, grid);
  }
  if (!empty()) {
    if (low == min && high == max)
      for (size_t b = 0; b < kBins; ++b) batch.bins[b] += bins[b];
    else
      spread(bins, min, max, grid, batch.bins);
  }
  bins = std::move(batch.bins);
  second_min = std::min(second_min, std::max(min, extent.min));
  second_max = std::max(second_max, std::min(max, extent.max));
  ++batches;
  count += extent.count;
  min = low;
  max = high;
}

void Statistics::merge(const Statistics& other) {
  has_nan |= other.has_nan;
  if (other.empty()) return;
  if (empty()) {
    bool nan = has_nan;
    *this = other;
    has_nan = nan;
    return;
  }
  float low = std::min(min, other.min);
  float high = std::max(max, other.max);
  Grid grid = grid_of(low, high);
  std::vector<double> joint(kBins);
  spread(bins, min, max, grid, joint);
  spread(other.bins, other.min, other.max, grid, joint);
  bins = std::move(joint);
  second_min = std::min({second_min, other.second_min, std::max(min, other.min)});
  second_max = std::max({second_max, other.second_max, std::min(max, other.max)});
  batches = std::max(batches, other.batches);
  count += other.count;
  min = low;
  max = high;
}

double Statistics::likely_min() const {
  if (batches < 2) return static_cast<double>(min);
  auto n = static_cast<double>(batches);
  return static_cast<double>(min) - (n - 1) / n * (static_cast<double>(second_min) - static_cast<double>(min));
}

double Statistics::likely_max() const {
  if (batches < 2) return static_cast<double>(max);
  auto n = static_cast<double>(batches);
  return static_cast<double>(max) + (n - 1) / n * (static_cast<double>(max) - static_cast<double>(second_max));
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

void ChannelStatistics::add(std::span<const float> values, size_t channels, size_t inner) {
  if (channels == 0 || inner == 0) return;
  sum.resize(channels);
  largest.resize(channels);
  size_t cycles = values.size() / (channels * inner);
  count += cycles * inner;
  // Split by channels, never by elements: each sum is made in one order.
  parallel_for(channels, kGrain / std::max<size_t>(1, cycles * inner) + 1, [&](size_t first, size_t last) {
    for (size_t cycle = 0; cycle < cycles; ++cycle)
      for (size_t c = first; c < last; ++c) {
        const float* x = values.data() + (cycle * channels + c) * inner;
        double total = 0;
        float most = largest[c];
        for (size_t i = 0; i < inner; ++i) {
          total += static_cast<double>(x[i]);
          float size = std::fabs(x[i]);
          most = size > most ? size : most;
        }
        sum[c] += total;
        largest[c] = most;
      }
  });
}

}  // namespace swoop
