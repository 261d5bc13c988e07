// Reductions. The operand is seen as [outer, length, inner] with the reduced dims in the middle; dims that are not
// neighbours are first brought to the end.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "ops/infer.h"
#include "ops/kernels.h"
#include "ops/lanes.h"
#include "ops/ref.h"
#include "support/clones.h"
#include "support/parallel.h"

namespace swoop {

namespace {

template <typename T>
bool is_nan(T value) {
  if constexpr (std::is_floating_point_v<T>) return std::isnan(value);
  return false;
}

struct Blocks {
  int64_t outer = 1;
  int64_t length = 1;
  int64_t inner = 1;
};

// x as blocks, in `space` when it has to be moved.
const Tensor& blocks_of(const Tensor& x, Ints axes, Blocks& blocks, Tensor& space) {
  std::sort(axes.begin(), axes.end());
  bool neighbours = true;
  for (size_t i = 1; i < axes.size(); ++i) neighbours = neighbours && axes[i] == axes[i - 1] + 1;
  const Tensor* source = &x;
  if (!neighbours) {
    Ints perm;
    for (int64_t i = 0; i < static_cast<int64_t>(x.shape.size()); ++i)
      if (!std::binary_search(axes.begin(), axes.end(), i)) perm.push_back(i);
    auto kept = static_cast<int64_t>(perm.size());
    perm.insert(perm.end(), axes.begin(), axes.end());
    space = transposed(x, perm);
    source = &space;
    for (int64_t& axis : axes) axis = kept++;
  }
  for (int64_t i = 0; i < static_cast<int64_t>(source->shape.size()); ++i) {
    int64_t size = source->shape[static_cast<size_t>(i)];
    if (axes.empty() || i < axes.front())
      blocks.outer *= size;
    else if (i > axes.back())
      blocks.inner *= size;
    else
      blocks.length *= size;
  }
  return *source;
}

// result[o][i] = finish(fold of step(accumulator, x[o][l][i]) over l)
template <typename T, typename R, typename Acc, typename Step, typename Finish>
void fold_blocks(const Tensor& x, const Blocks& blocks, Tensor& out, Acc start, Step step, Finish finish) {
  const T* from = x.as<T>().data();
  R* to = out.as<R>().data();
  auto block = static_cast<size_t>(std::max<int64_t>(1, blocks.length * blocks.inner));
  parallel_for(static_cast<size_t>(blocks.outer), kGrain / block + 1, [&](size_t first, size_t last) {
    std::vector<Acc> sums(static_cast<size_t>(blocks.inner));
    for (auto o = static_cast<int64_t>(first); o < static_cast<int64_t>(last); ++o) {
      std::fill(sums.begin(), sums.end(), start);
      const T* row = from + o * blocks.length * blocks.inner;
      for (int64_t l = 0; l < blocks.length; ++l, row += blocks.inner)
        for (int64_t i = 0; i < blocks.inner; ++i)
          sums[static_cast<size_t>(i)] = step(sums[static_cast<size_t>(i)], row[i]);
      for (int64_t i = 0; i < blocks.inner; ++i) to[o * blocks.inner + i] = finish(sums[static_cast<size_t>(i)]);
    }
  });
}

SWOOP_CLONES void sum_rows(const float* x, int64_t rows, int64_t length, float divisor, float* out) {
  for (int64_t r = 0; r < rows; ++r)
    out[r] = static_cast<float>(sum_of(x + r * length, length) / static_cast<double>(divisor));
}

void sum_floats(const Tensor& x, const Blocks& blocks, double divisor, Tensor& out) {
  if (blocks.inner == 1) {
    parallel_for(static_cast<size_t>(blocks.outer),
                 kGrain / static_cast<size_t>(std::max<int64_t>(1, blocks.length)) + 1, [&](size_t first, size_t last) {
                   sum_rows(x.as<float>().data() + static_cast<int64_t>(first) * blocks.length,
                            static_cast<int64_t>(last - first), blocks.length, static_cast<float>(divisor),
                            out.as<float>().data() + first);
                 });
    return;
  }
  fold_blocks<float, float>(
      x, blocks, out, 0.0, [](double sum, float v) { return sum + static_cast<double>(v); },
      [divisor](double sum) { return static_cast<float>(sum / divisor); });
}

// Two passes: the mean, then the squares of the distances to it.
void variance(const Tensor& x, const Blocks& blocks, double correction, Tensor& out) {
  const float* from = x.as<float>().data();
  float* to = out.as<float>().data();
  auto degrees = std::max(0.0, static_cast<double>(blocks.length) - correction);
  auto block = static_cast<size_t>(std::max<int64_t>(1, blocks.length * blocks.inner));
  parallel_for(static_cast<size_t>(blocks.outer), kGrain / block + 1, [&](size_t first, size_t last) {
    std::vector<double> mean(static_cast<size_t>(blocks.inner)), squares(mean.size());
    for (auto o = static_cast<int64_t>(first); o < static_cast<int64_t>(last); ++o) {
      const float* rows = from + o * blocks.length * blocks.inner;
      std::fill(mean.begin(), mean.end(), 0.0);
      std::fill(squares.begin(), squares.end(), 0.0);
      for (int64_t j = 0; j < blocks.length * blocks.inner; ++j)
        mean[static_cast<size_t>(j % blocks.inner)] += static_cast<double>(rows[j]);
      for (double& m : mean) m /= static_cast<double>(blocks.length);
      for (int64_t j = 0; j < blocks.length * blocks.inner; ++j) {
        double distance = static_cast<double>(rows[j]) - mean[static_cast<size_t>(j % blocks.inner)];
        squares[static_cast<size_t>(j % blocks.inner)] += distance * distance;
      }
      for (int64_t i = 0; i < blocks.inner; ++i)
        to[o * blocks.inner + i] = static_cast<float>(squares[static_cast<size_t>(i)] / degrees);
    }
  });
}

template <typename T>
void extremum(const Tensor& x, const Blocks& blocks, bool largest, Tensor& out) {
  auto keep = [](T v) { return v; };
  constexpr bool kInfinite = std::numeric_limits<T>::has_infinity;
  T low = kInfinite ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
  T high = kInfinite ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
  if (largest)
    fold_blocks<T, T>(
        x, blocks, out, low, [](T best, T v) { return v > best || is_nan(v) ? v : best; }, keep);
  else
    fold_blocks<T, T>(
        x, blocks, out, high, [](T best, T v) { return v < best || is_nan(v) ? v : best; }, keep);
}

template <typename T>
void any_or_all(const Tensor& x, const Blocks& blocks, bool all, Tensor& out) {
  auto keep = [](uint8_t v) { return v; };
  if (all)
    fold_blocks<T, uint8_t>(
        x, blocks, out, uint8_t{1}, [](uint8_t so_far, T v) { return static_cast<uint8_t>(so_far & (v != T{0})); },
        keep);
  else
    fold_blocks<T, uint8_t>(
        x, blocks, out, uint8_t{0}, [](uint8_t so_far, T v) { return static_cast<uint8_t>(so_far | (v != T{0})); },
        keep);
}

template <typename Body>
void with_elements(const Tensor& tensor, Body body) {
  if (tensor.dtype == DType::F32)
    body(float{});
  else if (tensor.dtype == DType::I64)
    body(int64_t{});
  else
    body(uint8_t{});
}

void reduce_integers(Op op, const Tensor& x, const Blocks& blocks, Tensor& out) {
  auto finish = [](uint64_t v) { return static_cast<int64_t>(v); };
  if (op == Op::Sum)
    fold_blocks<int64_t, int64_t>(
        x, blocks, out, uint64_t{0}, [](uint64_t sum, int64_t v) { return sum + static_cast<uint64_t>(v); }, finish);
  else
    fold_blocks<int64_t, int64_t>(
        x, blocks, out, uint64_t{1}, [](uint64_t product, int64_t v) { return product * static_cast<uint64_t>(v); },
        finish);
}

}  // namespace

Result<void> ref_reduce(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  Blocks blocks;
  Tensor converted, moved;
  bool keeps = node.op == Op::Any || node.op == Op::All || in[0]->dtype == out[0].dtype;
  const Tensor& source = keeps ? *in[0] : (converted = as_dtype(*in[0], out[0].dtype));
  const Tensor& x = blocks_of(source, node.ints(Key::Axes), blocks, moved);
  if (node.op == Op::ReduceMax || node.op == Op::ReduceMin)
    with_elements(x, [&](auto zero) { extremum<decltype(zero)>(x, blocks, node.op == Op::ReduceMax, out[0]); });
  else if (node.op == Op::Any || node.op == Op::All)
    with_elements(x, [&](auto zero) { any_or_all<decltype(zero)>(x, blocks, node.op == Op::All, out[0]); });
  else if (out[0].dtype == DType::I64)
    reduce_integers(node.op, x, blocks, out[0]);
  else if (node.op == Op::Sum)
    sum_floats(x, blocks, 1, out[0]);
  else if (node.op == Op::Mean)
    sum_floats(x, blocks, static_cast<double>(blocks.length), out[0]);
  else if (node.op == Op::Var)
    variance(x, blocks, node.real(Key::Correction), out[0]);
  else
    fold_blocks<float, float>(
        x, blocks, out[0], 1.0, [](double product, float v) { return product * static_cast<double>(v); },
        [](double product) { return static_cast<float>(product); });
  return {};
}

Result<void> ref_arg_extremum(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  Blocks blocks;
  Tensor moved;
  const Tensor& x = blocks_of(*in[0], {node.integer(Key::Axis)}, blocks, moved);
  bool largest = node.op == Op::ArgMax;
  with_elements(x, [&](auto zero) {
    using T = decltype(zero);
    const T* from = x.as<T>().data();
    for (int64_t o = 0; o < blocks.outer; ++o)
      for (int64_t i = 0; i < blocks.inner; ++i) {
        const T* column = from + o * blocks.length * blocks.inner + i;
        int64_t best = 0;
        for (int64_t l = 1; l < blocks.length; ++l) {  // the first of equals, the first NaN before everything
          T value = column[l * blocks.inner], champion = column[best * blocks.inner];
          if (!is_nan(champion) && (is_nan(value) || (largest ? value > champion : value < champion))) best = l;
        }
        out[0].as<int64_t>()[static_cast<size_t>(o * blocks.inner + i)] = best;
      }
  });
  return {};
}

Result<void> ref_cumsum(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  Tensor converted;
  const Tensor& x = in[0]->dtype == out[0].dtype ? *in[0] : (converted = as_dtype(*in[0], out[0].dtype));
  if (x.shape.empty()) {
    out[0].data = x.data;
    return {};
  }
  Blocks blocks;
  Tensor moved;
  blocks_of(x, {node.integer(Key::Axis)}, blocks, moved);
  auto run = [&](auto zero, auto start) {
    using T = decltype(zero);
    using Acc = decltype(start);
    for (int64_t o = 0; o < blocks.outer; ++o)
      for (int64_t i = 0; i < blocks.inner; ++i) {
        Acc sum = start;
        for (int64_t l = 0; l < blocks.length; ++l) {
          auto at = static_cast<size_t>((o * blocks.length + l) * blocks.inner + i);
          sum += static_cast<Acc>(x.as<T>()[at]);
          out[0].as<T>()[at] = static_cast<T>(sum);
        }
      }
  };
  if (out[0].dtype == DType::F32)
    run(float{}, 0.0);
  else
    run(int64_t{}, uint64_t{0});
  return {};
}

}  // namespace swoop
