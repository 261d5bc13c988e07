#include <algorithm>
#include <atomic>

#include "support/check.h"
#include "support/parallel.h"
#include "tosa/gemm.h"
#include "tosa/kernels.h"
#include "tosa/simd.h"

namespace swoop::tosa {

namespace {

constexpr int64_t kI48Limit = int64_t{1} << 47;
constexpr size_t kMacGrain = 1 << 21;  // multiply-accumulates worth a thread

size_t round_up(size_t value, size_t step) { return (value + step - 1) / step * step; }

// values - zero_point, each row of k elements padded with zeros to `stride`.
template <typename T>
void widen_rows(const T* values, int64_t zero_point, size_t rows, size_t k, size_t stride, int16_t* out) {
  auto zp = static_cast<int16_t>(zero_point);
  for (size_t row = 0; row < rows; ++row) {
    for (size_t i = 0; i < k; ++i) out[row * stride + i] = static_cast<int16_t>(values[row * k + i] - zp);
    std::fill(out + row * stride + k, out + (row + 1) * stride, int16_t{0});
  }
}

// A convolution over depth, height and width; two-dimensional ones have depth 1.
struct Window {
  size_t batch, channels, channels_out;
  std::array<int64_t, 3> input, output, kernel, stride, dilation, pad;  // pad: before
  bool transposed = false;
  size_t taps() const { return static_cast<size_t>(kernel[0] * kernel[1] * kernel[2]); }
  size_t pixels() const { return batch * static_cast<size_t>(output[0] * output[1] * output[2]); }
};

Window window_of(const Call& call) {
  const Shape& x = *call.in[0].shape;
  const Shape& w = *call.in[1].shape;
  const Shape& y = call.out[0].shape;
  Window window{};
  window.batch = static_cast<size_t>(x[0]);
  window.channels = static_cast<size_t>(x.back());
  window.channels_out = static_cast<size_t>(y.back());
  window.input = {1, x[x.size() - 3], x[x.size() - 2]};
  window.output = {1, y[y.size() - 3], y[y.size() - 2]};
  window.kernel = {1, w[w.size() - 3], w[w.size() - 2]};
  window.stride = window.dilation = {1, 1, 1};
  if (call.op.op == Op::Conv3d) {
    const auto& a = call.attributes<Conv3dAttributes>();
    window.input[0] = x[1];
    window.output[0] = y[1];
    window.kernel[0] = w[1];
    window.stride = {a.stride[0], a.stride[1], a.stride[2]};
    window.dilation = {a.dilation[0], a.dilation[1], a.dilation[2]};
    window.pad = {a.pad[0], a.pad[2], a.pad[4]};
  } else if (call.op.op == Op::TransposeConv2d) {
    const auto& a = call.attributes<TransposeConv2dAttributes>();
    window.stride = {1, a.stride[0], a.stride[1]};
    window.pad = {0, a.out_pad[0], a.out_pad[2]};
    window.transposed = true;
  } else {
    const auto& a = call.attributes<Conv2dAttributes>();
    if (call.op.op == Op::DepthwiseConv2d) window.kernel = {1, w[0], w[1]};
    window.stride = {1, a.stride[0], a.stride[1]};
    window.dilation = {1, a.dilation[0], a.dilation[1]};
    window.pad = {0, a.pad[0], a.pad[2]};
  }
  return window;
}

// The input position that tap `tap` of output position `at` reads along one axis, or -1.
int64_t source(const Window& w, size_t axis, int64_t at, int64_t tap) {
  if (!w.transposed) {
    int64_t position = at * w.stride[axis] - w.pad[axis] + tap * w.dilation[axis];
    return position >= 0 && position < w.input[axis] ? position : -1;
  }
  int64_t position = at - w.pad[axis] - tap;
  if (position < 0 || position % w.stride[axis] != 0) return -1;
  position /= w.stride[axis];
  return position < w.input[axis] ? position : -1;
}

// One output pixel's inputs as a row, in the order of the weights; zeros where the window leaves the input.
template <typename T>
void gather_row(const Window& w, const T* x, int16_t zp, size_t pixel, int16_t* row) {
  auto plane = static_cast<size_t>(w.output[0] * w.output[1] * w.output[2]);
  size_t n = pixel / plane;
  auto rest = static_cast<int64_t>(pixel % plane);
  std::array<int64_t, 3> at{rest / (w.output[1] * w.output[2]), rest / w.output[2] % w.output[1], rest % w.output[2]};
  for (int64_t kz = 0; kz < w.kernel[0]; ++kz) {
    int64_t z = source(w, 0, at[0], kz);
    for (int64_t ky = 0; ky < w.kernel[1]; ++ky) {
      int64_t y = z < 0 ? -1 : source(w, 1, at[1], ky);
      for (int64_t kx = 0; kx < w.kernel[2]; ++kx, row += w.channels) {
        int64_t column = y < 0 ? -1 : source(w, 2, at[2], kx);
        if (column < 0) {
          std::fill_n(row, w.channels, int16_t{0});
          continue;
        }
        auto position = ((static_cast<int64_t>(n) * w.input[0] + z) * w.input[1] + y) * w.input[2] + column;
        const T* from = x + static_cast<size_t>(position) * w.channels;
        for (size_t c = 0; c < w.channels; ++c) row[c] = static_cast<int16_t>(from[c] - zp);
      }
    }
  }
}

// sum + bias, which must fit the result's type.
bool add_bias(const int64_t* sums, const Value& bias, size_t count, int32_t* out) {
  const auto* values = bias.as<int32_t>();
  size_t step = bias.count() == 1 ? 0 : 1;
  unsigned bad = 0;
  for (size_t i = 0; i < count; ++i) {
    int64_t sum = sums[i] + values[i * step];
    bad |= static_cast<unsigned>(sum < INT32_MIN) | static_cast<unsigned>(sum > INT32_MAX) |
           static_cast<unsigned>(sums[i] < INT32_MIN) | static_cast<unsigned>(sums[i] > INT32_MAX);
    out[i] = static_cast<int32_t>(sum);
  }
  return bad == 0;
}

bool add_bias(const int64_t* sums, const Value& bias, size_t count, int64_t* out) {
  const auto* values = bias.as<int64_t>();
  size_t step = bias.count() == 1 ? 0 : 1;
  unsigned bad = 0;
  for (size_t i = 0; i < count; ++i) {
    int64_t sum = sums[i] + values[i * step];
    bad |= static_cast<unsigned>(sum < -kI48Limit) | static_cast<unsigned>(sum >= kI48Limit);
    out[i] = sum;
  }
  return bad == 0;
}

template <typename In, typename Out>
Result<void> run_dense(const Call& call) {
  Window w = window_of(call);
  size_t k = w.taps() * w.channels;
  size_t stride = round_up(k, kGemmStep);
  std::vector<int16_t> weights(w.channels_out * stride);
  widen_rows(call.in[1].as<int8_t>(), call.scalar(4), w.channels_out, k, stride, weights.data());
  auto zp = static_cast<int16_t>(call.scalar(3));
  const In* x = call.in[0].as<In>();
  Out* out = call.result<Out>();
  // |x - zp| and |w - zp| are at most 255 for i8, so k up to 2^15 fits 32 bits.
  bool narrow = sizeof(In) == 1 && k <= (1u << 15);
  constexpr size_t kBlockBytes = 128 << 10;  // gathered rows that stay in the cache
  size_t block = std::clamp<size_t>(kBlockBytes / (stride * sizeof(int16_t)) / 4 * 4, 4, 256);
  size_t blocks = (w.pixels() + block - 1) / block;
  size_t macs_per_block = std::max<size_t>(1, block * k * w.channels_out);
  std::atomic<bool> bad = false;
  parallel_for(blocks, kMacGrain / macs_per_block + 1, [&](size_t first, size_t last) {
    std::vector<int16_t> rows(block * stride);
    std::vector<int32_t> sums32(narrow ? block * w.channels_out : 0);
    std::vector<int64_t> sums(narrow ? w.channels_out : block * w.channels_out);
    for (size_t b = first; b < last; ++b) {
      size_t count = std::min(block, w.pixels() - b * block);
      for (size_t p = 0; p < count; ++p) gather_row(w, x, zp, b * block + p, rows.data() + p * stride);
      if (narrow)
        gemm(rows.data(), weights.data(), count, w.channels_out, stride, sums32.data(), w.channels_out);
      else
        gemm(rows.data(), weights.data(), count, w.channels_out, stride, Sum::Chunked, sums.data(), w.channels_out);
      for (size_t p = 0; p < count; ++p) {
        const int64_t* of_pixel = sums.data() + p * w.channels_out;
        if (narrow) {
          std::copy_n(sums32.data() + p * w.channels_out, w.channels_out, sums.data());
          of_pixel = sums.data();
        }
        if (!add_bias(of_pixel, call.in[2], w.channels_out, out + (b * block + p) * w.channels_out)) bad = true;
      }
    }
  });
  if (bad) return call.fail("the accumulator overflows");
  return {};
}

// x with every channel repeated, so that channel c of the output reads channel c.
template <typename In>
std::vector<In> repeat_channels(const In* x, size_t count, size_t times) {
  std::vector<In> out(count * times);
  for (size_t i = 0; i < count; ++i) std::fill_n(out.data() + i * times, times, x[i]);
  return out;
}

template <typename Sum, typename In>
SWOOP_INLINE inline void depthwise_pixel(const Window& w, const In* x, const int16_t* weights, int16_t zp, size_t pixel,
                                         Sum* sums) {
  auto plane = static_cast<size_t>(w.output[1] * w.output[2]);
  auto n = static_cast<int64_t>(pixel / plane);
  auto rest = static_cast<int64_t>(pixel % plane);
  size_t channels = w.channels_out;
  for (size_t c = 0; c < channels; ++c) sums[c] = 0;
  for (int64_t ky = 0; ky < w.kernel[1]; ++ky) {
    int64_t y = source(w, 1, rest / w.output[2], ky);
    if (y < 0) continue;
    for (int64_t kx = 0; kx < w.kernel[2]; ++kx) {
      int64_t column = source(w, 2, rest % w.output[2], kx);
      if (column < 0) continue;
      const In* from = x + static_cast<size_t>((n * w.input[1] + y) * w.input[2] + column) * channels;
      const int16_t* weight = weights + static_cast<size_t>(ky * w.kernel[2] + kx) * channels;
      for (size_t c = 0; c < channels; ++c)
        sums[c] += static_cast<Sum>(static_cast<int16_t>(from[c] - zp)) * static_cast<Sum>(weight[c]);
    }
  }
}

template <typename In, typename Out>
Result<void> run_depthwise(const Call& call) {
  Window w = window_of(call);
  size_t multiplier = w.channels_out / w.channels;
  const In* x = call.in[0].as<In>();
  std::vector<In> repeated;
  if (multiplier > 1) {
    repeated = repeat_channels(x, call.in[0].count(), multiplier);
    x = repeated.data();
  }
  std::vector<int16_t> weights(w.taps() * w.channels_out);
  widen_rows(call.in[1].as<int8_t>(), call.scalar(4), 1, weights.size(), weights.size(), weights.data());
  auto zp = static_cast<int16_t>(call.scalar(3));
  Out* out = call.result<Out>();
  bool narrow = sizeof(In) == 1 && w.taps() <= (1u << 15);
  std::atomic<bool> bad = false;
  parallel_for(w.pixels(), kMacGrain / weights.size() + 1, [&](size_t first, size_t last) {
    std::vector<int64_t> sums(w.channels_out);
    std::vector<int32_t> sums32(w.channels_out);
    for (size_t pixel = first; pixel < last; ++pixel) {
      with_best_simd([&]() SWOOP_INLINE {
        if (narrow)
          depthwise_pixel(w, x, weights.data(), zp, pixel, sums32.data());
        else
          depthwise_pixel(w, x, weights.data(), zp, pixel, sums.data());
      });
      if (narrow) std::copy(sums32.begin(), sums32.end(), sums.begin());
      if (!add_bias(sums.data(), call.in[2], w.channels_out, out + pixel * w.channels_out)) bad = true;
    }
  });
  if (bad) return call.fail("the accumulator overflows");
  return {};
}

template <typename T>
Result<void> run_matmul_typed(const Call& call) {
  const Shape& a_shape = *call.in[0].shape;
  auto batch = static_cast<size_t>(a_shape[0]);
  auto height = static_cast<size_t>(a_shape[1]);
  auto k = static_cast<size_t>(a_shape[2]);
  auto width = static_cast<size_t>((*call.in[1].shape)[2]);
  size_t stride = round_up(k, kGemmStep);
  bool narrow = sizeof(T) == 1 && k <= (1u << 15);
  auto a_zp = call.scalar(2);
  auto b_zp = static_cast<int16_t>(call.scalar(3));
  std::vector<int16_t> a(height * stride);
  std::vector<int16_t> b(width * stride);
  std::atomic<bool> bad = false;
  constexpr size_t kRows = 64;
  for (size_t n = 0; n < batch; ++n) {
    widen_rows(call.in[0].as<T>() + n * height * k, a_zp, height, k, stride, a.data());
    const T* from = call.in[1].as<T>() + n * k * width;
    for (size_t i = 0; i < k; ++i)
      for (size_t c = 0; c < width; ++c) b[c * stride + i] = static_cast<int16_t>(from[i * width + c] - b_zp);
    size_t blocks = (height + kRows - 1) / kRows;
    parallel_for(blocks, kMacGrain / (kRows * width * stride) + 1, [&](size_t first, size_t last) {
      size_t top = first * kRows;
      size_t rows = std::min(last * kRows, height) - top;
      if (rows == 0) return;
      size_t offset = (n * height + top) * width;
      if (narrow) {
        for (size_t row = 0; row < rows; row += kRows) {
          gemm(a.data() + (top + row) * stride, b.data(), std::min(kRows, rows - row), width, stride,
               call.result<int32_t>() + offset + row * width, width);
        }
        return;
      }
      std::vector<int64_t> sums(rows * width);
      gemm(a.data() + top * stride, b.data(), rows, width, stride, sizeof(T) == 1 ? Sum::Chunked : Sum::Wide,
           sums.data(), width);
      for (size_t i = 0; i < sums.size(); ++i) {
        int64_t limit = sizeof(T) == 1 ? int64_t{1} << 31 : kI48Limit;
        if (sums[i] < -limit || sums[i] >= limit) bad = true;
        if (sizeof(T) == 1)
          call.result<int32_t>()[offset + i] = static_cast<int32_t>(sums[i]);
        else
          call.result<int64_t>()[offset + i] = sums[i];
      }
    });
  }
  if (bad) return call.fail("the accumulator overflows");
  return {};
}

}  // namespace

Result<void> run_convolution(const Call& call) {
  bool is_i8 = call.in[0].dtype == DType::I8;
  if (call.op.op == Op::DepthwiseConv2d)
    return is_i8 ? run_depthwise<int8_t, int32_t>(call) : run_depthwise<int16_t, int64_t>(call);
  return is_i8 ? run_dense<int8_t, int32_t>(call) : run_dense<int16_t, int64_t>(call);
}

Result<void> run_matmul(const Call& call) {
  return call.in[0].dtype == DType::I8 ? run_matmul_typed<int8_t>(call) : run_matmul_typed<int16_t>(call);
}

}  // namespace swoop::tosa
