#include "quantize/statistics.h"

#include <algorithm>
#include <array>
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

void count_bins(const float* x, size_t count, Grid grid, std::span<uint64_t> totals) {
  constexpr size_t kBlock = 512, kFew = 4 * Statistics::kBins;
  int32_t index[kBlock];
  if (count <= kFew) {  // more counters would take longer than the counting
    for (size_t first = 0; first < count; first += kBlock) {
      const size_t size = std::min(kBlock, count - first);
      bin_block(x + first, size, grid, index);
      for (size_t i = 0; i < size; ++i) ++totals[static_cast<size_t>(index[i])];
    }
    return;
  }
  std::vector<uint32_t> counters(4 * Statistics::kBins);
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
    if (last - first == values.size()) return count_bins(values.data(), values.size(), grid, totals);
    std::vector<uint64_t> own(Statistics::kBins);
    count_bins(values.data() + first, last - first, grid, own);
    std::lock_guard lock(mutex);
    for (size_t b = 0; b < own.size(); ++b) totals[b] += own[b];
  });
  return {totals.begin(), totals.end()};
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

// Adds the mass of `from` over [min, max] to bins over `grid`.
void spread(const std::vector<double>& from, float min, float max, Grid grid, std::vector<double>& to) {
  const auto low = static_cast<double>(min);
  const double width = (static_cast<double>(max) - low) / static_cast<double>(Statistics::kBins);
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] == 0) continue;
    if (min == max) {
      to[static_cast<size_t>(bin_at(low, grid))] += from[i];
      continue;
    }
    int32_t bins[kParts];
    bins_of_parts(low, width, static_cast<double>(i), grid, bins);
    const double mass = from[i] / kParts;
    for (int part = 0; part < kParts;) {  // parts follow one another into a bin: its sum stays in a register
      const int32_t bin = bins[part];
      double sum = to[static_cast<size_t>(bin)];
      for (; part < kParts && bins[part] == bin; ++part) sum += mass;
      to[static_cast<size_t>(bin)] = sum;
    }
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
  mins.add(static_cast<double>(extent.min));
  maxs.add(static_cast<double>(extent.max));
  ++batches;
  count += extent.count;
  min = low;
  max = high;
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
  spread(bins, min, max, grid, joint);
  spread(other.bins, other.min, other.max, grid, joint);
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
// few of its elements are clipped, so it gets less. Ten networks, calibrated on 4 samples and judged on 16 to 32
// others: mean 37.3 dB (36.9 with 3 for all; 35.8 with 1.5 times the distance to the runner-up, the jackknife).
double how_far(const Statistics& s) {
  constexpr uint64_t kLarge = 2048;
  return s.count / std::max<uint64_t>(1, s.batches) < kLarge ? 3 : 2;
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
