// What the quantizer makes of small graphs: types, borders, and the faults of its peer that must not exist here.
#include "quantize/quantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "accuracy/accuracy.h"
#include "ops/inferred_for_tests.h"
#include "quantize/choices.h"
#include "support/parallel.h"

namespace swoop {
namespace {

Type floats(Shape shape) { return {DType::F32, std::move(shape), {}}; }

// A graph that is written down node by node.
struct Net {
  Graph graph;
  std::mt19937 random{1};

  ValueId input(Shape shape, std::string name = "x") {
    return graph.add_input(floats(std::move(shape)), name, {Port::Role::User, name, {}});
  }
  ValueId constant(Shape shape, std::vector<float> values, std::string name = "c") {
    Bytes bytes = std::as_bytes(std::span(values));
    return graph.add_constant(floats(std::move(shape)), graph.store(Buffer(bytes.begin(), bytes.end())), name);
  }
  ValueId noise(Shape shape, float size = 1, std::string name = "w") {
    std::vector<float> values(static_cast<size_t>(element_count(shape)));
    std::normal_distribution<float> normal(0, size);
    for (float& x : values) x = normal(random);
    return constant(std::move(shape), std::move(values), name);
  }
  ValueId node(Op op, std::vector<ValueId> inputs, Attrs attrs, std::string name) {
    return add_inferred(graph, op, std::move(inputs), std::move(attrs), std::move(name));
  }
  ValueId conv(ValueId x, int64_t outputs, std::string name, Attrs more = {}) {
    Attrs attrs{{Key::Stride, Ints{1, 1}},
                {Key::Padding, Ints{1, 1, 1, 1}},
                {Key::Dilation, Ints{1, 1}},
                {Key::Groups, int64_t{1}}};
    for (const auto& [key, value] : more) attrs.set(key, value);
    int64_t channels = graph.type(x).shape[1];
    return node(Op::Conv, {x, noise({outputs, channels, 3, 3}, 0.3f), noise({outputs}, 0.1f, "b")}, attrs,
                std::move(name));
  }
  ValueId unary(ValueId x, std::string fn) { return node(Op::Unary, {x}, {{Key::Fn, fn}}, fn); }

