// Elementwise kernels. Operands are brought to the type they are computed in, then one loop per stretch of elements
// along which no operand changes between repeating and advancing.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/arithmetic.h"
#include "ops/infer.h"
#include "ops/kernels.h"
#include "ops/ref.h"
#include "support/check.h"
#include "support/parallel.h"

namespace swoop {

namespace {

// The result's dims with the steps that two operands take along them, neighbours merged; the last dim is a plain run.
struct Plan {
  Shape dims, a_steps, b_steps;
};

Plan plan_for(const Shape& a, const Shape& b, const Shape& out) {
  Plan plan;
  Shape a_strides = row_major_strides(a), b_strides = row_major_strides(b);
  for (size_t i = 0; i < out.size(); ++i) {
    auto step = [&](const Shape& shape, const Shape& strides) -> int64_t {
      if (i + shape.size() < out.size()) return 0;
      size_t j = i + shape.size() - out.size();
      return shape[j] == 1 ? 0 : strides[j];
    };
    if (out[i] == 1) continue;
    int64_t sa = step(a, a_strides), sb = step(b, b_strides);
    bool joins = !plan.dims.empty() && plan.a_steps.back() == sa * out[i] && plan.b_steps.back() == sb * out[i];
    if (joins) {
      plan.dims.back() *= out[i];
      plan.a_steps.back() = sa;
      plan.b_steps.back() = sb;
    } else {
      plan.dims.push_back(out[i]);
      plan.a_steps.push_back(sa);
      plan.b_steps.push_back(sb);
    }
  }
  if (plan.dims.empty()) plan = {{1}, {0}, {0}};
  return plan;
}

// run(a, b, out, count, a_step, b_step), steps 0 or 1, over all of the result.
template <typename T, typename R, typename Run>
void each_run(const Tensor& a, const Tensor& b, Tensor& out, Run run) {
  Plan plan = plan_for(a.shape, b.shape, out.shape);
  int64_t count = element_count(out.shape);
  if (count == 0) return;
  int64_t length = plan.dims.back(), sa = plan.a_steps.back(), sb = plan.b_steps.back();
  const T* x = a.as<T>().data();
  const T* y = b.as<T>().data();
  R* to = out.as<R>().data();
  auto rows = static_cast<size_t>(count / length);
  if (rows == 1) {
    parallel_for(static_cast<size_t>(length), kGrain, [&](size_t first, size_t last) {
      auto at = static_cast<int64_t>(first);
      run(x + at * sa, y + at * sb, to + at, static_cast<int64_t>(last - first), sa, sb);
    });
    return;
  }
  parallel_for(rows, kGrain / static_cast<size_t>(length) + 1, [&](size_t first, size_t last) {
    for (size_t r = first; r < last; ++r) {
      int64_t at_a = 0, at_b = 0;
      auto rest = static_cast<int64_t>(r);
      for (size_t i = plan.dims.size() - 1; i-- > 0;) {
        int64_t index = rest % plan.dims[i];
        rest /= plan.dims[i];
        at_a += index * plan.a_steps[i];
        at_b += index * plan.b_steps[i];
      }
      run(x + at_a, y + at_b, to + static_cast<int64_t>(r) * length, length, sa, sb);
    }
  });
}

// out = f(a, b); written so that each case is a loop the compiler vectorises.
template <typename T, typename R, typename F>
void map_pairs(const Tensor& a, const Tensor& b, Tensor& out, F f) {
  each_run<T, R>(a, b, out, [f](const T* x, const T* y, R* to, int64_t count, int64_t sa, int64_t sb) {
    if (sa == 1 && sb == 1) {
      for (int64_t i = 0; i < count; ++i) to[i] = f(x[i], y[i]);
    } else if (sa == 1) {
      T right = *y;
      for (int64_t i = 0; i < count; ++i) to[i] = f(x[i], right);
    } else if (sb == 1) {
      T left = *x;
      for (int64_t i = 0; i < count; ++i) to[i] = f(left, y[i]);
    } else {
      std::fill_n(to, count, f(*x, *y));
    }
  });
}

// in, or a converted copy kept in `space`.
const Tensor& brought_to(DType dtype, const Tensor& in, Tensor& space) {
  if (in.dtype == dtype) return in;
  space = as_dtype(in, dtype);
  return space;
}

float floor_divide(float a, float b) {
  if (b == 0) return a / b;
  float rest = std::fmod(a, b);
  float quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0f, a / b);
  float whole = std::floor(quotient);
  return quotient - whole > 0.5f ? whole + 1 : whole;
}

// Integers wrap, as in arithmetic.h.
int64_t trunc_divide(int64_t a, int64_t b) { return b == -1 ? negate(a) : a / b; }
int64_t floor_divide(int64_t a, int64_t b) {
  if (b == -1) return negate(a);
  return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}

Error unexpected(const Node& node) { return error("{} is not an arithmetic operator", name_of(node.op)); }

Result<void> float_binary(const Node& node, const Tensor& a, const Tensor& b, Tensor& out) {
  auto map = [&](auto f) { map_pairs<float, float>(a, b, out, f); };
  std::string_view mode = node.text(Key::Mode, "");
  if (node.op == Op::Add)
    map([](float x, float y) { return x + y; });
  else if (node.op == Op::Sub)
    map([](float x, float y) { return x - y; });
  else if (node.op == Op::Mul)
    map([](float x, float y) { return x * y; });
  else if (node.op == Op::Div && mode.empty())
    map([](float x, float y) { return x / y; });
  else if (node.op == Op::Div && mode == "floor")
    map([](float x, float y) { return floor_divide(x, y); });
  else if (node.op == Op::Div)
    map([](float x, float y) { return std::trunc(x / y); });
  else if (node.op == Op::Maximum)
    map([](float x, float y) { return x > y || x != x ? x : y; });
  else if (node.op == Op::Minimum)
    map([](float x, float y) { return x < y || x != x ? x : y; });
  else if (node.op == Op::Pow)
    map([](float x, float y) { return std::pow(x, y); });
  else if (node.op == Op::Remainder)
    map([](float x, float y) { return floored_remainder(x, y); });
  else
    return unexpected(node);
  return {};
}

Result<void> integer_binary(const Node& node, const Tensor& a, const Tensor& b, Tensor& out) {
  auto map = [&](auto f) { map_pairs<int64_t, int64_t>(a, b, out, f); };
  auto wrap = [&](auto f) {
    map([f](int64_t x, int64_t y) {
      return static_cast<int64_t>(f(static_cast<uint64_t>(x), static_cast<uint64_t>(y)));
    });
  };
  if (node.op == Op::Div || node.op == Op::Remainder) {
    std::span<const int64_t> divisors = b.as<int64_t>();
    if (std::find(divisors.begin(), divisors.end(), 0) != divisors.end())
      return error("{} of integers by zero", name_of(node.op));
  }
  if (node.op == Op::Add)
    wrap([](uint64_t x, uint64_t y) { return x + y; });
  else if (node.op == Op::Sub)
    wrap([](uint64_t x, uint64_t y) { return x - y; });
  else if (node.op == Op::Mul)
    wrap([](uint64_t x, uint64_t y) { return x * y; });
  else if (node.op == Op::Div && node.text(Key::Mode, "") == "floor")
    map([](int64_t x, int64_t y) { return floor_divide(x, y); });
  else if (node.op == Op::Div)
    map(trunc_divide);
  else if (node.op == Op::Maximum)
    map([](int64_t x, int64_t y) { return std::max(x, y); });
  else if (node.op == Op::Minimum)
    map([](int64_t x, int64_t y) { return std::min(x, y); });
  else if (node.op == Op::Pow)
    map(integer_power);
  else if (node.op == Op::Remainder)
    map([](int64_t x, int64_t y) { return floored_remainder(x, y); });
  else
    return unexpected(node);
  return {};
}

template <typename T>
void compare(std::string_view fn, const Tensor& a, const Tensor& b, Tensor& out) {
  auto map = [&](auto f) { map_pairs<T, uint8_t>(a, b, out, f); };
  if (fn == "eq")
    map([](T x, T y) { return static_cast<uint8_t>(x == y); });
  else if (fn == "ne")
    map([](T x, T y) { return static_cast<uint8_t>(x != y); });
  else if (fn == "lt")
    map([](T x, T y) { return static_cast<uint8_t>(x < y); });
  else if (fn == "le")
    map([](T x, T y) { return static_cast<uint8_t>(x <= y); });
  else if (fn == "gt")
    map([](T x, T y) { return static_cast<uint8_t>(x > y); });
  else
    map([](T x, T y) { return static_cast<uint8_t>(x >= y); });
}

// PyTorch: shifts by a negative or too large amount leave only the sign.
int64_t shift_left(int64_t x, int64_t by) {
  return by < 0 || by > 63 ? 0 : static_cast<int64_t>(static_cast<uint64_t>(x) << by);
}
int64_t shift_right(int64_t x, int64_t by) { return x >> (by < 0 || by > 63 ? 63 : by); }

int64_t to_integer(double x) {
  return std::fabs(x) < 9.2e18 ? static_cast<int64_t>(x)
         : x < 0               ? std::numeric_limits<int64_t>::min()
                               : std::numeric_limits<int64_t>::max();
}

}  // namespace

