// Convolutions as matrix products. In a zero-padded image, what kernel element k reads for output position p is at
// offset(k) + offset(p), for any number of spatial dims; so one table of each is all that a convolution adds to gemm.
#include <algorithm>
#include <type_traits>
#include <utility>

#include "ops/gemm.h"
#include "ops/kernels.h"
#include "ops/ref.h"
#include "ops/window.h"
#include "support/check.h"
#include "support/clones.h"
#include "support/parallel.h"

namespace swoop {

namespace {

// Offsets of all positions of `sizes` (row-major) in an array with `strides`, taking `step` at a time.
std::vector<int64_t> offsets(const Shape& sizes, const Shape& strides, const Shape& step) {
  std::vector<int64_t> list = {0};
  for (size_t i = 0; i < sizes.size(); ++i) {
    std::vector<int64_t> next;
    next.reserve(list.size() * static_cast<size_t>(sizes[i]));
    for (int64_t base : list)
      for (int64_t j = 0; j < sizes[i]; ++j) next.push_back(base + j * step[i] * strides[i]);
    list = std::move(next);
  }
  return list;
}

// The rows of an array `small` that lies in `big` from `corner` on, as numbers of rows of `big`.
std::vector<int64_t> rows_inside(const Shape& small, const Shape& big, const Shape& corner) {
  const Shape rows(small.begin(), small.end() - 1), big_rows(big.begin(), big.end() - 1);
  const Shape strides = row_major_strides(big_rows);
  std::vector<int64_t> list = offsets(rows, strides, Shape(rows.size(), 1));
  int64_t start = 0;
  for (size_t i = 0; i < rows.size(); ++i) start += corner[i] * strides[i];
  for (int64_t& row : list) row += start;
  return list;
}

size_t planes_at_once(int64_t plane) { return kGrain / static_cast<size_t>(std::max<int64_t>(1, plane)) + 1; }

// An array [channels, small...] with zeros around it, as [channels, big...].
void pad_with_zeros(int64_t channels, const Shape& small, const Shape& big, const Shape& corner, const float* from,
                    float* to) {
  const int64_t width = small.back(), big_width = big.back(), before = corner.back(), plane = element_count(big);
  const std::vector<int64_t> rows = rows_inside(small, big, corner);
  parallel_for(static_cast<size_t>(channels), planes_at_once(plane), [&](size_t first, size_t last) {
    const float* row = from + static_cast<int64_t>(first * rows.size()) * width;
    float* at = to + static_cast<int64_t>(first) * plane;
    float* done = at;  // up to here
    for (size_t c = first; c < last; ++c, at += plane)
      for (int64_t inside : rows) {
        float* start = at + inside * big_width + before;
        std::fill(done, start, 0.0f);
        done = std::copy_n(row, width, start);
        row += width;
      }
    std::fill(done, at, 0.0f);
  });
}

// The part [channels, small...] of an array [channels, big...] that begins at `corner`.
void cut_out(int64_t channels, const Shape& small, const Shape& big, const Shape& corner, const float* from,
             float* to) {
  const int64_t width = small.back(), plane = element_count(big);
  const std::vector<int64_t> rows = rows_inside(small, big, corner);
  parallel_for(static_cast<size_t>(channels), planes_at_once(plane), [&](size_t first, size_t last) {
    float* row = to + static_cast<int64_t>(first * rows.size()) * width;
    for (auto c = static_cast<int64_t>(first); c < static_cast<int64_t>(last); ++c)
      for (int64_t inside : rows) row = std::copy_n(from + c * plane + inside * big.back() + corner.back(), width, row);
  });
}

// A convolution of one image, channels first, its geometry worked out.
struct Geometry {
  Windows windows;
  Shape padded;
  int64_t groups = 1, in_per_group = 0, out_per_group = 0;
  int64_t plane = 0;                    // elements of a padded channel
  std::vector<int64_t> kernel_offsets;  // of a kernel's elements, channels of the group included
  std::vector<int64_t> positions;       // of the windows
};

template <int64_t stride>
[[gnu::always_inline]] inline void copy_each(const float* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[i * stride];
}

SWOOP_CLONES void copy_each(const float* from, int64_t count, int64_t stride, float* to) {
  if (stride == 1) return copy_each<1>(from, count, to);
  if (stride == 2) return copy_each<2>(from, count, to);
  for (int64_t i = 0; i < count; ++i) to[i] = from[i * stride];
}

// Windows of one row: what each reads with the same tap is `stride` apart.
struct WindowRow {
  int64_t position, first, count;
};

// Rows [k0, k1) of columns [n0, n1) of the implicit matrix of windows.
void pack_windows(const Geometry& geometry, const float* image, int64_t k0, int64_t k1, int64_t n0, int64_t n1,
                  float* to) {
  const int64_t stride = geometry.windows.stride.back();
  std::vector<WindowRow> rows;
  for (int64_t n = n0; n < n1; ++n) {
    const int64_t position = geometry.positions[static_cast<size_t>(n)];
    if (n > n0 && position == geometry.positions[static_cast<size_t>(n) - 1] + stride)
      ++rows.back().count;
    else
      rows.push_back({position, n - n0, 1});
  }
  const int64_t columns = n1 - n0;
  const bool gathers = static_cast<int64_t>(rows.size()) * 3 > columns;
  for (int64_t k = k0; k < k1; ++k, to += columns) {
    const float* from = image + geometry.kernel_offsets[static_cast<size_t>(k)];
    if (gathers)
      for (int64_t n = 0; n < columns; ++n) to[n] = from[geometry.positions[static_cast<size_t>(n0 + n)]];
    else
      for (const WindowRow& row : rows) copy_each(from + row.position, row.count, stride, to + row.first);
  }
}

// Sums over a kernel's taps for `count` windows side by side. The sums stay in registers while the taps go by: they are
// vectors by name, because the compiler keeps small arrays in memory.
SWOOP_CLONES void sum_taps(const float* from, const std::vector<int64_t>& offsets, const float* weights, int64_t count,
                           float* to) {
  using Lanes [[gnu::vector_size(32), gnu::aligned(4), gnu::may_alias]] = float;
  constexpr int64_t kWidth = sizeof(Lanes) / sizeof(float);
  const auto taps = offsets.size();
  const auto sum_block = [&](int64_t j, auto vectors) __attribute__((always_inline)) {
    Lanes sums[vectors] = {};
    for (size_t k = 0; k < taps; ++k) {
      const auto* x = reinterpret_cast<const Lanes*>(from + offsets[k] + j);
      for (int64_t i = 0; i < vectors; ++i) sums[i] += weights[k] * x[i];
    }
    for (int64_t i = 0; i < vectors; ++i) reinterpret_cast<Lanes*>(to + j)[i] = sums[i];
  };
  int64_t j = 0;
  for (; j + 8 * kWidth <= count; j += 8 * kWidth) sum_block(j, std::integral_constant<int64_t, 8>());
  for (; j + 2 * kWidth <= count; j += 2 * kWidth) sum_block(j, std::integral_constant<int64_t, 2>());
  for (; j + kWidth <= count; j += kWidth) sum_block(j, std::integral_constant<int64_t, 1>());
  if (j < count && count >= kWidth) return sum_block(count - kWidth, std::integral_constant<int64_t, 1>());
  for (; j < count; ++j) {
    float sum = 0;
    for (size_t k = 0; k < taps; ++k) sum += weights[k] * from[offsets[k] + j];
    to[j] = sum;
  }
}

// A plane whose columns are sorted by which window first reads them: with a stride of 2 all even columns of all lines
// come first. What windows side by side read with one tap is side by side then.
class SortedPlane {
 public:
  SortedPlane(int64_t elements, int64_t width, int64_t stride)
      : width_(width), stride_(stride), lines_(elements / width), part_((width + stride - 1) / stride) {}