  Samples samples(size_t count = 4, float size = 1, float shift = 0) {
    Samples made;
    std::normal_distribution<float> normal(shift, size);
    for (size_t s = 0; s < count; ++s) {
      std::vector<Tensor> sample;
      for (ValueId id : graph.inputs()) {
        Tensor tensor = make_tensor(DType::F32, graph.type(id).shape);
        for (float& x : tensor.as<float>()) x = normal(random);
        sample.push_back(std::move(tensor));
      }
      made.inputs.push_back(std::move(sample));
    }
    return made;
  }
};

struct Outcome {
  double db = 0;
  QuantizeReport report;
  std::vector<std::vector<Tensor>> outputs;
};

Outcome run(Net& net, const Samples& samples, const QuantizeOptions& options = {}) {
  Graph reference = clone(net.graph);
  EXPECT_TRUE(same(reference, net.graph));
  Result<QuantizeReport> report = quantize(net.graph, samples, options);
  EXPECT_TRUE(report) << report.error().message;
  EXPECT_EQ(verify(net.graph), std::nullopt);
  Outcome outcome;
  if (!report) return outcome;
  outcome.report = *report;
  for (const std::vector<Tensor>& sample : samples.inputs) {
    Result<std::vector<Tensor>> exact = execute(reference, sample);
    Result<std::vector<Tensor>> actual = execute(net.graph, sample);
    EXPECT_TRUE(exact && actual);
    outcome.db += sqnr_db(*exact, *actual) / static_cast<double>(samples.inputs.size());
    outcome.outputs.push_back(std::move(*actual));
  }
  return outcome;
}

ValueId find(const Graph& graph, std::string_view name) {
  for (ValueId id = 0; id < graph.value_slots(); ++id)
    if (graph.value(id).name == name) return id;
  ADD_FAILURE() << "no value " << name << " in\n" << print(graph);
  return 0;
}

const Type& type_of(const Graph& graph, std::string_view name) { return graph.type(find(graph, name)); }

TEST(Quantize, conv_gets_quantized_operands_and_borders) {
  Net net;
  net.graph.add_output(net.conv(net.input({1, 3, 8, 8}), 4, "y"));
  Outcome outcome = run(net, net.samples());
  EXPECT_GT(outcome.db, 29);
  const Graph& graph = net.graph;
  EXPECT_EQ(graph.op_count(Op::Quantize), 1u);
  EXPECT_EQ(graph.op_count(Op::Dequantize), 1u);
  EXPECT_EQ(graph.type(graph.inputs()[0]).dtype, DType::F32);
  EXPECT_EQ(graph.type(graph.outputs()[0]).dtype, DType::F32);
  const Node& conv = *graph.producer(graph.producer(graph.outputs()[0])->inputs[0]);
  const Type& x = graph.type(conv.inputs[0]);
  const Type& w = graph.type(conv.inputs[1]);
  const Type& b = graph.type(conv.inputs[2]);
  EXPECT_EQ(x.dtype, DType::I8);
  EXPECT_EQ(w.quant->axis, 0);
  EXPECT_EQ(w.quant->qmin, -127);
  EXPECT_EQ(b.dtype, DType::I32);
  for (size_t c = 0; c < 4; ++c)
    EXPECT_EQ(b.quant->scale[c], static_cast<double>(static_cast<float>(x.scale() * w.quant->scale[c])));
}

// The means that correct its bias are along the axis that the layer itself reads.
TEST(Quantize, channels_of_one_layer_may_be_positions_of_another) {
  std::vector<Buffer> biases;
  for (bool beside_a_conv : {false, true}) {
    Net net;
    ValueId x = net.input({1, 3, 8, 8});
    net.graph.add_output(net.node(Op::Linear, {x, net.noise({5, 8}), net.noise({5}, 0.1f, "b")}, {}, "y"));
    Samples samples = net.samples(4, 1, 3);
    samples.random = true;  // no sample is left out, so the output beside it has no part in the ranges
    if (beside_a_conv) net.graph.add_output(net.conv(x, 4, "z"));
    EXPECT_EQ(run(net, samples).report.bias_corrected, beside_a_conv ? 2u : 1u);
    for (NodeId id : net.graph.order()) {
      const Node& node = net.graph.node(id);
      if (node.op != Op::Linear) continue;
      Bytes codes = net.graph.value(node.inputs[2]).data;
      biases.emplace_back(codes.begin(), codes.end());
    }
  }
  ASSERT_EQ(biases.size(), 2u);
  EXPECT_EQ(biases[0], biases[1]);
}

TEST(Quantize, relu_uses_all_codes_and_zero_is_exact) {
  Net net;
  net.graph.add_output(net.conv(net.input({1, 3, 8, 8}), 4, "y", {{Key::ActMin, 0.0}}));
  Outcome outcome = run(net, net.samples());
  EXPECT_EQ(type_of(net.graph, "y").zero_point(), -128);
  for (const std::vector<Tensor>& outputs : outcome.outputs)
    for (float y : outputs[0].as<float>()) EXPECT_GE(y, 0.0f);
}

// Peer: the relu of cat([relu(conv(x)), x]) vanished because its output shared a signed observer.
TEST(Quantize, relu_survives_a_concat_with_a_signed_value) {
  Net net;
  ValueId x = net.input({1, 4, 8, 8});
  ValueId y = net.conv(x, 4, "y", {{Key::ActMin, 0.0}});
  net.graph.add_output(net.node(Op::Concat, {y, x}, {{Key::Axis, int64_t{1}}}, "cat"));
  Outcome outcome = run(net, net.samples());
  EXPECT_GT(outcome.db, 35);
  for (const std::vector<Tensor>& outputs : outcome.outputs) {
    std::span<const float> out = outputs[0].as<float>();
    for (size_t i = 0; i < out.size() / 2; ++i) EXPECT_GE(out[i], 0.0f);
  }
  // Nothing else reads y, so it takes the concat's type and is rounded once.
  EXPECT_EQ(type_of(net.graph, "y").quant, type_of(net.graph, "cat").quant);
}

TEST(Quantize, concat_of_different_ranges_keeps_the_fine_one_for_its_other_reader) {
  Net net;
  ValueId x = net.input({1, 4, 8, 8});
  ValueId fine = net.unary(x, "sigmoid");
  ValueId coarse = net.node(Op::Mul, {x, net.constant({1}, {10})}, {}, "coarse");
  net.graph.add_output(net.unary(net.node(Op::Concat, {fine, coarse}, {{Key::Axis, int64_t{1}}}, "cat"), "abs"));
  net.graph.add_output(net.unary(fine, "tanh"));
  run(net, net.samples());
  EXPECT_LT(type_of(net.graph, "sigmoid").scale() * 20, type_of(net.graph, "cat").scale());
  EXPECT_EQ(type_of(net.graph, "coarse").quant, type_of(net.graph, "cat").quant);
}

// Three steps with the same weights on operands of one size, and a fourth on one that is ten times larger.
TEST(Quantize, steps_with_the_same_weights_have_one_set_of_scales) {
  Net net;
  ValueId x = net.input({1, 8});
  ValueId weights = net.noise({8, 8}, 0.3f), bias = net.noise({8}, 0.1f, "b");
  auto step = [&](const std::string& fn, float size) {
    ValueId operand = net.node(Op::Mul, {net.unary(x, fn), net.constant({1}, {size})}, {}, "in_" + fn);
    net.graph.add_output(net.unary(net.node(Op::Linear, {operand, weights, bias}, {}, "out_" + fn), "tanh"));
  };
  step("sin", 1);
  step("tanh", 1);
  step("erf", 1);
  step("cos", 10);
  EXPECT_GT(run(net, net.samples()).db, 30);
  const Graph& graph = net.graph;
  const Node& first = *graph.producer(find(graph, "out_sin"));
  for (const char* name : {"out_tanh", "out_erf"}) {
    const Node& layer = *graph.producer(find(graph, name));
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(graph.type(layer.inputs[i]), graph.type(first.inputs[i])) << name << i;
    EXPECT_EQ(graph.type(layer.outputs[0]), graph.type(first.outputs[0])) << name;
    EXPECT_TRUE(std::ranges::equal(graph.value(layer.inputs[2]).data, graph.value(first.inputs[2]).data))
        << name << ": the bias is not corrected in the same way";
  }
  EXPECT_GT(type_of(net.graph, "in_cos").scale(), 5 * type_of(net.graph, "in_sin").scale());
}

// conv -> bilinear resize -> concat with another value, of a wider range by default, whose type the resize takes.
struct Upsampled : Net {
  ValueId y;
  explicit Upsampled(bool shared, float factor = 9) {
    ValueId x = input({1, 4, 4, 4});
    y = conv(x, 4, "y", {{Key::ActMin, 0.0}});
    auto twice = [&](ValueId v, std::string mode, std::string name) {
      return node(
          Op::Resize, {v},
          {{Key::Size, Ints{8, 8}}, {Key::Mode, mode}, {Key::AlignCorners, false}, {Key::Scales, Doubles{0, 0}}}, name);
    };
    ValueId wide = node(Op::Mul, {twice(x, "nearest", "near"), constant({1}, {factor})}, {}, "wide");
    ValueId cat = node(Op::Concat, {twice(y, "bilinear", "up"), wide}, {{Key::Axis, int64_t{1}}}, "cat");
    graph.add_output(unary(cat, "abs"));
    if (shared) graph.add_output(unary(y, "tanh"));
  }
};

TEST(Quantize, a_bilinear_resize_is_between_scales_that_differ_by_a_power_of_two) {
  Upsampled net(false);
  run(net, net.samples());
  EXPECT_EQ(type_of(net.graph, "up").quant, type_of(net.graph, "cat").quant);
  double ratio = type_of(net.graph, "cat").scale() / type_of(net.graph, "y").scale();
  EXPECT_GE(ratio, 2);
  EXPECT_EQ(std::exp2(std::round(std::log2(ratio))), ratio);
  EXPECT_EQ(type_of(net.graph, "y").zero_point(), -128);
}

TEST(Quantize, a_bilinear_resize_cuts_off_before_what_it_would_cut_off_after) {
  const auto ratio = [](bool shared, float factor) {
    Upsampled net(shared, factor);
    run(net, net.samples());
    return type_of(net.graph, "cat").scale() / type_of(net.graph, "y").scale();
  };
  EXPECT_GT(ratio(true, 0.5F), 0.9);
  EXPECT_LT(ratio(true, 0.5F), 1);
  EXPECT_EQ(ratio(false, 0.5F), 1);
  EXPECT_LT(ratio(false, 0.2F), 0.9);  // that would be too much
}

TEST(Quantize, a_bilinear_resize_leaves_its_operand_to_other_readers) {
  Upsampled net(true);
  run(net, net.samples());
  double ratio = type_of(net.graph, "cat").scale() / type_of(net.graph, "y").scale();
  EXPECT_NE(std::exp2(std::round(std::log2(ratio))), ratio);
}

TEST(Quantize, every_movement_shares_its_operands_type) {
  Net net;
  ValueId x = net.unary(net.input({1, 4, 6, 8}), "sigmoid");
  std::vector<ValueId> results = {
      net.node(Op::Reshape, {x}, {{Key::Shape, Ints{4, 48}}}, "m"),
      net.node(Op::Transpose, {x}, {{Key::Perm, Ints{0, 2, 3, 1}}}, "m"),
      net.node(Op::Slice, {x},
               {{Key::Axis, int64_t{1}}, {Key::Start, int64_t{0}}, {Key::End, int64_t{2}}, {Key::Step, int64_t{1}}},
               "m"),
      net.node(Op::Pad, {x},
               {{Key::Padding, Ints{0, 0, 0, 0, 1, 1, 1, 1}}, {Key::Mode, std::string("constant")}, {Key::Value, 0.0}},
               "m"),
      net.node(Op::Repeat, {x}, {{Key::Multiples, Ints{2, 1, 1, 1}}}, "m"),
      net.node(Op::Flip, {x}, {{Key::Axes, Ints{3}}}, "m"),
      net.node(Op::ReduceMax, {x}, {{Key::Axes, Ints{3}}, {Key::Keepdim, true}}, "m"),
      net.node(Op::MaxPool, {x},
               {{Key::Kernel, Ints{2, 2}},
                {Key::Stride, Ints{2, 2}},
                {Key::Padding, Ints{0, 0, 0, 0}},
                {Key::Dilation, Ints{1, 1}}},
               "m")};
  for (ValueId result : results) net.graph.add_output(result);
  run(net, net.samples());
  for (ValueId result : results)
    EXPECT_EQ(net.graph.type(result).quant, net.graph.type(x).quant) << net.graph.value(result).name;
}

TEST(Quantize, a_pad_value_outside_the_data_is_representable) {
  Net net;
  ValueId x = net.unary(net.input({1, 1, 8, 8}), "sigmoid");
  net.graph.add_output(net.node(
      Op::Pad, {x},
      {{Key::Padding, Ints{0, 0, 0, 0, 1, 1, 1, 1}}, {Key::Mode, std::string("constant")}, {Key::Value, -5.0}}, "pad"));
  Outcome outcome = run(net, net.samples());
  EXPECT_NEAR(outcome.outputs[0][0].as<float>()[0], -5.0f, 0.03f);
}

// Peer: mean = sum * quantized(1/N) drifted to zero over large planes.
TEST(Quantize, mean_over_a_large_plane_does_not_drift) {
  Net net;
  net.graph.add_output(
      net.node(Op::Mean, {net.input({1, 2, 224, 224})}, {{Key::Axes, Ints{2, 3}}, {Key::Keepdim, false}}, "mean"));
  Outcome outcome = run(net, net.samples(2, 1, 0.5f));
  EXPECT_GT(outcome.db, 40);
}

// Peer: 19.8 dB, because a pool's result had to share the range of its input.
TEST(Quantize, an_average_pool_has_its_own_range) {
  Net net;
  net.graph.add_output(net.node(Op::AdaptiveAvgPool, {net.input({1, 8, 16, 16})}, {{Key::Size, Ints{1, 1}}}, "pool"));
  Outcome outcome = run(net, net.samples());
  EXPECT_GT(outcome.db, 35);
  EXPECT_LT(type_of(net.graph, "pool").scale() * 3, type_of(net.graph, "x_q").scale());
}

// Peer: -inf became -256 and took the range of the scores (24 dB against 37.7 unmasked).
TEST(Quantize, a_causal_mask_leaves_the_scores_their_range) {
  for (float masked : {-INFINITY, -3.4028235e38f, -1e9f, -1e4f}) {
    Net net;
    ValueId x = net.input({1, 2, 16, 16});
    std::vector<float> mask(16 * 16);
    for (size_t i = 0; i < 16; ++i)
      for (size_t j = i + 1; j < 16; ++j) mask[i * 16 + j] = masked;
    ValueId sum = net.node(Op::Add, {x, net.constant({16, 16}, mask, "mask")}, {}, "masked");
    net.graph.add_output(net.node(Op::Softmax, {sum}, {{Key::Axis, int64_t{3}}}, "softmax"));
    Outcome outcome = run(net, net.samples(4, 2));
    EXPECT_GT(outcome.db, 33) << masked;
    std::span<const float> out = outcome.outputs[0][0].as<float>();
    EXPECT_LT(out[1], 1e-2f) << "the first row sees only itself";
  }
}

// Looked at as a mask, because it is added to scores: a number without dims.
TEST(Quantize, a_scalar_that_is_added_to_scores_has_a_range) {
  Net net;
  ValueId sum = net.node(Op::Add, {net.input({2, 4}), net.input({}, "s")}, {}, "sum");
  net.graph.add_output(net.node(Op::Softmax, {sum}, {{Key::Axis, int64_t{1}}}, "softmax"));
  EXPECT_GT(run(net, net.samples()).db, 30);
}

TEST(Quantize, attention_measures_the_scores_that_its_mask_leaves) {
  Net net;
  Buffer allowed;
  for (size_t i = 0; i < 8; ++i)
    for (size_t j = 0; j < 8; ++j) allowed.push_back(std::byte{j <= i});
  ValueId mask = net.graph.add_constant({DType::Bool, {8, 8}, {}}, net.graph.store(std::move(allowed)), "mask");
  ValueId q = net.input({1, 2, 8, 4}, "q"), k = net.input({1, 2, 8, 4}, "k"), v = net.input({1, 2, 8, 4}, "v");
  net.graph.add_output(
      net.node(Op::Attention, {q, k, v, mask}, {{Key::Scale, 0.5}, {Key::Causal, false}}, "attention"));
  Outcome outcome = run(net, net.samples());
  EXPECT_GT(outcome.db, 31);
  const Node& node = *net.graph.producer(net.graph.producer(net.graph.outputs()[0])->inputs[0]);
  const Doubles& inner = node.doubles(Key::Inner);
  ASSERT_EQ(inner.size(), 2u);
  EXPECT_LT(inner[0], 0);
  EXPECT_GT(inner[1], 0);
  EXPECT_LT(inner[1], 20) << "unmasked, scaled scores";
}

// Peer: eps became a code of 2^-16 steps. Here the composite stays whole, keeps eps in real numbers and says which
// variances occur.
TEST(Quantize, layer_norm_keeps_eps_and_measures_its_variance) {
  Net net;
  ValueId x = net.input({1, 20, 32});
  Attrs attrs{{Key::Axis, int64_t{2}}, {Key::Eps, 1e-5}};
  net.graph.add_output(
      net.node(Op::LayerNorm, {x, net.noise({32}, 1, "gamma"), net.noise({32}, 1, "beta")}, attrs, "norm"));
  Outcome outcome = run(net, net.samples(4, 0.1f));
  EXPECT_GT(outcome.db, 35);
  const Node& node = *net.graph.producer(net.graph.producer(net.graph.outputs()[0])->inputs[0]);
  EXPECT_EQ(node.real(Key::Eps), 1e-5);
  EXPECT_NEAR(node.doubles(Key::Inner)[0], 0.006, 0.005);
  EXPECT_NEAR(node.doubles(Key::Inner)[1], 0.02, 0.015);
}

// Peer: a minimum scale of 2^-12 made int16 worse than int8 over 1500 logits (23.5 against 32.4 dB).
TEST(Quantize, int16_softmax_is_better_than_int8) {
  double db[2];
  for (Precision precision : {Precision::Int8, Precision::Int16}) {
    Net net;
    net.graph.add_output(net.node(Op::Softmax, {net.input({1, 1500})}, {{Key::Axis, int64_t{1}}}, "softmax"));
    QuantizeOptions options;
    options.precision = precision;
    db[static_cast<size_t>(precision)] = run(net, net.samples(), options).db;
  }
  EXPECT_GT(db[0], 32);
  EXPECT_GT(db[1], db[0] + 30);
}

// Peer: dtype mismatches where a quantized region met a float one.
TEST(Quantize, a_node_kept_float_stands_between_dequantize_and_quantize) {
  Net net;
  ValueId a = net.conv(net.input({1, 3, 8, 8}), 4, "first");
  ValueId b = net.unary(a, "exp");
  net.graph.add_output(net.conv(b, 4, "second"));
  QuantizeOptions options;
  options.keep_float = {"ex*"};
  Outcome outcome = run(net, net.samples(), options);
  EXPECT_GT(outcome.db, 28);
  EXPECT_EQ(type_of(net.graph, "exp").dtype, DType::F32);
  const Node& exp = *net.graph.producer(b);
  EXPECT_EQ(net.graph.producer(exp.inputs[0])->op, Op::Dequantize);
  ASSERT_EQ(net.graph.value(b).uses.size(), 1u);
  EXPECT_EQ(net.graph.node(net.graph.value(b).uses[0].node).op, Op::Quantize);
}

TEST(Quantize, integers_and_booleans_are_left_alone) {
  Net net;
  ValueId x = net.input({1, 8});
  ValueId zero = net.constant({1}, {0});
  ValueId mask = net.node(Op::Compare, {net.unary(x, "tanh"), zero}, {{Key::Fn, std::string("gt")}}, "mask");
  net.graph.add_output(mask);
  net.graph.add_output(net.node(Op::Where, {mask, x, net.constant({1}, {0}, "else")}, {}, "where"));
  Outcome outcome = run(net, net.samples());
  EXPECT_EQ(net.graph.type(mask).dtype, DType::Bool);
  EXPECT_EQ(net.graph.type(net.graph.outputs()[0]).dtype, DType::Bool);
}

TEST(Quantize, a_large_bias_on_tiny_weights_does_not_saturate) {
  Net net;
  ValueId x = net.input({1, 4});
  std::vector<float> weights = {1, 1, 1, 1, 0, 0, 0, 0, 1e-9f, 0, 0, 0};
  net.graph.add_output(
      net.node(Op::Linear, {x, net.constant({3, 4}, weights, "w"), net.constant({3}, {0, 7, -9}, "b")}, {}, "y"));
  Outcome outcome = run(net, net.samples());
  EXPECT_NEAR(outcome.outputs[0][0].as<float>()[1], 7, 0.1);
  EXPECT_NEAR(outcome.outputs[0][0].as<float>()[2], -9, 0.1);
}

TEST(Quantize, four_bit_weights_and_one_scale_per_tensor_on_request) {
  Net net;
  net.graph.add_output(net.conv(net.input({1, 3, 8, 8}), 4, "y"));
  QuantizeOptions options;
  options.weight_bits = 4;
  options.per_channel = false;
  Outcome outcome = run(net, net.samples(), options);
  const Node& conv = *net.graph.producer(net.graph.producer(net.graph.outputs()[0])->inputs[0]);
  EXPECT_EQ(net.graph.type(conv.inputs[1]).quant->qmax, 7);
  EXPECT_FALSE(net.graph.type(conv.inputs[1]).quant->per_channel());
  EXPECT_GT(outcome.db, 15);
}

TEST(Quantize, four_bits_cut_off_a_weight_that_is_far_from_all_others) {
  Net net;
  std::vector<float> weights(2 * 64);
  std::normal_distribution<float> normal(0, 0.1f);
  for (float& w : weights) w = normal(net.random);
  weights[0] = 0.5f;  // steps of a 7th of it would leave most of the others at 0
  weights[64] = 0.2f;
  const ValueId x = net.input({8, 64});
  net.graph.add_output(net.node(Op::Linear, {x, net.constant({2, 64}, weights)}, {}, "y"));
  QuantizeOptions options;
  options.weight_bits = 4;
  EXPECT_GT(run(net, net.samples(), options).db, 17);
  const Node& linear = *net.graph.producer(net.graph.producer(net.graph.outputs()[0])->inputs[0]);
  EXPECT_LT(net.graph.type(linear.inputs[1]).quant->scale[0], 0.9 * 0.5 / 7);
}

// max(y) and mean(y) join; y itself, which has max(y)'s type, must not be cut down to theirs.
TEST(Quantize, a_join_of_reductions_leaves_their_operand_its_range) {
  Net net;
  ValueId y = net.conv(net.input({1, 3, 8, 8}), 16, "conv");
  Attrs attrs{{Key::Axes, Ints{1}}, {Key::Keepdim, true}};
  ValueId joined =
      net.node(Op::Concat, {net.node(Op::Mean, {y}, attrs, "mean"), net.node(Op::ReduceMax, {y}, attrs, "max")},
               {{Key::Axis, int64_t{1}}}, "cat");
  net.graph.add_output(joined);
  net.graph.add_output(net.unary(y, "tanh"));
  EXPECT_GT(run(net, net.samples(), {}).db, 30);
}

TEST(Quantize, scores_of_a_softmax_are_wide_unless_somebody_else_reads_or_names_them) {
  auto type_of_scores = [](bool read_twice, bool named) {
    Net net;
    ValueId scores = net.conv(net.input({1, 3, 8, 8}), 4, "scores");
    net.graph.add_output(net.node(Op::Softmax, {scores}, {{Key::Axis, int64_t{1}}}, "softmax"));
    if (read_twice) net.graph.add_output(net.unary(scores, "tanh"));
    QuantizeOptions options;
    if (named) options.scopes = {{Scope::Kind::Node, "scores", Precision::Int8, {}}};
    run(net, net.samples(), options);
    EXPECT_EQ(type_of(net.graph, "softmax").dtype, DType::I8);
    return type_of(net.graph, "scores").dtype;
  };
  EXPECT_EQ(type_of_scores(false, false), DType::I16);
  EXPECT_EQ(type_of_scores(true, false), DType::I8);
  EXPECT_EQ(type_of_scores(false, true), DType::I8);
}

// The peaks of a heat map: with 8 bits, what is next to a peak would be one too.
TEST(Quantize, what_is_compared_with_its_own_maxima_gets_int16_with_what_it_is_a_function_of) {
  auto types_of = [](bool with_itself, bool named) {
    Net net;
    ValueId map = net.unary(net.conv(net.input({1, 3, 8, 8}), 4, "conv"), "sigmoid");
    ValueId maxima = net.node(Op::MaxPool, {with_itself ? map : net.unary(map, "tanh")},
                              {{Key::Kernel, Ints{3, 3}},
                               {Key::Stride, Ints{1, 1}},
                               {Key::Padding, Ints{1, 1, 1, 1}},
                               {Key::Dilation, Ints{1, 1}}},
                              "maxima");
    net.graph.add_output(net.node(Op::Compare, {maxima, map}, {{Key::Fn, std::string("eq")}}, "peaks"));
    net.graph.add_output(map);
    QuantizeOptions options;
    if (named) options.scopes = {{Scope::Kind::Op, "*", Precision::Int8, {}}};
    run(net, net.samples(), options);
    return std::pair(type_of(net.graph, "sigmoid").dtype, type_of(net.graph, "conv").dtype);
  };
  EXPECT_EQ(types_of(true, false), std::pair(DType::I16, DType::I16));
  EXPECT_EQ(types_of(false, false), std::pair(DType::I8, DType::I8));
  EXPECT_EQ(types_of(true, true), std::pair(DType::I8, DType::I8));
}

TEST(Quantize, a_table_whose_result_is_raised_gets_a_wide_operand) {
  Net net;
  net.graph.add_output(net.unary(net.conv(net.input({1, 3, 8, 8}), 4, "conv"), "tanh"));
  QuantizeOptions options;
  options.scopes = {{Scope::Kind::Op, "tanh", Precision::Int16, {}}};
  run(net, net.samples(), options);
  EXPECT_EQ(type_of(net.graph, "tanh").dtype, DType::I16);
  EXPECT_EQ(type_of(net.graph, "conv").dtype, DType::I8);
  const Node& tanh = *net.graph.producer(net.graph.producer(net.graph.outputs()[0])->inputs[0]);
  EXPECT_EQ(net.graph.type(tanh.inputs[0]).dtype, DType::I16);
}

TEST(Quantize, raises_layers_until_the_wanted_ratio_is_met) {
  Net net;
  ValueId x = net.input({1, 3, 8, 8});
  for (int i = 0; i < 4; ++i) x = net.conv(x, 6, fmt::format("layer{}", i), {{Key::ActMin, 0.0}});
  net.graph.add_output(x);
  Samples samples = net.samples();
  double before = run(net, samples).db;
  Net again;
  ValueId y = again.input({1, 3, 8, 8});
  for (int i = 0; i < 4; ++i) y = again.conv(y, 6, fmt::format("layer{}", i), {{Key::ActMin, 0.0}});
  again.graph.add_output(y);
  QuantizeOptions options;
  options.min_sqnr = before + 2;
  Outcome outcome = run(again, samples, options);
  EXPECT_GE(outcome.db, before + 2);
  EXPECT_GT(outcome.report.raised, 0u);
  EXPECT_LT(outcome.report.raised, 5u);
}

TEST(Quantize, says_how_far_it_got_when_the_ratio_cannot_be_met) {
  Net net;
  net.graph.add_output(net.conv(net.input({1, 3, 8, 8}), 4, "y"));
  QuantizeOptions options;
  options.min_sqnr = 200;
  Outcome outcome = run(net, net.samples(), options);
  EXPECT_LT(*outcome.report.sqnr_db, 200);
  EXPECT_NE(to_text(outcome.report).find("as far as it goes"), std::string::npos) << to_text(outcome.report);
}

TEST(Quantize, every_output_is_raised_until_it_has_the_wanted_ratio) {
  Net net;
  ValueId x = net.input({1, 3, 8, 8});
  net.graph.add_output(net.conv(x, 6, "large"));
  ValueId small = x;
  for (int i = 0; i < 3; ++i) small = net.unary(net.conv(small, 4, fmt::format("small{}", i)), "tanh");
  net.graph.add_output(small);
  QuantizeOptions options;
  options.min_sqnr = 38;
  Outcome outcome = run(net, net.samples(), options);
  EXPECT_GE(*outcome.report.sqnr_db, 38);
  EXPECT_GT(outcome.report.raised, 0u) << "the other output, which is larger, is good enough as it is";
}

TEST(Quantize, without_a_price_the_work_of_the_layers_is_weighed) {
  Net net;
  net.graph.add_output(net.conv(net.input({1, 3, 8, 8}), 4, "y"));
  QuantizeOptions options;
  options.min_sqnr = 200;
  options.cost = [](const Graph&) { return std::nullopt; };
  Outcome outcome = run(net, net.samples(), options);
  EXPECT_EQ(outcome.report.raised, 2u);
  EXPECT_GT(outcome.report.ranking->candidates[0].cost, 0);
}

TEST(Quantize, a_ranking_is_measured_once) {
  Net net;
  net.graph.add_output(net.conv(net.input({1, 3, 8, 8}), 4, "y"));
  Graph again = clone(net.graph);
  const Samples samples = net.samples();
  QuantizeOptions options;
  options.min_sqnr = 200;
  size_t priced = 0;
  options.cost = [&](const Graph&) { return ++priced, Cost{.value = 1}; };
  Outcome outcome = run(net, samples, options);
  options.ranking = &*outcome.report.ranking;
  Result<QuantizeReport> report = quantize(again, samples, options);
  ASSERT_TRUE(report);
  EXPECT_EQ(priced, 1u);
  EXPECT_EQ(report->raised, outcome.report.raised);
  EXPECT_EQ(print(again, {true, false}), print(net.graph, {true, false}));
}

TEST(Quantize, equalisation_is_exact_in_float_and_helps_uneven_channels) {
  double db[2];
  for (bool on : {false, true}) {
    Net net;
    ValueId x = net.input({1, 4, 8, 8});
    std::vector<float> weights(8 * 4, 0.0f);
    for (size_t o = 0; o < 8; ++o)
      for (size_t i = 0; i < 4; ++i) weights[o * 4 + i] = (o == 0 ? 100.0f : 1.0f) * (i == o % 4 ? 1.0f : 0.2f);
    Attrs attrs{{Key::Stride, Ints{1, 1}},
                {Key::Padding, Ints{0, 0, 0, 0}},
                {Key::Dilation, Ints{1, 1}},
                {Key::Groups, int64_t{1}}};
    Attrs relu = attrs;
    relu.set(Key::ActMin, 0.0);
    ValueId y = net.node(Op::Conv, {x, net.constant({8, 4, 1, 1}, weights, "w"), kNone}, relu, "y");
    std::vector<float> next(4 * 8, 1.0f);
    for (size_t o = 0; o < 4; ++o) next[o * 8] = 0.01f;
    net.graph.add_output(net.node(Op::Conv, {y, net.constant({4, 8, 1, 1}, next, "v"), kNone}, attrs, "z"));
    QuantizeOptions options;
    options.equalize = on;
    Outcome outcome = run(net, net.samples(), options);
    EXPECT_EQ(outcome.report.equalized, on ? 1u : 0u);
    db[on] = outcome.db;
  }
  EXPECT_GT(db[1], db[0] + 6);
}

// Of a graph with a tensor of four and a condition.
Samples samples_with_condition(bool flag) {
  Samples samples;
  for (int s = 0; s < 2; ++s) {
    std::vector<Tensor>& sample = samples.inputs.emplace_back();
    sample.push_back(make_tensor(DType::F32, {1, 4}));
    for (size_t i = 0; i < 4; ++i) sample[0].as<float>()[i] = static_cast<float>(i) - 1.5f;
    sample.push_back(make_tensor(DType::Bool, {}));
    sample[1].as<uint8_t>()[0] = flag;
  }
  return samples;
}

TEST(Quantize, what_control_flow_contains_is_raised_last) {
  Result<Graph> graph = parse(R"text(graph "net" (%x: f32[1,4] as "x", %p: bool[] as "p")
  %c = cond %p, %x : f32[1,4] name "c" {
    graph "then" (%t: f32[1,4])
      %u = unary %t fn="exp" : f32[1,4] name "u"
      %v = unary %u fn="tanh" : f32[1,4] name "v"
      return %v
  } {
    graph "else" (%e: f32[1,4])
      return %e
  }
  return %c
)text");
  ASSERT_TRUE(graph) << graph.error().message;
  QuantizeOptions options;
  options.min_sqnr = 200;
  Result<QuantizeReport> report = quantize(*graph, samples_with_condition(true), options);
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_EQ(verify(*graph), std::nullopt);
  for (NodeId id : graph->order())
    if (const Node& node = graph->node(id); node.op == Op::Cond) {
      EXPECT_EQ(type_of(*node.bodies[0], "u").dtype, DType::I16);
      EXPECT_TRUE(report->ranking->candidates.back().name.starts_with(node.name + "/"));
    }
}

TEST(Quantize, a_cond_passes_codes_to_its_branches) {
  constexpr std::string_view kText = R"text(graph "net" (%x: f32[1,4] as "x", %p: bool[] as "p")
  %a = unary %x fn="tanh" : f32[1,4] name "a"
  %c = cond %p, %a : f32[1,4] name "c" {
    graph "then" (%t: f32[1,4])
      %u = unary %t fn="exp" : f32[1,4] name "u"
      return %u
  } {
    graph "else" (%e: f32[1,4])
      return %e
  }
  %y = unary %c fn="abs" : f32[1,4] name "y"
  return %y
)text";
  Result<Graph> graph = parse(kText);
  ASSERT_TRUE(graph) << graph.error().message;
  Samples samples = samples_with_condition(false);  // one branch only: the other must get ranges all the same
  Result<QuantizeReport> report = quantize(*graph, samples);
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_EQ(verify(*graph), std::nullopt);
  for (NodeId id : graph->order()) {
    const Node& node = graph->node(id);
    if (node.op != Op::Cond) continue;
    for (const auto& body : node.bodies) {
      EXPECT_EQ(body->type(body->inputs()[0]), graph->type(node.inputs[1]));
      EXPECT_EQ(body->type(body->outputs()[0]), graph->type(node.outputs[0]));
    }
  }
  samples.inputs[0][1].as<uint8_t>()[0] = 1;
  EXPECT_TRUE(execute(*graph, samples.inputs[0]));
}

TEST(Quantize, nan_is_an_error_that_names_the_place) {
  Net net;
  net.graph.add_output(net.unary(net.input({1, 8}), "log"));
  Result<QuantizeReport> report = quantize(net.graph, net.samples());
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().message,
            "log: unary gives NaN on the calibration samples; the float model itself does, so look at its inputs and "
            "weights first");
}

