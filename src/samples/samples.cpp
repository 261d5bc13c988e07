#include "samples/samples.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "samples/images.h"
#include "support/file.h"
#include "support/npz.h"

namespace swoop {

namespace {

constexpr size_t kMaxSamples = 65536;
constexpr size_t kRandomSamples = 4;

struct Input {
  size_t index;  // among the graph's inputs
  std::string name;
  const Type* type;
};

// Inputs that a sample must name; mutable buffers bring their own first value.
std::vector<Input> user_inputs(const Graph& graph) {
  std::vector<Input> inputs;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const Value& value = graph.value(graph.inputs()[i]);
    const Port& port = graph.input_port(i);
    if (port.role != Port::Role::State) inputs.push_back({i, port.name.empty() ? value.name : port.name, &value.type});
  }
  return inputs;
}

std::string names_of(const std::vector<Input>& inputs) {
  std::string text;
  for (const Input& input : inputs)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", input.name, to_text(*input.type));
  return text;
}

std::vector<Tensor> blank_sample(const Graph& graph) {
  std::vector<Tensor> sample;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    Value value = graph.value(graph.inputs()[i]);
    const Port& port = graph.input_port(i);
    value.data = port.initial;
    bool complete =
        port.role == Port::Role::State &&
        port.initial.size() == static_cast<size_t>(element_count(value.type.shape)) * byte_size(value.type.dtype);
    if (complete) {
      sample.push_back(to_tensor(value));
    } else {
      DType dtype = is_float(value.type.dtype)        ? DType::F32
                    : value.type.dtype == DType::Bool ? DType::Bool
                                                      : DType::I64;
      Tensor zeros = make_tensor(dtype, value.type.shape);
      if (!zeros.data.empty()) std::memset(zeros.data.data(), 0, zeros.data.size());
      sample.push_back(std::move(zeros));
    }
  }
  return sample;
}

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

