// The interpreter's operators: each computes its outputs exactly as the specification's pseudocode, on values whose
// types and shapes have been checked. What only values can break (REQUIRE) comes back as an error.
#pragma once

#include "tosa/tosa.h"

namespace swoop::tosa {

struct Value {
  DType dtype = DType::I8;
  const Shape* shape = nullptr;
  const std::byte* data = nullptr;

  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(data);
  }
  size_t count() const { return static_cast<size_t>(element_count(*shape)); }
};

// One execution of one operator. Outputs have their type, shape and (uninitialised) data.
struct Call {
  const Body& body;
  const Operator& op;
  std::span<const Value> in;
  std::span<TensorData> out;

  template <typename T>
  const T& attributes() const {
    return std::get<T>(op.attributes);
  }
  template <typename T>
  T* result(size_t i = 0) const {
    return reinterpret_cast<T*>(out[i].data.data());
  }
  // The single element of a zero point, shift or pad value.
  int64_t scalar(size_t i, bool is_unsigned = false) const;
  // The sentence for a broken REQUIRE.
  Error fail(std::string_view what) const;
};

Result<void> run_convolution(const Call& call);  // CONV2D, CONV3D, TRANSPOSE_CONV2D, DEPTHWISE_CONV2D
Result<void> run_matmul(const Call& call);
Result<void> run_pool(const Call& call);  // AVG_POOL2D, MAX_POOL2D
Result<void> run_resize(const Call& call);
Result<void> run_binary(const Call& call);  // every operator of two broadcast operands, MUL and shifts among them
Result<void> run_unary(const Call& call);   // ABS, BITWISE_NOT, CLZ, LOGICAL_NOT
Result<void> run_select(const Call& call);
Result<void> run_rescale(const Call& call);
Result<void> run_convert(const Call& call);  // TABLE, CLAMP, NEGATE, CAST
Result<void> run_reduce(const Call& call);   // REDUCE_*, ARGMAX
Result<void> run_move(const Call& call);     // CONCAT, PAD, RESHAPE, REVERSE, SLICE, TILE, TRANSPOSE, IDENTITY
Result<void> run_gather(const Call& call);   // GATHER, SCATTER

// A multiplier and shift, applied as apply_scale_32 of TOSA 1.0 does. Sets bad when value is out of the range it
// requires.
inline int32_t apply_scale_32(int64_t value, int32_t multiplier, int32_t shift, bool double_round, unsigned& bad) {
  int64_t limit = int64_t{1} << (shift - 1);
  bad |= static_cast<unsigned>(value < -limit) | static_cast<unsigned>(value >= limit);
  int64_t round = limit;
  if (double_round && shift > 31) round += value >= 0 ? int64_t{1} << 30 : -(int64_t{1} << 30);
  return static_cast<int32_t>((value * multiplier + round) >> shift);
}

// Enough elements to be worth a thread.
constexpr size_t kElementGrain = 1 << 16;

}  // namespace swoop::tosa
