// What float kernels share. Tensors are f32, i64 or bool, row-major.
#pragma once

#include <functional>

#include "ops/ops.h"

namespace swoop {

// From this many elements on, work is split over the cores: below, starting a thread costs more than it saves.
constexpr size_t kGrain = size_t{1} << 15;

// The most bytes that one array may take during execution: more is a mistake in the model, not a calibration.
constexpr int64_t kMaxBytes = int64_t{1} << 32;
// Fails for shapes whose f32 or i64 array is larger than that.
Result<void> check_memory(const Node& node, const Shape& shape, DType dtype);

// f32, i64 or bool: how values of `type` are held during execution.
DType execution_dtype(const Type& type);

// PyTorch's conversions between f32, i64 and bool; out has its dtype and shape.
void convert(const Tensor& in, Tensor& out);
Tensor as_dtype(const Tensor& in, DType dtype);

// Brings the elements to what `dtype` can hold: integers wrap, half floats round.
void settle(Tensor& tensor, DType dtype);

void transpose_into(const Tensor& in, std::span<const int64_t> perm, Tensor& out);

// Runs a channels-first kernel on a [N,s...,C] operand; `out` comes and goes channels last.
Result<void> in_channels_first(const Tensor& x, Tensor& out,
                               const std::function<Result<void>(const Tensor&, Tensor&)>& kernel);

// in, repeated along its dims of size 1 to `shape`.
Tensor expanded(const Tensor& in, const Shape& shape);

// For each element of `shape`, row-major, the index of the element of an array of shape `from` that broadcasting puts
// there.
std::vector<int64_t> broadcast_offsets(const Shape& from, const Shape& shape);

// quantize() of as many elements as the type's shape has.
Buffer quantized_codes(const float* from, const Type& type);

// data[i] = (clamp(round(data[i] * inverse) + zero, low, high) - zero) * scale
void fake_quantize_run(float* data, size_t count, float inverse, float scale, float zero, float low, float high);

// out[i] = fn(in[i]) over f32, vectorised where the function allows it. `fn` is known.
void map_unary(std::string_view fn, float alpha, float beta, std::span<const float> in, std::span<float> out);

}  // namespace swoop
