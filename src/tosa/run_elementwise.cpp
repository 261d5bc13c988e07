#include <algorithm>
#include <atomic>
#include <bit>

#include "support/check.h"
#include "support/parallel.h"
#include "tosa/broadcast.h"
#include "tosa/kernels.h"
#include "tosa/simd.h"

namespace swoop::tosa {

namespace {

// out[i] = f(a[i], b[i], bad), broadcast. f sets bad where the specification requires something else.
template <typename In, typename Out, typename F>
Result<void> binary(const Call& call, std::string_view requirement, const F& f) {
  Walk<2> walk = make_walk<2>(call.out[0].shape, {call.in[0].shape, call.in[1].shape});
  const In* a = call.in[0].as<In>();
  const In* b = call.in[1].as<In>();
  Out* out = call.result<Out>();
  size_t length = walk.row_length();
  auto [step_a, step_b] = walk.row_strides();
  std::atomic<bool> failed = false;
  // A single long row is split too.
  size_t rows = walk.rows();
  size_t pieces = rows == 1 ? (length + kElementGrain - 1) / kElementGrain : rows;
  size_t piece_length = rows == 1 ? kElementGrain : length;
  parallel_for(pieces, kElementGrain / std::min(piece_length, length) + 1,
               [&, sa = step_a, sb = step_b](size_t first, size_t last) {
                 unsigned bad = 0;
                 for (size_t piece = first; piece < last; ++piece) {
                   size_t start = rows == 1 ? piece * piece_length : 0;
                   size_t count = std::min(piece_length, length - start);
                   auto [offset_a, offset_b] = walk.offsets(rows == 1 ? 0 : piece);
                   const In* pa = a + offset_a + start * sa;
                   const In* pb = b + offset_b + start * sb;
                   Out* to = out + (rows == 1 ? start : piece * length);
                   with_best_simd([&]() SWOOP_INLINE {
                     unsigned found = 0;
                     if (sa == 1 && sb == 1)
                       for (size_t i = 0; i < count; ++i) to[i] = f(pa[i], pb[i], found);
                     else if (sa == 1)
                       for (size_t i = 0; i < count; ++i) to[i] = f(pa[i], pb[0], found);
                     else if (sb == 1)
                       for (size_t i = 0; i < count; ++i) to[i] = f(pa[0], pb[i], found);
                     else
                       for (size_t i = 0; i < count; ++i) to[i] = f(pa[i * sa], pb[i * sb], found);
                     bad |= found;
                   });
                 }
                 if (bad) failed = true;
               });
  if (failed) return call.fail(requirement);
  return {};
}

template <typename T>
unsigned out_of_shift_range(T shift) {
  return static_cast<unsigned>(shift < 0) | static_cast<unsigned>(shift >= static_cast<T>(sizeof(T) * 8));
}

template <typename T>
Result<void> bitwise(const Call& call) {
  using U = std::make_unsigned_t<T>;
  constexpr std::string_view kShift = "a shift amount is negative or not less than the width of the type";
  constexpr T kMask = sizeof(T) * 8 - 1;
  switch (call.op.op) {
    case Op::BitwiseAnd: return binary<T, T>(call, "", [](T a, T b, unsigned&) { return static_cast<T>(a & b); });
    case Op::BitwiseOr: return binary<T, T>(call, "", [](T a, T b, unsigned&) { return static_cast<T>(a | b); });
    case Op::BitwiseXor: return binary<T, T>(call, "", [](T a, T b, unsigned&) { return static_cast<T>(a ^ b); });
    case Op::LogicalLeftShift:
      return binary<T, T>(call, kShift, [](T a, T b, unsigned& bad) {
        bad |= out_of_shift_range(b);
        return static_cast<T>(static_cast<uint32_t>(static_cast<U>(a)) << (b & kMask));
      });
    case Op::LogicalRightShift:
      return binary<T, T>(call, kShift, [](T a, T b, unsigned& bad) {
        bad |= out_of_shift_range(b);
        return static_cast<T>(static_cast<U>(a) >> (b & kMask));
      });
    default: break;
  }
  bool round = call.attributes<ShiftAttributes>().round;
  return binary<T, T>(call, kShift, [round](T a, T b, unsigned& bad) {
    bad |= out_of_shift_range(b);
    int32_t shift = b & kMask;
    int32_t result = a >> shift;
    if (round && shift > 0) result += (a >> (shift - 1)) & 1;
    return static_cast<T>(result);
  });
}

int32_t narrow(int64_t value, unsigned& bad) {
  bad |= static_cast<unsigned>(value < INT32_MIN) | static_cast<unsigned>(value > INT32_MAX);
  return static_cast<int32_t>(value);
}

template <typename T>
Result<void> multiply(const Call& call) {
  int64_t shift = call.scalar(2);
  if (shift == 0) {
    // The low 32 bits of the product.
    return binary<T, int32_t>(call, "", [](T a, T b, unsigned&) {
      return static_cast<int32_t>(static_cast<uint32_t>(a) * static_cast<uint32_t>(b));
    });
  }
  int64_t round = int64_t{1} << (shift - 1);
  return binary<T, int32_t>(
      call, "a product does not fit i32 after the shift",
      [shift, round](T a, T b, unsigned& bad) { return narrow((int64_t{a} * b + round) >> shift, bad); });
}

using I = int32_t;

Result<void> arithmetic(const Call& call) {
  constexpr std::string_view kOverflow = "a result does not fit i32";
  switch (call.op.op) {
    case Op::Add:
      return binary<I, I>(call, kOverflow, [](I a, I b, unsigned& bad) { return narrow(int64_t{a} + b, bad); });
    case Op::Sub:
      return binary<I, I>(call, kOverflow, [](I a, I b, unsigned& bad) { return narrow(int64_t{a} - b, bad); });
    case Op::Maximum: return binary<I, I>(call, "", [](I a, I b, unsigned&) { return std::max(a, b); });
    case Op::Minimum: return binary<I, I>(call, "", [](I a, I b, unsigned&) { return std::min(a, b); });
    case Op::Equal:
      return binary<I, uint8_t>(call, "", [](I a, I b, unsigned&) { return static_cast<uint8_t>(a == b); });
    case Op::Greater:
      return binary<I, uint8_t>(call, "", [](I a, I b, unsigned&) { return static_cast<uint8_t>(a > b); });
    case Op::GreaterEqual:
      return binary<I, uint8_t>(call, "", [](I a, I b, unsigned&) { return static_cast<uint8_t>(a >= b); });
    default: break;
  }
  CHECK(call.op.op == Op::Intdiv, "{} is not arithmetic", name(call.op.op));
  return binary<I, I>(call, "a division by zero or of the lowest i32 by -1", [](I a, I b, unsigned& bad) {
    bool broken = b == 0 || (b == -1 && a == INT32_MIN);
    bad |= static_cast<unsigned>(broken);
    return broken ? 0 : a / b;
  });
}

template <typename T, typename F>
void map(const Call& call, const F& f) {
  const T* x = call.in[0].as<T>();
  T* out = call.result<T>();
  parallel_for(call.in[0].count(), kElementGrain, [&](size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) out[i] = f(x[i]);
  });
}

template <typename T>
void select(const Call& call) {
  Walk<3> walk = make_walk<3>(call.out[0].shape, {call.in[0].shape, call.in[1].shape, call.in[2].shape});
  const auto* condition = call.in[0].as<uint8_t>();
  const T* yes = call.in[1].as<T>();
  const T* no = call.in[2].as<T>();
  T* out = call.result<T>();
  size_t length = walk.row_length();
  auto steps = walk.row_strides();
  parallel_for(walk.rows(), kElementGrain / length + 1, [&](size_t first, size_t last) {
    for (size_t row = first; row < last; ++row) {
      auto at = walk.offsets(row);
      for (size_t i = 0; i < length; ++i)
        out[row * length + i] = condition[at[0] + i * steps[0]] ? yes[at[1] + i * steps[1]] : no[at[2] + i * steps[2]];
    }
  });
}

}  // namespace

