#include <algorithm>

#include "samples/arrays.h"
#include "samples/inputs.h"
#include "samples/samples.h"
#include "support/file.h"

namespace swoop {

namespace {

constexpr std::string_view kLabels = "labels";

std::vector<const Type*> user_outputs(const Graph& graph) {
  std::vector<const Type*> types;
  for (size_t i = 0; i < graph.outputs().size(); ++i)
    if (graph.output_port(i).role == Port::Role::User) types.push_back(&graph.type(graph.outputs()[i]));
  return types;
}

// Takes the array of this name out of the list.
std::optional<NamedArray> take(std::vector<NamedArray>& arrays, std::string_view name) {
  auto found = std::find_if(arrays.begin(), arrays.end(), [&](const NamedArray& array) { return array.name == name; });
  if (found == arrays.end()) return std::nullopt;
  NamedArray array = std::move(*found);
  arrays.erase(found);
  return array;
}

// One label for each row that the classes of output 0 follow in.
Result<std::vector<int64_t>> labels_from(const NamedArray& array, const std::string& path, const Type& output,
                                         size_t samples) {
  if (output.shape.empty() || output.shape.back() < 2)
    return error("{}: there are labels, but output 0 is {} and holds no classes", path, to_text(output));
  const int64_t classes = output.shape.back();
  const int64_t rows = element_count(output.shape) / classes;
  const int64_t wanted = rows * static_cast<int64_t>(samples);
  TRY_ASSIGN(std::vector<Tensor> flat, split(array, {DType::I64, array.array.shape, {}}, path));
  std::span<const int64_t> labels = flat[0].as<int64_t>();
  if (static_cast<int64_t>(labels.size()) != wanted)
    return error("{}: there are {} labels for {} samples; output 0 is {} and needs {}", path, labels.size(), samples,
                 to_text(output), wanted);
  for (int64_t label : labels)
    if (label < 0 || label >= classes)
      return error("{}: label {} is not one of the {} classes of output 0", path, label, classes);
  return std::vector<int64_t>(labels.begin(), labels.end());
}

}  // namespace

Result<TestSet> load_test_set(const std::string& path, const Graph& graph) {
  TRY_ASSIGN(auto file, MappedFile::open(path));
  Result<std::vector<NamedArray>> read = read_npz(file->bytes());
  if (!read) return error("{}: --test takes an .npz file: {}", path, read.error().message);
  std::vector<NamedArray>& arrays = *read;
  const std::vector<Input> inputs = user_inputs(graph);
  auto is_input = [&](std::string_view name) {
    return std::any_of(inputs.begin(), inputs.end(), [&](const Input& input) { return input.name == name; });
  };
  std::optional<NamedArray> labels = is_input(kLabels) ? std::nullopt : take(arrays, kLabels);
  const std::vector<const Type*> outputs = user_outputs(graph);
  std::vector<std::optional<NamedArray>> expected;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string name = fmt::format("out{}", i);
    expected.push_back(is_input(name) ? std::nullopt : take(arrays, name));
  }
  TestSet test;
  test.samples.source = path;
  TRY_ASSIGN(test.samples.inputs, samples_from(arrays, path, graph));
  const size_t count = test.samples.inputs.size();
  if (labels) {
    if (outputs.empty()) return error("{}: there are labels, but the model has no outputs", path);
    TRY_ASSIGN(test.labels, labels_from(*labels, path, *outputs[0], count));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    test.expected.emplace_back();
    if (!expected[i]) continue;
    TRY_ASSIGN(test.expected.back(), split(*expected[i], *outputs[i], path));
    if (test.expected.back()->size() != count)
      return error("{}: out{} holds {} samples and the inputs {}", path, i, test.expected.back()->size(), count);
  }
  return test;
}

}  // namespace swoop
