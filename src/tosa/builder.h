// Builder: makes one body of a Program, operator by operator. Each method infers the type and shape of its result and
// returns its id; operands that break the rules of the operator are a bug of the caller (CHECK). Included by tosa.h.
#pragma once

#include <initializer_list>
#include <unordered_map>

#include "tosa/tosa.h"

namespace swoop::tosa {

struct RescaleParameters {
  std::vector<int32_t> multiplier;  // one, or (when longer than 1) one per channel of the last axis
  std::vector<int8_t> shift;        // as many
  int32_t input_zp = 0;
  int32_t output_zp = 0;
  DType to = DType::I8;
  Rounding rounding = Rounding::Single;
  bool scale32 = true;
};

class Builder {
 public:
  // Appends a body to the program and builds into it. The first one made is body 0.
  explicit Builder(Program& program, std::string name = "main");

  BodyId body_id() const { return body_; }
  const Tensor& tensor(TensorId id) const { return body().tensors[id]; }
  const Shape& shape(TensorId id) const { return tensor(id).shape; }
  DType dtype(TensorId id) const { return tensor(id).dtype; }

  // The location that the operators added from now on carry.
  void set_location(std::string location) { location_ = std::move(location); }

  // Results are called by operator and number until they get a name of their own, which is made unique.
  void rename(TensorId id, std::string name) { body().tensors[id].name = unique_name(std::move(name)); }

  TensorId input(std::string name, DType dtype, Shape shape);
  void output(TensorId id);

  // Equal type, shape and content give the same tensor. data: element_bytes(dtype) per element.
  TensorId constant(DType dtype, Shape shape, Buffer data, std::string name = {});
  // The values converted to dtype, which must hold them.
  TensorId constant(DType dtype, Shape shape, std::span<const int64_t> values, std::string name = {});
  TensorId constant(DType dtype, Shape shape, std::initializer_list<int64_t> values, std::string name = {}) {
    return constant(dtype, std::move(shape), std::span(values.begin(), values.size()), std::move(name));
  }
  TensorId scalar(DType dtype, int64_t value, int rank = 1);  // shape [1, 1, ...] of that rank

  // Weights: CONV2D and TRANSPOSE_CONV2D [OC,KH,KW,IC], DEPTHWISE_CONV2D [KH,KW,C,M], CONV3D [OC,KD,KH,KW,IC].
  // Activations NHWC (NDHWC). bias [OC] or [1], i32 for i8 input and i48 for i16 input. i8 -> i32, i16 -> i48.
  TensorId conv2d(TensorId x, TensorId weight, TensorId bias, const Conv2dAttributes& attributes, int32_t input_zp,
                  int32_t weight_zp = 0);
  TensorId depthwise_conv2d(TensorId x, TensorId weight, TensorId bias, const Conv2dAttributes& attributes,
                            int32_t input_zp, int32_t weight_zp = 0);
  TensorId transpose_conv2d(TensorId x, TensorId weight, TensorId bias, const TransposeConv2dAttributes& attributes,
                            int32_t input_zp, int32_t weight_zp = 0);
  TensorId matmul(TensorId a, TensorId b, int32_t a_zp, int32_t b_zp);  // [N,H,C] x [N,C,W]
  TensorId avg_pool2d(TensorId x, const PoolAttributes& attributes, int32_t input_zp, int32_t output_zp);
  TensorId max_pool2d(TensorId x, const PoolAttributes& attributes);
  TensorId rescale(TensorId x, const RescaleParameters& parameters);

