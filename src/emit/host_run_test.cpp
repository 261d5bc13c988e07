// Every core op, emitted and executed by the stock ExecuTorch runtime, against the float kernel that defines it.
#include <executorch/extension/data_loader/buffer_data_loader.h>
#include <executorch/extension/module/module.h>
#include <executorch/extension/tensor/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "emit/emit.h"
#include "ops/ops.h"

namespace swoop {
namespace {

namespace et = executorch::extension;
using executorch::aten::ScalarType;

// -- the runtime

struct Outcome {
  std::vector<Tensor> outputs;
  std::string failure;
};

// f32, i64 and bool as the float executor has them; the narrow integers of quantized values come back as i64.
Tensor from_runtime(const executorch::aten::Tensor& source) {
  Shape shape(source.sizes().begin(), source.sizes().end());
  DType dtype = source.scalar_type() == ScalarType::Float ? DType::F32 : source.scalar_type() == ScalarType::Bool ? DType::Bool : DType::I64;
  Tensor result = make_tensor(dtype, shape);
  auto widen = [&](auto tag) {
    using T = decltype(tag);
    for (int64_t i = 0; i < source.numel(); ++i) result.as<int64_t>()[static_cast<size_t>(i)] = source.const_data_ptr<T>()[i];
  };
  switch (source.scalar_type()) {
    case ScalarType::Char: widen(int8_t{}); break;
    case ScalarType::Short: widen(int16_t{}); break;
    case ScalarType::Int: widen(int32_t{}); break;
    default: std::memcpy(result.data.data(), source.const_data_ptr(), result.data.size());
  }
  return result;
}

class Program {
 public:
  explicit Program(Buffer bytes) : bytes_(std::move(bytes)) {
    module_ = std::make_unique<et::Module>(std::make_unique<et::BufferDataLoader>(bytes_.data(), bytes_.size()));
    EXPECT_EQ(module_->load(executorch::runtime::Program::Verification::InternalConsistency), executorch::runtime::Error::Ok);
  }

  Outcome run(std::span<const Tensor> inputs) {
    std::vector<et::TensorPtr> owners;
    std::vector<executorch::runtime::EValue> values;
    for (const Tensor& input : inputs) {
      std::vector<executorch::aten::SizesType> sizes(input.shape.begin(), input.shape.end());
      ScalarType type = input.dtype == DType::F32 ? ScalarType::Float : input.dtype == DType::Bool ? ScalarType::Bool : ScalarType::Long;
      owners.push_back(et::from_blob(const_cast<std::byte*>(input.data.data()), sizes, type));
      values.emplace_back(owners.back());
    }
    auto result = module_->execute("forward", values);
    Outcome run;
    if (!result.ok()) {
      run.failure = executorch::runtime::to_string(result.error());
      return run;
    }
    for (const auto& value : *result) run.outputs.push_back(from_runtime(value.toTensor()));
    return run;
  }

