// Values that samples say little about: masks, zeros, state, views that stay float, and parts that others would drown.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "quantize/quantize.h"

namespace swoop {
namespace {

// One tensor of numbers per input; `at` gives the element.
template <typename At>
Samples samples_of(const Graph& graph, size_t count, At at) {
  Samples samples;
  for (size_t s = 0; s < count; ++s) {
    Sample& sample = samples.inputs.emplace_back();
    for (size_t i = 0; i < graph.inputs().size(); ++i) {
      Tensor& tensor = sample.emplace_back(make_tensor(DType::F32, graph.type(graph.inputs()[i]).shape));
      for (size_t e = 0; e < tensor.as<float>().size(); ++e) tensor.as<float>()[e] = at(i, s, e);
    }
  }
  return samples;
}

float wave(size_t input, size_t sample, size_t element) {
  return std::sin(static_cast<float>(7 * element + 13 * sample + input + 1));
}

struct Quantized {
  Graph graph;
  Result<QuantizeReport> report;

  const Type& type(std::string_view name) const {
    for (ValueId id = 0; id < graph.value_slots(); ++id)
      if (graph.value(id).name == name) return graph.type(id);
    ADD_FAILURE() << "no value " << name << " in\n" << print(graph);
    return graph.type(0);
  }
};

template <typename At>
Quantized quantized_with(std::string_view text, At at, const QuantizeOptions& options = {}, size_t count = 4) {
  Result<Graph> graph = parse(text);
  EXPECT_TRUE(graph) << graph.error().message;
  Samples samples = samples_of(*graph, count, at);
  Result<QuantizeReport> report = quantize(*graph, samples, options);
  EXPECT_EQ(verify(*graph), std::nullopt);
  return {std::move(*graph), std::move(report)};
}

constexpr std::string_view kMasked = R"(graph "g" (%x: f32[4,8], %keep: f32[8])
  %one = const f32[1] = fill 1
  %deep = const f32[1] = fill -10000
  %drop = sub %one, %keep : f32[8]
  %mask = mul %drop, %deep : f32[8] name "mask"
  %sum = add %x, %mask : f32[4,8] name "sum"
  %y = softmax %sum axis=1 : f32[4,8]
  return %y
)";

// Twice what was measured: 8 bits would be coarser by that, 16 bits have a bit to spare.
TEST(Unseen, sixteen_bits_hold_inputs_that_are_larger_than_every_sample) {
  constexpr std::string_view text = R"(graph "g" (%x: f32[8])
  %y = mul %x, %x : f32[8] name "y"
  return %y
)";
  QuantizeOptions wide;
  wide.precision = Precision::Int16;
  EXPECT_LT(range_of(quantized_with(text, wave).type("y")).max, 1.3);
  EXPECT_GE(range_of(quantized_with(text, wave, wide).type("y")).max, 1.99);
}

TEST(Unseen, what_a_mask_hides_does_not_make_the_range_of_the_scores) {
  Quantized q = quantized_with(kMasked, [](size_t i, size_t s, size_t e) { return i == 0 ? wave(i, s, e) : e % 2; });
  ASSERT_TRUE(q.report) << q.report.error().message;
  EXPECT_LT(q.type("sum").scale(), 0.1);
  EXPECT_GT(-range_of(q.type("mask")).min, range_of(q.type("sum")).max - range_of(q.type("sum")).min);
  EXPECT_LT(-range_of(q.type("mask")).min, 100);
}

TEST(Unseen, a_mask_that_hid_nothing_in_the_samples_can_still_hide) {
  Quantized q = quantized_with(kMasked, [](size_t i, size_t s, size_t e) { return i == 0 ? wave(i, s, e) : 1; });
  ASSERT_TRUE(q.report) << q.report.error().message;
  EXPECT_GT(-range_of(q.type("mask")).min, range_of(q.type("sum")).max - range_of(q.type("sum")).min);
  ASSERT_EQ(q.report->warnings.size(), 1u);
  EXPECT_EQ(q.report->warnings[0],
            "input keep is 1 in every sample: other values are outside the range that was measured [constant-input]");
}

