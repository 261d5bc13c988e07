#include "rewriter/rewriter.h"

#include <gtest/gtest.h>

namespace swoop {
namespace {

// transpose(transpose(x, p), q)  ->  transpose(x, p then q)
bool merge(Rewriter& rw, const Node& n) {
  const Node* inner = rw.producer(n, 0, Op::Transpose);
  if (!inner) return false;
  Ints perm;
  for (int64_t axis : n.ints(Key::Perm)) perm.push_back(inner->ints(Key::Perm)[static_cast<size_t>(axis)]);
  rw.replace(n, rw.make(Op::Transpose, {inner->inputs[0]}, {{Key::Perm, perm}}));
  return true;
}

bool drop_identity(Rewriter& rw, const Node& n) {
  if (n.ints(Key::Perm) != Ints{0, 1}) return false;
  rw.replace(n, n.inputs[0]);
  return true;
}

// add(a, b) -> add(b, a), for ever
bool swap_operands(Rewriter& rw, const Node& n) {
  rw.replace(n, rw.make(Op::Add, {n.inputs[1], n.inputs[0]}));
  return true;
}

const Rule kRules[] = {{"merge", {Op::Transpose}, merge}, {"drop-identity", {Op::Transpose}, drop_identity}};

Graph chain_of_transposes(int length) {
  Graph graph;
  Type type{DType::F32, {3, 3}, {}};
  ValueId x = graph.add_input(type, "x");
  for (int i = 0; i < length; ++i)
    x = graph.add_node(Op::Transpose, {x}, {type}, {{Key::Perm, Ints{1, 0}}}, kNone, "t").outputs[0];
  graph.add_output(x);
  return graph;
}

TEST(Rewriter, folds_a_chain_with_work_proportional_to_its_length) {
  for (int length : {100, 1000, 100000}) {
    Graph graph = chain_of_transposes(length);
    StepStats stats = rewrite(graph, kRules, Repeat::Fixpoint);
    EXPECT_EQ(verify(graph), std::nullopt);
    EXPECT_EQ(graph.node_count(), 0u) << length;  // an even number of swaps
    EXPECT_LE(stats.visits, static_cast<size_t>(8 * length));
  }
}

TEST(Rewriter, does_not_run_a_table_whose_roots_are_absent) {
  Graph graph;
  Type type{DType::F32, {2}, {}};
  ValueId x = graph.add_input(type, "x");
  graph.add_output(graph.add_node(Op::Add, {x, x}, {type}, {}, kNone, "sum").outputs[0]);
  StepStats stats = rewrite(graph, kRules, Repeat::Fixpoint);
  EXPECT_TRUE(stats.skipped);
  EXPECT_EQ(stats.visits, 0u);
}

TEST(Rewriter, counts_and_rewrites_inside_bodies) {
  Graph graph;
  Type type{DType::F32, {3, 3}, {}};
  ValueId p = graph.add_input({DType::Bool, {}, {}}, "p");
  ValueId x = graph.add_input(type, "x");
  Node& cond = graph.add_node(Op::Cond, {p, x}, {type}, {}, kNone, "cond");
  for (int i = 0; i < 2; ++i) cond.bodies.push_back(std::make_unique<Graph>(chain_of_transposes(4)));
  graph.add_output(cond.outputs[0]);
  StepStats stats = rewrite(graph, kRules, Repeat::Fixpoint);
  EXPECT_FALSE(stats.skipped);
  for (const auto& body : cond.bodies) EXPECT_EQ(body->node_count(), 0u);
}

TEST(Rewriter, keeps_what_other_users_need) {
  Graph graph = chain_of_transposes(1);
  ValueId first = graph.outputs()[0];
  ValueId second =
      graph.add_node(Op::Transpose, {first}, {graph.type(first)}, {{Key::Perm, Ints{1, 0}}}, kNone, "t").outputs[0];
  graph.add_output(second);
  rewrite(graph, kRules, Repeat::Fixpoint);
  EXPECT_EQ(graph.node_count(), 1u);
  EXPECT_EQ(graph.outputs()[1], graph.inputs()[0]);
}

// add(a, b)  ->  reshape(transpose(add(transpose(a), transpose(b))))
bool turn_add(Rewriter& rw, const Node& n) {
  if (rw.producer(n, 0, Op::Transpose)) return false;
  auto turned = [&](ValueId v) { return rw.make(Op::Transpose, {v}, {{Key::Perm, Ints{1, 2, 0}}}); };
  ValueId sum = rw.make(Op::Add, {turned(n.inputs[0]), turned(n.inputs[1])});
  ValueId back = rw.make(Op::Transpose, {rw.make(Op::Reshape, {sum}, {{Key::Shape, Ints{3, 4, 2}}})},
                         {{Key::Perm, Ints{2, 0, 1}}});
  rw.replace(n, back);
  return true;
}

TEST(Rewriter, what_replaces_a_value_knows_which_of_the_model_it_holds) {
  Graph graph;
  Type type{DType::F32, {2, 3, 4}, {}};
  ValueId a = graph.add_input(type, "a");
  ValueId b = graph.add_input(type, "b");
  graph.add_output(graph.add_node(Op::Add, {a, b}, {type}, {}, kNone, "sum").outputs[0]);
  graph.mark_origins();
  const Rule rules[] = {{"turn-add", {Op::Add}, turn_add}};
  rewrite(graph, rules, Repeat::Fixpoint);
  ValueId result = graph.outputs()[0];
  EXPECT_EQ(graph.value(result).origin, (Origin{"sum", {}}));
  ValueId reshaped = graph.producer(result)->inputs[0];
  EXPECT_EQ(graph.value(reshaped).origin, (Origin{"sum", {{Op::Transpose, {1, 2, 0}}}}));
  ValueId sum = graph.producer(reshaped)->inputs[0];
  EXPECT_EQ(graph.value(sum).origin, (Origin{"sum", {{Op::Transpose, {1, 2, 0}}, {Op::Reshape, {3, 4, 2}}}}));
  for (ValueId operand : graph.producer(sum)->inputs) EXPECT_EQ(graph.value(operand).origin, std::nullopt);  // made up
  EXPECT_EQ(graph.value(a).origin, (Origin{"a", {}}));
}

TEST(Rewriter, a_movement_that_is_left_out_changes_no_origin) {
  Graph graph;
  Type type{DType::F32, {3, 3}, {}};
  ValueId x = graph.add_input(type, "x");
  ValueId sum = graph.add_node(Op::Add, {x, x}, {type}, {}, kNone, "sum").outputs[0];
  graph.add_output(graph.add_node(Op::Transpose, {sum}, {type}, {{Key::Perm, Ints{0, 1}}}, kNone, "same").outputs[0]);
  graph.mark_origins();
  rewrite(graph, kRules, Repeat::Fixpoint);
  EXPECT_EQ(graph.outputs()[0], sum);
  EXPECT_EQ(graph.value(sum).origin, (Origin{"sum", {}}));
}

TEST(Rewriter, values_of_bodies_are_called_by_their_node) {
  Graph graph;
  Type type{DType::F32, {3, 3}, {}};
  ValueId p = graph.add_input({DType::Bool, {}, {}}, "p");
  ValueId x = graph.add_input(type, "x");
  Node& cond = graph.add_node(Op::Cond, {p, x}, {type}, {}, kNone, "cond");
  for (int i = 0; i < 2; ++i) cond.bodies.push_back(std::make_unique<Graph>(chain_of_transposes(1)));
  graph.mark_origins();
  EXPECT_EQ(cond.bodies[1]->value(cond.bodies[1]->outputs()[0]).origin->name, "cond:1/t");
}

TEST(RewriterDeathTest, names_the_rules_that_undo_each_other) {
  Graph graph;
  Type type{DType::F32, {2}, {}};
  ValueId x = graph.add_input(type, "x");
  ValueId y = graph.add_input(type, "y");
  graph.add_output(graph.add_node(Op::Add, {x, y}, {type}, {}, kNone, "sum").outputs[0]);
  const Rule rules[] = {{"swap-operands", {Op::Add}, swap_operands}};
  EXPECT_EXIT(rewrite(graph, rules, Repeat::Fixpoint), testing::ExitedWithCode(2),
              "rules swap-operands and swap-operands undo each other");
}

Graph one_sum() {
  Graph graph;
  Type type{DType::F32, {2}, {}};
  ValueId x = graph.add_input(type, "x");
  graph.add_output(graph.add_node(Op::Add, {x, x}, {type}, {}, kNone, "sum").outputs[0]);
  return graph;
}

// Runs one rule on add(x, x).
void run_on_sum(bool (*apply)(Rewriter&, const Node&)) {
  Graph graph = one_sum();
  const Rule rules[] = {{"the-rule", {Op::Add}, apply}};
  rewrite(graph, rules, Repeat::Fixpoint);
}

TEST(RewriterDeathTest, names_a_rule_that_refuses_and_leaves_a_node) {
  EXPECT_EXIT(run_on_sum([](Rewriter& rw, const Node& n) {
                rw.make(Op::Mul, {n.inputs[0], n.inputs[1]});
                return false;
              }),
              testing::ExitedWithCode(2), "rule the-rule refuses and has changed the graph at node sum");
}

TEST(RewriterDeathTest, names_a_rule_that_refuses_and_leaves_a_constant) {
  EXPECT_EXIT(run_on_sum([](Rewriter& rw, const Node&) {
                rw.constant({DType::I8, {1}, {}}, Buffer(1), "c");
                return false;
              }),
              testing::ExitedWithCode(2), "rule the-rule refuses and has changed the graph");
}

TEST(RewriterDeathTest, names_a_rule_that_refuses_and_leaves_an_attribute) {
  EXPECT_EXIT(run_on_sum([](Rewriter& rw, const Node& n) {
                rw.set_attr(n, Key::ActMin, 0.0);
                return false;
              }),
              testing::ExitedWithCode(2), "rule the-rule refuses and has changed the graph");
}

TEST(RewriterDeathTest, names_a_rule_that_fires_for_nothing) {
  EXPECT_EXIT(run_on_sum([](Rewriter&, const Node&) { return true; }), testing::ExitedWithCode(2),
              "rule the-rule fires and has changed nothing at node sum");
}

TEST(RewriterDeathTest, names_a_rule_that_hands_in_a_wrong_shape) {
  EXPECT_EXIT(run_on_sum([](Rewriter& rw, const Node& n) {
                rw.replace(n, rw.make(Op::Mul, n.inputs, {}, {DType::F32, {3}, {}}));
                return true;
              }),
              testing::ExitedWithCode(2),
              "rule the-rule at node sum gives mul the type f32.3. where inference says f32");
}

TEST(RewriterDeathTest, names_a_rule_that_hands_in_booleans_for_reals) {
  EXPECT_EXIT(run_on_sum([](Rewriter& rw, const Node& n) {
                rw.set_type(n.outputs[0], {DType::Bool, {2}, {}});
                return true;
              }),
              testing::ExitedWithCode(2), "rule the-rule at node sum gives add the type bool");
}

// The codes are a rule's own choice.
TEST(Rewriter, takes_any_quantized_type_for_reals) {
  Graph graph = one_sum();
  const Rule rules[] = {{"to-codes", {Op::Add}, [](Rewriter& rw, const Node& n) {
                           if (rw.type(n.outputs[0]).quantized()) return false;
                           rw.set_type(n.outputs[0], {DType::I8, {2}, Quant{{0.5}, {0}, -1, -128, 127}});
                           return true;
                         }}};
  EXPECT_EQ(rewrite(graph, rules, Repeat::Fixpoint).hits, 1u);
}

}  // namespace
}  // namespace swoop