 private:
  Buffer bytes_;
  std::unique_ptr<et::Module> module_;
};

// -- inputs

Tensor random_tensor(const Type& type, uint32_t seed) {
  Tensor tensor = make_tensor(type.dtype == DType::F32 ? DType::F32 : type.dtype == DType::Bool ? DType::Bool : DType::I64, type.shape);
  uint32_t state = seed * 2654435761u + 1;
  auto next = [&] {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
  };
  if (tensor.dtype == DType::F32)
    for (float& x : tensor.as<float>()) x = static_cast<float>(next() % 4001) / 1000.0f - 2.0f;
  else if (tensor.dtype == DType::I64)
    for (int64_t& x : tensor.as<int64_t>()) x = static_cast<int64_t>(next() % 3);
  else
    for (std::byte& x : tensor.as<std::byte>()) x = static_cast<std::byte>(next() & 1);
  return tensor;
}

void expect_close(const Tensor& actual, const Tensor& wanted, const std::string& what, double tolerance = 2e-5) {
  ASSERT_EQ(to_text(actual.shape), to_text(wanted.shape)) << what;
  ASSERT_EQ(actual.dtype, wanted.dtype) << what;
  if (wanted.dtype != DType::F32) {
    EXPECT_TRUE(std::ranges::equal(actual.as<std::byte>(), wanted.as<std::byte>())) << what;
    return;
  }
  for (size_t i = 0; i < wanted.as<float>().size(); ++i) {
    float a = actual.as<float>()[i];
    float w = wanted.as<float>()[i];
    if (std::isnan(w) && std::isnan(a)) continue;
    ASSERT_NEAR(a, w, tolerance * std::max(1.0f, std::fabs(w))) << what << " element " << i;
  }
}

// -- one node

struct Case {
  std::string name;
  Op op;
  std::vector<Type> inputs;
  Attrs attrs;
  std::vector<bool> absent = {};
};

Type f32(Shape shape) { return {DType::F32, std::move(shape), {}}; }
Type i64(Shape shape) { return {DType::I64, std::move(shape), {}}; }
Type boolean(Shape shape) { return {DType::Bool, std::move(shape), {}}; }

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
  for (ValueId id : graph.inputs()) inputs.push_back(random_tensor(graph.type(id), static_cast<uint32_t>(inputs.size()) + 7));
  // Functions with a limited domain get what they can take.
  const std::string fn(c.op == Op::Unary ? graph.node(graph.first()).text(Key::Fn) : "");
  if (fn.starts_with("log") || fn == "sqrt" || fn == "rsqrt" || fn == "acosh" || fn == "pow" || c.op == Op::Pow) {
    float shift = fn == "acosh" ? 3.1f : 2.1f;
    for (float& x : inputs[0].as<float>()) x = fn == "logit" ? (x + 2.0f) / 4.5f + 0.05f : x + shift;
  }
  if (fn == "asin" || fn == "acos" || fn == "atanh")
    for (float& x : inputs[0].as<float>()) x *= 0.49f;
  if (c.op == Op::BatchNorm)
    for (float& x : inputs.back().as<float>()) x = std::fabs(x) + 0.5f;

