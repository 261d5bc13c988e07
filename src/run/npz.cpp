// run_npz: arrays in, arrays out.
#include "support/npz.h"

#include <algorithm>

#include "run/runtime.h"
#include "support/file.h"
#include "support/half.h"
#include "support/timer.h"

namespace swoop {

namespace {

struct TypeName {
  std::string_view numpy;  // in a .npy header
  std::string_view name;
};
constexpr TypeName kTypes[] = {{"<f4", "float32"}, {"<f8", "float64"}, {"<f2", "float16"}, {"|i1", "int8"},
                               {"|u1", "uint8"},   {"<i2", "int16"},   {"<u2", "uint16"},  {"<i4", "int32"},
                               {"<u4", "uint32"},  {"<i8", "int64"},   {"<u8", "uint64"},  {"|b1", "bool"}};

std::string_view name_of_numpy(std::string_view numpy) {
  const auto* at =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TypeName& t) { return t.numpy == numpy; });
  return at == std::end(kTypes) ? numpy : at->name;
}

std::string numpy_of_name(std::string_view name) {
  const auto* at =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TypeName& t) { return t.name == name; });
  return at == std::end(kTypes) ? "|u1" : std::string(at->numpy);
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text;
  for (int64_t size : shape) text += fmt::format("{}{}", text.empty() ? "" : ",", size);
  return "[" + text + "]";
}

// The float types, as bits in memory.
struct FloatType {
  std::string_view name;
  size_t bytes;
  double (*load)(const std::byte* from);
  void (*store)(double value, Buffer& to);
};
const FloatType kFloats[] = {
    {"float32", 4, [](const std::byte* from) { return static_cast<double>(load<float>(from)); },
     [](double x, Buffer& to) { append(to, static_cast<float>(x)); }},
    {"float64", 8, [](const std::byte* from) { return load<double>(from); },
     [](double x, Buffer& to) { append(to, x); }},
    {"float16", 2, [](const std::byte* from) { return static_cast<double>(from_f16(load<uint16_t>(from))); },
     [](double x, Buffer& to) { append(to, to_f16(static_cast<float>(x))); }},
    {"bfloat16", 2, [](const std::byte* from) { return static_cast<double>(from_bf16(load<uint16_t>(from))); },
     [](double x, Buffer& to) { append(to, to_bf16(static_cast<float>(x))); }},
};

const FloatType* float_type(std::string_view name) {
  const auto* at =
      std::find_if(std::begin(kFloats), std::end(kFloats), [&](const FloatType& t) { return t.name == name; });
  return at == std::end(kFloats) ? nullptr : at;
}

// Between float types: NumPy computes in double precision unless told otherwise, and has no bfloat16.
bool convert_floats(Buffer& data, std::string_view from, std::string_view to) {
  const FloatType *source = float_type(from), *target = float_type(to);
  if (!source || !target) return false;
  if (source == target) return true;
  Buffer converted;
  converted.reserve(data.size() / source->bytes * target->bytes);
  for (size_t at = 0; at + source->bytes <= data.size(); at += source->bytes)
    target->store(source->load(data.data() + at), converted);
  data = std::move(converted);
  return true;
}

// What NumPy can hold: bfloat16 leaves as float32.
void widen(RunTensor& tensor) {
  if (tensor.dtype == "bfloat16" && convert_floats(tensor.data, tensor.dtype, "float32")) tensor.dtype = "float32";
}

// The arrays in the order of the program's inputs: by name, or by position when the file has no names.
Result<std::vector<NpyArray>> match(std::vector<NamedArray> arrays, const std::vector<RunTensor>& inputs) {
  std::vector<NpyArray> matched;
  std::string known;
  for (const NamedArray& named : arrays) known += fmt::format("{}{}", known.empty() ? "" : ", ", named.name);
  bool by_position = std::any_of(inputs.begin(), inputs.end(), [](const RunTensor& t) { return t.name.empty(); });
  if (inputs.size() == 1 && arrays.size() == 1) by_position = true;
  if (by_position && arrays.size() < inputs.size())
    return error("The program takes {} inputs and the file holds {} arrays ({}).", inputs.size(), arrays.size(), known);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (by_position) {
      matched.push_back(std::move(arrays[i].array));
      continue;
    }
    auto at = std::find_if(arrays.begin(), arrays.end(),
                           [&](const NamedArray& named) { return named.name == inputs[i].name; });
    if (at == arrays.end())
      return error("The program's input {} is missing; the file holds {}.", inputs[i].name, known);
    matched.push_back(std::move(at->array));
  }
  return matched;
}

// How many runs the arrays ask for, and whether they are stacked.
struct Stack {
  int64_t runs = 1;
  bool stacked = false;
};

