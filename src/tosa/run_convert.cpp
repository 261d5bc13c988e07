#include <algorithm>
#include <atomic>
#include <type_traits>

#include "support/check.h"
#include "support/parallel.h"
#include "tosa/kernels.h"
#include "tosa/simd.h"

namespace swoop::tosa {

namespace {

struct RescaleRow {  // one row of channels, or a run of elements that share one scale
  const int32_t* multiplier;
  const int8_t* shift;
  int64_t input_zp;
  int64_t output_zp;
  int64_t low;
  int64_t high;
};

// apply_scale_16 of TOSA 1.0: any 48-bit value, a result that must fit 32 bits.
inline int64_t apply_scale_16(int64_t value, int32_t multiplier, int32_t shift, unsigned& bad) {
  int64_t result = (value * multiplier + (int64_t{1} << (shift - 1))) >> shift;
  bad |= static_cast<unsigned>(result < INT32_MIN) | static_cast<unsigned>(result > INT32_MAX);
  return result;
}

// What a loop need not ask for each element: vectors are as wide as its widest numbers, and one scale needs no look-up.
enum class Scaling { Scale16, Scale32, DoubleRound };
template <Scaling kScaling, bool kPerChannel, bool kNarrow>
struct RescaleForm {};

template <Scaling kScaling, bool kPerChannel, bool kNarrow, typename In, typename Out>
SWOOP_INLINE inline void rescale_row(RescaleForm<kScaling, kPerChannel, kNarrow>, const RescaleRow& r, const In* x,
                                     size_t count, Out* out, unsigned& bad) {
  using Value = std::conditional_t<kNarrow, int32_t, int64_t>;
  const auto zero = static_cast<Value>(r.input_zp);
  const int32_t one_multiplier = r.multiplier[0], one_shift = r.shift[0];
  unsigned found = 0;
  for (size_t i = 0; i < count; ++i) {
    const int64_t value = static_cast<Value>(x[i]) - zero;
    const int32_t multiplier = kPerChannel ? r.multiplier[i] : one_multiplier;
    const int32_t shift = kPerChannel ? r.shift[i] : one_shift;
    int64_t result;
    if constexpr (kScaling == Scaling::Scale16)
      result = apply_scale_16(value, multiplier, shift, found);
    else
      result = apply_scale_32(value, multiplier, shift, kScaling == Scaling::DoubleRound, found);
    result += r.output_zp;
    found |= static_cast<unsigned>(result < INT32_MIN) | static_cast<unsigned>(result > INT32_MAX);
    out[i] = static_cast<Out>(std::clamp(result, r.low, r.high));
  }
  bad |= found;
}

// Calls body with the form. A value less its zero point has 32 bits, unless it has so many itself and a zero point.
template <typename In, typename Body>
void with_form(const RescaleAttributes& a, const RescaleRow& r, const Body& body) {
  const auto narrow = [&]<Scaling kScaling, bool kPerChannel>() {
    if (sizeof(In) < sizeof(int32_t) || (sizeof(In) == sizeof(int32_t) && r.input_zp == 0))
      body(RescaleForm<kScaling, kPerChannel, true>());
    else
      body(RescaleForm<kScaling, kPerChannel, false>());
  };
  const auto scale = [&]<bool kPerChannel>() {
    if (!a.scale32)
      narrow.template operator()<Scaling::Scale16, kPerChannel>();
    else if (a.rounding == Rounding::Double)
      narrow.template operator()<Scaling::DoubleRound, kPerChannel>();
    else
      narrow.template operator()<Scaling::Scale32, kPerChannel>();
  };
  if (a.per_channel)
    scale.template operator()<true>();
  else
    scale.template operator()<false>();
}

template <typename In, typename Out>
Result<void> rescale(const Call& call) {
  const auto& a = call.attributes<RescaleAttributes>();
  size_t channels = a.per_channel ? static_cast<size_t>(call.in[0].shape->back()) : 1;
  std::vector<int32_t> multipliers(channels);
  for (size_t c = 0; c < channels; ++c)
    multipliers[c] = a.scale32 ? call.in[1].as<int32_t>()[c] : call.in[1].as<int16_t>()[c];
  RescaleRow r{multipliers.data(),
               call.in[2].as<int8_t>(),
               call.scalar(3, a.input_unsigned),
               call.scalar(4, a.output_unsigned),
               std::numeric_limits<Out>::min(),
               std::numeric_limits<Out>::max()};
  const In* x = call.in[0].as<In>();
  Out* out = call.result<Out>();
  size_t total = call.in[0].count();
  size_t row = a.per_channel ? channels : std::min<size_t>(total, 4096);
  std::atomic<bool> failed = false;
  parallel_for((total + row - 1) / row, kElementGrain / row + 1, [&](size_t first, size_t last) {
    unsigned bad = 0;
    with_form<In>(a, r, [&](auto form) {
      with_best_simd([&]() SWOOP_INLINE {
        for (size_t i = first; i < last; ++i) {
          const size_t start = i * row;
          rescale_row(form, r, x + start, std::min(row, total - start), out + start, bad);
        }
      });
    });
    if (bad) failed = true;
  });
  if (failed) return call.fail("a value is too large for its multiplier and shift");
  return {};
}

template <typename In>
Result<void> rescale_from(const Call& call) {
  bool is_unsigned = call.attributes<RescaleAttributes>().output_unsigned;
  switch (call.out[0].dtype) {
    case DType::I8: return is_unsigned ? rescale<In, uint8_t>(call) : rescale<In, int8_t>(call);
    case DType::I16: return is_unsigned ? rescale<In, uint16_t>(call) : rescale<In, int16_t>(call);
    default: return rescale<In, int32_t>(call);
  }
}

void lookup(const Call& call) {
  parallel_for(call.in[0].count(), kElementGrain, [&](size_t first, size_t last) {
    if (call.in[0].dtype == DType::I8) {
      const auto* table = call.in[1].as<int8_t>() + 128;
      for (size_t i = first; i < last; ++i) call.result<int8_t>()[i] = table[call.in[0].as<int8_t>()[i]];
      return;
    }
    // TOSA 1.0, apply_lookup_s: 512 pieces of 128 values, straight in between, with 7 fraction bits in the result.
    const auto* table = call.in[1].as<int16_t>();
    for (size_t i = first; i < last; ++i) {
      int32_t value = call.in[0].as<int16_t>()[i];
      auto index = static_cast<size_t>((value + 32768) >> 7);
      int32_t slope = table[index + 1] - table[index];
      call.result<int32_t>()[i] = table[index] * 128 + slope * (value & 0x7f);
    }
  });
}

template <typename T>
void clamp(const Call& call) {
  const auto& a = call.attributes<ClampAttributes>();
  auto low = static_cast<T>(a.min_val);
  auto high = static_cast<T>(a.max_val);
  parallel_for(call.in[0].count(), kElementGrain, [&](size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) call.result<T>()[i] = std::clamp(call.in[0].as<T>()[i], low, high);
  });
}

template <typename T>
void negate(const Call& call) {
  int64_t sum = call.scalar(1) + call.scalar(2);
  parallel_for(call.in[0].count(), kElementGrain, [&](size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) {
      int64_t value = sum - call.in[0].as<T>()[i];
      call.result<T>()[i] =
          static_cast<T>(std::clamp<int64_t>(value, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
    }
  });
}

template <typename In, typename Out>
void cast(const Call& call, bool to_bool) {
  parallel_for(call.in[0].count(), kElementGrain, [&](size_t first, size_t last) {
    const In* x = call.in[0].as<In>();
    Out* out = call.result<Out>();
    for (size_t i = first; i < last; ++i) out[i] = to_bool ? static_cast<Out>(x[i] != 0) : static_cast<Out>(x[i]);
  });
}

template <typename In>
void cast_from(const Call& call) {
  switch (call.out[0].dtype) {
    case DType::I16: cast<In, int16_t>(call, false); break;
    case DType::I32: cast<In, int32_t>(call, false); break;
    default: cast<In, int8_t>(call, call.out[0].dtype == DType::Bool); break;
  }
}

}  // namespace

Result<void> run_rescale(const Call& call) {
  bool is_unsigned = call.attributes<RescaleAttributes>().input_unsigned;
  switch (call.in[0].dtype) {
    case DType::I8: return is_unsigned ? rescale_from<uint8_t>(call) : rescale_from<int8_t>(call);
    case DType::I16: return is_unsigned ? rescale_from<uint16_t>(call) : rescale_from<int16_t>(call);
    case DType::I32: return rescale_from<int32_t>(call);
    default: return rescale_from<int64_t>(call);
  }
}

Result<void> run_convert(const Call& call) {
  DType dtype = call.in[0].dtype;
  if (call.op.op == Op::Table) {
    lookup(call);
  } else if (call.op.op == Op::Clamp) {
    dtype == DType::I8 ? clamp<int8_t>(call) : clamp<int16_t>(call);
  } else if (call.op.op == Op::Negate) {
    if (dtype == DType::I8) negate<int8_t>(call);
    if (dtype == DType::I16) negate<int16_t>(call);
    if (dtype == DType::I32) negate<int32_t>(call);
  } else {
    CHECK(call.op.op == Op::Cast, "{} does not convert", name(call.op.op));
    if (dtype == DType::I32)
      cast_from<int32_t>(call);
    else if (dtype == DType::I16)
      cast_from<int16_t>(call);
    else
      cast_from<int8_t>(call);
  }
  return {};
}

}  // namespace swoop::tosa
