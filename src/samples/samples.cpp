#include "samples/samples.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "samples/arrays.h"
#include "samples/images.h"
#include "samples/inputs.h"
#include "samples/random.h"
#include "support/file.h"

namespace swoop {

namespace {

Result<std::vector<Sample>> read_samples(const std::string& path, const Graph& graph, const SampleOptions& options) {
  TRY_ASSIGN(auto file, MappedFile::open(path));
  Bytes bytes = file->bytes();
  if (is_image(path)) {
    TRY_ASSIGN(Sample sample, sample_from_image(bytes, path, graph, options));
    return std::vector<Sample>{std::move(sample)};
  }
  if (text_of(bytes).starts_with("PK")) {
    Result<std::vector<NamedArray>> arrays = read_npz(bytes);
    if (!arrays) return error("{}: {}", path, arrays.error().message);
    return samples_from(*arrays, path, graph);
  }
  Result<NpyArray> array = read_npy(bytes);
  if (!array) return error("{}: {}", path, array.error().message);
  TRY_ASSIGN(Input input, single_input(graph, path));
  return samples_from({{input.name, std::move(*array)}}, path, graph);
}

Result<std::vector<std::string>> files_in(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(folder, code)) {
    std::string file = entry.path().string();
    if (entry.path().extension() == ".npz" || entry.path().extension() == ".npy" || is_image(file))
      files.push_back(file);
  }
  if (files.empty()) return error("{}: there are no .npz, .npy or image files in this folder", folder);
  std::sort(files.begin(), files.end());
  return files;
}

Result<uint64_t> parse_seed(std::string_view text) {
  uint64_t seed = 0;
  auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (fault != std::errc() || end != text.data() + text.size())
    return error("random:{} needs a whole number as its seed, as in random:1", text);
  return seed;
}

}  // namespace

Result<Samples> load_samples(const std::string& path, const Graph& graph, const SampleOptions& options) {
  constexpr std::string_view kRandom = "random:";
  Samples samples;
  samples.source = path;
  if (path.starts_with(kRandom)) {
    TRY_ASSIGN(uint64_t seed, parse_seed(std::string_view(path).substr(kRandom.size())));
    samples.random = true;
    samples.inputs = random_samples(seed, graph);
    return samples;
  }
  std::vector<std::string> files = {path};
  if (std::error_code code; std::filesystem::is_directory(path, code)) {
    TRY_ASSIGN(files, files_in(path));
  }
  for (const std::string& file : files) {
    TRY_ASSIGN(std::vector<Sample> more, read_samples(file, graph, options));
    std::move(more.begin(), more.end(), std::back_inserter(samples.inputs));
  }
  if (samples.inputs.empty()) return error("{}: there are no samples in it", path);
  return samples;
}

void carry_state(const Graph& graph, std::span<const Tensor> outputs, Sample& inputs) {
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (graph.output_port(o).role != Port::Role::State) continue;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (graph.input_port(i).role == Port::Role::State && graph.input_port(i).name == graph.output_port(o).name)
        inputs[i] = outputs[o];
  }
}

}  // namespace swoop
