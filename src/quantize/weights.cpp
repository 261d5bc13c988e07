#include "quantize/weights.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

#include "quantize/borders.h"
#include "quantize/choices.h"
#include "quantize/known_constants.h"
#include "quantize/layers.h"
#include "support/check.h"
#include "support/clones.h"

namespace swoop {

namespace {

constexpr int64_t kBiasLimit = 2147483647;  // as PT2E writes biases: -(2^31 - 1) .. 2^31 - 1
// A weight scale so small that a step of the accumulator is below 2^-22 of the result's step wastes range that the bias
// may need.
constexpr double kFinestStep = 1.0 / (1 << 22);

// The axis of the weights along which each index is one output channel; -1: there is none.
int channel_axis(const Node& node, const Shape& weight) {
  if (node.op != Op::ConvTranspose) return 0;
  int64_t groups = node.integer(Key::Groups);
  if (groups == 1) return 1;
  return weight[1] == 1 && weight[0] == groups ? 0 : -1;
}

float largest_of(std::span<const float> row) {
  constexpr size_t kLanes = 16;  // side by side, in vector registers
  float lanes[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= row.size(); i += kLanes)
    for (size_t j = 0; j < kLanes; ++j) lanes[j] = std::max(lanes[j], std::fabs(row[i + j]));
  for (; i < row.size(); ++i) lanes[0] = std::max(lanes[0], std::fabs(row[i]));
  return *std::max_element(lanes, lanes + kLanes);
}

// The largest weight of each output channel, without its sign.
std::vector<float> largest_of_outputs(std::span<const float> weights, const WeightIndex& index) {
  std::vector<float> largest(static_cast<size_t>(index.outputs));
  if (index.transposed) {
    index.each(
        [&](size_t i, size_t output, size_t) { largest[output] = std::max(largest[output], std::fabs(weights[i])); });
    return largest;
  }
  const size_t row = largest.empty() ? 0 : weights.size() / largest.size();
  for (size_t output = 0; output < largest.size(); ++output)
    largest[output] = largest_of(weights.subspan(output * row, row));
  return largest;
}

double as_float(double x) { return static_cast<double>(static_cast<float>(x)); }

// What the squares of the errors add up to with so many steps on each side.
SWOOP_CLONES double rounding_error(const float* row, size_t count, float step, float most) {
  constexpr size_t kLanes = 16;
  const float inverse = 1 / step;
  float lanes[kLanes] = {};
  const auto add = [&](float w, size_t lane) {
    float code = std::rint(w * inverse);
    code = code < -most ? -most : code;
    code = code > most ? most : code;
    lanes[lane] += (w - code * step) * (w - code * step);
  };
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (size_t j = 0; j < kLanes; ++j) add(row[i + j], j);
  for (size_t j = 0; i < count; ++i, ++j) add(row[i], j);
  return static_cast<double>(std::accumulate(lanes, lanes + kLanes, 0.0f));
}

// Four bits have few codes: where the largest weights of a channel are cut off, all others have finer steps. The end
// with the least error, in sixteenths of the largest.
float end_of_few_codes(std::span<const float> row, float largest) {
  constexpr float kParts = 16, kMostCode = 7;
  float best_end = largest;
  double best = std::numeric_limits<double>::infinity();
  for (float part = kParts; part > kParts / 4 && largest > 0; --part) {
    const float end = largest * part / kParts;
    const double error = rounding_error(row.data(), row.size(), end / kMostCode, kMostCode);
    if (error < best) std::tie(best, best_end) = std::pair(error, end);
  }
  return best_end;
}

// Where the codes of each output channel end.
std::vector<float> ends_of_outputs(ValueId id, std::span<const float> weights, const WeightIndex& index, int bits,
                                   KnownConstants* known) {
  const std::pair question(KnownConstants::Outputs(index.transposed, index.groups), bits);
  if (auto ends = known ? known->ends.find(id, question) : std::nullopt) return std::move(*ends);
  std::vector<float> ends = largest_of_outputs(weights, index);
  const size_t row = ends.empty() ? 0 : weights.size() / ends.size();
  if (bits == 4 && !index.transposed)
    for (size_t output = 0; output < ends.size(); ++output)
      ends[output] = end_of_few_codes(weights.subspan(output * row, row), ends[output]);
  if (known) known->ends.keep(id, question, ends);
  return ends;
}

// The weights' type: the end of a channel is `limit` steps, unless the bias needs larger steps.
Type weight_type(const Node& layer, const Shape& shape, std::vector<float> ends, const Type& x, const Type& y,
                 std::span<const double> bias, bool per_channel, int bits, double least_step) {
  int axis = per_channel ? channel_axis(layer, shape) : -1;
  int64_t limit = bits == 4 ? 7 : 127;
  if (axis < 0) ends = {*std::ranges::max_element(ends)};
  std::vector<double> scales;
  for (float most : ends) scales.push_back(static_cast<double>(most) / static_cast<double>(limit));
  for (size_t c = 0; c < bias.size(); ++c) {  // a bias must fit 31 bits in steps of s_x * s_w
    double& scale = scales[axis < 0 ? 0 : c];
    scale = std::max({scale, y.scale() / x.scale() * kFinestStep, std::fabs(bias[c]) / (x.scale() * (1 << 30)), 1e-20});
  }
  for (double& scale : scales) scale = as_float(bits == 4 ? scale : coarser_step(scale, least_step));
  return {DType::I8, shape, Quant{scales, std::vector<int64_t>(scales.size(), 0), axis, -limit, limit}};
}

}  // namespace

LayerConstants choose_layer_constants(const Graph& graph, const Node& layer, const QuantizeOptions& options,
                                      double least_step, KnownConstants* known) {
  const Value& weights = graph.value(layer.inputs[1]);
  WeightIndex index(layer, weights.type.shape);
  bool has_bias = layer.inputs.size() > 2 && layer.inputs[2] != kNone;
  std::vector<double> bias(static_cast<size_t>(index.outputs));
  for (size_t c = 0; has_bias && c < bias.size(); ++c)
    bias[c] = real_at(graph.value(layer.inputs[2]), static_cast<int64_t>(c));

  LayerConstants chosen{weights.type, {}};
  if (weights.constant && is_plain_float(graph, layer.inputs[1])) {
    const int bits = choose(graph, layer, options).weight_bits;
    chosen.weight = weight_type(
        layer, weights.type.shape, ends_of_outputs(layer.inputs[1], FloatElements(weights).all(), index, bits, known),
        graph.type(layer.inputs[0]), graph.type(layer.outputs[0]), bias, options.per_channel, bits, least_step);
  }
  if (has_bias) chosen.bias = std::move(bias);
  return chosen;
}

std::vector<double> mean_errors(const Node& layer, const Value& weights, const Value& codes,
                                const ChannelStatistics& means) {
  const WeightIndex index(layer, weights.type.shape);
  CHECK(means.sum.size() == static_cast<size_t>(index.inputs()), "{} means for {} channels", means.sum.size(),
        index.inputs());
  std::vector<double> mean;
  for (double sum : means.sum) mean.push_back(sum / static_cast<double>(means.count));
  const FloatElements exact(weights);
  const std::span<const float> w = exact.all();
  const Quant& quant = *codes.type.quant;
  std::vector<double> errors(static_cast<size_t>(index.outputs));
  const auto scale_of = [&](size_t output) { return quant.scale[quant.per_channel() ? output : 0]; };
  const auto error_at = [&](size_t i, double scale, size_t input) {
    return (static_cast<double>(w[i]) - static_cast<int8_t>(codes.data[i]) * scale) * mean[input];
  };
  if (index.transposed) {
    index.each([&](size_t i, size_t output, size_t input) { errors[output] += error_at(i, scale_of(output), input); });
    return errors;
  }
  // Several rows side by side: a sum has to wait for the one before, but those of other rows do not.
  constexpr size_t kRows = 4;
  const auto rows = errors.size(), columns = static_cast<size_t>(index.columns),
             kernel = static_cast<size_t>(index.kernel);
  const auto add_rows = [&](size_t first, auto count) {
    double sums[kRows] = {}, scales[kRows] = {};
    for (size_t r = 0; r < count; ++r) scales[r] = scale_of(first + r);
    const size_t input = first / (rows / static_cast<size_t>(index.groups)) * columns;
    for (size_t column = 0, i = first * columns * kernel; column < columns; ++column)
      for (size_t k = 0; k < kernel; ++k, ++i)
        for (size_t r = 0; r < count; ++r) sums[r] += error_at(i + r * columns * kernel, scales[r], input + column);
    for (size_t r = 0; r < count; ++r) errors[first + r] = sums[r];
  };
  const bool grouped = index.groups > 1;  // then rows have other inputs than their neighbours
  size_t row = 0;
  for (; !grouped && row + kRows <= rows; row += kRows) add_rows(row, std::integral_constant<size_t, kRows>());
  for (; row < rows; ++row) add_rows(row, std::integral_constant<size_t, 1>());
  return errors;
}

Type bias_type(const Type& input, const Type& weight, size_t channels) {
  Quant quant{{}, {}, weight.quant->per_channel() ? 0 : -1, -kBiasLimit, kBiasLimit};
  for (double scale : weight.quant->scale) {
    quant.scale.push_back(as_float(input.scale() * scale));
    quant.zero_point.push_back(0);
  }
  return {DType::I32, {static_cast<int64_t>(channels)}, quant};
}

Buffer bias_codes(std::span<const double> bias, const Type& type) {
  Buffer codes;
  constexpr auto kLimit = static_cast<double>(kBiasLimit);
  for (size_t c = 0; c < bias.size(); ++c) {
    double code = std::nearbyint(bias[c] / type.quant->scale[type.quant->per_channel() ? c : 0]);
    append(codes, static_cast<int32_t>(std::clamp(code, -kLimit, kLimit)));
  }
  return codes;
}

}  // namespace swoop
