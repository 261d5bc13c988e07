#include "quantize/range.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "ops/ops.h"

namespace swoop {

namespace {

constexpr double kSmallestScale = 1e-30;  // below it the kernels' 1 / scale leaves what a float holds
constexpr double kIdleScale = 1.0 / 128;  // of a value that was zero throughout

double bin_width(const Statistics& s) {
  return (static_cast<double>(s.max) - static_cast<double>(s.min)) / static_cast<double>(Statistics::kBins);
}

// The expected square error when bins start..end are spread over `levels` equal steps and the rest is clipped to the
// ends.
class SquareError {
 public:
  SquareError(const Statistics& s, int levels) : bins_(s.bins), width_(bin_width(s)), levels_(levels) {}

  double of(size_t start, size_t end) const {
    double step = width_ * static_cast<double>(end - start + 1) / levels_;
    if (step == 0) return 0;
    double half = step / 2;
    double whole = (half * half * half * 2) / 3;  // of one step in full, per unit of density
    double error = 0;
    for (size_t i = 0; i < bins_.size(); ++i) {
      if (bins_[i] == 0) continue;
      double from = (static_cast<double>(i) - static_cast<double>(start)) * width_;
      double to = from + width_;
      double first = std::clamp(std::floor(from / step), 0.0, levels_ - 1.0);
      double last = std::clamp(std::floor(to / step), 0.0, levels_ - 1.0);
      double a = from - (first + 0.5) * step;
      double b = to - (last + 0.5) * step;
      error +=
          bins_[i] / width_ * ((cube(half) - cube(a)) / 3 + (last - first - 1) * whole + (cube(b) + cube(half)) / 3);
    }
    return error;
  }

 private:
  static double cube(double x) { return x * x * x; }