  auto wanted = execute(graph, inputs);
  ASSERT_TRUE(wanted) << wanted.error().message;
  auto bytes = emit_pte(graph, {});
  ASSERT_TRUE(bytes) << bytes.error().message;
  Outcome run = Program(std::move(*bytes)).run(inputs);
  ASSERT_EQ(run.failure, "");
  ASSERT_EQ(run.outputs.size(), 1u);
  expect_close(run.outputs[0], (*wanted)[0], c.name);
}

std::vector<Case> unary_cases() {
  std::vector<Case> cases;
#define UNARY(name, expression) cases.push_back({#name, Op::Unary, {f32({2, 3, 5})}, {{Key::Fn, std::string(#name)}}});
#include "ops/unary.def"
#undef UNARY
  std::erase_if(cases, [](const Case& c) { return c.name == "erfinv"; });  // no kernel: see refuses_what_has_no_kernel
  const std::map<std::string, std::pair<double, double>> parameters = {
      {"softplus", {2.0, 1.5}},  {"leaky_relu", {0.1, 0}},  {"elu", {0.7, 0}},   {"celu", {0.6, 0}}, {"threshold", {0.3, -0.4}},
      {"hardshrink", {0.5, 0}},  {"softshrink", {0.5, 0}},  {"logit", {0.1, 0}}, {"pow", {2.5, 0}},  {"remainder", {0.7, 0}},
      {"fmod", {0.7, 0}}};
  for (Case& c : cases) {
    auto found = parameters.find(c.name);
    if (found == parameters.end()) continue;
    c.attrs.set(Key::Alpha, found->second.first);
    c.attrs.set(Key::Beta, found->second.second);
  }
  return cases;
}

std::vector<Case> window_cases() {
  const Type image = f32({1, 4, 9, 8});
  const Type signal = f32({2, 4, 11});
  auto ints = [](std::initializer_list<int64_t> list) { return Ints(list); };
  return {
      {"conv", Op::Conv, {image, f32({6, 4, 3, 3}), f32({6})}, {{Key::Stride, ints({2, 1})}, {Key::Padding, ints({1, 1, 1, 1})}, {Key::Dilation, ints({1, 1})}, {Key::Groups, int64_t{1}}}},
      {"conv_uneven", Op::Conv, {image, f32({4, 2, 2, 3})}, {{Key::Stride, ints({1, 1})}, {Key::Padding, ints({0, 1, 2, 1})}, {Key::Dilation, ints({1, 2})}, {Key::Groups, int64_t{2}}}},
      {"conv_depthwise_1d", Op::Conv, {signal, f32({4, 1, 3}), f32({4})}, {{Key::Stride, ints({1})}, {Key::Padding, ints({1, 1})}, {Key::Dilation, ints({1})}, {Key::Groups, int64_t{4}}}},
      {"conv_relu6", Op::Conv, {image, f32({6, 4, 1, 1})}, {{Key::Stride, ints({1, 1})}, {Key::Padding, ints({0, 0, 0, 0})}, {Key::Dilation, ints({1, 1})}, {Key::Groups, int64_t{1}}, {Key::ActMin, 0.0}, {Key::ActMax, 6.0}}},
      {"conv_transpose", Op::ConvTranspose, {image, f32({4, 3, 3, 3}), f32({3})}, {{Key::Stride, ints({2, 2})}, {Key::Padding, ints({1, 1, 1, 1})}, {Key::OutputPadding, ints({1, 1})}, {Key::Dilation, ints({1, 1})}, {Key::Groups, int64_t{1}}}},
      {"conv_transpose_uneven", Op::ConvTranspose, {image, f32({4, 3, 3, 3}), f32({3})}, {{Key::Stride, ints({2, 2})}, {Key::Padding, ints({1, 0, 0, 2})}, {Key::OutputPadding, ints({0, 0})}, {Key::Dilation, ints({1, 1})}, {Key::Groups, int64_t{1}}}},
      {"max_pool", Op::MaxPool, {image}, {{Key::Kernel, ints({3, 2})}, {Key::Stride, ints({2, 2})}, {Key::Padding, ints({1, 1, 0, 0})}, {Key::Dilation, ints({1, 1})}, {Key::CeilMode, true}}},
      {"max_pool_uneven", Op::MaxPool, {image}, {{Key::Kernel, ints({2, 2})}, {Key::Stride, ints({2, 2})}, {Key::Padding, ints({0, 1, 0, 1})}, {Key::Dilation, ints({1, 1})}, {Key::CeilMode, false}}},
      {"max_pool_1d", Op::MaxPool, {signal}, {{Key::Kernel, ints({3})}, {Key::Stride, ints({2})}, {Key::Padding, ints({1, 1})}, {Key::Dilation, ints({1})}, {Key::CeilMode, false}}},
      {"avg_pool", Op::AvgPool, {image}, {{Key::Kernel, ints({3, 3})}, {Key::Stride, ints({2, 2})}, {Key::Padding, ints({1, 1, 1, 1})}, {Key::CeilMode, false}, {Key::CountIncludePad, false}, {Key::Divisor, int64_t{0}}}},
      {"avg_pool_1d", Op::AvgPool, {signal}, {{Key::Kernel, ints({4})}, {Key::Stride, ints({2})}, {Key::Padding, ints({2, 2})}, {Key::CeilMode, false}, {Key::CountIncludePad, true}, {Key::Divisor, int64_t{0}}}},
      {"adaptive_avg_pool", Op::AdaptiveAvgPool, {image}, {{Key::Size, ints({2, 3})}}},
      {"adaptive_max_pool", Op::AdaptiveMaxPool, {image}, {{Key::Size, ints({3, 2})}}},
      {"resize_nearest", Op::Resize, {image}, {{Key::Size, ints({18, 20})}, {Key::Mode, std::string("nearest")}, {Key::AlignCorners, false}, {Key::Scales, Doubles{0, 0}}}},
      {"resize_bilinear", Op::Resize, {image}, {{Key::Size, ints({18, 16})}, {Key::Mode, std::string("bilinear")}, {Key::AlignCorners, false}, {Key::Scales, Doubles{2, 2}}}},
      {"resize_corners", Op::Resize, {image}, {{Key::Size, ints({5, 12})}, {Key::Mode, std::string("bilinear")}, {Key::AlignCorners, true}, {Key::Scales, Doubles{0, 0}}}},
      {"pad_constant", Op::Pad, {image}, {{Key::Padding, ints({0, 0, 1, 0, 2, 1, 0, 3})}, {Key::Mode, std::string("constant")}, {Key::Value, 0.5}}},
      {"pad_reflect", Op::Pad, {image}, {{Key::Padding, ints({0, 0, 0, 0, 2, 1, 3, 3})}, {Key::Mode, std::string("reflect")}}},
      {"pad_replicate", Op::Pad, {signal}, {{Key::Padding, ints({0, 0, 0, 0, 2, 1})}, {Key::Mode, std::string("replicate")}}},
      {"pad_circular", Op::Pad, {image}, {{Key::Padding, ints({0, 0, 0, 0, 2, 1, 0, 3})}, {Key::Mode, std::string("circular")}}},
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
      {"group_norm", Op::GroupNorm, {f32({2, 4, 3, 3}), f32({4}), f32({4})}, {{Key::Groups, int64_t{2}}, {Key::Eps, 1e-5}}},
      {"batch_norm", Op::BatchNorm, {f32({2, 4, 3, 3}), f32({4}), f32({4}), f32({4}), f32({4})}, {{Key::Eps, 1e-5}}},
      {"attention", Op::Attention, {f32({2, 2, 5, 4}), f32({2, 2, 6, 4}), f32({2, 2, 6, 3}), f32({5, 6})}, {{Key::Scale, 0.4}, {Key::Causal, false}}},
      {"attention_causal", Op::Attention, {f32({2, 5, 4}), f32({2, 5, 4}), f32({2, 5, 4})}, {{Key::Scale, 0.5}, {Key::Causal, true}}},
      {"cast", Op::Cast, {x}, {{Key::DType, DType::I64}}},
  };
  for (const char* name : {"eq", "ne", "lt", "le", "gt", "ge"}) cases.push_back({std::string("compare_") + name, Op::Compare, {i64({3, 4}), i64({4})}, fn(name)});
  for (const char* name : {"and", "or", "xor"}) cases.push_back({std::string("logical_") + name, Op::Logical, {boolean({3, 4}), boolean({4})}, fn(name)});
  for (const char* name : {"and", "or", "xor", "shl", "shr"}) cases.push_back({std::string("bitwise_") + name, Op::Bitwise, {i64({3, 4}), i64({4})}, fn(name)});
  for (auto [name, op] : {std::pair{"sum", Op::Sum}, {"mean", Op::Mean}, {"amax", Op::ReduceMax}, {"amin", Op::ReduceMin}, {"prod", Op::Prod}}) {
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
      {"slice", Op::Slice, {x}, {{Key::Axis, int64_t{2}}, {Key::Start, int64_t{1}}, {Key::End, int64_t{4}}, {Key::Step, int64_t{2}}}},
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
  Node& node = graph.add_node(Op::Unary, {x}, {f32({4})}, {{Key::Fn, std::string("erfinv")}}, graph.intern(loc), "erfinv_1");
  graph.add_output(node.outputs[0]);
  auto bytes = emit_pte(graph, {});
  ASSERT_FALSE(bytes);
  EXPECT_NE(bytes.error().message.find("net.py:31"), std::string::npos) << bytes.error().message;
  EXPECT_NE(bytes.error().message.find("erfinv"), std::string::npos) << bytes.error().message;
  EXPECT_FALSE(host_supports(graph, node));
}

}  // namespace
}  // namespace swoop