// The array as tensors of the input's shape, one per sample.
Result<std::vector<Tensor>> split(const NpyArray& array, const Input& input, const std::string& path) {
  const Shape& shape = input.type->shape;
  bool stacked =
      array.shape.size() == shape.size() + 1 && std::equal(shape.begin(), shape.end(), array.shape.begin() + 1);
  if (!stacked && array.shape != shape)
    return error("{}: {} has shape {}; the input takes {}, or [N,...] of it for N samples", path, input.name,
                 to_text(array.shape), to_text(shape));
  std::optional<DType> dtype = dtype_of(array.dtype);
  bool wants_float = is_float(input.type->dtype) || input.type->quantized();
  bool fits = dtype && (wants_float                        ? is_float(*dtype)
                        : input.type->dtype == DType::Bool ? *dtype == DType::Bool
                                                           : is_integer(*dtype));
  if (!fits)
    return error("{}: {} holds {}; the input takes {}", path, input.name, array.dtype,
                 wants_float                        ? "floats (<f4, <f8, <f2)"
                 : input.type->dtype == DType::Bool ? "booleans (|b1)"
                                                    : "integers");
  int64_t count = stacked ? array.shape[0] : 1;
  if (count == 0) return error("{}: {} holds no samples", path, input.name);
  if (static_cast<size_t>(count) > kMaxSamples)
    return error("{}: {} holds {} samples; at most {} are used", path, input.name, count, kMaxSamples);
  size_t bytes = array.data.size() / static_cast<size_t>(count);
  std::vector<Tensor> tensors;
  for (int64_t i = 0; i < count; ++i) {
    Value value;
    value.name = input.name;
    value.type = {*dtype, shape, {}};
    value.data = Bytes(array.data).subspan(static_cast<size_t>(i) * bytes, bytes);
    Tensor tensor = to_tensor(value);
    if (tensor.dtype == DType::F32) {
      std::span<const float> x = tensor.as<float>();
      auto bad = std::find_if(x.begin(), x.end(), [](float v) { return !std::isfinite(v); });
      if (bad != x.end())
        return error("{}: {} has {} at element {} of sample {}; calibration needs finite numbers", path, input.name,
                     std::isnan(*bad) ? "NaN" : "an infinity", bad - x.begin(), i);
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

Result<void> add_arrays(const std::vector<NamedArray>& arrays, const std::string& path, const Graph& graph,
                        Samples& samples) {
  std::vector<Input> inputs = user_inputs(graph);
  for (const NamedArray& array : arrays)
    if (std::none_of(inputs.begin(), inputs.end(), [&](const Input& input) { return input.name == array.name; }))
      return error("{}: the model has no input named {}; its inputs are {}", path, array.name, names_of(inputs));
  std::vector<std::vector<Tensor>> columns;
  for (const Input& input : inputs) {
    const NpyArray* array = find_array(arrays, input.name);
    if (!array)
      return error("{}: there is no array for input {}; the inputs are {}", path, input.name, names_of(inputs));
    TRY_ASSIGN(std::vector<Tensor> column, split(*array, input, path));
    if (!columns.empty() && columns[0].size() != column.size())
      return error("{}: {} holds {} samples and {} holds {}", path, inputs[0].name, columns[0].size(), input.name,
                   column.size());
    columns.push_back(std::move(column));
  }
  for (size_t s = 0; !columns.empty() && s < columns[0].size(); ++s) {
    std::vector<Tensor> sample = blank_sample(graph);
    for (size_t i = 0; i < inputs.size(); ++i) sample[inputs[i].index] = std::move(columns[i][s]);
    samples.inputs.push_back(std::move(sample));
  }
  return {};
}

Result<Input> single_input(const Graph& graph, const std::string& path) {
  std::vector<Input> inputs = user_inputs(graph);
  if (inputs.size() != 1)
    return error("{}: the model has {} inputs ({}); give .npz files with an array for each", path, inputs.size(),
                 names_of(inputs));
  return inputs[0];
}

Result<void> add_image(const std::string& path, const Graph& graph, const SampleOptions& options, Samples& samples) {
  TRY_ASSIGN(Input input, single_input(graph, path));
  const Shape& shape = input.type->shape;
  size_t channel = shape.size() == 4 ? 1 : 0;
  bool fits = is_float(input.type->dtype) && (shape.size() == 3 || (shape.size() == 4 && shape[0] == 1)) &&
              (shape[channel] == 1 || shape[channel] == 3);
  if (!fits)
    return error("{}: an image cannot be given to input {} {}; images fit [1,3,H,W] and [1,1,H,W]", path, input.name,
                 to_text(*input.type));
  auto channels = static_cast<size_t>(shape[channel]);
  if ((options.mean.size() != 1 && options.mean.size() != channels) ||
      (options.std.size() != 1 && options.std.size() != channels))
    return error("the image mean and std need one value, or one for each of the {} channels", channels);
  if (std::any_of(options.std.begin(), options.std.end(), [](double s) { return !(s > 0); }))
    return error("the image std must be above zero");
  TRY_ASSIGN(auto file, MappedFile::open(path));
  TRY_ASSIGN(Tensor image, read_image(file->bytes(), path, shape[channel]));
  if (image.shape[1] != shape[channel + 1] || image.shape[2] != shape[channel + 2])
    return error(
        "{}: the image is {} x {} (height x width); input {} takes {} x {}, so resize it as your own pipeline does",
        path, image.shape[1], image.shape[2], input.name, shape[channel + 1], shape[channel + 2]);
  std::span<float> x = image.as<float>();
  for (size_t c = 0; c < channels; ++c)
    for (size_t i = 0; i < x.size() / channels; ++i) {
      float& v = x[c * (x.size() / channels) + i];
      v = (v - static_cast<float>(options.mean[c % options.mean.size()])) /
          static_cast<float>(options.std[c % options.std.size()]);
    }
  image.shape = shape;
  std::vector<Tensor> sample = blank_sample(graph);
  sample[input.index] = std::move(image);
  samples.inputs.push_back(std::move(sample));
  return {};
}

Result<void> add_file(const std::string& path, const Graph& graph, const SampleOptions& options, Samples& samples) {
  if (is_image(path)) return add_image(path, graph, options, samples);
  TRY_ASSIGN(auto file, MappedFile::open(path));
  Bytes bytes = file->bytes();
  if (text_of(bytes).starts_with("PK")) {
    Result<std::vector<NamedArray>> arrays = read_npz(bytes);
    if (!arrays) return error("{}: {}", path, arrays.error().message);
    if (arrays->empty()) return error("{}: there are no arrays in this file", path);
    return add_arrays(*arrays, path, graph, samples);
  }
  Result<NpyArray> array = read_npy(bytes);
  if (!array) return error("{}: {}", path, array.error().message);
  TRY_ASSIGN(Input input, single_input(graph, path));
  std::vector<NamedArray> named;
  named.push_back({input.name, std::move(*array)});
  return add_arrays(named, path, graph, samples);
}

// Uniform words from a counter (splitmix64), so that a seed gives the same samples everywhere.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t word() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  double uniform() { return static_cast<double>(word() >> 11) * 0x1.0p-53; }
  float normal() {  // the sum of twelve uniforms: no libm, so the same bits everywhere
    double sum = 0;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return static_cast<float>(sum - 6.0);
  }

 private:
  uint64_t state_;
};

// Indices must stay inside what they index.
int64_t index_limit(const Graph& graph, ValueId input) {
  int64_t limit = 2;
  for (const Use& use : graph.value(input).uses) {
    if (use.node == kNone) continue;
    const Node& node = graph.node(use.node);
    if ((node.op == Op::Gather || node.op == Op::GatherElements) && use.index == 1)
      limit = graph.type(node.inputs[0]).shape[static_cast<size_t>(node.integer(Key::Axis))];
    if (node.op == Op::Cast || node.op == Op::Reshape) limit = std::max(limit, index_limit(graph, node.outputs[0]));
  }
  return std::max<int64_t>(1, limit);
}

Result<Samples> random_samples(std::string_view seed_text, const Graph& graph) {
  uint64_t seed = 0;
  auto [end, fault] = std::from_chars(seed_text.data(), seed_text.data() + seed_text.size(), seed);
  if (fault != std::errc() || end != seed_text.data() + seed_text.size())
    return error("random:{} needs a whole number as its seed, as in random:1", seed_text);
  Samples samples;
  samples.random = true;
  Random random(seed);
  for (size_t s = 0; s < kRandomSamples; ++s) {
    std::vector<Tensor> sample = blank_sample(graph);
    for (const Input& input : user_inputs(graph)) {
      Tensor& tensor = sample[input.index];
      int64_t limit = index_limit(graph, graph.inputs()[input.index]);
      if (tensor.dtype == DType::F32)
        for (float& x : tensor.as<float>()) x = random.normal();
      else if (tensor.dtype == DType::I64)
        for (int64_t& x : tensor.as<int64_t>()) x = static_cast<int64_t>(random.word() % static_cast<uint64_t>(limit));
      else
        for (uint8_t& x : tensor.as<uint8_t>()) x = random.word() & 1;
    }
    samples.inputs.push_back(std::move(sample));
  }
  return samples;
}

}  // namespace

void carry_state(const Graph& graph, std::span<const Tensor> outputs, std::vector<Tensor>& inputs) {
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (graph.output_port(o).role != Port::Role::State) continue;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (graph.input_port(i).role == Port::Role::State && graph.input_port(i).name == graph.output_port(o).name)
        inputs[i] = outputs[o];
  }
}

Result<Samples> load_samples(const std::string& path, const Graph& graph, const SampleOptions& options) {
  constexpr std::string_view kRandom = "random:";
  Samples samples;
  if (path.starts_with(kRandom)) {
    TRY_ASSIGN(samples, random_samples(std::string_view(path).substr(kRandom.size()), graph));
  } else if (std::error_code code; std::filesystem::is_directory(path, code)) {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(path, code)) {
      std::string file = entry.path().string();
      if (entry.path().extension() == ".npz" || entry.path().extension() == ".npy" || is_image(file))
        files.push_back(file);
    }
    if (files.empty()) return error("{}: there are no .npz, .npy or image files in this folder", path);
    std::sort(files.begin(), files.end());
    for (const std::string& file : files) TRY(add_file(file, graph, options, samples));
  } else {
    TRY(add_file(path, graph, options, samples));
  }
  samples.source = path;
  if (samples.inputs.empty()) return error("{}: there are no samples in it", path);
  return samples;
}

}  // namespace swoop