  // The sum of two places is the place of their sum, as long as one of them is a window's.
  std::vector<int64_t> places(std::vector<int64_t> offsets) const {
    for (int64_t& offset : offsets) {
      const int64_t line = offset / width_, column = offset % width_;
      offset = (column % stride_ * lines_ + line) * part_ + column / stride_;
    }
    return offsets;
  }

  // The last one again, if it is the same.
  const float* sort(const float* plane) {
    if (stride_ == 1) return plane;
    if (plane == std::exchange(of_, plane)) return sorted_.data();
    sorted_.resize(static_cast<size_t>(stride_ * lines_ * part_));
    for (int64_t first = 0; first < stride_; ++first)
      for (int64_t line = 0; line < lines_; ++line) {
        const int64_t count = (width_ - first + stride_ - 1) / stride_;
        copy_each(plane + line * width_ + first, count, stride_, sorted_.data() + (first * lines_ + line) * part_);
      }
    return sorted_.data();
  }

 private:
  int64_t width_, stride_, lines_, part_;
  const float* of_ = nullptr;
  std::vector<float> sorted_;
};

// One input channel per group: too thin for gemm. Windows of all rows are summed as one long row where that is not much
// more, with those in between that reach from one row into the next.
void convolve_depthwise(const Geometry& geometry, const float* image, const float* weights, float* out) {
  const SortedPlane whole(geometry.plane, geometry.padded.back(), geometry.windows.stride.back());
  const std::vector<int64_t> offsets = whole.places(geometry.kernel_offsets);
  const std::vector<int64_t> positions = whole.places(geometry.positions);
  const auto taps = static_cast<int64_t>(offsets.size());
  const auto count = static_cast<int64_t>(positions.size());
  const int64_t row = geometry.windows.out.back(), span = positions.back() + 1;
  const bool as_one = row < count && span <= (row < 8 ? 4 : 2) * count;
  const int64_t channels = geometry.groups * geometry.out_per_group;
  const size_t grain = 8 * kGrain / static_cast<size_t>(std::max<int64_t>(1, count * taps)) + 1;
  parallel_for(static_cast<size_t>(channels), grain, [&](size_t first, size_t last) {
    SortedPlane sorted = whole;
    std::vector<float> sums(as_one ? static_cast<size_t>(span) : 0);
    for (auto o = static_cast<int64_t>(first); o < static_cast<int64_t>(last); ++o) {
      const float* plane = sorted.sort(image + o / geometry.out_per_group * geometry.plane);
      float* to = out + o * count;
      if (as_one) sum_taps(plane, offsets, weights + o * taps, span, sums.data());
      for (int64_t p = 0; p < count; p += row) {
        const int64_t at = positions[static_cast<size_t>(p)];
        if (as_one)
          std::copy_n(sums.data() + at, row, to + p);
        else
          sum_taps(plane + at, offsets, weights + o * taps, row, to + p);
      }
    }
  });
}

void convolve(const Geometry& geometry, const float* image, const float* weights, float* out) {
  if (geometry.in_per_group == 1) return convolve_depthwise(geometry, image, weights, out);
  auto depth = static_cast<int64_t>(geometry.kernel_offsets.size());
  auto count = static_cast<int64_t>(geometry.positions.size());
  bool pointwise = depth == geometry.in_per_group && count == geometry.plane;  // the image is the matrix of windows
  for (int64_t g = 0; g < geometry.groups; ++g) {
    const float* channels = image + g * geometry.in_per_group * geometry.plane;
    MatrixView a{weights + g * geometry.out_per_group * depth, depth, 1};
    float* to = out + g * geometry.out_per_group * count;
    if (pointwise)
      gemm(geometry.out_per_group, count, depth, a, MatrixView{channels, count, 1}, to, count);
    else
      gemm(
          geometry.out_per_group, count, depth, a,
          [&](int64_t k0, int64_t k1, int64_t n0, int64_t n1, float* panel) {
            pack_windows(geometry, channels, k0, k1, n0, n1, panel);
          },
          to, count);
  }
}

SWOOP_CLONES void add_to_run(float* x, int64_t count, float summand) {
  for (int64_t i = 0; i < count; ++i) x[i] += summand;
}

void add_bias(const Tensor* bias, int64_t batch, int64_t channels, int64_t count, float* out) {
  if (!bias) return;
  parallel_for(static_cast<size_t>(batch * channels), kGrain / static_cast<size_t>(std::max<int64_t>(1, count)) + 1,
               [&](size_t first, size_t last) {
                 for (size_t i = first; i < last; ++i) {
                   add_to_run(out + i * static_cast<size_t>(count), count,
                              bias->as<float>()[i % static_cast<size_t>(channels)]);
                 }
               });
}

Result<void> conv_channels_first(const Node& node, const Tensor& x, const Tensor& w, const Tensor* bias, Tensor& out) {
  Geometry geometry;
  Shape space(x.shape.begin() + 2, x.shape.end());
  TRY_ASSIGN(geometry.windows, windows_of(node, space, Shape(w.shape.begin() + 2, w.shape.end())));
  TRY(count_windows(node, geometry.windows, false));
  const Windows& windows = geometry.windows;
  geometry.groups = node.integer(Key::Groups);
  geometry.in_per_group = w.shape[1];
  geometry.out_per_group = w.shape[0] / geometry.groups;
  bool pads = false;
  for (size_t i = 0; i < space.size(); ++i) {
    geometry.padded.push_back(space[i] + windows.before[i] + windows.after[i]);
    pads = pads || geometry.padded[i] != space[i];
  }
  Shape padded_shape = geometry.padded;
  padded_shape.insert(padded_shape.begin(), x.shape[1]);
  TRY(check_memory(node, padded_shape, DType::F32));
  geometry.plane = element_count(geometry.padded);
  Shape sizes = windows.kernel, steps = windows.dilation, strides = row_major_strides(geometry.padded);
  geometry.positions = offsets(windows.out, strides, windows.stride);
  sizes.insert(sizes.begin(), geometry.in_per_group);
  steps.insert(steps.begin(), 1);
  strides.insert(strides.begin(), geometry.plane);
  geometry.kernel_offsets = offsets(sizes, strides, steps);

  int64_t batch = x.shape[0];
  int64_t channels = x.shape[1];
  auto count = static_cast<int64_t>(geometry.positions.size());
  if (element_count(out.shape) == 0) return {};
  Storage padded(pads ? static_cast<size_t>(channels * geometry.plane) * sizeof(float) : 0);
  for (int64_t n = 0; n < batch; ++n) {
    const float* image = x.as<float>().data() + n * channels * element_count(space);
    if (pads) {
      auto* to = reinterpret_cast<float*>(padded.data());
      pad_with_zeros(channels, space, geometry.padded, windows.before, image, to);
      image = to;
    }
    convolve(geometry, image, w.as<float>().data(), out.as<float>().data() + n * w.shape[0] * count);
  }
  add_bias(bias, batch, w.shape[0], count, out.as<float>().data());
  return {};
}

// Each input position spreads kernel * value over the output: one product per group gives all of them, then they are
// added up.
Result<void> conv_transpose_channels_first(const Node& node, const Tensor& x, const Tensor& w, const Tensor* bias,
                                           Tensor& out) {
  Shape space(x.shape.begin() + 2, x.shape.end());
  Shape out_space(out.shape.begin() + 2, out.shape.end());
  TRY_ASSIGN(Windows windows, windows_of(node, space, Shape(w.shape.begin() + 2, w.shape.end())));
  Shape spread;  // the output before the padding is cut off, at least as large as every kernel reaches
  for (size_t i = 0; i < space.size(); ++i) {
    int64_t reach = (space[i] - 1) * windows.stride[i] + windows.dilation[i] * (windows.kernel[i] - 1) + 1;
    spread.push_back(std::max(reach, out_space[i] + windows.before[i]));
  }
  int64_t groups = node.integer(Key::Groups);
  int64_t in_channels = x.shape[1], in_per_group = in_channels / groups;
  int64_t per_group = w.shape[1], out_channels = per_group * groups;
  Shape sums_shape = spread, products_shape = {per_group, element_count(windows.kernel), element_count(space)};
  sums_shape.insert(sums_shape.begin(), out_channels);
  TRY(check_memory(node, sums_shape, DType::F32));
  TRY(check_memory(node, products_shape, DType::F32));
  Shape strides = row_major_strides(spread);
  std::vector<int64_t> positions = offsets(space, strides, windows.stride);
  std::vector<int64_t> taps = offsets(windows.kernel, strides, windows.dilation);
  auto count = static_cast<int64_t>(positions.size());
  auto tap_count = static_cast<int64_t>(taps.size());
  int64_t plane = element_count(spread);
  if (element_count(out.shape) == 0) return {};

  std::vector<float> products(static_cast<size_t>(per_group * tap_count * count));
  std::vector<float> sums(static_cast<size_t>(out_channels * plane));
  for (int64_t n = 0; n < x.shape[0]; ++n) {
    std::fill(sums.begin(), sums.end(), 0.0f);
    for (int64_t g = 0; g < groups; ++g) {
      const float* weights = w.as<float>().data() + g * in_per_group * per_group * tap_count;
      const float* image = x.as<float>().data() + (n * in_channels + g * in_per_group) * count;
      gemm(per_group * tap_count, count, in_per_group, {weights, 1, per_group * tap_count}, MatrixView{image, count, 1},
           products.data(), count);
      size_t grain = kGrain / static_cast<size_t>(std::max<int64_t>(1, count * tap_count)) + 1;
      parallel_for(static_cast<size_t>(per_group), grain, [&](size_t first, size_t last) {
        for (size_t o = first; o < last; ++o)
          for (size_t t = 0; t < taps.size(); ++t) {
            float* to = sums.data() + (static_cast<size_t>(g * per_group) + o) * static_cast<size_t>(plane) + taps[t];
            const float* from = products.data() + (o * taps.size() + t) * static_cast<size_t>(count);
            for (size_t p = 0; p < positions.size(); ++p) to[positions[p]] += from[p];
          }
      });
    }
    float* to = out.as<float>().data() + n * out_channels * element_count(out_space);
    cut_out(out_channels, out_space, spread, windows.before, sums.data(), to);
  }
  add_bias(bias, x.shape[0], out_channels, element_count(out_space), out.as<float>().data());
  return {};
}

// [O,k...,C/g] -> [C,O/g,k...]
Tensor transposed_weights(const Tensor& w, int64_t groups) {
  Tensor grouped = w;
  grouped.shape[0] /= groups;
  grouped.shape.insert(grouped.shape.begin(), groups);
  Ints perm = {0, static_cast<int64_t>(grouped.shape.size()) - 1};
  for (int64_t i = 1; i + 1 < static_cast<int64_t>(grouped.shape.size()); ++i) perm.push_back(i);
  Tensor moved = transposed(grouped, perm);
  moved.shape.erase(moved.shape.begin());
  moved.shape[0] *= groups;
  return moved;
}

}  // namespace

Result<void> ref_conv(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  const Tensor* bias = in.size() > 2 ? in[2] : nullptr;
  if (!node.flag(Key::ChannelsLast)) return conv_channels_first(node, *in[0], *in[1], bias, out[0]);
  Ints first = to_channels_first(in[0]->shape.size());
  Tensor w = transposed(*in[1], first);
  return in_channels_first(*in[0], out[0],
                           [&](const Tensor& x, Tensor& y) { return conv_channels_first(node, x, w, bias, y); });
}

Result<void> ref_conv_transpose(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  const Tensor* bias = in.size() > 2 ? in[2] : nullptr;
  if (!node.flag(Key::ChannelsLast)) return conv_transpose_channels_first(node, *in[0], *in[1], bias, out[0]);
  Tensor w = transposed_weights(*in[1], node.integer(Key::Groups));
  return in_channels_first(
      *in[0], out[0], [&](const Tensor& x, Tensor& y) { return conv_transpose_channels_first(node, x, w, bias, y); });
}

Result<void> ref_linear(const Node&, std::span<const Tensor* const> in, std::span<Tensor> out) {
  int64_t depth = in[1]->shape[1];
  int64_t columns = in[1]->shape[0];
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < in[0]->shape.size(); ++i) rows *= in[0]->shape[i];
  float* to = out[0].as<float>().data();
  gemm(rows, columns, depth, {in[0]->as<float>().data(), depth, 1}, MatrixView{in[1]->as<float>().data(), 1, depth}, to,
       columns);
  if (in.size() < 3 || !in[2]) return {};
  const float* bias = in[2]->as<float>().data();
  parallel_for(static_cast<size_t>(rows), kGrain / static_cast<size_t>(std::max<int64_t>(1, columns)) + 1,
               [&](size_t first, size_t last) {
                 for (size_t i = first; i < last; ++i) {
                   float* row = to + i * static_cast<size_t>(columns);
                   for (int64_t j = 0; j < columns; ++j) row[j] += bias[j];
                 }
               });
  return {};
}