Result<Stack> stack_of(std::vector<NpyArray>& arrays, const std::vector<RunTensor>& inputs) {
  Stack stack;
  for (size_t i = 0; i < inputs.size(); ++i) {
    NpyArray& array = arrays[i];
    const RunTensor& input = inputs[i];
    std::string label = input.name.empty() ? fmt::format("{}", i) : input.name;
    const bool converted = convert_floats(array.data, name_of_numpy(array.dtype), input.dtype);
    if (!converted && name_of_numpy(array.dtype) != input.dtype)
      return error("Input {} is {} in the program and {} in the file.", label, input.dtype, name_of_numpy(array.dtype));
    std::vector<int64_t> tail(array.shape.begin() + (array.shape.empty() ? 0 : 1), array.shape.end());
    bool exact = array.shape == input.shape;
    bool more = !exact && array.shape.size() == input.shape.size() + 1 && tail == input.shape;
    if (!exact && !more)
      return error(
          "Input {} has shape {} in the program and {} in the file; give exactly that shape, or one more axis in front "
          "for "
          "several runs.",
          label, shape_text(input.shape), shape_text(array.shape));
    int64_t runs = more ? array.shape[0] : 1;
    if (i > 0 && (runs != stack.runs || more != stack.stacked))
      return error("The inputs ask for different numbers of runs.");
    stack = {runs, more};
  }
  return stack;
}

Result<void> dump_regions(const ProgramRunner& runner, const std::string& directory) {
  TRY(make_directory(directory));
  auto write = [&](const RunTensor& tensor, const std::string& name) {
    return write_file(fmt::format("{}/{}.npy", directory, name),
                      Bytes(write_npy({numpy_of_name(tensor.dtype), tensor.shape, tensor.data})));
  };
  for (size_t r = 0; r < runner.regions().size(); ++r) {
    const RegionTraffic& region = runner.regions()[r];
    for (size_t i = 0; i < region.inputs.size(); ++i) TRY(write(region.inputs[i], fmt::format("region{}_in{}", r, i)));
    for (size_t i = 0; i < region.outputs.size(); ++i)
      TRY(write(region.outputs[i], fmt::format("region{}_out{}", r, i)));
  }
  return {};
}

}  // namespace

Result<NpzRunSummary> run_npz(Bytes program, Bytes inputs_npz, Buffer& outputs_npz, const NpzRunOptions& options) {
  RuntimeOptions runtime = options.runtime;
  runtime.record_regions = runtime.record_regions || !options.dump_directory.empty();
  TRY_ASSIGN(std::unique_ptr<ProgramRunner> runner, load_program(program, runtime));
  TRY_ASSIGN(std::vector<NamedArray> named, read_npz(inputs_npz));
  TRY_ASSIGN(std::vector<NpyArray> arrays, match(std::move(named), runner->inputs()));
  TRY_ASSIGN(Stack stack, stack_of(arrays, runner->inputs()));

  std::vector<NamedArray> outputs(runner->outputs().size());
  for (size_t i = 0; i < outputs.size(); ++i) outputs[i].name = fmt::format("out{}", i);
  Timer timer;
  for (int64_t r = 0; r < stack.runs; ++r) {
    std::vector<RunTensor> inputs;
    for (size_t i = 0; i < arrays.size(); ++i) {
      RunTensor tensor = runner->inputs()[i];
      size_t bytes = arrays[i].data.size() / static_cast<size_t>(stack.runs);
      const std::byte* first = arrays[i].data.data() + bytes * static_cast<size_t>(r);
      tensor.data.assign(first, first + bytes);
      inputs.push_back(std::move(tensor));
    }
    TRY_ASSIGN(std::vector<RunTensor> results, runner->run(inputs));
    if (options.after_run) TRY(options.after_run(r, results));
    for (size_t i = 0; i < results.size(); ++i) {
      widen(results[i]);
      if (r == 0) {
        outputs[i].array.dtype = numpy_of_name(results[i].dtype);
        outputs[i].array.shape = results[i].shape;
        if (stack.stacked) outputs[i].array.shape.insert(outputs[i].array.shape.begin(), stack.runs);
      }
      append(outputs[i].array.data, Bytes(results[i].data));
    }
  }
  NpzRunSummary summary{stack.runs, runner->memory(),
                        stack.runs > 0 ? timer.milliseconds() / static_cast<double>(stack.runs) : 0.0};
  if (stack.runs == 0) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      RunTensor output = runner->outputs()[i];
      widen(output);
      outputs[i].array.dtype = numpy_of_name(output.dtype);
      outputs[i].array.shape = output.shape;
      outputs[i].array.shape.insert(outputs[i].array.shape.begin(), 0);
    }
  }
  TRY_ASSIGN(outputs_npz, write_npz(outputs));
  if (!options.dump_directory.empty()) TRY(dump_regions(*runner, options.dump_directory));
  return summary;
}

}  // namespace swoop
