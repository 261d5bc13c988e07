#include "ir/ir.h"

#include <gtest/gtest.h>

namespace swoop {
namespace {

constexpr std::string_view kText =
    R"text(graph "net" (%x: f32[1,3,4,4] as "x", %h: i8[2] q(0.5, -3) state "h" = x"0102")
  %w = const i8[2,3,1,1] q(axis=0, [0.5,0.25], [0,0], -127..127) = x"010203040506"
  %q = quantize %x : i8[1,3,4,4] q(0.1, 4)
  %c = conv %q, %w, _ act_min=0.0 dilation=[1,1] groups=1 padding=[0,0,0,0] stride=[1,1] : i8[1,2,4,4] q(0.2, -128) @ "net.py":31 "y = self.conv(x)" "block.conv" "Conv2d" name "conv2d"
  %p = compare %c, %c fn="eq" : bool[1,2,4,4] name "p"
  %r, %s = opaque %c args=s["t0","i:5"] overload="" scales=d[1.0,inf] target="aten::topk" : f32[], i64[] name "r" {
    graph "then" (%a: f32[])
      return %a
  }
  return %c as "out", %h state "h"
)text";

TEST(Text, prints_back_what_it_parsed) {
  Result<Graph> graph = parse(kText);
  ASSERT_TRUE(graph) << graph.error().message;
  std::string printed = print(*graph, {true, true});
  Result<Graph> again = parse(printed);
  ASSERT_TRUE(again) << again.error().message << "\n" << printed;
  EXPECT_EQ(print(*again, {true, true}), printed);
  EXPECT_TRUE(same(*graph, *again));
  EXPECT_EQ(graph->node_count(), 4u);
  EXPECT_EQ(to_text(*graph->loc(graph->producer(graph->outputs()[0])->loc)), "net.py:31");
}

// Without their bytes, constants show numbers that parse() reads back: all of a few, one when they are all the same.
TEST(Text, shows_the_numbers_of_short_constants) {
  constexpr std::string_view kConstants =
      R"text(graph "net" ()
  %a = const i8[2,2] q(0.5, 0) = [1,-2,3,127]
  %b = const i16[3,100] = fill -300
  %c = const f32[3] = [0.1,-inf,3e-45]
  %d = const bool[2] = [1,0]
  %e = const i64[2] = [9223372036854775807,-1]
  %f = const i48[] = fill -7
  %g = const i4[3] = [-8,0,7]
  %h = const f64[2] = [0.1,1e+300]
  %i = const u8[2] = [255,0]
  %j = const i32[2] = [-2147483648,5]
  %k = const i8[0] = []
  return %a, %b, %c, %d, %e, %f, %g, %h, %i, %j, %k
)text";
  Result<Graph> graph = parse(kConstants);
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(verify(*graph), std::nullopt);
  EXPECT_EQ(print(*graph), kConstants);
  Result<Graph> again = parse(print(*graph, {true, true}));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(same(*graph, *again));
}

TEST(Text, hides_the_numbers_of_long_constants_and_of_half_precision) {
  Result<Graph> graph = parse(
      "graph \"net\" ()\n"
      "  %a = const i8[33] = [1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]\n"
      "  %b = const f16[1] = x\"003c\"\n"
      "  return %a, %b\n");
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(print(*graph),
            "graph \"net\" ()\n"
            "  %a = const i8[33] #1a05586282cb20c0\n"
            "  %b = const f16[1] #08328c07f57f1684\n"
            "  return %a, %b\n");
}

TEST(Text, refuses_numbers_that_do_not_fit) {
  auto fault = [](std::string_view constant) {
    Result<Graph> graph = parse(fmt::format("graph \"g\" ()\n  %a = const {}\n  return %a\n", constant));
    return graph ? "" : graph.error().message;
  };
  EXPECT_EQ(fault("i8[2] = [1,128]"), "line 2: 128 does not fit i8");
  EXPECT_EQ(fault("bool[] = fill 2"), "line 2: 2 does not fit bool");
  EXPECT_EQ(fault("i8[2] = fill 0.5"), "line 2: '0.5' is not an integer");
  EXPECT_EQ(fault("i8[2] = [1,2,3]"), "line 2: a constant needs one name and as many elements as its type has");
  EXPECT_EQ(fault("f16[1] = [1]"), "line 2: numbers of half precision are given as bytes");
}

TEST(Text, every_prefix_is_an_error_and_not_a_crash) {
  for (size_t length = 0; length < kText.rfind("return"); ++length)
    EXPECT_FALSE(parse(kText.substr(0, length))) << length;
}

TEST(Text, names_the_line_of_a_fault) {
  Result<Graph> graph = parse("graph \"g\" (%x: f32[1])\n  %y = nonsense %x : f32[1]\n  return %y\n");
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().message, "line 2: 'nonsense' is not an operator");
}

