#include "samples/arrays.h"

#include <algorithm>
#include <cmath>

#include "samples/inputs.h"

namespace swoop {

namespace {

constexpr size_t kMaxSamples = 65536;

std::optional<DType> dtype_of(std::string_view npy) {
  struct Pair {
    std::string_view npy;
    DType dtype;
  };
  constexpr Pair kPairs[] = {{"<f4", DType::F32}, {"<f8", DType::F64}, {"<f2", DType::F16},
                             {"|i1", DType::I8},  {"|u1", DType::U8},  {"<i2", DType::I16},
                             {"<i4", DType::I32}, {"<i8", DType::I64}, {"|b1", DType::Bool}};
  for (const Pair& pair : kPairs)
    if (pair.npy == npy) return pair.dtype;
  return std::nullopt;
}

bool is_stacked(const NpyArray& array, const Shape& shape) {
  return array.shape.size() == shape.size() + 1 && std::equal(shape.begin(), shape.end(), array.shape.begin() + 1);
}

// Why the array cannot be samples of the input; empty when it can.
std::string misfit(const NpyArray& array, const Type& type) {
  if (!is_stacked(array, type.shape) && array.shape != type.shape)
    return fmt::format("has shape {}; the input takes {}, or [N,...] of it for N samples", to_text(array.shape),
                       to_text(type.shape));
  std::optional<DType> dtype = dtype_of(array.dtype);
  bool wants_float = is_float(type.dtype) || type.quantized();
  bool fits = dtype && (wants_float                 ? is_float(*dtype)
                        : type.dtype == DType::Bool ? *dtype == DType::Bool
                                                    : is_integer(*dtype));
  if (fits) return "";
  return fmt::format("holds {}; the input takes {}", array.dtype,
                     wants_float                 ? "floats (<f4, <f8, <f2)"
                     : type.dtype == DType::Bool ? "booleans (|b1)"
                                                 : "integers");
}

const NamedArray* find(const std::vector<NamedArray>& arrays, std::string_view name) {
  auto at = std::find_if(arrays.begin(), arrays.end(), [&](const NamedArray& named) { return named.name == name; });
  return at == arrays.end() ? nullptr : &*at;
}

// The array for the only input of a model: that of its name, the only one, or the only one that fits.
Result<const NamedArray*> choose_array(const std::vector<NamedArray>& arrays, const Input& input,
                                       const std::string& path) {
  if (const NamedArray* named = find(arrays, input.name)) return named;
  if (arrays.size() == 1) return &arrays[0];
  const NamedArray* chosen = nullptr;
  for (const NamedArray& named : arrays) {
    if (!misfit(named.array, *input.type).empty()) continue;
    if (chosen)
      return error("{}: both {} and {} fit input {} {}; name the right one {}", path, chosen->name, named.name,
                   input.name, to_text(*input.type), input.name);
    chosen = &named;
  }
  if (!chosen)
    return error("{}: none of the {} arrays fits input {} {}: {} {}", path, arrays.size(), input.name,
                 to_text(*input.type), arrays[0].name, misfit(arrays[0].array, *input.type));
  return chosen;
}

// An array for each input, in the inputs' order.
Result<std::vector<const NamedArray*>> match(const std::vector<NamedArray>& arrays, const std::vector<Input>& inputs,
                                             const std::string& path) {
  std::vector<const NamedArray*> matched;
  if (inputs.size() == 1) {
    TRY_ASSIGN(const NamedArray* array, choose_array(arrays, inputs[0], path));
    matched.push_back(array);
    return matched;
  }
  for (const NamedArray& array : arrays)
    if (std::none_of(inputs.begin(), inputs.end(), [&](const Input& input) { return input.name == array.name; }))
      return error("{}: the model has no input named {}; its inputs are {}", path, array.name, to_text(inputs));
  for (const Input& input : inputs) {
    matched.push_back(find(arrays, input.name));
    if (!matched.back())
      return error("{}: there is no array for input {}; the inputs are {}", path, input.name, to_text(inputs));
  }
  return matched;
}

}  // namespace

Result<std::vector<Tensor>> split(const NamedArray& named, const Type& type, const std::string& path) {
  const NpyArray& array = named.array;
  if (std::string why = misfit(array, type); !why.empty()) return error("{}: {} {}", path, named.name, why);
  int64_t count = is_stacked(array, type.shape) ? array.shape[0] : 1;
  if (count == 0) return error("{}: {} holds no samples", path, named.name);
  if (static_cast<size_t>(count) > kMaxSamples)
    return error("{}: {} holds {} samples; at most {} are used", path, named.name, count, kMaxSamples);
  size_t bytes = array.data.size() / static_cast<size_t>(count);
  std::vector<Tensor> tensors;
  for (int64_t i = 0; i < count; ++i) {
    Value value;
    value.name = named.name;
    value.type = {*dtype_of(array.dtype), type.shape, {}};
    value.data = Bytes(array.data).subspan(static_cast<size_t>(i) * bytes, bytes);
    Tensor tensor = to_tensor(value);
    if (tensor.dtype == DType::F32) {
      std::span<const float> x = tensor.as<float>();
      auto bad = std::find_if(x.begin(), x.end(), [](float v) { return !std::isfinite(v) && v != -INFINITY; });
      if (bad != x.end())
        return error("{}: {} has {} at element {} of sample {}; calibration needs finite numbers", path, named.name,
                     std::isnan(*bad) ? "NaN" : "an infinity", bad - x.begin(), i);
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

Result<std::vector<Sample>> samples_from(const std::vector<NamedArray>& arrays, const std::string& path,
                                         const Graph& graph) {
  if (arrays.empty()) return error("{}: there are no arrays in this file", path);
  std::vector<Input> inputs = user_inputs(graph);
  TRY_ASSIGN(std::vector<const NamedArray*> matched, match(arrays, inputs, path));
  std::vector<std::vector<Tensor>> columns;
  for (size_t i = 0; i < inputs.size(); ++i) {
    TRY_ASSIGN(std::vector<Tensor> column, split(*matched[i], *inputs[i].type, path));
    if (!columns.empty() && columns[0].size() != column.size())
      return error("{}: {} holds {} samples and {} holds {}", path, inputs[0].name, columns[0].size(), inputs[i].name,
                   column.size());
    columns.push_back(std::move(column));
  }
  std::vector<Sample> samples;
  for (size_t s = 0; !columns.empty() && s < columns[0].size(); ++s) {
    Sample sample = blank_sample(graph);
    for (size_t i = 0; i < inputs.size(); ++i) sample[inputs[i].index] = std::move(columns[i][s]);
    samples.push_back(std::move(sample));
  }
  return samples;
}

}  // namespace swoop
