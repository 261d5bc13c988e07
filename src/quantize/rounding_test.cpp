// Weights whose rounding errors cancel out, against weights that are rounded to the nearest code.
#include "quantize/rounding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ops/inferred_for_tests.h"
#include "quantize/quantize.h"
#include "support/parallel.h"

namespace swoop {
namespace {

struct Layer {
  Graph graph;
  ValueId x, weights;
};

ValueId random_constant(Graph& graph, const Shape& shape, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Tensor tensor = make_tensor(DType::F32, shape);
  for (float& w : tensor.as<float>()) w = normal(random);
  return graph.add_constant({DType::F32, shape, {}}, graph.store(to_bytes(tensor, DType::F32)), "w");
}

Layer layer_of(Op op, const Shape& input, const Shape& weights, Attrs attrs = {}) {
  Layer layer;
  layer.x = layer.graph.add_input({DType::F32, input, {}}, "x", {Port::Role::User, "x", {}});
  layer.weights = random_constant(layer.graph, weights, 1);
  layer.graph.add_output(add_inferred(layer.graph, op, {layer.x, layer.weights}, std::move(attrs), "y"),
                         {Port::Role::User, "y", {}});
  return layer;
}

Layer conv(const Shape& input, const Shape& weights, int64_t groups, int64_t stride, int64_t dilation) {
  return layer_of(Op::Conv, input, weights,
                  {{Key::Stride, Ints{stride, stride}},
                   {Key::Padding, Ints{1, 1, 1, 1}},
                   {Key::Dilation, Ints{dilation, dilation}},
                   {Key::Groups, groups}});
}

// Each element is near the one before it, as pixels and their neighbours are. `alike` = 0: independent numbers.
Tensor walk(const Shape& shape, float alike, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Tensor tensor = make_tensor(DType::F32, shape);
  float last = 0;
  for (float& x : tensor.as<float>()) x = last = alike * last + normal(random) + (1 - alike);
  return tensor;
}

QuantizeOptions int16() {
  QuantizeOptions options;
  options.precision = Precision::Int16;
  return options;
}

Roundings watched(const Layer& layer, float alike) {
  Covariances covariances(layer.graph, int16());
  for (uint32_t seed = 10; seed < 14; ++seed)
    covariances.see(layer.x, walk(layer.graph.type(layer.x).shape, alike, seed));
  return roundings_of(covariances);
}

// So few steps that errors are large.
Type type_of(const Layer& layer, double scale = 0.3) {
  const Shape& shape = layer.graph.type(layer.weights).shape;
  const auto channels = static_cast<size_t>(shape[0]);
  return {DType::I8, shape, Quant{std::vector(channels, scale), std::vector<int64_t>(channels, 0), 0, -127, 127}};
}

Buffer codes_of(const Layer& layer, const Rounding& rounding, const Type& type) {
  return round_weights(FloatElements(layer.graph.value(layer.weights)).all(), type, rounding);
}

// The power of the results' error around its mean in each channel, which the bias takes off.
double noise_with(const Layer& layer, const Buffer& codes, float alike) {
  Graph quantized = clone(layer.graph);
  const ValueId weights = quantized.add_constant(type_of(layer), quantized.store(codes), "q");
  quantized.set_input(quantized.node(quantized.value(quantized.outputs()[0]).producer), 1, weights);
  double power = 0;
  for (uint32_t seed = 20; seed < 28; ++seed) {
    const Tensor inputs[] = {walk(layer.graph.type(layer.x).shape, alike, seed)};
    const Result<std::vector<Tensor>> exact = execute(layer.graph, inputs), actual = execute(quantized, inputs);
    EXPECT_TRUE(exact && actual);
    const Shape& shape = (*exact)[0].shape;
    const bool linear = shape.size() == 2;
    const auto channels = static_cast<size_t>(shape[1]);
    const size_t plane = linear ? 1 : static_cast<size_t>(shape[2] * shape[3]);
    const std::span<const float> a = (*exact)[0].as<float>(), b = (*actual)[0].as<float>();
    std::vector<double> sums(channels), squares(channels);
    for (size_t i = 0; i < a.size(); ++i) {
      const double error = static_cast<double>(a[i]) - static_cast<double>(b[i]);
      sums[i / plane % channels] += error;
      squares[i / plane % channels] += error * error;
    }
    const auto each = static_cast<double>(a.size()) / static_cast<double>(channels);
    for (size_t c = 0; c < channels; ++c) power += squares[c] / each - sums[c] / each * sums[c] / each;
  }
  return power;
}

struct Kind {
  const char* name;
  Layer (*make)();
};

class Kinds : public testing::TestWithParam<Kind> {};

TEST_P(Kinds, errors_cancel_out_where_inputs_are_alike) {
  const Layer layer = GetParam().make();
  const Roundings roundings = watched(layer, 0.95f);
  ASSERT_EQ(roundings.size(), 1u);
  const Rounding& rounding = roundings.at(layer.weights);
  const Buffer nearest = codes_of_constant(layer.graph.value(layer.weights), type_of(layer));
  const Buffer careful = codes_of(layer, rounding, type_of(layer));
  EXPECT_LT(noise_with(layer, careful, 0.95f), 0.7 * noise_with(layer, nearest, 0.95f));
}

INSTANTIATE_TEST_SUITE_P(Layers, Kinds,
                         testing::Values(Kind{"linear",
                                              [] {
                                                return layer_of(Op::Linear, {256, 24}, {16, 24});
                                              }},
                                         Kind{"deep_linear",
                                              [] {
                                                return layer_of(Op::Linear, {256, 150}, {33, 150});
                                              }},
                                         Kind{"conv",
                                              [] {
                                                return conv({1, 5, 16, 16}, {17, 5, 3, 3}, 1, 1, 1);
                                              }},
                                         Kind{"stride_and_dilation",
                                              [] {
                                                return conv({2, 3, 17, 15}, {1, 3, 3, 3}, 1, 2, 2);
                                              }},
                                         Kind{"groups",
                                              [] {
                                                return conv({1, 6, 16, 16}, {8, 3, 3, 3}, 2, 1, 1);
                                              }},
                                         Kind{"large_kernel",
                                              [] {
                                                return conv({1, 2, 24, 24}, {4, 2, 11, 11}, 1, 1, 1);
                                              }},
                                         Kind{"depthwise",
                                              [] {
                                                return conv({1, 8, 16, 16}, {8, 1, 3, 3}, 8, 1, 1);
                                              }}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(rounding, independent_inputs_leave_the_nearest_codes) {
  const Layer layer = layer_of(Op::Linear, {256, 24}, {16, 24});
  const Rounding rounding = watched(layer, 0).at(layer.weights);
  const Buffer nearest = codes_of_constant(layer.graph.value(layer.weights), type_of(layer));
  const Buffer careful = codes_of(layer, rounding, type_of(layer));
  size_t others = 0;
  for (size_t i = 0; i < nearest.size(); ++i) others += nearest[i] != careful[i];
  EXPECT_LT(others, nearest.size() / 20);
}

TEST(rounding, one_window_says_nothing) {
  const Layer layer = layer_of(Op::Linear, {1, 24}, {16, 24});
  Covariances covariances(layer.graph, int16());
  covariances.see(layer.x, walk({1, 24}, 0.9f, 1));
  const Rounding rounding = roundings_of(covariances).at(layer.weights);
  EXPECT_EQ(codes_of(layer, rounding, type_of(layer)),
            codes_of_constant(layer.graph.value(layer.weights), type_of(layer)));
}

TEST(rounding, zeros_stay_and_codes_stay_inside) {
  Layer layer = layer_of(Op::Linear, {256, 24}, {16, 24});
  std::vector<float> sparse(16 * 24);
  for (size_t i = 0; i < sparse.size(); i += 3) sparse[i] = static_cast<float>(i % 7) - 3.4f;
  const Rounding rounding = watched(layer, 0.95f).at(layer.weights);
  const Buffer codes = round_weights(sparse, type_of(layer, 0.02), rounding);
  for (size_t i = 0; i < sparse.size(); ++i) {
    if (sparse[i] == 0) {
      EXPECT_EQ(codes[i], std::byte(0));
    }
    EXPECT_NE(codes[i], std::byte(0x80));  // -128
  }
}

TEST(rounding, is_the_same_on_any_number_of_threads) {
  const Layer layer = conv({1, 20, 16, 16}, {17, 20, 3, 3}, 1, 1, 1);
  std::vector<Buffer> codes;
  for (int threads : {1, 2}) {
    set_thread_count(threads);
    codes.push_back(codes_of(layer, watched(layer, 0.95f).at(layer.weights), type_of(layer)));
  }
  set_thread_count(0);
  EXPECT_EQ(codes[0], codes[1]);
}

TEST(rounding, layers_of_eight_bits_are_not_watched) {
  const Layer layer = layer_of(Op::Linear, {256, 24}, {16, 24});
  Covariances covariances(layer.graph, {});
  covariances.see(layer.x, walk({256, 24}, 0.9f, 1));
  EXPECT_TRUE(roundings_of(covariances).empty());
}

}  // namespace
}  // namespace swoop
