// A graph's way through legalize and lower, beside what it stands for: the float kernels between quantized types
// (execute) are the reference, the TOSA interpreter runs what was made of the same graph.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "driver/pipeline.h"
#include "lower/lower.h"
#include "ops/ops.h"
#include "tosa/tosa.h"

namespace swoop {

inline const std::string kU55 = "ethos-u55-128", kU65 = "ethos-u65-256", kU85 = "ethos-u85-256";

// Deterministic numbers for constants and inputs.
class Numbers {
 public:
  double normal() { return normal_(engine_); }
  std::string codes(int64_t count, double deviation) {
    std::string hex;
    for (int64_t i = 0; i < count; ++i)
      hex += fmt::format("{:02x}",
                         static_cast<uint8_t>(static_cast<int8_t>(std::clamp(normal() * deviation, -127.0, 127.0))));
    return "x\"" + hex + "\"";
  }
  std::string words(int64_t count, double deviation) {  // i32
    std::string hex;
    for (int64_t i = 0; i < count; ++i) {
      auto value = static_cast<uint32_t>(static_cast<int32_t>(normal() * deviation));
      for (int byte = 0; byte < 4; ++byte) hex += fmt::format("{:02x}", (value >> (8 * byte)) & 255);
    }
    return "x\"" + hex + "\"";
  }
  std::string floats(int64_t count, double mean, double deviation) {
    std::string hex;
    for (int64_t i = 0; i < count; ++i) {
      auto value = static_cast<float>(mean + deviation * normal());
      uint8_t bytes[4];
      std::memcpy(bytes, &value, 4);
      for (uint8_t byte : bytes) hex += fmt::format("{:02x}", byte);
    }
    return "x\"" + hex + "\"";
  }

