#include "driver/verify.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "accuracy/accuracy.h"
#include "npu/npu.h"
#include "run/runtime.h"
#include "support/check.h"
#include "support/file.h"

namespace swoop {

namespace {

constexpr size_t kMaxSamples = 4;              // more would run the same commands again
constexpr int64_t kLargeMacs = 1'000'000'000;  // one sample of such a program takes seconds

tosa::TensorData operand_of(const tosa::Tensor& tensor, const Buffer& data) {
  return {tensor.dtype, tensor.shape, data};
}

// The program up to and including operator `last`, with that operator's result as its only output.
tosa::Program cut_after(const tosa::Program& program, size_t last) {
  tosa::Program cut = program;
  tosa::Body& main = cut.bodies[0];
  main.operators.resize(last + 1);
  main.outputs = {main.operators[last].outputs[0]};
  // Operators that the output does not need would be results of their own.
  std::vector<bool> needed(main.tensors.size(), false);
  needed[main.outputs[0]] = true;
  std::vector<tosa::Operator> kept;
  for (size_t i = main.operators.size(); i-- > 0;) {
    const tosa::Operator& op = main.operators[i];
    if (!std::any_of(op.outputs.begin(), op.outputs.end(), [&](tosa::TensorId id) { return needed[id]; })) continue;
    for (tosa::TensorId input : op.inputs) needed[input] = true;
    kept.push_back(op);
  }
  std::reverse(kept.begin(), kept.end());
  main.operators = std::move(kept);
  return cut;
}

class FileChecker {
 public:
  explicit FileChecker(const FileCheck& check) : check_(check) {}

  Result<AccuracySummary> run() {
    RuntimeOptions options;
    options.record_regions = true;
    options.npu.target = check_.pipeline->target;
    TRY_ASSIGN(runner_, load_program(check_.pte, options));
    const std::optional<Samples>& given = check_.pipeline->samples;
    Samples made_up;
    if (!given) {
      TRY_ASSIGN(made_up, load_samples("random:0", *check_.source));
    }
    const Samples& samples = given ? *given : made_up;
    size_t most = check_.macs > kLargeMacs ? 1 : kMaxSamples;
    size_t count = given ? std::min(samples.inputs.size(), most) : 1;
    AccuracySummary summary;
    summary.samples = given ? count : 0;
    for (size_t i = 0; i < count; ++i) TRY(check_sample(samples.inputs[i], summary));
    summary.bit_exact = true;
    for (OutputAccuracy& output : summary.outputs) {
      output.sqnr_db /= static_cast<double>(count);
      if (output.equal) *output.equal /= static_cast<double>(count);
    }
    return summary;
  }

 private:
  Result<void> check_sample(const std::vector<Tensor>& sample, AccuracySummary& summary) {
    TRY_ASSIGN(std::vector<RunTensor> inputs, program_inputs(sample));
    TRY_ASSIGN(std::vector<RunTensor> outputs, runner_->run(inputs));
    for (const RegionTraffic& traffic : runner_->regions()) TRY(check_region(traffic));
    if (check_.pipeline->reference && check_.pipeline->samples) TRY(compare_with_float(sample, outputs, summary));
    return {};
  }

  // The sample's user inputs as the program takes them: floats as they are, codes where the border was left out.
  Result<std::vector<RunTensor>> program_inputs(const std::vector<Tensor>& sample) {
    std::vector<RunTensor> inputs(runner_->inputs());
    size_t next = 0;
    for (size_t i = 0; i < check_.source->inputs().size(); ++i) {
      if (check_.source->input_port(i).role != Port::Role::User) continue;
      if (next >= inputs.size()) break;
      RunTensor& input = inputs[next];
      TRY(fill(input, sample[i], check_.inputs[next]));
      ++next;
    }
    return inputs;
  }

  static Result<void> fill(RunTensor& input, const Tensor& tensor, const PortSummary& port) {
    auto count = static_cast<size_t>(element_count(tensor.shape));
    auto store = [&]<typename T>(T, auto value) {
      for (size_t i = 0; i < count; ++i) append(input.data, static_cast<T>(value(i)));
    };
    auto integer = [&](size_t i) {
      return tensor.dtype == DType::I64 ? tensor.as<int64_t>()[i] : static_cast<int64_t>(tensor.as<uint8_t>()[i]);
    };
    if (tensor.dtype == DType::F32 && input.dtype == "float32") {
      input.data = Buffer(tensor.data.data(), tensor.data.data() + tensor.data.size());
    } else if (tensor.dtype == DType::F32 && port.scale) {
      auto code = [&](int64_t low, int64_t high) {
        return [&, low, high](size_t i) {
          return quantize_value(tensor.as<float>()[i], *port.scale, *port.zero_point, low, high);
        };
      };
      if (input.dtype == "int8")
        store(int8_t{}, code(-128, 127));
      else if (input.dtype == "uint8")
        store(uint8_t{}, code(0, 255));
      else
        store(int16_t{}, code(-32768, 32767));
    } else if (input.dtype == "int64") {
      store(int64_t{}, integer);
    } else if (input.dtype == "int32") {
      store(int32_t{}, integer);
    } else if (input.dtype == "bool" || input.dtype == "uint8" || input.dtype == "int8") {
      store(uint8_t{}, integer);
    } else {
      return error("input {} is {}, which cannot be filled from samples; --no-verify skips this check", input.name,
                   input.dtype);
    }
    return {};
  }