  // Any operator of two broadcast operands without attributes: ADD, SUB, MAXIMUM, MINIMUM, INTDIV, EQUAL, GREATER,
  // GREATER_EQUAL, BITWISE_*, LOGICAL_* (shifts too).
  TensorId binary(Op op, TensorId a, TensorId b);
  // ABS, BITWISE_NOT, CLZ, LOGICAL_NOT, IDENTITY.
  TensorId unary(Op op, TensorId x);
  TensorId add(TensorId a, TensorId b) { return binary(Op::Add, a, b); }
  TensorId sub(TensorId a, TensorId b) { return binary(Op::Sub, a, b); }
  TensorId maximum(TensorId a, TensorId b) { return binary(Op::Maximum, a, b); }
  TensorId minimum(TensorId a, TensorId b) { return binary(Op::Minimum, a, b); }
  TensorId intdiv(TensorId a, TensorId b) { return binary(Op::Intdiv, a, b); }
  TensorId equal(TensorId a, TensorId b) { return binary(Op::Equal, a, b); }
  TensorId greater(TensorId a, TensorId b) { return binary(Op::Greater, a, b); }
  TensorId greater_equal(TensorId a, TensorId b) { return binary(Op::GreaterEqual, a, b); }
  TensorId abs(TensorId x) { return unary(Op::Abs, x); }
  TensorId clz(TensorId x) { return unary(Op::Clz, x); }
  TensorId logical_not(TensorId x) { return unary(Op::LogicalNot, x); }
  TensorId identity(TensorId x) { return unary(Op::Identity, x); }
  TensorId mul(TensorId a, TensorId b, int8_t shift = 0);  // result i32; shift only for i32 operands
  TensorId arithmetic_right_shift(TensorId a, TensorId b, bool round);
  TensorId negate(TensorId x, int32_t input_zp = 0, int32_t output_zp = 0);
  TensorId clamp(TensorId x, int64_t min_val, int64_t max_val);
  TensorId table(TensorId x, TensorId table);  // i8: 256 x i8 -> i8; i16: 513 x i16 -> i32
  TensorId select(TensorId condition, TensorId on_true, TensorId on_false);
  TensorId cast(TensorId x, DType to);

  TensorId reduce(Op op, TensorId x, int32_t axis);  // REDUCE_*: the axis stays, with size 1
  TensorId reduce_sum(TensorId x, int32_t axis) { return reduce(Op::ReduceSum, x, axis); }
  TensorId reduce_max(TensorId x, int32_t axis) { return reduce(Op::ReduceMax, x, axis); }
  TensorId reduce_min(TensorId x, int32_t axis) { return reduce(Op::ReduceMin, x, axis); }
  TensorId reduce_any(TensorId x, int32_t axis) { return reduce(Op::ReduceAny, x, axis); }
  TensorId reduce_all(TensorId x, int32_t axis) { return reduce(Op::ReduceAll, x, axis); }
  TensorId argmax(TensorId x, int32_t axis);  // the axis goes, i32

  TensorId concat(std::span<const TensorId> parts, int32_t axis);
  TensorId pad(TensorId x, std::vector<int32_t> padding, int64_t value);  // before0, after0, before1, after1, ...
  TensorId reshape(TensorId x, Shape shape);
  TensorId tile(TensorId x, std::vector<int32_t> multiples);
  TensorId slice(TensorId x, std::vector<int32_t> start, std::vector<int32_t> size);
  TensorId transpose(TensorId x, std::vector<int32_t> perms);
  TensorId reverse(TensorId x, int32_t axis);
  TensorId resize(TensorId x, const ResizeAttributes& attributes);
  TensorId gather(TensorId values, TensorId indices);                   // [N,K,C], [N,W] -> [N,W,C]
  TensorId scatter(TensorId values, TensorId indices, TensorId input);  // [N,K,C], [N,W], [N,W,C] -> [N,K,C]

  // The bodies are built (by their own Builder on the same program) before the call.
  std::vector<TensorId> cond_if(TensorId condition, std::span<const TensorId> operands, BodyId then_body,
                                BodyId else_body);
  std::vector<TensorId> while_loop(std::span<const TensorId> operands, BodyId cond_body, BodyId loop_body);

  // Any operator with its operands as the specification orders them; the results' types are inferred.
  std::vector<TensorId> add_operator(Op op, Attributes attributes, std::vector<TensorId> inputs);

 private:
  Body& body() { return program_->bodies[body_]; }
  const Body& body() const { return program_->bodies[body_]; }
  TensorId add_one(Op op, Attributes attributes, std::vector<TensorId> inputs);
  std::string unique_name(std::string wanted);

  Program* program_;
  BodyId body_;
  std::string location_;
  std::unordered_multimap<uint64_t, TensorId> constants_;  // by hash of type, shape and content; never walked
  std::unordered_map<std::string, uint32_t> names_;        // how often a name was asked for; never walked
};

}  // namespace swoop::tosa
