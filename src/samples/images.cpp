#include "samples/images.h"

#include <algorithm>
#include <cmath>

#include "samples/inputs.h"

namespace swoop {

namespace {

// An output of a resampled axis: the weights of some consecutive inputs.
struct Taps {
  int64_t first = 0;
  std::vector<float> weights;
};

// Outputs skip .. skip + count - 1 of an axis that is scaled from `from` elements to `to`. The weights are a triangle
// as wide as an output reaches on each side, at least one input: bilinear where the image grows, without aliases where
// it shrinks. As PIL's BILINEAR and PyTorch's antialias=True.
std::vector<Taps> scaled_axis(int64_t from, int64_t to, int64_t skip, int64_t count) {
  double step = static_cast<double>(from) / static_cast<double>(to);
  double reach = std::max(1.0, step);
  std::vector<Taps> axis;
  for (int64_t i = skip; i < skip + count; ++i) {
    double centre = (static_cast<double>(i) + 0.5) * step;
    auto first = std::max<int64_t>(0, static_cast<int64_t>(std::floor(centre - reach + 0.5)));
    auto last = std::min<int64_t>(from, static_cast<int64_t>(std::floor(centre + reach + 0.5)));
    auto weight = [&](int64_t j) {
      return std::max(0.0, 1 - std::fabs(static_cast<double>(j) + 0.5 - centre) / reach);
    };
    double sum = 0;
    for (int64_t j = first; j < last; ++j) sum += weight(j);
    Taps& taps = axis.emplace_back();
    taps.first = first;
    for (int64_t j = first; j < last; ++j) taps.weights.push_back(static_cast<float>(weight(j) / sum));
  }
  return axis;
}

Tensor resample(const Tensor& x, size_t axis, const std::vector<Taps>& outputs) {
  Shape shape = x.shape;
  auto from = static_cast<size_t>(shape[axis]);
  shape[axis] = static_cast<int64_t>(outputs.size());
  size_t inner = 1;
  for (size_t d = axis + 1; d < shape.size(); ++d) inner *= static_cast<size_t>(shape[d]);
  size_t outer = x.as<float>().size() / (from * inner);
  Tensor result = make_tensor(DType::F32, std::move(shape));
  float* to = result.as<float>().data();
  for (size_t o = 0; o < outer; ++o) {
    const float* slice = x.as<float>().data() + o * from * inner;
    for (const Taps& taps : outputs) {
      std::fill(to, to + inner, 0.0f);
      const float* row = slice + static_cast<size_t>(taps.first) * inner;
      for (float weight : taps.weights) {
        for (size_t i = 0; i < inner; ++i) to[i] += weight * row[i];
        row += inner;
      }
      to += inner;
    }
  }
  return result;
}

// What the crop leaves out on the left or at the top: half the surplus, a half rounded to even as Python does.
int64_t margin(int64_t surplus) { return static_cast<int64_t>(std::nearbyint(static_cast<double>(surplus) / 2)); }

bool ends_with(const std::string& path, std::string_view end) {
  if (path.size() < end.size()) return false;
  return std::equal(end.rbegin(), end.rend(), path.rbegin(),
                    [](char a, char b) { return a == std::tolower(static_cast<unsigned char>(b)); });
}

}  // namespace

bool is_image(const std::string& path) {
  for (std::string_view end : {".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".pgm"})
    if (ends_with(path, end)) return true;
  return false;
}

Tensor cover(const Tensor& image, int64_t height, int64_t width) {
  int64_t from_height = image.shape[1], from_width = image.shape[2];
  bool taller = from_height * width >= height * from_width;  // than the input, at the same width
  int64_t full_height = taller ? width * from_height / from_width : height;
  int64_t full_width = taller ? width : height * from_width / from_height;
  std::vector<Taps> rows = scaled_axis(from_height, full_height, margin(full_height - height), height);
  std::vector<Taps> columns = scaled_axis(from_width, full_width, margin(full_width - width), width);
  // The axis that shrinks more comes first: what is in between stays small, whatever the shape of the image.
  return taller ? resample(resample(image, 1, rows), 2, columns) : resample(resample(image, 2, columns), 1, rows);
}

Result<Sample> sample_from_image(Bytes bytes, const std::string& path, const Graph& graph,
                                 const SampleOptions& options) {
  TRY_ASSIGN(Input input, single_input(graph, path));
  const Shape& shape = input.type->shape;
  size_t channel = shape.size() == 4 ? 1 : 0;
  bool fits = is_float(input.type->dtype) && (shape.size() == 3 || (shape.size() == 4 && shape[0] == 1)) &&
              (shape[channel] == 1 || shape[channel] == 3) && element_count(shape) > 0;
  if (!fits)
    return error("{}: an image cannot be given to input {} {}; images fit [1,3,H,W] and [1,1,H,W]", path, input.name,
                 to_text(*input.type));
  auto channels = static_cast<size_t>(shape[channel]);
  if ((options.mean.size() != 1 && options.mean.size() != channels) ||
      (options.std.size() != 1 && options.std.size() != channels))
    return error("the image mean and std need one value, or one for each of the {} channels", channels);
  if (std::any_of(options.std.begin(), options.std.end(), [](double s) { return !(s > 0); }))
    return error("the image std must be above zero");
  TRY_ASSIGN(Tensor image, decode_image(bytes, path, shape[channel]));
  image = cover(image, shape[channel + 1], shape[channel + 2]);
  std::span<float> x = image.as<float>();
  for (size_t c = 0; c < channels; ++c)
    for (size_t i = 0; i < x.size() / channels; ++i) {
      float& v = x[c * (x.size() / channels) + i];
      v = (v - static_cast<float>(options.mean[c % options.mean.size()])) /
          static_cast<float>(options.std[c % options.std.size()]);
    }
  image.shape = shape;
  Sample sample = blank_sample(graph);
  sample[input.index] = std::move(image);
  return sample;
}

}  // namespace swoop
