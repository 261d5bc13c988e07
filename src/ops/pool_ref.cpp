// Pooling and resampling. All work plane by plane on [N*C, H, W]; one spatial dim is H = 1.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/kernels.h"
#include "ops/ref.h"
#include "ops/window.h"
#include "support/parallel.h"

namespace swoop {

namespace {

// The elements [first, last) in steps that one output index covers along one dim, and how many there would be with
// padding.
struct Interval {
  int64_t first = 0;
  int64_t last = 0;
  int64_t step = 1;
  int64_t padded = 0;
};
using Intervals = std::vector<Interval>;

Intervals window_ranges(const Windows& windows, size_t dim) {
  Intervals ranges;
  int64_t dilation = windows.dilation[dim];
  for (int64_t o = 0; o < windows.out[dim]; ++o) {
    int64_t start = o * windows.stride[dim] - windows.before[dim];
    int64_t end = std::min(start + (windows.kernel[dim] - 1) * dilation + 1, windows.in[dim] + windows.after[dim]);
    int64_t padded = end - start;
    if (start < 0) start += (-start + dilation - 1) / dilation * dilation;
    ranges.push_back({start, std::min(end, windows.in[dim]), dilation, padded});
  }
  return ranges;
}

Intervals adaptive_ranges(int64_t in, int64_t out) {
  Intervals ranges;
  for (int64_t o = 0; o < out; ++o) {
    int64_t first = o * in / out;
    int64_t last = ((o + 1) * in + out - 1) / out;
    ranges.push_back({first, last, 1, last - first});
  }
  return ranges;
}

// result = reduce(plane, row range, column range) for every plane and window.
template <typename T, typename Reduce>
void each_window(const Tensor& x, Tensor& out, const Intervals& rows, const Intervals& columns, Reduce reduce) {
  int64_t width = x.shape.back();
  int64_t height = x.shape.size() == 4 ? x.shape[2] : 1;
  auto per_plane = static_cast<int64_t>(rows.size() * columns.size());
  const T* from = x.as<T>().data();
  T* to = out.as<T>().data();
  size_t grain = kGrain / static_cast<size_t>(std::max<int64_t>(1, width * height)) + 1;
  parallel_for(static_cast<size_t>(x.shape[0] * x.shape[1]), grain, [&](size_t first, size_t last) {
    for (auto p = static_cast<int64_t>(first); p < static_cast<int64_t>(last); ++p) {
      T* result = to + p * per_plane;
      for (const Interval& r : rows)
        for (const Interval& c : columns) *result++ = reduce(from + p * width * height, width, r, c);
    }
  });
}

template <typename T>
T largest(const T* plane, int64_t width, const Interval& rows, const Interval& columns) {
  T best =
      std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
  for (int64_t y = rows.first; y < rows.last; y += rows.step)
    for (int64_t x = columns.first; x < columns.last; x += columns.step) {
      T value = plane[y * width + x];
      if (value > best || value != value) best = value;  // NaN wins, as in PyTorch
    }
  return best;
}

float total(const float* plane, int64_t width, const Interval& rows, const Interval& columns) {
  double sum = 0;
  for (int64_t y = rows.first; y < rows.last; ++y)
    for (int64_t x = columns.first; x < columns.last; ++x) sum += static_cast<double>(plane[y * width + x]);
  return static_cast<float>(sum);
}

void max_over(const Tensor& x, Tensor& out, const Intervals& rows, const Intervals& columns) {
  if (x.dtype == DType::F32) return each_window<float>(x, out, rows, columns, largest<float>);
  if (x.dtype == DType::I64) return each_window<int64_t>(x, out, rows, columns, largest<int64_t>);
  each_window<uint8_t>(x, out, rows, columns, largest<uint8_t>);
}

Result<void> pool(const Node& node, const Tensor& x, Tensor& out) {
  Shape space(x.shape.begin() + 2, x.shape.end());
  TRY_ASSIGN(Windows windows, windows_of(node, space, node.ints(Key::Kernel)));
  TRY(count_windows(node, windows, node.flag(Key::CeilMode)));
  Intervals rows = space.size() == 2 ? window_ranges(windows, 0) : Intervals{{0, 1, 1, 1}};
  Intervals columns = window_ranges(windows, space.size() - 1);
  if (node.op == Op::MaxPool) {
    max_over(x, out, rows, columns);
    return {};
  }
  int64_t divisor = node.integer(Key::Divisor);
  bool padding_counts = node.flag(Key::CountIncludePad);
  each_window<float>(
      x, out, rows, columns, [&](const float* plane, int64_t width, const Interval& r, const Interval& c) {
        int64_t count = divisor ? divisor
                        : padding_counts
                            ? r.padded * c.padded
                            : std::max<int64_t>(0, r.last - r.first) * std::max<int64_t>(0, c.last - c.first);
        return total(plane, width, r, c) / static_cast<float>(count);
      });
  return {};
}

Result<void> adaptive_pool(const Node& node, const Tensor& x, Tensor& out) {
  const Ints& size = node.ints(Key::Size);
  Intervals rows = size.size() == 2 ? adaptive_ranges(x.shape[2], size[0]) : Intervals{{0, 1, 1, 1}};
  Intervals columns = adaptive_ranges(x.shape.back(), size.back());
  if (node.op == Op::AdaptiveMaxPool) {
    max_over(x, out, rows, columns);
    return {};
  }
  each_window<float>(x, out, rows, columns,
                     [](const float* plane, int64_t width, const Interval& r, const Interval& c) {
                       return total(plane, width, r, c) / static_cast<float>(r.padded * c.padded);
                     });
  return {};
}

// Where an output index reads along one dim: between `low` and `high`, `weight` of the way.
struct Tap {
  int64_t low = 0;
  int64_t high = 0;
  float weight = 0;
};

// PyTorch's source positions: a given scale is used as 1 / scale in float, otherwise the sizes decide.
std::vector<Tap> resize_taps(int64_t in, int64_t out, double scale, bool linear, bool align_corners) {
  std::vector<Tap> taps;
  float ratio = scale > 0 ? static_cast<float>(1.0 / scale) : static_cast<float>(in) / static_cast<float>(out);
  if (linear && align_corners) ratio = out > 1 ? static_cast<float>(in - 1) / static_cast<float>(out - 1) : 0.0f;
  for (int64_t o = 0; o < out; ++o) {
    if (!linear) {
      auto at = std::min(static_cast<int64_t>(std::floor(static_cast<float>(o) * ratio)), in - 1);
      taps.push_back({at, at, 0});
      continue;
    }
    float position =
        align_corners ? ratio * static_cast<float>(o) : std::max(0.0f, ratio * (static_cast<float>(o) + 0.5f) - 0.5f);
    auto low = std::min(static_cast<int64_t>(position), in - 1);
    taps.push_back({low, std::min(low + 1, in - 1), std::clamp(position - static_cast<float>(low), 0.0f, 1.0f)});
  }
  return taps;
}

Result<void> resize(const Node& node, const Tensor& x, Tensor& out) {
  const Ints& size = node.ints(Key::Size);
  bool linear = node.text(Key::Mode) == "bilinear";
  bool align = node.flag(Key::AlignCorners);
  auto scale = [&](size_t i) { return node.doubles(Key::Scales)[i]; };
  std::vector<Tap> rows = {{}};
  int64_t height = 1, width = x.shape.back();
  if (size.size() == 2) {
    height = x.shape[2];
    rows = resize_taps(height, size[0], scale(0), linear, align);
  }
  std::vector<Tap> columns = resize_taps(width, size.back(), scale(size.size() - 1), linear, align);
  auto planes = static_cast<size_t>(x.shape[0] * x.shape[1]);
  size_t per_plane = rows.size() * columns.size();
  auto sample = [&](auto zero, auto mix) {
    using T = decltype(zero);
    parallel_for(planes, kGrain / std::max<size_t>(1, per_plane) + 1, [&](size_t first, size_t last) {
      for (size_t p = first; p < last; ++p) {
        const T* plane = x.as<T>().data() + static_cast<int64_t>(p) * width * height;
        T* to = out.as<T>().data() + p * per_plane;
        for (const Tap& r : rows)
          for (const Tap& c : columns) *to++ = mix(plane + r.low * width, plane + r.high * width, r, c);
      }
    });
  };
  auto pick = [](const auto* low, const auto*, const Tap&, const Tap& c) { return low[c.low]; };
  if (x.dtype == DType::I64)
    sample(int64_t{}, pick);
  else if (x.dtype == DType::Bool)
    sample(uint8_t{}, pick);
  else if (!linear)
    sample(float{}, pick);
  else
    sample(float{}, [](const float* low, const float* high, const Tap& r, const Tap& c) {
      float top = low[c.low] * (1 - c.weight) + low[c.high] * c.weight;
      float bottom = high[c.low] * (1 - c.weight) + high[c.high] * c.weight;
      return top * (1 - r.weight) + bottom * r.weight;
    });
  return {};
}

using PlaneKernel = Result<void> (*)(const Node&, const Tensor&, Tensor&);

Result<void> in_either_layout(PlaneKernel kernel, const Node& node, const Tensor& x, Tensor& out) {
  if (element_count(out.shape) == 0) return {};
  if (!node.flag(Key::ChannelsLast)) return kernel(node, x, out);
  return in_channels_first(x, out, [&](const Tensor& first, Tensor& result) { return kernel(node, first, result); });
}

}  // namespace

Result<void> ref_pool(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  return in_either_layout(pool, node, *in[0], out[0]);
}
Result<void> ref_adaptive_pool(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  return in_either_layout(adaptive_pool, node, *in[0], out[0]);
}
Result<void> ref_resize(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  return in_either_layout(resize, node, *in[0], out[0]);
}

}  // namespace swoop
