// Inference through text: each line is an operator with the result that the rules give, or the sentence that refuses
// it.
#include <gtest/gtest.h>

#include "ops/ops.h"

namespace swoop {
namespace {

struct Case {
  const char* inputs;
  const char* node;  // without the result type
  const char* expected;
};

// The inferred types, or the error's text.
std::string inferred(const std::string& inputs, const std::string& node) {
  // The parser wants a result type; inference does not look at it.
  Result<Graph> graph = parse("graph \"g\" (" + inputs + ")\n  %result = " + node + " : f32[]\n  return %result\n");
  if (!graph) return "text: " + graph.error().message;
  Result<std::vector<Type>> types = infer(*graph, graph->node(graph->first()));
  if (!types) return types.error().message;
  std::string text;
  for (const Type& type : *types) text += (text.empty() ? "" : ", ") + to_text(type);
  return text;
}

void check(std::initializer_list<Case> cases) {
  for (const Case& c : cases) EXPECT_EQ(inferred(c.inputs, c.node), c.expected) << c.node << " of " << c.inputs;
}

TEST(Infer, every_operator_has_one_row) {
  for (int i = 0; i < kOpCount; ++i) EXPECT_EQ(info(static_cast<Op>(i)).op, static_cast<Op>(i));
}

TEST(Infer, policy_same_as_input_carries_quantization) {
  EXPECT_EQ(inferred("%x: i8[1,2,4,4] q(0.5, 3)",
                     R"(max_pool %x kernel=[2,2] stride=[2,2] padding=[0,0,0,0] dilation=[1,1])"),
            "i8[1,2,2,2] q(0.5, 3)");
  EXPECT_EQ(inferred("%x: i8[1,2,4,4] q(0.5, 3)", R"(resize %x size=[8,8] mode="nearest" scales=d[0.0,0.0])"),
            "i8[1,2,8,8] q(0.5, 3)");
  EXPECT_EQ(inferred("%x: i8[4,4] q(0.5, 3)", "amax %x axes=[0] keepdim=true"), "i8[1,4] q(0.5, 3)");
  for (int i = 0; i < kOpCount; ++i) {
    const OpInfo& row = info(static_cast<Op>(i));
    bool carries = row.policy == Policy::SameAsInput || row.policy == Policy::Joins;
    EXPECT_TRUE(!row.traits.movement || carries) << name_of(row.op);
  }
}

TEST(Infer, other_operators_on_quantized_values_give_reals) {
  check({{"%a: i8[2] q(0.5, 3), %b: i8[2] q(0.25, 0)", "add %a, %b", "f32[2]"},
         {"%a: i8[2] q(0.5, 3)", "unary %a fn=\"exp\"", "f32[2]"},
         {"%a: i8[2] q(0.5, 3)", "dequantize %a", "f32[2]"},
         {"%a: f32[2]", "dequantize %a", "dequantize of f32[2], which is not quantized"}});
}

TEST(Infer, convolutions) {
  constexpr const char* kPlain = "stride=[1,1] padding=[1,1,1,1] dilation=[1,1] groups=1";
  auto conv = [&](const char* tail) { return std::string("conv %x, %w ") + tail; };
  EXPECT_EQ(inferred("%x: f32[1,3,8,9], %w: f32[4,3,3,3]", conv(kPlain)), "f32[1,4,8,9]");
  EXPECT_EQ(inferred("%x: f32[1,8,9,3], %w: f32[4,3,3,3]",
                     conv("channels_last=true stride=[2,1] padding=[0,0,0,0] dilation=[1,1] groups=1")),
            "f32[1,3,7,4]");
  check({{"%x: f32[1,3,8,9], %w: f32[4,2,3,3]", "conv %x, %w stride=[1,1] padding=[0,0,0,0] dilation=[1,1] groups=1",
          "conv of [1,3,8,9] with 1 groups cannot have weights [4,2,3,3]: input channels are 3, weights take 2 per "
          "group"},
         {"%x: f32[1,3,8,9], %w: f32[4,3,3,3]", "conv %x, %w stride=[0,1] padding=[0,0,0,0] dilation=[1,1] groups=1",
          "conv with kernel [3,3], stride [0,1], dilation [1,1], padding [0,0,0,0] over [8,9]: kernel, stride and "
          "dilation are at least 1, "
          "padding at least 0"},
         {"%x: f32[1,3,2,2], %w: f32[4,3,3,3]", "conv %x, %w stride=[1,1] padding=[0,0,0,0] dilation=[1,1] groups=1",
          "conv has a window of 3 in a padded input of 2 (kernel [3,3], dilation [1,1], input [2,2])"},
         {"%x: f32[1,3,8,9], %w: f32[4,3,3,3], %b: f32[3]",
          "conv %x, %w, %b stride=[1,1] padding=[0,0,0,0] dilation=[1,1] groups=1",
          "conv with 4 output channels has a bias f32[3]"},
         {"%x: f32[1,3,8,9], %w: f32[4,3,3,3]", "conv %x, %w stride=[1,1] padding=[0,0] dilation=[1,1] groups=1",
          "conv needs 4 values in padding, and has [0,0]"},
         {"%x: f32[1,3,8,9], %w: f32[4,3,3,3]", "conv %x, %w stride=[1,1]",
          "text: %result (conv) lacks attribute padding"},
         {"%x: f32[3,8], %w: f32[4,3]", "conv %x, %w stride=[] padding=[] dilation=[] groups=1",
          "conv takes an operand with 3 to 5 dims (batch, channels, space), not [3,8]"},
         {"%x: i64[1,3,8,9], %w: f32[4,3,3,3]", "conv %x, %w stride=[1,1] padding=[0,0,0,0] dilation=[1,1] groups=1",
          "conv works on floats, not on i64[1,3,8,9] and f32[4,3,3,3]"},
         {"%x: f32[1,4,5], %w: f32[4,2,3]",
          "conv_transpose %x, %w stride=[2] padding=[1,1] output_padding=[1] dilation=[1] groups=2", "f32[1,4,10]"},
         {"%x: f32[1,5,4], %w: f32[4,3,2]",
          "conv_transpose %x, %w channels_last=true stride=[2] padding=[1,1] dilation=[1] groups=2 output_padding=[0]",
          "f32[1,9,4]"},
         {"%x: f32[1,4,5], %w: f32[4,2,3]",
          "conv_transpose %x, %w stride=[2] padding=[1,1] output_padding=[2] dilation=[1] groups=2",
          "conv_transpose has output_padding [2], which must be smaller than stride [2] or dilation [1]"},
         {"%x: f32[2,5], %w: f32[3,4]", "linear %x, %w",
          "linear of [2,5] cannot have weights [3,4]: the last size of the input is the second of the weights"},
         {"%a: f32[2,3,4], %b: f32[5,4,6]", "matmul %a, %b",
          "matmul cannot broadcast [2] with [5]: sizes 2 and 5 differ"}});
}

TEST(Infer, pools_and_resize) {
  check({{"%x: f32[1,2,5,5]",
          "avg_pool %x kernel=[2,2] stride=[2,2] padding=[0,0,0,0] ceil_mode=true count_include_pad=true divisor=0",
          "f32[1,2,3,3]"},
         {"%x: f32[1,5,5,2]",
          "avg_pool %x kernel=[2,2] stride=[2,2] padding=[0,0,0,0] channels_last=true count_include_pad=true divisor=0",
          "f32[1,2,2,2]"},
         // a window that would start in the right padding is left out
         {"%x: f32[1,1,3,3]", "max_pool %x kernel=[2,2] stride=[2,2] padding=[1,1,1,1] ceil_mode=true dilation=[1,1]",
          "f32[1,1,2,2]"},
         {"%x: f32[1,1,3,3]", "max_pool %x kernel=[2,2] stride=[2,2] padding=[2,2,0,0] dilation=[1,1]",
          "max_pool with kernel [2,2] has padding as large as its window: some windows would see nothing"},
         {"%x: f32[1,1,3,3]", "adaptive_avg_pool %x size=[2]", "adaptive_avg_pool needs 2 values in size, and has [2]"},
         {"%x: f32[1,1,3,3]", "adaptive_avg_pool %x size=[2,0]",
          "adaptive_avg_pool of [1,1,3,3] to size [2,0]: sizes must be at least 1"},
         {"%x: f32[1,1,3,3]", "resize %x size=[6,6] mode=\"bicubic\" scales=d[0.0,0.0]", "resize has no mode bicubic"},
         {"%x: i64[1,1,3,3]", "resize %x size=[6,6] mode=\"bilinear\" scales=d[0.0,0.0]",
          "bilinear resize works on floats, not on i64[1,1,3,3]"}});
}

TEST(Infer, elementwise) {
  check({{"%a: f32[2,3], %b: f32[4]", "add %a, %b", "add cannot broadcast [2,3] with [4]: sizes 3 and 4 differ"},
         {"%a: i64[2], %b: i64[2]", "div %a, %b", "f32[2]"},
         {"%a: i64[2], %b: i64[2]", "div %a, %b mode=\"floor\"", "i64[2]"},
         {"%a: i64[2], %b: i64[2]", "div %a, %b mode=\"up\"", "div has no mode up"},
         {"%a: bool[2], %b: bool[2]", "sub %a, %b", "sub works on numbers, not on bool"},
         {"%a: f16[2], %b: bf16[2]", "mul %a, %b", "f32[2]"},
         {"%a: f16[2], %b: f32[]", "mul %a, %b", "f16[2]"},
         {"%a: i8[2], %b: f16[]", "mul %a, %b", "f16[2]"},
         {"%a: f32[2]", "unary %a fn=\"frobnicate\"", "unary has no function frobnicate"},
         {"%a: f32[2]", "unary %a", "text: %result (unary) lacks attribute fn"},
         {"%a: f32[2], %b: f32[2]", "bitwise %a, %b fn=\"and\"", "bitwise works on integers, not on f32[2] and f32[2]"},
         {"%a: f32[2], %b: f32[2]", "compare %a, %b fn=\"lt\"", "bool[2]"},
         {"%c: f32[2], %a: f32[2], %b: f32[2]", "where %c, %a, %b", "where needs a bool condition, not f32[2]"},
         {"%x: f32[2,3,4], %w: f32[4]", "prelu %x, %w", "prelu of [2,3,4] has weights [4]: one, or one per channel"},
         {"%x: f32[2]", "add %x", "add takes 2 to 2 operands, not 1"},
         {"%x: f32[2]", "add %x, _", "add lacks its operand 1"}});
}

TEST(Infer, reductions_and_norms) {
  check(
      {{"%x: f32[2,3]", "sum %x axes=[2] keepdim=false", "sum over axis 2 of an operand of shape [2,3]"},
       {"%x: f32[2,3]", "sum %x axes=[1,1] keepdim=false", "sum names axis 1 twice"},
       {"%x: f32[2,0]", "amax %x axes=[1] keepdim=false", "amax over axes [1] of [2,0]: there is no element to choose"},
       {"%x: i32[2,3]", "sum %x axes=[1] keepdim=false", "i64[2]"},
       {"%x: i32[2,3]", "mean %x axes=[1] keepdim=false", "mean works on floats, not on i32[2,3]"},
       {"%x: f32[2,3]", "argmax %x axis=1 keepdim=true", "i64[2,1]"},
       {"%x: f32[2,3]", "softmax %x axis=2", "softmax over axis 2 of an operand with 2 dims"},
       {"%x: f32[2,3], %w: f32[2]", "layer_norm %x, %w axis=1 eps=1e-05",
        "layer_norm normalises [3] of [2,3], but has weights or a bias of shape [2]"},
       {"%x: f32[2,6,5]", "group_norm %x groups=4 eps=1e-05", "group_norm cannot split 6 channels into 4 groups"},
       {"%x: f32[2,6,5], %m: f32[6]", "batch_norm %x, _, _, %m, _ eps=1e-05", "batch_norm lacks its operand 4"},
       {"%q: f32[2,5,8], %k: f32[2,7,8], %v: f32[2,6,3]", "attention %q, %k, %v scale=1.0",
        "attention of queries [2,5,8], keys [2,7,8], values [2,6,3]: queries and keys share their last size, keys and "
        "values the one before"}});
}

TEST(Infer, movement_carries_per_tensor_quantization) {
  check({{"%x: i8[2,3] q(0.5, 3)", "transpose %x perm=[1,0]", "i8[3,2] q(0.5, 3)"},
         {"%x: i8[2,3] q(0.5, 3)", "reshape %x shape=[6]", "i8[6] q(0.5, 3)"},
         {"%x: i8[2,3] q(0.5, 3), %y: i8[2,1] q(0.5, 3)", "concat %x, %y axis=1", "i8[2,4] q(0.5, 3)"},
         // operands on different scales have no common type but their reals
         {"%x: i8[2,3] q(0.5, 3), %y: i8[2,1] q(0.25, 3)", "concat %x, %y axis=1", "f32[2,4]"},
         {"%x: i8[9,3] q(0.5, 3), %i: i64[2,2]", "gather %x, %i axis=0", "i8[2,2,3] q(0.5, 3)"},
         {"%x: i16[2,3]", "flip %x axes=[0,1]", "i16[2,3]"}});
}

TEST(Infer, movement_takes_the_channel_axis_along) {
  check(
      {{"%x: i8[2,3] q(axis=0, [0.5,0.25], [0,0])", "transpose %x perm=[1,0]", "i8[3,2] q(axis=1, [0.5,0.25], [0,0])"},
       {"%x: i8[2,3,4] q(axis=0, [0.5,0.25], [0,0])", "reshape %x shape=[1,2,12]",
        "i8[1,2,12] q(axis=1, [0.5,0.25], [0,0])"},
       {"%x: i8[2,3] q(axis=0, [0.5,0.25], [0,0])", "reshape %x shape=[3,2]", "f32[3,2]"},
       {"%x: i8[3,1] q(axis=0, [0.5,0.25,1.0], [0,1,2])", "slice %x axis=0 start=0 end=3 step=2",
        "i8[2,1] q(axis=0, [0.5,1], [0,2])"},
       {"%x: i8[2,3] q(axis=0, [0.5,0.25], [0,1])", "flip %x axes=[0]", "i8[2,3] q(axis=0, [0.25,0.5], [1,0])"},
       {"%x: i8[2,3] q(axis=0, [0.5,0.25], [0,0]), %y: i8[1,3] q(axis=0, [2.0], [0])", "concat %x, %y axis=0",
        "i8[3,3] q(axis=0, [0.5,0.25,2], [0,0,0])"},
       {"%x: i8[2,3] q(axis=1, [0.5,0.25,1.0], [0,0,0]), %i: i64[4,5]", "gather %x, %i axis=0",
        "i8[4,5,3] q(axis=2, [0.5,0.25,1], [0,0,0])"},
       {"%x: i8[2,3] q(axis=0, [0.5,0.25], [0,0])", "pad %x padding=[0,0,1,1] value=0.0 mode=\"constant\"",
        "i8[2,5] q(axis=0, [0.5,0.25], [0,0])"},
       {"%x: i8[2,3] q(axis=0, [0.5,0.25], [0,0])", "pad %x padding=[1,0,0,0] value=0.0 mode=\"constant\"",
        "f32[3,3]"}});
}

TEST(Infer, movement_refuses) {
  check({{"%x: f32[2,3]", "reshape %x shape=[4]", "reshape of [2,3] to [4]: the numbers of elements differ"},
         {"%x: f32[2,3]", "transpose %x perm=[0,0]", "transpose has perm [0,0], which is not a permutation of 2 dims"},
         {"%x: f32[2,3], %y: f32[3,3]", "concat %x, %y axis=1",
          "concat over axis 1 of [2,3] and [3,3]: the other sizes must agree"},
         {"%x: f32[2,3]", "slice %x axis=1 start=2 end=4 step=1", "slice 2:4:1 of a dim of size 3"},
         {"%x: f32[2,3]", "slice %x axis=1 start=0 end=3 step=0", "slice 0:3:0 of a dim of size 3"},
         {"%x: f32[2,3]", "pad %x padding=[0,0,3,0] mode=\"reflect\" value=0.0",
          "pad with mode reflect cannot add 3 and 0 to a dim of size 3"},
         {"%x: f32[2,3]", "expand %x shape=[2,6]", "expand of [2,3] to [2,6]: only sizes of 1 repeat"},
         {"%x: f32[2,3], %i: f32[2]", "gather %x, %i axis=0", "gather needs integer indices, not f32[2]"},
         {"%x: f32[2,3], %i: i64[3,3]", "gather_elements %x, %i axis=1",
          "gather_elements over axis 1 of [2,3] with indices [3,3]"}});
}

TEST(Infer, absurd_sizes_are_refused_without_overflow) {
  constexpr const char* kHuge = "9223372036854775807";
  auto with = [&](std::string text) {
    for (size_t at; (at = text.find("HUGE")) != std::string::npos;) text.replace(at, 4, kHuge);
    return text;
  };
  for (const char* node :
       {"reshape %x shape=[HUGE,HUGE,HUGE]", "expand %x shape=[HUGE,HUGE,HUGE,HUGE]",
        "repeat %x multiples=[HUGE,HUGE,1,1]", "pad %x padding=[HUGE,HUGE,0,0,0,0,0,0] value=0.0 mode=\"constant\"",
        "slice %x axis=HUGE start=0 end=1 step=1", "slice %x axis=0 start=-HUGE end=HUGE step=HUGE",
        "adaptive_avg_pool %x size=[HUGE,HUGE]", "resize %x size=[HUGE,HUGE] mode=\"nearest\" scales=d[0.0,0.0]",
        "group_norm %x groups=HUGE eps=0.1",
        "max_pool %x kernel=[HUGE,HUGE] stride=[1,1] padding=[HUGE,HUGE,HUGE,HUGE] dilation=[HUGE,HUGE]",
        "conv %x, %x stride=[1,1] padding=[HUGE,0,0,HUGE] dilation=[1,1] groups=1",
        "conv %x, %x stride=[1,1] padding=[0,0,0,0] dilation=[HUGE,1] groups=HUGE",
        "conv_transpose %x, %x stride=[HUGE,HUGE] padding=[0,0,0,0] output_padding=[HUGE,0] dilation=[1,1] groups=1"}) {
    std::string answer = inferred("%x: f32[1,1,1,1]", with(node));
    EXPECT_FALSE(answer.empty()) << node;
    EXPECT_NE(answer.substr(0, 3), "f32") << node;
    EXPECT_NE(answer.substr(0, 5), "text:") << answer;
  }
}

TEST(Infer, control_flow_takes_its_results_from_bodies) {
  const char* text = R"(graph "g" (%p: bool[], %x: f32[3])
  %y = cond %p, %x : f32[] {
    graph "then" (%a: f32[3])
      %r = sum %a axes=[0] keepdim=false : f32[]
      return %r
  } {
    graph "else" (%a: f32[3])
      return %a
  }
  return %y
)";
  Result<Graph> graph = parse(text);
  ASSERT_TRUE(graph) << graph.error().message;
  Result<std::vector<Type>> types = infer(*graph, graph->node(graph->first()));
  ASSERT_FALSE(types);
  EXPECT_EQ(types.error().message, "cond result is f32[], but its body has f32[3]");
}

}  // namespace
}  // namespace swoop