  const std::vector<double>& bins_;
  double width_;
  double levels_;
};

Range percentile_range(const Statistics& s, double percentile) {
  double total = std::accumulate(s.bins.begin(), s.bins.end(), 0.0);
  double tail = (1.0 - percentile / 100.0) * total;
  size_t low = 0;
  for (double seen = s.bins[0]; seen <= tail && low + 1 < Statistics::kBins; seen += s.bins[++low]) {
  }
  size_t high = Statistics::kBins - 1;
  for (double seen = s.bins[high]; seen <= tail && high > low; seen += s.bins[--high]) {
  }
  double min = static_cast<double>(s.min);
  return {min + static_cast<double>(low) * bin_width(s), min + static_cast<double>(high + 1) * bin_width(s)};
}

// Least square error over a grid of bounds between half and all of the measured range. Rounding costs step^2 / 12 per
// element (discounting exact zeros measured no better); clipping costs the squared distance to the bound, from running
// sums over the bins.
Range mse_range(const Statistics& s, int levels) {
  constexpr int kParts = 128;
  double min = static_cast<double>(s.min);
  double width = bin_width(s);
  std::array<double, Statistics::kBins + 1> mass, first, second;  // of the bins before
  mass[0] = first[0] = second[0] = 0;
  for (size_t b = 0; b < Statistics::kBins; ++b) {
    double x = min + (static_cast<double>(b) + 0.5) * width;
    mass[b + 1] = mass[b] + s.bins[b];
    first[b + 1] = first[b] + s.bins[b] * x;
    second[b + 1] = second[b] + s.bins[b] * x * x;
  }
  auto bin_of = [&](double x) {
    return static_cast<size_t>(std::clamp((x - min) / width, 0.0, static_cast<double>(Statistics::kBins)));
  };
  auto clipped_below = [&](double x) {
    size_t b = bin_of(x);
    return second[b] - 2 * x * first[b] + x * x * mass[b];
  };
  auto clipped_above = [&](double x) {
    size_t b = bin_of(x);
    return (second.back() - second[b]) - 2 * x * (first.back() - first[b]) + x * x * (mass.back() - mass[b]);
  };
  double lowest = std::min(min, 0.0);
  double highest = std::max(static_cast<double>(s.max), 0.0);
  auto rounded = static_cast<double>(s.count);
  size_t highs = highest > 0 ? kParts / 2 + 1 : 1;
  double high[kParts / 2 + 1], above[kParts / 2 + 1], errors[kParts / 2 + 1];
  for (size_t j = 0; j < highs; ++j) {
    high[j] = highest * (1.0 - static_cast<double>(j) / kParts);
    above[j] = high[j] < static_cast<double>(s.max) ? clipped_above(high[j]) : 0.0;
  }
  Range best{lowest, highest};
  double least = std::numeric_limits<double>::infinity();
  // What is clipped on one side alone already costs more than the best so far. The sums are not exact, hence the slack.
  const double slack = 1e-9 * rounded * std::max(lowest * lowest, highest * highest);
  for (int i = 0; i <= (lowest < 0 ? kParts / 2 : 0); ++i) {
    double low = lowest * (1.0 - static_cast<double>(i) / kParts);
    double below = low > min ? clipped_below(low) : 0.0;
    if (below > least + slack) continue;
    while (highs > 1 && above[highs - 1] > least + slack) --highs;
    for (size_t j = 0; j < highs; ++j) {
      const double step = (high[j] - low) / (levels - 1);
      errors[j] = below + above[j] + rounded * step * step / 12;
    }
    for (size_t j = 0; j < highs; ++j) {
      if (errors[j] >= least) continue;
      least = errors[j];
      best = {low, high[j]};
    }
  }
  return best;
}

Range with_zero(Range range) { return {std::min(range.min, 0.0), std::max(range.max, 0.0)}; }

// Room for what the samples did not show, on sides where nothing was clipped on purpose; more of it on all sides.
Range widened(Range range, const Statistics& s, double room) {
  constexpr double kUnclipped = 0.95;
  double min = static_cast<double>(s.min);
  double max = static_cast<double>(s.max);
  if (room > 1) range = joined(range, {min, max});
  if (min < 0 && range.min <= kUnclipped * min) range.min += room * (s.likely_min() - min);
  if (max > 0 && range.max >= kUnclipped * max) range.max += room * (s.likely_max() - max);
  return range;
}

}  // namespace

Range histogram_range(const Statistics& s, int levels) {
  constexpr double kStep = 1e-5;
  SquareError error(s, levels);
  std::vector<double> seen(Statistics::kBins);
  std::partial_sum(s.bins.begin(), s.bins.end(), seen.begin());
  double total = seen.back();
  size_t start = 0;
  size_t end = Statistics::kBins - 1;
  double least = std::numeric_limits<double>::infinity();
  for (double alpha = 0, beta = 1; alpha < beta;) {
    size_t left = start;
    while (left < end && seen[left] < (alpha + kStep) * total) ++left;
    size_t right = end;
    while (right > start && seen[right] > (beta - kStep) * total) --right;
    size_t next_start = start;
    size_t next_end = end;
    if (left - start > end - right) {
      next_start = left;
      alpha += kStep;
    } else {
      next_end = right;
      beta -= kStep;
    }
    if (next_start == start && next_end == end) continue;
    double now = error.of(next_start, next_end);
    if (now > least) break;
    least = now;
    start = next_start;
    end = next_end;
  }
  double min = static_cast<double>(s.min);
  return {min + bin_width(s) * static_cast<double>(start), min + bin_width(s) * static_cast<double>(end + 1)};
}

// 16 bits have a bit to spare: it costs 6 dB of 90, and what is clipped on inputs that no sample showed costs more.
constexpr double kHeadroom = 2;

Range choose_range(const Statistics& s, Method method, double percentile, int levels, double room) {
  if (s.empty()) return {};
  Range all{static_cast<double>(s.min), static_cast<double>(s.max)};
  if (s.min == s.max) return with_zero(all);
  switch (method) {
    case Method::MinMax: return with_zero(all);
    case Method::Percentile: return with_zero(percentile_range(s, percentile));
    case Method::Histogram: return with_zero(histogram_range(s, levels));
    case Method::Mse: {
      const Range range = widened(with_zero(mse_range(s, levels)), s, room);
      return levels > 256 ? Range{kHeadroom * range.min, kHeadroom * range.max} : range;
    }
  }
  return with_zero(all);
}

Type activation_type(Precision precision, Shape shape, Range range) {
  range = with_zero(range);
  if (precision == Precision::Int16) {
    double largest = std::max(-range.min, range.max);
    double scale = largest == 0 ? kIdleScale / 256 : std::max(largest / 32767, kSmallestScale);
    return quantized(DType::I16, std::move(shape), static_cast<double>(static_cast<float>(scale)), 0);
  }
  double span = range.max - range.min;
  double scale = span == 0 ? kIdleScale : std::max(span / 255, kSmallestScale);
  scale = static_cast<double>(static_cast<float>(scale));
  auto zero_point = static_cast<int64_t>(std::clamp(-128.0 - std::nearbyint(range.min / scale), -128.0, 127.0));
  return quantized(DType::I8, std::move(shape), scale, zero_point);
}

Range constant_range(const Value& constant) {
  Range range{std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()};
  Tensor tensor = to_tensor(constant);
  for (float x : tensor.as<float>()) {
    if (!std::isfinite(x)) continue;
    range.min = std::min(range.min, static_cast<double>(x));
    range.max = std::max(range.max, static_cast<double>(x));
  }
  return range.min <= range.max ? range : Range{};
}

}  // namespace swoop