Result<void> ref_unary(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  const std::string& fn = node.text(Key::Fn);
  double alpha = real_or(node, Key::Alpha, 0), beta = real_or(node, Key::Beta, 0);
  if (out[0].dtype == DType::I64) {
    if (alpha == 0 && (fn == "remainder" || fn == "fmod")) return error("{} of integers by zero", fn);
    Tensor space;
    const Tensor& x = brought_to(DType::I64, *in[0], space);
    std::span<const int64_t> from = x.as<int64_t>();
    std::span<int64_t> to = out[0].as<int64_t>();
    const UnaryFunction* function = unary_function(fn);
    if (!function || !function->of_integer) return error("{} of integers gives no integers", fn);
    for (size_t i = 0; i < to.size(); ++i) to[i] = function->of_integer(from[i], to_integer(alpha), to_integer(beta));
    return {};
  }
  Tensor space;
  const Tensor& x = brought_to(DType::F32, *in[0], space);
  map_unary(fn, static_cast<float>(alpha), static_cast<float>(beta), x.as<float>(), out[0].as<float>());
  return {};
}

Result<void> ref_clamp(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  double low = real_or(node, Key::Min, -INFINITY), high = real_or(node, Key::Max, INFINITY);
  Tensor space;
  const Tensor& x = brought_to(out[0].dtype, *in[0], space);
  if (out[0].dtype == DType::I64) {
    int64_t least = to_integer(low), most = to_integer(high);
    for (size_t i = 0; i < x.as<int64_t>().size(); ++i)
      out[0].as<int64_t>()[i] = std::min(std::max(x.as<int64_t>()[i], least), most);
    return {};
  }
  auto least = static_cast<float>(low), most = static_cast<float>(high);
  const float* from = x.as<float>().data();
  float* to = out[0].as<float>().data();
  parallel_for(x.as<float>().size(), kGrain, [=](size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) {
      float bounded = from[i] < least ? least : from[i];
      to[i] = bounded > most ? most : bounded;  // most wins when the bounds cross, NaN stays
    }
  });
  return {};
}

