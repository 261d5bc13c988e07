// The state of one lowering, and what the families share: operands by value id, and rescales between quantized types.
#pragma once

#include <span>
#include <vector>

#include "lower/lower.h"
#include "ops/ops.h"

namespace swoop {

// multiplier * 2^-shift, as TOSA's RESCALE takes it: 31 significant bits, or 15 with scale16. A scale of 2^29 or more
// is the largest that there is; it sends every code but zero beyond 16 bits, as the true one does.
struct ScaleCode {
  int32_t multiplier;
  int8_t shift;

  // TOSA 1.0, apply_scale_32: codes are at least -limit and below limit. Beyond it the result has more than 28 bits.
  int64_t limit() const { return int64_t{1} << (shift - 1); }
};
ScaleCode encode_scale(double scale, bool scale16 = false);

// Whether a rescale by `scale` rounds every code of the type to itself.
bool keeps_codes(double scale, tosa::DType dtype);

tosa::DType tosa_dtype(DType dtype);
tosa::Shape tosa_shape(const Shape& shape);

// Of 16-bit tables, as a share of the largest result: what bends more between two samples becomes a sum of tables.
constexpr double kTableOff = 2e-3;
// Of quotients, roots and logarithms: normal.cpp says of what it is made.
constexpr double kNormalOff = 1e-4;

class CodeFunction;

class Lowering {
 public:
  Lowering(const Graph& graph, tosa::Program& program, std::string body_name);

  Result<void> run();
  tosa::BodyId body_id() const { return b.body_id(); }
  const std::string& at() const { return at_; }  // the first result of the node under way

 private:
  using Id = tosa::TensorId;

  Result<Id> lower_node(const Node& n);
  std::string body_name(const std::string& wanted) const;
  Result<void> cond(const Node& n);

  // -- conv.cpp
  Result<Id> conv(const Node& n);
  Result<Id> conv_transpose(const Node& n);
  Result<Id> matmul(const Node& n);
  Id bias_of(const Node& n, std::span<const double> scales, int64_t channels);
  Id from_accumulator(const Node& n, Id accumulator, std::span<const double> scales);
  // -- pool.cpp
  Result<Id> pool(const Node& n);
  Result<Id> resize(const Node& n);
  // -- elementwise.cpp
  Result<Id> add_sub(const Node& n);
  Result<Id> mul(const Node& n);
  Result<Id> min_max(const Node& n);
  Result<Id> compare(const Node& n);
  Result<Id> where(const Node& n);
  Result<Id> boolean(const Node& n);
  Result<Id> quantize(const Node& n);
  Result<Id> requantize(const Node& n, Type from, Type to);
  Result<Id> cast(const Node& n);
  bool is_integer_arithmetic(const Node& n) const;
  bool is_boolean_byte(const Node& n) const;
  bool is_boolean_byte(ValueId input) const;
  Result<Id> clamp(const Node& n);
  // -- table.cpp
  Result<Id> unary(const Node& n);
  Id interpolate(Id x, std::span<const int64_t> entries, std::string_view name);
  bool clamped_by_table(const Node& n) const;
  bool is_on_samples(ValueId x) const;
  Result<Id> unary_by_windows(const Node& n, const CodeFunction& function, Id x, double unit);
  // -- normal.cpp
  struct Normal {
    Id mantissa;  // i16
    Id places;    // i32
    Id half;      // i32, of an even number of places
  };
  Normal normalise(Id x, bool positive, bool even, int64_t least = 1);
  Result<Id> divide(const Node& n);
  Id quotient(Id a, double a_scale, const Node& n, size_t divisor);
  void add_reciprocals(std::vector<int64_t>& entries);
  Result<Id> normal_unary(const Node& n);
  // -- reduce.cpp
  Result<Id> sum(const Node& n);
  Result<Id> reduce(const Node& n);
  Result<Id> argmax(const Node& n);
  // -- movement.cpp
  Result<Id> movement(const Node& n);
  Result<Id> slice(const Node& n);
  bool is_part_of_slice(const Node& n) const;

  // -- shared
  Id operand(ValueId id);  // the tensor of a value; constants are added when first used
  const Type& in(const Node& n, size_t i) const { return graph_.type(n.inputs[i]); }
  const Type& out(const Node& n) const { return graph_.type(n.outputs[0]); }
  Id rescale(Id x, double scale, int64_t from_zp, int64_t to_zp, tosa::DType to);
  Id shift_left(Id x, Id places) { return b.binary(tosa::Op::LogicalLeftShift, x, places); }
  Id number(int64_t value, Id like) {
    return b.scalar(tosa::DType::I32, value, static_cast<int>(b.shape(like).size()));
  }
  Id widen(const Node& n, size_t i, double scale);     // operand i as i32, zero point removed, times scale
  Id narrow(Id x, double scale, const Node& n);        // i32 with zero point 0 -> the result's type, times scale
  Id activate(Id x, const Node& n);                    // the fused clamp, and the result's own code range
  Id activate(Id x, const Node& n, const Type& type);  // the same where the codes are not yet those of n's result
  Id requantize(Id x, const Type& from, const Type& to);
  Id flip_sign(Id x);
  Error cannot(const Node& n, std::string_view why) const;

  const Graph& graph_;
  tosa::Program& program_;
  tosa::Builder b;
  tosa::Bounds bounds_;
  std::vector<Id> tensors_;          // by value id
  std::vector<int64_t> half_table_;  // of a function below zero and of reciprocals above; empty: there is none yet
  std::string at_;
};

}  // namespace swoop