 private:
  std::mt19937 engine_{42};
  std::normal_distribution<double> normal_;
};

constexpr size_t kRow = 64;

struct Errors {
  double most = 0;  // in steps
  double mean = 0;
  double sqnr = 0;          // dB, against the reference after its own rounding
  double beyond = 0;        // what is more than a step, over the result or 1 where that is smaller
  double off = 0;           // as ErrorBound has it, of the worst row of kRow results
  int64_t wide_tables = 0;  // constants of 513 samples
};

// The code of element i of an input.
using Codes = std::function<int64_t(const Type& type, size_t input, int64_t i)>;

inline tosa::DType tosa_type(DType dtype) { return dtype == DType::I16 ? tosa::DType::I16 : tosa::DType::I8; }

inline double code_at(Bytes data, DType dtype, size_t i) {
  if (dtype == DType::I8) return reinterpret_cast<const int8_t*>(data.data())[i];
  if (dtype == DType::I16) return reinterpret_cast<const int16_t*>(data.data())[i];
  return reinterpret_cast<const int32_t*>(data.data())[i];
}

struct LoweredGraph {
  tosa::Program program;
  std::vector<std::string> inputs;  // of the program, as the graph names them
};

// All of a graph as one region.
inline Result<LoweredGraph> lowered(const std::string& text, const std::string& target_name) {
  TRY_ASSIGN(Graph graph, parse(text));
  CompileOptions options;
  options.target = target_name;
  Pipeline pipeline{.options = options};
  TRY_ASSIGN(pipeline.target, target_of(options));
  TRY(run_steps(graph, pipeline, "ports", "partition"));
  const Partition& parts = pipeline.partition;
  for (const HostReason& host : parts.host) return error("{} stays on the host: {}", host.op, host.reason);
  if (parts.regions.size() != 1) return error("{} regions", parts.regions.size());
  LoweredGraph result;
  TRY_ASSIGN(result.program, lower(*parts.regions[0]));
  for (ValueId id : parts.regions[0]->inputs()) result.inputs.push_back(parts.regions[0]->value(id).name);
  return result;
}

inline Errors run(const std::string& text, const std::string& target_name, double deviation = 40,
                  const Codes& given = {}) {
  SCOPED_TRACE(target_name + "\n" + text.substr(0, 2000));
  Errors errors{1e9, 1e9, -1e9, 1e9, 1e9};
  Result<Graph> reference = parse(text);
  Result<LoweredGraph> made = lowered(text, target_name);
  if (!made) ADD_FAILURE() << made.error().message;
  if (!made) return errors;

  Numbers numbers;
  std::vector<Tensor> floats;
  std::vector<tosa::TensorData> arguments(made->inputs.size());
  for (ValueId id : reference->inputs()) {
    const Type& type = reference->type(id);
    Tensor tensor = make_tensor(DType::F32, type.shape);
    int64_t at = 0;
    for (float& x : tensor.as<float>()) {
      double normal = numbers.normal() * deviation * (type.dtype == DType::I16 ? 256 : 1);
      double code = given ? static_cast<double>(given(type, floats.size(), at++) - type.zero_point()) : normal;
      x = static_cast<float>(code * type.scale());
    }
    Buffer codes = *quantize(tensor, type);
    floats.push_back(dequantize(codes, type));
    for (size_t i = 0; i < arguments.size(); ++i)
      if (made->inputs[i] == reference->value(id).name)
        arguments[i] = {tosa_type(type.dtype), tosa::Shape(type.shape.begin(), type.shape.end()), codes};
  }
  Result<std::vector<Tensor>> wanted = execute(*reference, floats);
  Result<std::vector<tosa::TensorData>> got = tosa::run(made->program, arguments);
  if (!wanted || !got) ADD_FAILURE() << (wanted ? got.error().message : wanted.error().message);
  if (!wanted || !got) return errors;
  const Type& type = reference->type(reference->outputs()[0]);
  std::span<const float> w = (*wanted)[0].as<float>();
  const Range range = range_of(type);
  double signal = 0, noise = 0, row = 0;
  errors = {};
  for (size_t i = 0; i < w.size(); ++i) {
    double y = (code_at((*got)[0].data, type.dtype, i) - static_cast<double>(type.zero_point())) * type.scale();
    double error = std::fabs(y - static_cast<double>(w[i]));
    errors.most = std::max(errors.most, error / type.scale());
    errors.mean += error / type.scale() / static_cast<double>(w.size());
    double size = std::max(std::fabs(static_cast<double>(w[i])), std::min(1.0, 30000 * type.scale()));
    errors.beyond = std::max(errors.beyond, (error - 1.01 * type.scale()) / size);
    signal += static_cast<double>(w[i]) * static_cast<double>(w[i]);
    noise += error * error;
    row += error * error;
    if ((i + 1) % kRow != 0 && i + 1 != w.size()) continue;
    double root = std::sqrt(row / static_cast<double>(i % kRow + 1));
    errors.off = std::max(errors.off, (root - 1.01 * type.scale()) / std::max(-range.min, range.max));
    row = 0;
  }
  errors.sqnr = 10 * std::log10(std::max(signal, 1e-30) / std::max(noise, 1e-30));
  for (const tosa::Tensor& tensor : made->program.bodies[0].tensors)
    errors.wide_tables += tensor.is_const && tensor.shape == tosa::Shape{513};
  return errors;
}

// Numbers of every magnitude that the type holds, of both signs; never zero.
inline int64_t any_size(const Type& type, size_t input, int64_t i) {
  int64_t most = dtype_max(type.dtype) - std::max<int64_t>(type.zero_point(), 0);
  uint64_t hash = (static_cast<uint64_t>(i) * 2 + input + 1) * 0x9e3779b97f4a7c15u;
  double share = static_cast<double>(hash >> 11) * 0x1p-53;
  auto size = static_cast<int64_t>(std::exp(share * std::log(static_cast<double>(most))));
  return type.zero_point() + (hash & 1 ? -1 : 1) * std::clamp<int64_t>(size, 1, most);
}

}  // namespace swoop