Result<void> ref_prelu(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  Tensor slopes = *in[1];
  size_t rank = in[0]->shape.size();
  int64_t count = element_count(slopes.shape);
  slopes.shape.assign(rank, 1);
  if (count != 1) slopes.shape[node.flag(Key::ChannelsLast) ? rank - 1 : 1] = count;
  map_pairs<float, float>(*in[0], slopes, out[0], [](float x, float slope) { return x > 0 ? x : x * slope; });
  return {};
}

Result<void> ref_binary(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  // Bools are added and multiplied as integers and then are true where the result is not 0.
  DType dtype = out[0].dtype == DType::Bool ? DType::I64 : out[0].dtype;
  Tensor a_space, b_space;
  const Tensor& a = brought_to(dtype, *in[0], a_space);
  const Tensor& b = brought_to(dtype, *in[1], b_space);
  if (dtype == DType::F32) return float_binary(node, a, b, out[0]);
  if (out[0].dtype == DType::I64) return integer_binary(node, a, b, out[0]);
  Tensor result = make_tensor(DType::I64, out[0].shape);
  TRY(integer_binary(node, a, b, result));
  convert(result, out[0]);
  return {};
}

Result<void> ref_compare(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  const std::string& fn = node.text(Key::Fn);
  Tensor a_space, b_space;
  if (node.op == Op::Logical) {
    const Tensor& a = brought_to(DType::Bool, *in[0], a_space);
    const Tensor& b = brought_to(DType::Bool, *in[1], b_space);
    auto map = [&](auto f) { map_pairs<uint8_t, uint8_t>(a, b, out[0], f); };
    if (fn == "and")
      map([](uint8_t x, uint8_t y) { return static_cast<uint8_t>(x & y); });
    else if (fn == "or")
      map([](uint8_t x, uint8_t y) { return static_cast<uint8_t>(x | y); });
    else
      map([](uint8_t x, uint8_t y) { return static_cast<uint8_t>(x ^ y); });
    return {};
  }
  DType dtype = in[0]->dtype == DType::F32 || in[1]->dtype == DType::F32 ? DType::F32 : DType::I64;
  const Tensor& a = brought_to(dtype, *in[0], a_space);
  const Tensor& b = brought_to(dtype, *in[1], b_space);
  if (dtype == DType::F32)
    compare<float>(fn, a, b, out[0]);
  else
    compare<int64_t>(fn, a, b, out[0]);
  return {};
}