constexpr std::string_view kAdded = R"(graph "g" (%x: f32[4,8], %mask: f32[8])
  %sum = add %x, %mask : f32[4,8] name "sum"
  %y = softmax %sum axis=1 : f32[4,8]
  return %y
)";

TEST(Unseen, minus_infinity_is_a_mask) {
  auto masked = [](size_t i, size_t s, size_t e) { return i == 0 ? wave(i, s, e) : e % 2 ? 0 : -INFINITY; };
  Quantized q = quantized_with(kAdded, masked);
  ASSERT_TRUE(q.report) << q.report.error().message;
  EXPECT_LT(q.type("sum").scale(), 0.1);
  EXPECT_GT(-range_of(q.type("mask_q")).min, range_of(q.type("sum")).max - range_of(q.type("sum")).min);
}

TEST(Unseen, scores_far_below_zero_are_no_mask) {
  auto deep = [](size_t i, size_t s, size_t e) { return (i == 0 ? 1.0f : 800.0f) * wave(i, s, e); };
  Quantized q = quantized_with(kAdded, deep);
  ASSERT_TRUE(q.report) << q.report.error().message;
  EXPECT_GT(q.type("sum").scale(), 5) << "they count: 1,600 in 255 steps";
}

TEST(Unseen, infinities_are_no_data) {
  Quantized q = quantized_with(R"(graph "g" (%x: f32[8])
  %y = unary %x fn="tanh" : f32[8]
  return %y
)",
                               [](size_t, size_t, size_t e) { return e == 0 ? -INFINITY : 1; });
  ASSERT_FALSE(q.report);
  EXPECT_EQ(q.report.error().message,
            "input x holds infinities, which only a mask may that is added to the scores of a softmax");
}

TEST(Unseen, an_input_of_zeros_says_nothing) {
  Quantized q = quantized_with(R"(graph "g" (%x: f32[8], %h: f32[8])
  %y = add %x, %h : f32[8]
  return %y
)",
                               [](size_t i, size_t s, size_t e) { return i == 0 ? wave(i, s, e) : 0; });
  ASSERT_FALSE(q.report);
  EXPECT_EQ(q.report.error().message,
            "input h is 0 in every sample, which says nothing of its range; calibrate with inputs like those that the "
            "device will meet");
}

TEST(Unseen, a_value_that_was_zero_takes_the_range_of_its_operands) {
  Quantized q = quantized_with(R"(graph "g" (%x: f32[8], %gate: f32[8])
  %five = const f32[1] = fill 5
  %off = sub %five, %gate : f32[8]
  %gated = mul %x, %off : f32[8]
  return %gated
)",
                               [](size_t i, size_t s, size_t e) { return i == 0 ? wave(i, s, e) : 5; });
  ASSERT_TRUE(q.report) << q.report.error().message;
  EXPECT_GT(range_of(q.type("gated")).max, 3) << "gate may be 0, and the product is then 5 times x";
}

TEST(Unseen, a_state_has_the_range_of_what_is_written_to_it) {
  Graph graph;
  Type type{DType::F32, {8}, {}};
  ValueId x = graph.add_input(type, "x", {Port::Role::User, "x", {}});
  ValueId state = graph.add_input(type, "state", {Port::Role::State, "state", {}});
  ValueId sum = graph.add_node(Op::Add, {x, state}, {type}, {}, kNone, "sum").outputs[0];
  graph.add_output(sum, {Port::Role::State, "state", {}});
  graph.add_output(graph.add_node(Op::Mul, {sum, sum}, {type}, {}, kNone, "y").outputs[0]);
  Samples samples = samples_of(graph, 1, [](size_t i, size_t s, size_t e) { return i == 0 ? 40 * wave(i, s, e) : 0; });
  Result<QuantizeReport> report = quantize(graph, samples);
  ASSERT_TRUE(report) << report.error().message;
  const Node* border = nullptr;
  for (NodeId id : graph.order())
    if (graph.node(id).op == Op::Quantize && graph.node(id).inputs[0] == state) border = &graph.node(id);
  ASSERT_TRUE(border) << print(graph);
  EXPECT_GT(range_of(graph.type(border->outputs[0])).max, 35);
}