TEST(Quantize, needs_samples) {
  Net net;
  net.graph.add_output(net.unary(net.input({1, 8}), "abs"));
  EXPECT_TRUE(needs_quantization(net.graph));
  Result<QuantizeReport> none = quantize(net.graph, Samples{});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message, "there are no samples to calibrate with");
  run(net, net.samples());
  EXPECT_FALSE(needs_quantization(net.graph));
}

TEST(Quantize, threads_do_not_change_the_result) {
  std::string text[2];
  for (int threads : {1, 2}) {
    set_thread_count(threads);
    Net net;
    ValueId x = net.input({1, 3, 96, 96});
    net.graph.add_output(net.unary(net.conv(x, 8, "conv"), "silu"));
    run(net, net.samples());
    text[threads - 1] = print(net.graph, {true, true});
  }
  set_thread_count(0);
  EXPECT_EQ(text[0], text[1]);
}

// Random graphs: the noise of the outputs stays within what the steps of all types on the way can add up to.
TEST(Quantize, random_graphs_stay_close_to_float) {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Net net;
    net.random.seed(seed);
    auto pick = [&](size_t count) { return static_cast<size_t>(net.random() % count); };
    std::vector<ValueId> values = {net.input({1, 4, 8, 8})};
    size_t length = 3 + pick(8);
    for (size_t i = 0; i < length; ++i) {
      ValueId x = values[pick(values.size())];
      ValueId y = values[pick(values.size())];
      std::string name = fmt::format("n{}", i);
      switch (pick(9)) {
        case 0: values.push_back(net.conv(x, 4, name)); break;
        case 1: values.push_back(net.conv(x, 4, name, {{Key::ActMin, 0.0}})); break;
        case 2: values.push_back(net.node(Op::Add, {x, y}, {}, name)); break;
        case 3: values.push_back(net.unary(x, pick(2) ? "sigmoid" : "silu")); break;
        case 4: values.push_back(net.node(Op::Transpose, {x}, {{Key::Perm, Ints{0, 1, 3, 2}}}, name)); break;
        case 5: {
          ValueId cat = net.node(Op::Concat, {x, y}, {{Key::Axis, int64_t{1}}}, name);
          values.push_back(net.conv(cat, 4, name + "c"));
          break;
        }
        case 6: values.push_back(net.node(Op::Softmax, {x}, {{Key::Axis, int64_t{3}}}, name)); break;
        case 7: values.push_back(net.node(Op::Maximum, {x, y}, {}, name)); break;
        default:
          values.push_back(net.node(Op::LayerNorm, {x, net.noise({8}, 1, "g"), net.noise({8}, 1, "b")},
                                    {{Key::Axis, int64_t{3}}, {Key::Eps, 1e-5}}, name));
          break;
      }
    }
    net.graph.add_output(values.back());
    net.graph.erase_dead();
    Outcome outcome = run(net, net.samples());
    EXPECT_GT(outcome.db, 20) << print(net.graph);
    for (const ValueReport& value : outcome.report.values) EXPECT_LT(value.clipped, 0.02) << value.name;
  }
}

}  // namespace
}  // namespace swoop
