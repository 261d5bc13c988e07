// Every core op, emitted and executed by the stock ExecuTorch runtime, against the float kernel that defines it.
#include <functional>

#include "emit/emit.h"
#include "emit/runtime_for_tests.h"

namespace swoop {
namespace {

using namespace runtime_test;

// -- one node

struct Case {
  std::string name;
  Op op;
  std::vector<Type> inputs;
  Attrs attrs;
  std::vector<bool> absent = {};
};

Graph graph_of(const Case& c) {
  Graph graph;
  std::vector<ValueId> operands;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    bool missing = i < c.absent.size() && c.absent[i];
    operands.push_back(missing ? kNone : graph.add_input(c.inputs[i], "x" + std::to_string(i)));
  }
  Node& node = graph.add_node(c.op, operands, {Type{}}, c.attrs, kNone, "node");
  auto types = infer(graph, node);
  EXPECT_TRUE(types) << c.name << ": " << (types ? "" : types.error().message);
  if (types) graph.value(node.outputs[0]).type = (*types)[0];
  graph.add_output(node.outputs[0]);
  return graph;
}

class HostOps : public testing::TestWithParam<Case> {};

TEST_P(HostOps, runs_as_defined) {
  const Case& c = GetParam();
  Graph graph = graph_of(c);
  std::vector<Tensor> inputs;
  for (ValueId id : graph.inputs())
    inputs.push_back(random_tensor(graph.type(id), static_cast<uint32_t>(inputs.size()) + 7));
  // Functions with a limited domain get what they can take.
  const std::string fn(c.op == Op::Unary ? graph.node(graph.first()).text(Key::Fn) : "");
  if (fn.starts_with("log") || fn == "sqrt" || fn == "rsqrt" || fn == "acosh" || fn == "pow" || c.op == Op::Pow) {
    float shift = fn == "acosh" ? 3.1f : 2.1f;
    for (float& x : inputs[0].as<float>()) x = fn == "logit" ? (x + 2.0f) / 4.5f + 0.05f : x + shift;
  }
  if (fn == "asin" || fn == "acos" || fn == "atanh")
    for (float& x : inputs[0].as<float>()) x *= 0.49f;
  if (c.name == "remainder_integer") {
    for (int64_t& x : inputs[0].as<int64_t>()) x = 4 * x - 5;
    for (int64_t& x : inputs[1].as<int64_t>()) x = x == 0 ? -3 : x + 2;
  }
  if (c.op == Op::BatchNorm)
    for (float& x : inputs.back().as<float>()) x = std::fabs(x) + 0.5f;

  auto wanted = execute(graph, inputs);
  ASSERT_TRUE(wanted) << wanted.error().message;
  auto bytes = emit_pte(graph, {});
  ASSERT_TRUE(bytes) << bytes.error().message;
  Outcome run = LoadedProgram(std::move(*bytes)).run(inputs);
  ASSERT_EQ(run.failure, "");
  ASSERT_EQ(run.outputs.size(), 1u);
  expect_close(run.outputs[0], (*wanted)[0], c.name);
}

std::vector<Case> unary_cases() {
  std::vector<Case> cases;
  for (const UnaryFunction& function : unary_functions()) {
    std::string name(function.name);
    cases.push_back({name, Op::Unary, {f32({2, 3, 5})}, {{Key::Fn, name}}});
  }
  std::erase_if(cases, [](const Case& c) { return c.name == "erfinv"; });  // no kernel: see refuses_what_has_no_kernel
  const std::map<std::string, std::pair<double, double>> parameters = {
      {"softplus", {2.0, 1.5}},   {"leaky_relu", {0.1, 0}}, {"elu", {0.7, 0}},        {"celu", {0.6, 0}},
      {"threshold", {0.3, -0.4}}, {"hardshrink", {0.5, 0}}, {"softshrink", {0.5, 0}}, {"logit", {0.1, 0}},
      {"pow", {2.5, 0}},          {"remainder", {0.7, 0}},  {"fmod", {0.7, 0}}};
  for (Case& c : cases) {
    auto found = parameters.find(c.name);
    if (found == parameters.end()) continue;
    c.attrs.set(Key::Alpha, found->second.first);
    c.attrs.set(Key::Beta, found->second.second);
  }
  return cases;
}

// Attributes as text: "stride=2,1 padding=1,1,1,1 mode=nearest ceil_mode=true value=0.5".
Attrs attrs(std::string_view text) {
  Attrs result;
  while (!text.empty()) {
    size_t space = std::min(text.find(' '), text.size());
    std::string_view word = text.substr(0, space);
    text.remove_prefix(std::min(space + 1, text.size()));
    size_t equals = word.find('=');
    Key key = *key_from(word.substr(0, equals));
    std::string value(word.substr(equals + 1));
    Ints list;
    for (size_t at = 0; at < value.size();
         at = value.find(',', at) == std::string::npos ? value.size() : value.find(',', at) + 1)
      list.push_back(std::strtoll(value.c_str() + at, nullptr, 10));
    if (key == Key::Scales)
      result.set(key, Doubles(list.begin(), list.end()));
    else if (value == "true" || value == "false")
      result.set(key, value == "true");
    else if (value.find('.') != std::string::npos)
      result.set(key, std::strtod(value.c_str(), nullptr));
    else if (std::isalpha(value[0]))
      result.set(key, value);
    else if (key == Key::Groups || key == Key::Divisor)
      result.set(key, list[0]);
    else
      result.set(key, list);
  }
  return result;
}

std::vector<Case> window_cases() {
  const Type image = f32({1, 4, 9, 8});
  const Type signal = f32({2, 4, 11});
  auto conv = [](std::string_view text) { return attrs(text); };
  return {
      {"conv",
       Op::Conv,
       {image, f32({6, 4, 3, 3}), f32({6})},
       conv("stride=2,1 padding=1,1,1,1 dilation=1,1 groups=1")},
      {"conv_uneven", Op::Conv, {image, f32({4, 2, 2, 3})}, conv("stride=1,1 padding=0,1,2,1 dilation=1,2 groups=2")},
      {"conv_1d", Op::Conv, {signal, f32({4, 1, 3}), f32({4})}, conv("stride=1 padding=1,1 dilation=1 groups=4")},
      {"conv_relu6",
       Op::Conv,
       {image, f32({6, 4, 1, 1})},
       conv("stride=1,1 padding=0,0,0,0 dilation=1,1 groups=1 act_min=0.0 act_max=6.0")},
      {"conv_transpose",
       Op::ConvTranspose,
       {image, f32({4, 3, 3, 3}), f32({3})},
       conv("stride=2,2 padding=1,1,1,1 output_padding=1,1 dilation=1,1 groups=1")},
      {"conv_transpose_uneven",
       Op::ConvTranspose,
       {image, f32({4, 3, 3, 3}), f32({3})},
       conv("stride=2,2 padding=1,0,0,2 output_padding=0,0 dilation=1,1 groups=1")},
      {"max_pool", Op::MaxPool, {image}, attrs("kernel=3,2 stride=2,2 padding=1,1,0,0 dilation=1,1 ceil_mode=true")},
      {"max_pool_uneven",
       Op::MaxPool,
       {image},
       attrs("kernel=2,2 stride=2,2 padding=0,1,0,1 dilation=1,1 ceil_mode=false")},
      {"max_pool_1d", Op::MaxPool, {signal}, attrs("kernel=3 stride=2 padding=1,1 dilation=1 ceil_mode=false")},
      {"avg_pool",
       Op::AvgPool,
       {image},
       attrs("kernel=3,3 stride=2,2 padding=1,1,1,1 ceil_mode=false count_include_pad=false divisor=0")},
      {"avg_pool_1d",
       Op::AvgPool,
       {signal},
       attrs("kernel=4 stride=2 padding=2,2 ceil_mode=false count_include_pad=true divisor=0")},
      {"adaptive_avg_pool", Op::AdaptiveAvgPool, {image}, attrs("size=2,3")},
      {"adaptive_max_pool", Op::AdaptiveMaxPool, {image}, attrs("size=3,2")},
      {"adaptive_max_pool_uneven", Op::AdaptiveMaxPool, {image}, attrs("size=4,3")},
      {"resize_nearest", Op::Resize, {image}, attrs("size=18,20 mode=nearest align_corners=false scales=0,0")},
      {"resize_bilinear", Op::Resize, {image}, attrs("size=18,16 mode=bilinear align_corners=false scales=2,2")},
      {"resize_corners", Op::Resize, {image}, attrs("size=5,12 mode=bilinear align_corners=true scales=0,0")},
      {"pad_constant", Op::Pad, {image}, attrs("padding=0,0,1,0,2,1,0,3 mode=constant value=0.5")},
      {"pad_reflect", Op::Pad, {image}, attrs("padding=0,0,0,0,2,1,3,3 mode=reflect value=0.0")},
      {"pad_replicate", Op::Pad, {signal}, attrs("padding=0,0,0,0,2,1 mode=replicate value=0.0")},
      {"pad_circular", Op::Pad, {image}, attrs("padding=0,0,0,0,2,1,0,3 mode=circular value=0.0")},
      {"conv_channels_last",
       Op::Conv,
       {f32({1, 9, 8, 4}), f32({6, 3, 3, 4}), f32({6})},
       conv("stride=2,1 padding=1,1,1,1 dilation=1,1 groups=1 channels_last=true")},
      {"max_pool_channels_last",
       Op::MaxPool,
       {f32({1, 9, 8, 4})},
       attrs("kernel=2,2 stride=2,2 padding=0,0,0,0 dilation=1,1 ceil_mode=false channels_last=true")},
  };
}

std::vector<Case> math_cases() {
  const Type x = f32({2, 3, 4});
  auto fn = [](const char* name) { return Attrs{{Key::Fn, std::string(name)}}; };
  auto axes = [](Ints list, bool keep) { return Attrs{{Key::Axes, std::move(list)}, {Key::Keepdim, keep}}; };
  std::vector<Case> cases = {
      {"linear", Op::Linear, {x, f32({5, 4}), f32({5})}, {}},
      {"linear_no_bias", Op::Linear, {f32({4}), f32({5, 4})}, {}},
      {"matmul_2d", Op::MatMul, {f32({3, 4}), f32({4, 2})}, {}},
      {"matmul_broadcast", Op::MatMul, {f32({2, 1, 3, 4}), f32({5, 4, 2})}, {}},
      {"clamp", Op::Clamp, {x}, {{Key::Min, -0.5}, {Key::Max, 0.7}}},
      {"clamp_min", Op::Clamp, {x}, {{Key::Min, 0.25}}},
      {"prelu", Op::Prelu, {f32({2, 3, 4}), f32({3})}, {}},
      {"add", Op::Add, {x, f32({3, 1})}, {}},
      {"add_relu", Op::Add, {x, x}, {{Key::ActMin, 0.0}}},
      {"sub", Op::Sub, {x, f32({4})}, {}},
      {"mul", Op::Mul, {x, f32({})}, {}},
      {"mul_integer", Op::Mul, {i64({3, 2}), i64({2})}, {}},
      {"div", Op::Div, {x, x}, {}},
      {"div_floor", Op::Div, {x, f32({3, 1})}, {{Key::Mode, std::string("floor")}}},
      {"div_trunc", Op::Div, {x, f32({3, 1})}, {{Key::Mode, std::string("trunc")}}},
      {"maximum", Op::Maximum, {x, f32({4})}, {}},
      {"minimum", Op::Minimum, {x, f32({4})}, {}},
      {"pow", Op::Pow, {x, f32({4})}, {}},
      {"remainder", Op::Remainder, {x, f32({4})}, {}},
      {"remainder_integer", Op::Remainder, {i64({3, 4}), i64({4})}, {}},
      {"logical_not", Op::LogicalNot, {boolean({5})}, {}},
      {"bitwise_not", Op::BitwiseNot, {i64({5})}, {}},
      {"where", Op::Where, {boolean({3, 1}), x, f32({4})}, {}},
      {"var", Op::Var, {x}, {{Key::Axes, Ints{1, 2}}, {Key::Keepdim, false}, {Key::Correction, 1.0}}},
      {"argmax", Op::ArgMax, {x}, {{Key::Axis, int64_t{1}}, {Key::Keepdim, false}}},
      {"argmin", Op::ArgMin, {x}, {{Key::Axis, int64_t{2}}, {Key::Keepdim, true}}},
      {"cumsum", Op::CumSum, {x}, {{Key::Axis, int64_t{1}}}},
      {"any", Op::Any, {boolean({3, 4})}, axes({1}, false)},
      {"all", Op::All, {boolean({3, 4})}, axes({0}, true)},
      {"softmax", Op::Softmax, {x}, {{Key::Axis, int64_t{1}}}},
      {"log_softmax", Op::LogSoftmax, {x}, {{Key::Axis, int64_t{2}}}},
      {"layer_norm", Op::LayerNorm, {x, f32({3, 4}), f32({3, 4})}, {{Key::Axis, int64_t{1}}, {Key::Eps, 1e-5}}},
      {"layer_norm_plain", Op::LayerNorm, {x}, {{Key::Axis, int64_t{2}}, {Key::Eps, 1e-5}}},
      {"rms_norm", Op::RmsNorm, {x, f32({4})}, {{Key::Axis, int64_t{2}}, {Key::Eps, 1e-5}}},
      {"group_norm",
       Op::GroupNorm,
       {f32({2, 4, 3, 3}), f32({4}), f32({4})},
       {{Key::Groups, int64_t{2}}, {Key::Eps, 1e-5}}},
      {"batch_norm", Op::BatchNorm, {f32({2, 4, 3, 3}), f32({4}), f32({4}), f32({4}), f32({4})}, {{Key::Eps, 1e-5}}},
      {"attention",
       Op::Attention,
       {f32({2, 2, 5, 4}), f32({2, 2, 6, 4}), f32({2, 2, 6, 3}), f32({5, 6})},
       attrs("scale=0.4 causal=false")},
      {"attention_causal",
       Op::Attention,
       {f32({2, 5, 4}), f32({2, 5, 4}), f32({2, 5, 4})},
       attrs("scale=0.5 causal=true")},
      {"cast", Op::Cast, {x}, {{Key::DType, DType::I64}}},
  };
  auto with_fn = [&](const std::string& prefix, Op op, const Type& type, const char* name) {
    cases.push_back({prefix + name, op, {Type{type.dtype, {3, 4}, {}}, Type{type.dtype, {4}, {}}}, fn(name)});
  };
  for (const char* name : {"eq", "ne", "lt", "le", "gt", "ge"}) with_fn("compare_", Op::Compare, i64({}), name);
  for (const char* name : {"and", "or", "xor"}) with_fn("logical_", Op::Logical, boolean({}), name);
  for (const char* name : {"and", "or", "xor", "shl", "shr"}) with_fn("bitwise_", Op::Bitwise, i64({}), name);
  const std::pair<const char*, Op> reductions[] = {
      {"sum", Op::Sum}, {"mean", Op::Mean}, {"amax", Op::ReduceMax}, {"amin", Op::ReduceMin}, {"prod", Op::Prod}};
  for (auto [name, op] : reductions) {
    cases.push_back({std::string(name), op, {x}, axes({0, 2}, false)});
    cases.push_back({std::string(name) + "_keep", op, {x}, axes({1}, true)});
  }
  return cases;
}

std::vector<Case> movement_cases() {
  const Type x = f32({2, 3, 4});
  return {
      {"reshape", Op::Reshape, {x}, {{Key::Shape, Ints{6, 4}}}},
      {"transpose", Op::Transpose, {x}, {{Key::Perm, Ints{2, 0, 1}}}},
      {"concat", Op::Concat, {x, f32({2, 1, 4}), x}, {{Key::Axis, int64_t{1}}}},
      {"slice",
       Op::Slice,
       {x},
       {{Key::Axis, int64_t{2}}, {Key::Start, int64_t{1}}, {Key::End, int64_t{4}}, {Key::Step, int64_t{2}}}},
      {"expand", Op::Expand, {f32({2, 1, 4})}, {{Key::Shape, Ints{2, 5, 4}}}},
      {"repeat", Op::Repeat, {x}, {{Key::Multiples, Ints{1, 2, 3}}}},
      {"flip", Op::Flip, {x}, {{Key::Axes, Ints{0, 2}}}},
      {"gather", Op::Gather, {x, i64({2, 5})}, {{Key::Axis, int64_t{1}}}},
      {"gather_elements", Op::GatherElements, {x, i64({2, 2, 4})}, {{Key::Axis, int64_t{1}}}},
      {"scatter_elements", Op::ScatterElements, {x, i64({2, 1, 4}), f32({2, 1, 4})}, {{Key::Axis, int64_t{1}}}},
  };
}

std::string case_name(const testing::TestParamInfo<Case>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Unary, HostOps, testing::ValuesIn(unary_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Window, HostOps, testing::ValuesIn(window_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Math, HostOps, testing::ValuesIn(math_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Movement, HostOps, testing::ValuesIn(movement_cases()), case_name);

TEST(HostOps, refuses_what_has_no_kernel) {
  Graph graph;
  ValueId x = graph.add_input(f32({4}), "x");
  Loc loc;
  loc.file = "net.py";
  loc.line = 31;
  Node& node =
      graph.add_node(Op::Unary, {x}, {f32({4})}, {{Key::Fn, std::string("erfinv")}}, graph.intern(loc), "erfinv_1");
  graph.add_output(node.outputs[0]);
  auto bytes = emit_pte(graph, {});
  ASSERT_FALSE(bytes);
  EXPECT_NE(bytes.error().message.find("net.py:31"), std::string::npos) << bytes.error().message;
  EXPECT_NE(bytes.error().message.find("erfinv"), std::string::npos) << bytes.error().message;
  EXPECT_FALSE(host_supports(graph, node));
}

}  // namespace
}  // namespace swoop