Result<void> ref_logical_not(const Node&, std::span<const Tensor* const> in, std::span<Tensor> out) {
  Tensor space;
  const Tensor& x = brought_to(DType::Bool, *in[0], space);
  for (size_t i = 0; i < out[0].data.size(); ++i) out[0].as<uint8_t>()[i] = !x.as<uint8_t>()[i];
  return {};
}

Result<void> ref_bitwise(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  const std::string& fn = node.text(Key::Fn);
  Tensor a_space, b_space;
  const Tensor& a = brought_to(DType::I64, *in[0], a_space);
  const Tensor& b = brought_to(DType::I64, *in[1], b_space);
  Tensor result = make_tensor(DType::I64, out[0].shape);
  auto map = [&](auto f) { map_pairs<int64_t, int64_t>(a, b, result, f); };
  if (fn == "and")
    map([](int64_t x, int64_t y) { return x & y; });
  else if (fn == "or")
    map([](int64_t x, int64_t y) { return x | y; });
  else if (fn == "xor")
    map([](int64_t x, int64_t y) { return x ^ y; });
  else if (fn == "shl")
    map(shift_left);
  else
    map(shift_right);
  convert(result, out[0]);
  return {};
}

Result<void> ref_bitwise_not(const Node&, std::span<const Tensor* const> in, std::span<Tensor> out) {
  if (out[0].dtype == DType::Bool) {
    for (size_t i = 0; i < out[0].data.size(); ++i) out[0].as<uint8_t>()[i] = !in[0]->as<uint8_t>()[i];
    return {};
  }
  for (size_t i = 0; i < out[0].as<int64_t>().size(); ++i) out[0].as<int64_t>()[i] = ~in[0]->as<int64_t>()[i];
  return {};
}

Result<void> ref_where(const Node&, std::span<const Tensor* const> in, std::span<Tensor> out) {
  const Shape& shape = out[0].shape;
  Tensor spaces[5];
  auto spread = [&](const Tensor& x, Tensor& space) -> const Tensor& {
    return x.shape == shape ? x : (space = expanded(x, shape));
  };
  const Tensor& condition = spread(*in[0], spaces[0]);
  const Tensor& a = spread(brought_to(out[0].dtype, *in[1], spaces[1]), spaces[2]);
  const Tensor& b = spread(brought_to(out[0].dtype, *in[2], spaces[3]), spaces[4]);
  auto choose = [&](auto zero) {
    using T = decltype(zero);
    const uint8_t* picks = condition.as<uint8_t>().data();
    const T *yes = a.as<T>().data(), *no = b.as<T>().data();
    T* to = out[0].as<T>().data();
    parallel_for(condition.data.size(), kGrain, [=](size_t first, size_t last) {
      for (size_t i = first; i < last; ++i) to[i] = picks[i] ? yes[i] : no[i];
    });
  };
  if (out[0].dtype == DType::F32)
    choose(float{});
  else if (out[0].dtype == DType::I64)
    choose(int64_t{});
  else
    choose(uint8_t{});
  return {};
}

}  // namespace swoop