TEST(Text, refuses_a_value_used_before_its_definition) {
  Result<Graph> graph = parse("graph \"g\" (%x: f32[1])\n  %y = add %x, %z : f32[1]\n  return %y\n");
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().message, "line 2: %z is used before it is defined");
}

TEST(Graph, replaces_uses_in_nodes_and_outputs) {
  Graph graph;
  ValueId x = graph.add_input({DType::F32, {2}, {}}, "x");
  ValueId a =
      graph.add_node(Op::Unary, {x}, {{DType::F32, {2}, {}}}, {{Key::Fn, std::string("abs")}}, kNone, "a").outputs[0];
  ValueId b = graph.add_node(Op::Add, {a, a}, {{DType::F32, {2}, {}}}, {}, kNone, "b").outputs[0];
  graph.add_output(a);
  graph.add_output(b);
  graph.replace_all_uses(a, x);
  EXPECT_EQ(graph.outputs()[0], x);
  EXPECT_EQ(graph.node(graph.value(b).producer).inputs, (std::vector<ValueId>{x, x}));
  EXPECT_EQ(graph.erase_dead(), 1u);
  EXPECT_EQ(verify(graph), std::nullopt);
}

TEST(Clone, has_the_same_ids_and_leaves_the_original_alone) {
  Result<Graph> graph = parse(kText);
  ASSERT_TRUE(graph) << graph.error().message;
  ValueId input = graph->inputs()[0];
  NodeId dead = graph->add_node(Op::Clamp, {input}, {graph->type(input)}, {}, kNone, "dead").id;
  graph->erase(dead);
  Graph copy = clone(*graph);
  EXPECT_TRUE(same(copy, *graph));
  EXPECT_EQ(verify(copy), std::nullopt);
  EXPECT_EQ(copy.order(), graph->order());
  EXPECT_EQ(copy.outputs()[0], graph->outputs()[0]);
  EXPECT_FALSE(copy.node(dead).alive);
  std::string before = print(*graph, {true, true});
  copy.set_output(0, copy.inputs()[1]);
  copy.erase_dead();
  EXPECT_EQ(print(*graph, {true, true}), before);
}

// Choices are made on a copy and found again by name.
TEST(Clone, has_the_same_names) {
  Graph graph;
  Type type{DType::F32, {2}, {}};
  ValueId x = graph.add_input(type, "x");
  ValueId first = graph.add_node(Op::Clamp, {x}, {type}, {}, kNone, "f").outputs[0];
  ValueId second = graph.add_node(Op::Clamp, {first}, {type}, {}, kNone, "f").outputs[0];
  graph.add_output(second);
  graph.rename(first, "free");
  graph.rename(second, "f");
  graph.rename(first, "f_1");
  Graph copy = clone(graph);
  EXPECT_EQ(copy.value(first).name, "f_1");
  EXPECT_EQ(copy.value(second).name, "f");
  EXPECT_EQ(copy.unique_name("f"), graph.unique_name("f"));
}

TEST(Verify, sees_a_node_that_stands_before_its_operand) {
  Graph graph;
  Type type{DType::F32, {2}, {}};
  ValueId x = graph.add_input(type, "x");
  Node& a = graph.add_node(Op::Clamp, {x}, {type}, {}, kNone, "a");
  Node& b = graph.add_node(Op::Clamp, {a.outputs[0]}, {type}, {}, kNone, "b");
  graph.add_output(b.outputs[0]);
  EXPECT_EQ(verify(graph), std::nullopt);
  graph.move_before(b.id, a.id);
  EXPECT_EQ(verify(graph), "%a is used by b before it is computed");
}

TEST(Verify, sees_bad_quantization) {
  Graph graph;
  ValueId x = graph.add_input(quantized(DType::I8, {2}, 0.0, 0), "x");
  graph.add_output(x);
  EXPECT_EQ(verify(graph), "%x has a scale that is not a positive number");
}

TEST(Verify, a_node_has_the_attributes_of_its_operator_in_their_types) {
  Graph graph;
  ValueId x = graph.add_input({DType::F32, {2, 3}, {}}, "x");
  Node& node = graph.add_node(Op::Transpose, {x}, {{DType::F32, {3, 2}, {}}}, {}, kNone, "t");
  graph.add_output(node.outputs[0]);
  EXPECT_EQ(verify(graph), "%t (transpose) lacks attribute perm");
  node.attrs.set(Key::Perm, int64_t{1});
  EXPECT_EQ(verify(graph), "%t (transpose) has attribute perm of another type");
  node.attrs.set(Key::Perm, Ints{1, 0});
  EXPECT_EQ(verify(graph), std::nullopt);
}

TEST(Text, a_whole_number_is_a_real_where_the_attribute_is_one) {
  Result<Graph> graph = parse("graph \"g\" (%x: f32[2])\n  %y = clamp %x max=6 min=-1 : f32[2]\n  return %y\n");
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(graph->node(graph->first()).real(Key::Max), 6.0);
}

}  // namespace
}  // namespace swoop