TEST(Unseen, a_view_that_stays_float_hands_on_the_range_of_its_operand) {
  QuantizeOptions options;
  options.keep_float = {"view"};
  Quantized q = quantized_with(R"(graph "g" (%x: f32[8])
  %four = const f32[1] = fill 40
  %big = mul %x, %four : f32[8] name "big"
  %view = reshape %big shape=[2,4] : f32[2,4] name "view"
  %y = unary %view fn="abs" : f32[2,4]
  return %y
)",
                               wave, options);
  ASSERT_TRUE(q.report) << q.report.error().message;
  EXPECT_NEAR(q.type("view_q").scale(), q.type("big").scale(), 1e-9);
}

std::string joined_graph(double boxes, double scores) {
  return fmt::format(R"(graph "g" (%x: f32[1,4], %s: f32[1,4])
  %pixels = const f32[1] = fill {}
  %small = const f32[1] = fill {}
  %boxes = mul %x, %pixels : f32[1,4] name "boxes"
  %scores = mul %s, %small : f32[1,4] name "scores"
  %both = concat %boxes, %scores axis=1 : f32[1,8] name "both"
  return %both
)",
                     boxes, scores);
}

TEST(Unseen, parts_of_an_output_with_different_ranges_get_16_bits) {
  Quantized q = quantized_with(joined_graph(100, 1), wave);
  ASSERT_TRUE(q.report) << q.report.error().message;
  EXPECT_EQ(q.type("both").dtype, DType::I16);
  EXPECT_EQ(q.type("scores").dtype, DType::I8) << "only the join is wide";
}

TEST(Unseen, parts_of_parts_count) {
  Quantized q = quantized_with(R"(graph "g" (%x: f32[1,4], %s: f32[1,4])
  %pixels = const f32[1] = fill 100
  %boxes = mul %x, %pixels : f32[1,4] name "boxes"
  %one = concat %boxes, %s axis=1 : f32[1,8] name "one"
  %two = concat %s, %boxes axis=1 : f32[1,8] name "two"
  %view = reshape %two shape=[1,8] : f32[1,8]
  %all = concat %one, %view axis=0 : f32[2,8] name "all"
  return %all
)",
                               wave);
  ASSERT_TRUE(q.report) << q.report.error().message;
  EXPECT_EQ(q.type("all").dtype, DType::I16) << "its parts have one range, theirs have not";
}

TEST(Unseen, parts_that_16_bits_would_lose_are_joined_in_32_bits) {
  Quantized q = quantized_with(joined_graph(640, 0.01), wave);
  ASSERT_TRUE(q.report) << q.report.error().message;
  EXPECT_EQ(q.type("both").dtype, DType::I32);
  EXPECT_EQ(q.type("scores").dtype, DType::I8) << "only the join is wide";
  EXPECT_GE(q.type("scores").scale(), 64 * q.type("both").scale());
}

TEST(Unseen, an_input_that_is_only_joined_is_rounded_once) {
  auto type = [&](std::string_view rest) {
    Quantized q = quantized_with(fmt::format(R"(graph "g" (%x: f32[1,4], %s: f32[1,4])
  %pixels = const f32[1] = fill 100000
  %boxes = mul %x, %pixels : f32[1,4]
  %both = concat %boxes, %s axis=1 : f32[1,8]
  {}
)",
                                             rest),
                                 wave);
    EXPECT_TRUE(q.report);
    return q.type("s_q").dtype;
  };
  EXPECT_EQ(type("return %both"), DType::I32);
  EXPECT_EQ(type("%sum = add %s, %x : f32[1,4] return %both, %sum"), DType::I8) << "the sum reads it too";
}