namespace {

void multiply_integers(int64_t m, int64_t n, int64_t k, const int64_t* a, const int64_t* b, int64_t* c) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      uint64_t sum = 0;  // wraps, as PyTorch's does
      for (int64_t p = 0; p < k; ++p) sum += static_cast<uint64_t>(a[i * k + p]) * static_cast<uint64_t>(b[p * n + j]);
      c[i * n + j] = static_cast<int64_t>(sum);
    }
}

}  // namespace

Result<void> ref_matmul(const Node&, std::span<const Tensor* const> in, std::span<Tensor> out) {
  Tensor& y = out[0];
  Tensor a_converted, b_converted;
  const Tensor& a = in[0]->dtype == y.dtype ? *in[0] : (a_converted = as_dtype(*in[0], y.dtype));
  const Tensor& b = in[1]->dtype == y.dtype ? *in[1] : (b_converted = as_dtype(*in[1], y.dtype));
  size_t rank = y.shape.size();
  int64_t m = y.shape[rank - 2], n = y.shape[rank - 1], k = a.shape.back();
  Shape lead(y.shape.begin(), y.shape.end() - 2);
  std::vector<int64_t> a_at = broadcast_offsets(Shape(a.shape.begin(), a.shape.end() - 2), lead);
  std::vector<int64_t> b_at = broadcast_offsets(Shape(b.shape.begin(), b.shape.end() - 2), lead);
  auto multiply = [&](size_t i) {
    auto at = static_cast<int64_t>(i);
    if (y.dtype == DType::F32)
      gemm(m, n, k, {a.as<float>().data() + a_at[i] * m * k, k, 1},
           MatrixView{b.as<float>().data() + b_at[i] * k * n, n, 1}, y.as<float>().data() + at * m * n, n);
    else
      multiply_integers(m, n, k, a.as<int64_t>().data() + a_at[i] * m * k, b.as<int64_t>().data() + b_at[i] * k * n,
                        y.as<int64_t>().data() + at * m * n);
  };
  // Many small products are shared out among the cores, large ones share the cores inside.
  constexpr int64_t kSmall = 1 << 18;
  if (m * n * k < kSmall)
    parallel_for(a_at.size(), static_cast<size_t>(kSmall / std::max<int64_t>(1, m * n * k) + 1),
                 [&](size_t first, size_t last) {
                   for (size_t i = first; i < last; ++i) multiply(i);
                 });
  else
    for (size_t i = 0; i < a_at.size(); ++i) multiply(i);
  return {};
}

}  // namespace swoop