Result<void> run_binary(const Call& call) {
  using B = uint8_t;
  switch (call.op.op) {
    case Op::LogicalAnd: return binary<B, B>(call, "", [](B a, B b, unsigned&) { return static_cast<B>(a & b); });
    case Op::LogicalOr: return binary<B, B>(call, "", [](B a, B b, unsigned&) { return static_cast<B>(a | b); });
    case Op::LogicalXor: return binary<B, B>(call, "", [](B a, B b, unsigned&) { return static_cast<B>(a ^ b); });
    case Op::Mul:
      if (call.in[0].dtype == DType::I8) return multiply<int8_t>(call);
      if (call.in[0].dtype == DType::I16) return multiply<int16_t>(call);
      return multiply<int32_t>(call);
    case Op::ArithmeticRightShift:
    case Op::LogicalLeftShift:
    case Op::LogicalRightShift:
    case Op::BitwiseAnd:
    case Op::BitwiseOr:
    case Op::BitwiseXor:
      if (call.in[0].dtype == DType::I8) return bitwise<int8_t>(call);
      if (call.in[0].dtype == DType::I16) return bitwise<int16_t>(call);
      return bitwise<int32_t>(call);
    default: return arithmetic(call);
  }
}

Result<void> run_unary(const Call& call) {
  DType dtype = call.in[0].dtype;
  if (call.op.op == Op::LogicalNot) {
    map<uint8_t>(call, [](uint8_t x) { return static_cast<uint8_t>(x ^ 1); });
  } else if (call.op.op == Op::Clz) {
    map<int32_t>(call, [](int32_t x) { return static_cast<int32_t>(std::countl_zero(static_cast<uint32_t>(x))); });
  } else if (call.op.op == Op::BitwiseNot) {
    if (dtype == DType::I8) map<int8_t>(call, [](int8_t x) { return static_cast<int8_t>(~x); });
    if (dtype == DType::I16) map<int16_t>(call, [](int16_t x) { return static_cast<int16_t>(~x); });
    if (dtype == DType::I32) map<int32_t>(call, [](int32_t x) { return ~x; });
  } else {
    const auto* x = call.in[0].as<int32_t>();
    if (std::find(x, x + call.in[0].count(), INT32_MIN) != x + call.in[0].count())
      return call.fail("the absolute value of the lowest i32 does not fit");
    map<int32_t>(call, [](int32_t v) { return v < 0 ? -v : v; });
  }
  return {};
}

Result<void> run_select(const Call& call) {
  switch (element_bytes(call.in[1].dtype)) {
    case 1: select<int8_t>(call); break;
    case 2: select<int16_t>(call); break;
    default: select<int32_t>(call); break;
  }
  return {};
}

}  // namespace swoop::tosa