  Result<void> check_region(const RegionTraffic& traffic) {
    auto index = static_cast<size_t>(traffic.delegate);
    if (index >= check_.regions.size())
      return error("the program calls delegate {}, which was not compiled", traffic.delegate);
    const tosa::Program& program = *check_.regions[index];
    std::vector<tosa::TensorData> inputs;
    for (size_t i = 0; i < traffic.inputs.size(); ++i)
      inputs.push_back(operand_of(program.bodies[0].tensors[program.bodies[0].inputs[i]], traffic.inputs[i].data));
    TRY_ASSIGN(std::vector<tosa::TensorData> expected, tosa::run(program, inputs));
    for (size_t i = 0; i < expected.size(); ++i) {
      if (expected[i].data == traffic.outputs[i].data) continue;
      TRY_ASSIGN(std::string layer, first_difference(program, inputs));
      TRY(keep_bundle(program, inputs));
      return error(
          "the finished file does not compute what its integer graph computes: in region{}, the first layer that "
          "differs is {}; what reproduces it is kept in {}",
          index, layer, check_.bundle);
    }
    return {};
  }

  // The first operator whose result, compiled alone with all before it, differs from the interpreter's. By bisection:
  // what follows a wrong result is taken to be wrong too.
  Result<std::string> first_difference(const tosa::Program& program, std::span<const tosa::TensorData> inputs) {
    const auto& operators = program.bodies[0].operators;
    size_t low = 0, high = operators.size() - 1;
    while (low < high) {
      size_t middle = (low + high) / 2;
      TRY_ASSIGN(bool equal, equal_up_to(program, inputs, middle));
      if (equal)
        low = middle + 1;
      else
        high = middle;
    }
    return fmt::format("{} ({})", operators[low].location, tosa::name(operators[low].op));
  }

  Result<bool> equal_up_to(const tosa::Program& program, std::span<const tosa::TensorData> inputs, size_t last) {
    tosa::Program cut = cut_after(program, last);
    TRY_ASSIGN(std::vector<tosa::TensorData> expected, tosa::run(cut, inputs));
    Buffer bytes = tosa::write(cut);
    Result<NpuProgram> npu = compile_npu(bytes, check_.pipeline->target, check_.pipeline->options.npu, "bisection");
    if (!npu) return true;  // a result that cannot stand alone is judged by what follows it
    std::vector<Bytes> operands;
    for (const tosa::TensorData& input : inputs) operands.emplace_back(input.data);
    std::vector<Buffer> outputs;
    if (!execute_npu(*npu, operands, outputs)) return false;
    return outputs[0] == expected[0].data;
  }

  Result<void> keep_bundle(const tosa::Program& program, std::span<const tosa::TensorData> inputs) {
    TRY(make_directory(check_.bundle));
    TRY(write_file(check_.bundle + "/region.tosa", tosa::write(program)));
    TRY(write_file(check_.bundle + "/program.pte", check_.pte));
    for (size_t i = 0; i < inputs.size(); ++i)
      TRY(write_file(fmt::format("{}/input{}.bin", check_.bundle, i), inputs[i].data));
    return {};
  }

  Result<void> compare_with_float(const std::vector<Tensor>& sample, const std::vector<RunTensor>& outputs,
                                  AccuracySummary& summary) {
    TRY_ASSIGN(std::vector<Tensor> expected,
               execute(*check_.pipeline->reference, sample, {check_.pipeline->opaque.get()}));
    std::vector<Type> types;  // of the program's outputs
    for (size_t i = 0; i < check_.source->outputs().size(); ++i)
      if (check_.source->output_port(i).role == Port::Role::User)
        types.push_back(check_.source->type(check_.source->outputs()[i]));
    size_t next = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      if (check_.pipeline->reference->output_port(i).role != Port::Role::User) continue;
      if (next >= outputs.size()) break;
      if (summary.outputs.size() <= next) summary.outputs.emplace_back();
      compare(expected[i], dequantize(outputs[next].data, types[next]), summary.outputs[next]);
      ++next;
    }
    return {};
  }

  static void compare(const Tensor& expected, const Tensor& actual, OutputAccuracy& accuracy) {
    CHECK(expected.shape == actual.shape && expected.dtype == actual.dtype, "an output is {}{} instead of {}{}",
          name_of(actual.dtype), to_text(actual.shape), name_of(expected.dtype), to_text(expected.shape));
    const auto count = static_cast<size_t>(element_count(expected.shape));
    if (expected.dtype == DType::F32) {
      accuracy.sqnr_db += sqnr_db({&expected, 1}, {&actual, 1});
      for (size_t i = 0; i < count; ++i)
        accuracy.max_error = std::max(accuracy.max_error, std::fabs(static_cast<double>(actual.as<float>()[i]) -
                                                                    static_cast<double>(expected.as<float>()[i])));
      return;
    }
    const size_t bytes = byte_size(expected.dtype);
    size_t same = 0;
    for (size_t i = 0; i < count; ++i)
      same += std::memcmp(expected.data.data() + i * bytes, actual.data.data() + i * bytes, bytes) == 0;
    accuracy.equal =
        accuracy.equal.value_or(0) + (count == 0 ? 1.0 : static_cast<double>(same) / static_cast<double>(count));
  }

  const FileCheck& check_;
  std::unique_ptr<ProgramRunner> runner_;
};

}  // namespace

Result<AccuracySummary> check_file(const FileCheck& check) { return FileChecker(check).run(); }

}  // namespace swoop