TEST(Unseen, parts_of_like_ranges_stay_in_8_bits) {
  Quantized q = quantized_with(joined_graph(4, 1), wave);
  ASSERT_TRUE(q.report) << q.report.error().message;
  EXPECT_EQ(q.type("both").dtype, DType::I8);
}

TEST(Unseen, a_head_whose_channels_have_different_units_gets_16_bits) {
  constexpr std::string_view kHead = R"(graph "g" (%x: f32[1,4])
  %w = const f32[2,4] = [{0},{0},{0},{0},1,-1,1,-1]
  %y = linear %x, %w : f32[1,2] name "y"
  return %y
)";
  auto type = [&](std::string_view weight) {
    Quantized q = quantized_with(fmt::format(fmt::runtime(kHead), weight), wave);
    EXPECT_TRUE(q.report);
    return q.type("y").dtype;
  };
  EXPECT_EQ(type("1000"), DType::I16);
  EXPECT_EQ(type("2"), DType::I8);
}

TEST(Unseen, a_channel_that_a_join_would_flatten_gets_16_bits) {
  auto type = [&](std::string_view weight) {
    Quantized q = quantized_with(fmt::format(R"(graph "g" (%x: f32[1,4])
  %w = const f32[2,4] = [10,10,10,-10,{0},{0},{0},{0}]
  %v = const f32[1,4] = [10,-10,10,10]
  %head = linear %x, %w : f32[1,2] name "head"
  %other = linear %x, %v : f32[1,1] name "other"
  %both = concat %head, %other axis=1 : f32[1,3] name "both"
  return %both
)",
                                             weight),
                                 wave);
    EXPECT_TRUE(q.report) << q.report.error().message;
    return q.type("both").dtype;
  };
  EXPECT_EQ(type("0.01"), DType::I16);
  EXPECT_EQ(type("5"), DType::I8);
}

constexpr std::string_view kSum = R"(graph "g" (%x: f32[8], %z: f32[8])
  %y = add %x, %z : f32[8] name "y"
  return %y
)";

TEST(Unseen, ranges_widen_until_the_last_sample_fits_those_of_the_others) {
  auto louder = [](float last) {
    return [last](size_t i, size_t s, size_t e) {
      return (s == 3 ? last : 1.0f + 0.1f * static_cast<float>(s)) * wave(i, s, e);
    };
  };
  Quantized q = quantized_with(kSum, louder(1.3f)), even = quantized_with(kSum, louder(1.0f));
  ASSERT_TRUE(q.report && even.report);
  EXPECT_LT(q.report->left_out->loss_db(), 2) << "nothing is clipped";
  EXPECT_TRUE(q.report->warnings.empty());
  EXPECT_GT(q.type("y").scale(), 1.3 * 1.2 * even.type("y").scale()) << "more than the louder sample itself takes";
}

// Element 0 is the largest of a sample, element 1 its negative.
TEST(Unseen, ranges_get_less_room_where_all_samples_agree_that_it_is_better) {
  auto ends_at = [](auto end) {
    return [end](size_t i, size_t s, size_t e) { return e == 0 ? end(s) : e == 1 ? -end(s) : 0.5f * wave(i, s, e); };
  };
  auto span = [](const Quantized& q) { return q.type("y").scale() * 255; };
  constexpr std::string_view kLongSum = R"(graph "g" (%x: f32[512], %z: f32[512])
  %y = add %x, %z : f32[512] name "y"
  return %y
)";
  Quantized two_kinds = quantized_with(kLongSum, ends_at([](size_t s) { return s % 2 ? 1.0f : 0.95f; }));
  Quantized growing = quantized_with(kLongSum, ends_at([](size_t s) { return 1.0f + 0.2f * static_cast<float>(s); }));
  ASSERT_TRUE(two_kinds.report && growing.report);
  EXPECT_LT(span(two_kinds), 1.04 * 4) << "without the judge, 4.5 for sums within -2..2";
  EXPECT_GT(span(growing), 1.2 * 6.4) << "the next may be larger still";
}

