#include <algorithm>
#include <atomic>
#include <bit>

#include "support/parallel.h"
#include "tosa/kernels.h"

namespace swoop::tosa {

namespace {

// reciprocal_scale of TOSA 1.0: 1 / value as multiplier and shift.
struct Scale {
  int32_t multiplier;
  int32_t shift;
};

Scale reciprocal_scale(uint32_t value) {
  int32_t k = 32 - std::countl_zero(value - 1);
  int64_t numerator = ((int64_t{1} << 30) + 1) << k;
  return {static_cast<int32_t>(numerator / value), 30 + k};
}

// The rows or columns of the input under one window.
struct Range {
  int64_t first;
  int64_t last;
};

Range covered(int64_t at, int32_t stride, int32_t pad, int32_t kernel, int32_t size) {
  int64_t start = at * stride - pad;
  return {std::max<int64_t>(start, 0), std::min<int64_t>(start + kernel, size)};
}

template <typename T>
Result<void> run_pool_typed(const Call& call) {
  const auto& a = call.attributes<PoolAttributes>();
  const Shape& in = *call.in[0].shape;
  const Shape& out = call.out[0].shape;
  const T* x = call.in[0].as<T>();
  T* y = call.result<T>();
  auto channels = static_cast<size_t>(in[3]);
  bool average = call.op.op == Op::AvgPool2d;
  auto input_zp = average ? static_cast<int32_t>(call.scalar(1)) : 0;
  auto output_zp = average ? call.scalar(2) : 0;
  auto pixels = static_cast<size_t>(out[0]) * static_cast<size_t>(out[1]) * static_cast<size_t>(out[2]);
  auto work = channels * static_cast<size_t>(a.kernel[0]) * static_cast<size_t>(a.kernel[1]);
  std::atomic<bool> failed = false;
  parallel_for(pixels, kElementGrain / work + 1, [&](size_t first, size_t last) {
    std::vector<int64_t> sums(channels);
    std::vector<T> best(channels);
    unsigned bad = 0;
    for (size_t pixel = first; pixel < last; ++pixel) {
      auto row = static_cast<int64_t>(pixel) / out[2];
      Range ys = covered(row % out[1], a.stride[0], a.pad[0], a.kernel[0], in[1]);
      Range xs = covered(static_cast<int64_t>(pixel) % out[2], a.stride[1], a.pad[2], a.kernel[1], in[2]);
      std::fill(sums.begin(), sums.end(), 0);
      std::fill(best.begin(), best.end(), std::numeric_limits<T>::min());
      for (int64_t iy = ys.first; iy < ys.last; ++iy) {
        for (int64_t ix = xs.first; ix < xs.last; ++ix) {
          const T* from = x + static_cast<size_t>((row / out[1] * in[1] + iy) * in[2] + ix) * channels;
          if (average)
            for (size_t c = 0; c < channels; ++c) sums[c] += from[c] - input_zp;
          else
            for (size_t c = 0; c < channels; ++c) best[c] = std::max(best[c], from[c]);
        }
      }
      T* to = y + pixel * channels;
      if (!average) {
        std::copy(best.begin(), best.end(), to);
        continue;
      }
      // Padding does not count. Kernels are wider than the padding, so there is always a value.
      Scale scale = reciprocal_scale(static_cast<uint32_t>((ys.last - ys.first) * (xs.last - xs.first)));
      for (size_t c = 0; c < channels; ++c) {
        bad |= static_cast<unsigned>(sums[c] < INT32_MIN) | static_cast<unsigned>(sums[c] > INT32_MAX);
        int64_t mean = apply_scale_32(sums[c], scale.multiplier, scale.shift, false, bad) + output_zp;
        to[c] = static_cast<T>(std::clamp<int64_t>(mean, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
      }
    }
    if (bad) failed = true;
  });
  if (failed) return call.fail("the accumulator overflows");
  return {};
}

// Where one output row or column reads: two neighbours and the distance from the first, in units of 1 / scale
// numerator.
struct Sample {
  int64_t first;
  int64_t second;
  int64_t distance;
};

Sample sample(int64_t at, const ResizeAttributes& a, size_t axis, int32_t size) {
  int64_t numerator = a.scale[2 * axis];
  int64_t position = at * a.scale[2 * axis + 1] + a.offset[axis];
  int64_t index = position / numerator;
  if (index * numerator > position) --index;
  return {std::max<int64_t>(index, 0), std::min<int64_t>(index + 1, size - 1), position - index * numerator};
}

template <typename In, typename Out>
void run_resize_typed(const Call& call) {
  const auto& a = call.attributes<ResizeAttributes>();
  const Shape& in = *call.in[0].shape;
  const Shape& out = call.out[0].shape;
  const In* x = call.in[0].as<In>();
  Out* result = call.result<Out>();
  auto channels = static_cast<size_t>(in[3]);
  auto rows = static_cast<size_t>(out[0]) * static_cast<size_t>(out[1]);
  size_t row_size = static_cast<size_t>(out[2]) * channels;
  parallel_for(rows, kElementGrain / row_size + 1, [&](size_t first, size_t last) {
    for (size_t row = first; row < last; ++row) {
      auto n = static_cast<int64_t>(row) / out[1];
      Sample y = sample(static_cast<int64_t>(row) % out[1], a, 0, in[1]);
      for (int32_t ox = 0; ox < out[2]; ++ox) {
        Sample s = sample(ox, a, 1, in[2]);
        auto at = [&](int64_t iy, int64_t ix) {
          return x + static_cast<size_t>((n * in[1] + iy) * in[2] + ix) * channels;
        };
        Out* to = result + row * row_size + static_cast<size_t>(ox) * channels;
        if (a.mode == ResizeMode::Nearest) {
          const In* from =
              at(2 * y.distance >= a.scale[0] ? y.second : y.first, 2 * s.distance >= a.scale[2] ? s.second : s.first);
          for (size_t c = 0; c < channels; ++c) to[c] = static_cast<Out>(from[c]);
          continue;
        }
        const In* v00 = at(y.first, s.first);
        const In* v01 = at(y.first, s.second);
        const In* v10 = at(y.second, s.first);
        const In* v11 = at(y.second, s.second);
        int64_t up = a.scale[0] - y.distance;
        int64_t left = a.scale[2] - s.distance;
        for (size_t c = 0; c < channels; ++c) {
          to[c] = static_cast<Out>(v00[c] * up * left + v01[c] * up * s.distance + v10[c] * y.distance * left +
                                   v11[c] * y.distance * s.distance);
        }
      }
    }
  });
}

}  // namespace

Result<void> run_pool(const Call& call) {
  return call.in[0].dtype == DType::I8 ? run_pool_typed<int8_t>(call) : run_pool_typed<int16_t>(call);
}

Result<void> run_resize(const Call& call) {
  bool nearest = call.attributes<ResizeAttributes>().mode == ResizeMode::Nearest;
  if (call.in[0].dtype == DType::I8)
    nearest ? run_resize_typed<int8_t, int8_t>(call) : run_resize_typed<int8_t, int32_t>(call);
  else
    nearest ? run_resize_typed<int16_t, int16_t>(call) : run_resize_typed<int16_t, int64_t>(call);
  return {};
}

}  // namespace swoop::tosa
