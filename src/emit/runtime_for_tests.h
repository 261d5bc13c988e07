// For tests: emitted bytes executed by the stock ExecuTorch runtime, fully verified on load, and tensors to feed it.
#pragma once

#include <executorch/extension/data_loader/buffer_data_loader.h>
#include <executorch/extension/module/module.h>
#include <executorch/extension/tensor/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "ops/ops.h"

namespace swoop::runtime_test {

namespace et = executorch::extension;
using executorch::aten::ScalarType;

struct Outcome {
  std::vector<Tensor> outputs;
  std::string failure;
};

// f32, i64 and bool as the float executor has them; the narrow integers of quantized values come back as i64.
inline Tensor from_runtime(const executorch::aten::Tensor& source) {
  Shape shape(source.sizes().begin(), source.sizes().end());
  DType dtype = DType::I64;
  if (source.scalar_type() == ScalarType::Float) dtype = DType::F32;
  if (source.scalar_type() == ScalarType::Bool) dtype = DType::Bool;
  Tensor result = make_tensor(dtype, shape);
  auto widen = [&](auto tag) {
    using T = decltype(tag);
    for (int64_t i = 0; i < source.numel(); ++i)
      result.as<int64_t>()[static_cast<size_t>(i)] = source.const_data_ptr<T>()[i];
  };
  switch (source.scalar_type()) {
    case ScalarType::Char: widen(int8_t{}); break;
    case ScalarType::Short: widen(int16_t{}); break;
    case ScalarType::Int: widen(int32_t{}); break;
    default: std::memcpy(result.data.data(), source.const_data_ptr(), result.data.size());
  }
  return result;
}

class LoadedProgram {
 public:
  explicit LoadedProgram(Buffer bytes) : bytes_(std::move(bytes)) {
    module_ = std::make_unique<et::Module>(std::make_unique<et::BufferDataLoader>(bytes_.data(), bytes_.size()));
    using executorch::runtime::Program;
    EXPECT_EQ(module_->load(Program::Verification::InternalConsistency), executorch::runtime::Error::Ok);
  }

  Outcome run(std::span<const Tensor> inputs) {
    std::vector<et::TensorPtr> owners;
    std::vector<executorch::runtime::EValue> values;
    for (const Tensor& input : inputs) {
      std::vector<executorch::aten::SizesType> sizes(input.shape.begin(), input.shape.end());
      ScalarType type = ScalarType::Long;
      if (input.dtype == DType::F32) type = ScalarType::Float;
      if (input.dtype == DType::Bool) type = ScalarType::Bool;
      owners.push_back(et::from_blob(const_cast<std::byte*>(input.data.data()), sizes, type));
      values.emplace_back(owners.back());
    }
    auto result = module_->execute("forward", values);
    Outcome run;
    if (!result.ok()) {
      run.failure = executorch::runtime::to_string(result.error());
      return run;
    }
    for (const auto& value : *result) run.outputs.push_back(from_runtime(value.toTensor()));
    return run;
  }

 private:
  Buffer bytes_;
  std::unique_ptr<et::Module> module_;
};

inline Tensor random_tensor(const Type& type, uint32_t seed) {
  bool plain = type.dtype == DType::F32 || type.dtype == DType::Bool;
  Tensor tensor = make_tensor(plain ? type.dtype : DType::I64, type.shape);
  uint32_t state = seed * 2654435761u + 1;
  auto next = [&] {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
  };
  if (tensor.dtype == DType::F32)
    for (float& x : tensor.as<float>()) x = static_cast<float>(next() % 4001) / 1000.0f - 2.0f;
  else if (tensor.dtype == DType::I64)
    for (int64_t& x : tensor.as<int64_t>()) x = static_cast<int64_t>(next() % 3);
  else
    for (std::byte& x : tensor.as<std::byte>()) x = static_cast<std::byte>(next() & 1);
  return tensor;
}

inline void expect_close(const Tensor& actual, const Tensor& wanted, const std::string& what, double tolerance = 2e-5) {
  ASSERT_EQ(to_text(actual.shape), to_text(wanted.shape)) << what;
  ASSERT_EQ(actual.dtype, wanted.dtype) << what;
  if (wanted.dtype != DType::F32) {
    EXPECT_TRUE(std::ranges::equal(actual.as<std::byte>(), wanted.as<std::byte>())) << what;
    return;
  }
  for (size_t i = 0; i < wanted.as<float>().size(); ++i) {
    float a = actual.as<float>()[i];
    float w = wanted.as<float>()[i];
    if (std::isnan(w) && std::isnan(a)) continue;
    ASSERT_NEAR(a, w, tolerance * std::max(1.0f, std::fabs(w))) << what << " element " << i;
  }
}

inline Type f32(Shape shape) { return {DType::F32, std::move(shape), {}}; }
inline Type i64(Shape shape) { return {DType::I64, std::move(shape), {}}; }
inline Type boolean(Shape shape) { return {DType::Bool, std::move(shape), {}}; }

}  // namespace swoop::runtime_test