TEST(Unseen, samples_that_do_not_prepare_for_the_last_are_too_few) {
  auto loud = [](size_t i, size_t s, size_t e) { return (s == 3 ? 20.0f : 1.0f) * wave(i, s, e); };
  Quantized q = quantized_with(kSum, loud);
  ASSERT_TRUE(q.report && q.report->left_out);
  EXPECT_GT(q.report->left_out->seen_db, 30);
  EXPECT_LT(q.report->left_out->unseen_db, 5);
  ASSERT_EQ(q.report->warnings.size(), 1u);
  EXPECT_EQ(q.report->warnings[0].find("4 samples are too few: with the ranges of the others, the last one has "), 0u)
      << q.report->warnings[0];
  constexpr std::string_view kLargest = R"(graph "g" (%x: f32[8], %z: f32[8])
  %y = maximum %x, %z : f32[8] name "y"
  return %y
)";
  auto whole = [](size_t, size_t s, size_t e) { return static_cast<float>(e % 2) * (s == 3 ? 255.0f : 1.0f); };
  QuantizeOptions ends;
  ends.method = Method::MinMax;
  Quantized exact = quantized_with(kLargest, whole, ends);
  ASSERT_TRUE(exact.report && exact.report->warnings.size() == 1);
  EXPECT_NE(exact.report->warnings[0].find(" dB instead of no error; "), std::string::npos)
      << exact.report->warnings[0];
  Quantized alike = quantized_with(kSum, wave);
  ASSERT_TRUE(alike.report && alike.report->left_out);
  EXPECT_LT(alike.report->left_out->seen_db - alike.report->left_out->unseen_db, 3);
  EXPECT_TRUE(alike.report->warnings.empty());
}

// As a recurrence is that writes its steps into one tensor: the first values are reached on 2^40 ways.
TEST(Unseen, concats_of_concats_take_no_longer_than_there_are) {
  std::string text = "graph \"g\" (%x: f32[8], %z: f32[8])\n  %c0 = add %x, %z : f32[8]\n";
  for (int i = 0; i < 40; ++i)
    text += fmt::format(
        "  %a{0} = slice %c{0} axis=0 start=0 end=4 step=1 : f32[4]\n"
        "  %b{0} = slice %c{0} axis=0 start=4 end=8 step=1 : f32[4]\n"
        "  %c{1} = concat %b{0}, %a{0} axis=0 : f32[8]\n",
        i, i + 1);
  Quantized q = quantized_with(text + "  return %c40\n", wave);
  EXPECT_TRUE(q.report);
}

TEST(Unseen, one_sample_that_is_far_from_many_is_a_warning) {
  const auto loud = [](float last) {
    return [last](size_t i, size_t s, size_t e) {
      return (1.0f + 0.1f * static_cast<float>(s % 7)) * (s == 11 ? last : 1.0f) * wave(i, s, e);
    };
  };
  Quantized far = quantized_with(kSum, loud(5), {}, 16), alike = quantized_with(kSum, loud(1.2f), {}, 16);
  ASSERT_TRUE(far.report && alike.report);
  ASSERT_EQ(far.report->warnings.size(), 1u);
  EXPECT_EQ(far.report->warnings[0].find("16 samples are too few: in one of them, the output y ends at "), 0u)
      << far.report->warnings[0];
  EXPECT_TRUE(alike.report->warnings.empty()) << alike.report->warnings[0];
}

}  // namespace
}  // namespace swoop
