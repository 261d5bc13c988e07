// What calibration remembers of a value: range and a histogram of 2048 equal bins over all samples seen so far. Adding
// a tensor costs two passes over its elements; counts are integers summed in any order, so the result does not depend
// on the threads.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace swoop {

// Mean and deviation of numbers that come one by one.
struct Moments {
  uint64_t count = 0;
  double sum = 0;
  double squares = 0;

  void add(double x) {
    ++count;
    sum += x;
    squares += x * x;
  }
  void add(const Moments& other) {
    count += other.count;
    sum += other.sum;
    squares += other.squares;
  }
  Moments without(double x) const { return {count - 1, sum - x, squares - x * x}; }
  double mean() const { return count ? sum / static_cast<double>(count) : 0; }
  double deviation() const;  // of the population that they are samples of; 0 for fewer than two
};

struct Statistics {
  static constexpr size_t kBins = 2048;  // as PyTorch's HistogramObserver, whose search range.h repeats

  uint64_t count = 0;  // finite elements seen
  bool has_nan = false;
  uint64_t infinite = 0;  // elements that are
  float min = std::numeric_limits<float>::infinity();
  float max = -std::numeric_limits<float>::infinity();
  uint64_t batches = 0;      // tensors seen
  Moments mins, maxs;        // of the tensors' smallest and largest elements
  std::vector<double> bins;  // equal parts of [min, max]; empty until something finite was seen
  uint32_t spreads = 0;      // how often they were cut up for a wider range

  bool empty() const { return count == 0; }
  // Infinities and what lies below `floor` (the masked scores of an attention) are left out.
  void add(std::span<const float> values, float floor = -std::numeric_limits<float>::infinity());
  // As if both had been seen by one: bins are cut into 16 parts that land where their middle lies.
  void merge(const Statistics& other);
  // Where unseen tensors are expected to end: as far from the mean of the extremes as few of them are, but not inside
  // what was seen. Few and different samples widen it; many, or samples that end at one bound, do not.
  double likely_min() const;
  double likely_max() const;
  // Elements outside [low, high], by the histogram.
  double share_outside(double low, double high) const;

 private:
  bool is_exact(uint64_t elements) const;  // no sum of so many, cut up so often, is rounded
};

// Sums and largest magnitudes per channel, for bias correction and equalisation.
struct ChannelStatistics {
  std::vector<double> sum;
  std::vector<float> largest;
  uint64_t count = 0;  // elements per channel

  // `inner` elements per channel in a row, the channels in a cycle of `channels`.
  void add(std::span<const float> values, size_t channels, size_t inner);
  void merge(const ChannelStatistics& other);  // of as many channels, or none yet
};

// The extremes per channel.
struct ChannelExtents {
  std::vector<float> min;
  std::vector<float> max;

  void add(std::span<const float> values, size_t channels, size_t inner);
};

}  // namespace swoop
