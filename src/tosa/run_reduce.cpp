#include <algorithm>
#include <atomic>

#include "support/check.h"
#include "support/parallel.h"
#include "tosa/kernels.h"

namespace swoop::tosa {

namespace {

// A tensor as [left, axis, right].
struct Axes {
  size_t left = 1;
  size_t axis = 1;
  size_t right = 1;
};

Axes axes_of(const Call& call) {
  const Shape& shape = *call.in[0].shape;
  auto axis = static_cast<size_t>(call.attributes<AxisAttributes>().axis);
  Axes axes;
  for (size_t d = 0; d < shape.size(); ++d)
    (d < axis ? axes.left : d == axis ? axes.axis : axes.right) *= static_cast<size_t>(shape[d]);
  return axes;
}

// Calls work(left index) on all, in parallel.
template <typename Work>
void for_each_left(const Axes& axes, const Work& work) {
  parallel_for(axes.left, kElementGrain / (axes.axis * axes.right) + 1, [&](size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) work(i);
  });
}

// out[l, r] = f(... f(x[l, 0, r], x[l, 1, r]) ...)
template <typename T, typename F>
void fold(const Call& call, const F& f) {
  Axes axes = axes_of(call);
  for_each_left(axes, [&](size_t left) {
    const T* x = call.in[0].as<T>() + left * axes.axis * axes.right;
    T* out = call.result<T>() + left * axes.right;
    std::copy_n(x, axes.right, out);
    for (size_t i = 1; i < axes.axis; ++i)
      for (size_t r = 0; r < axes.right; ++r) out[r] = f(out[r], x[i * axes.right + r]);
  });
}

template <typename T>
void extreme(const Call& call) {
  if (call.op.op == Op::ReduceMax)
    fold<T>(call, [](T a, T b) { return std::max(a, b); });
  else
    fold<T>(call, [](T a, T b) { return std::min(a, b); });
}

Result<void> sum(const Call& call) {
  Axes axes = axes_of(call);
  std::atomic<bool> failed = false;
  for_each_left(axes, [&](size_t left) {
    const int32_t* x = call.in[0].as<int32_t>() + left * axes.axis * axes.right;
    int32_t* out = call.result<int32_t>() + left * axes.right;
    unsigned bad = 0;
    std::vector<int64_t> sums(axes.right);
    for (size_t i = 0; i < axes.axis; ++i) {
      for (size_t r = 0; r < axes.right; ++r) {
        sums[r] += x[i * axes.right + r];
        bad |= static_cast<unsigned>(sums[r] < INT32_MIN) | static_cast<unsigned>(sums[r] > INT32_MAX);
      }
    }
    for (size_t r = 0; r < axes.right; ++r) out[r] = static_cast<int32_t>(sums[r]);
    if (bad) failed = true;
  });
  if (failed) return call.fail("a sum does not fit i32");
  return {};
}

template <typename T>
void argmax(const Call& call) {
  Axes axes = axes_of(call);
  for_each_left(axes, [&](size_t left) {
    const T* x = call.in[0].as<T>() + left * axes.axis * axes.right;
    int32_t* out = call.result<int32_t>() + left * axes.right;
    for (size_t r = 0; r < axes.right; ++r) {
      size_t best = 0;  // the first of equal values
      for (size_t i = 1; i < axes.axis; ++i)
        if (x[i * axes.right + r] > x[best * axes.right + r]) best = i;
      out[r] = static_cast<int32_t>(best);
    }
  });
}

}  // namespace

Result<void> run_reduce(const Call& call) {
  DType dtype = call.in[0].dtype;
  switch (call.op.op) {
    case Op::ReduceSum: return sum(call);
    case Op::Argmax: dtype == DType::I8 ? argmax<int8_t>(call) : argmax<int16_t>(call); break;
    case Op::ReduceAll: fold<uint8_t>(call, [](uint8_t a, uint8_t b) { return static_cast<uint8_t>(a & b); }); break;
    case Op::ReduceAny: fold<uint8_t>(call, [](uint8_t a, uint8_t b) { return static_cast<uint8_t>(a | b); }); break;
    default:
      CHECK(call.op.op == Op::ReduceMax || call.op.op == Op::ReduceMin, "{} does not reduce", name(call.op.op));
      if (dtype == DType::I8) extreme<int8_t>(call);
      if (dtype == DType::I16) extreme<int16_t>(call);
      if (dtype == DType::I32) extreme<int32_t>(call);
  }
  return {};
}

}  // namespace swoop::tosa
