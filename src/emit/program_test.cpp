// The shape of the emitted program: border, delegates, segments, names, buffers, control flow; executed by the stock
// runtime.
#include <executorch/runtime/backend/interface.h>

#include <cstring>

#include "emit/emit.h"
#include "emit/runtime_for_tests.h"
#include "stream/stream.h"

namespace swoop {
namespace {

using namespace runtime_test;
namespace rt = executorch::runtime;

// Stands in for the NPU: every output is a copy of the first input.
class CopyingBackend final : public rt::BackendInterface {
 public:
  bool is_available() const override { return true; }
  rt::Result<rt::DelegateHandle*> init(rt::BackendInitContext&, rt::FreeableBuffer* blob,
                                       rt::ArrayRef<rt::CompileSpec> specs) const override {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(blob->data()) % 16, 0u);
    EXPECT_EQ(specs.size(), 5u);
    return const_cast<void*>(blob->data());
  }
  rt::Error execute(rt::BackendExecutionContext&, rt::DelegateHandle*, rt::Span<rt::EValue*> args) const override {
    for (size_t i = 1; i < args.size(); ++i) {
      executorch::aten::Tensor out = args[i]->toTensor();
      std::memcpy(out.mutable_data_ptr(), args[0]->toTensor().const_data_ptr(), out.nbytes());
    }
    return rt::Error::Ok;
  }
};

void register_copying_backend() {
  static CopyingBackend backend;
  static bool done = rt::register_backend({"EthosUBackend", &backend}) == rt::Error::Ok;
  ASSERT_TRUE(done);
}

Buffer blob_of(int elements, size_t weight_bytes) {
  NpuProgram program;
  program.commands.assign(64, std::byte{0});
  std::memcpy(program.commands.data(), "COP1", 4);
  program.weights.assign(weight_bytes, std::byte{7});
  program.scratch_size = 4096;
  NpuTensor tensor;
  tensor.shape = {1, 1, 1, 1, 1, elements};
  program.inputs = {tensor};
  tensor.offset = 2048;
  program.outputs = {tensor};
  auto bytes = pack(program);
  EXPECT_TRUE(bytes) << bytes.error().message;
  return *bytes;
}

const Type kCodes = quantized(DType::I8, {1, 32}, 0.5, 3);

ValueId add_region(Graph& graph, ValueId input, int64_t index) {
  Attrs attrs{{Key::Target, std::string(kRegionTarget)}, {Key::Region, index}};
  return graph.add_node(Op::Opaque, {input}, {graph.type(input)}, attrs, kNone, "region").outputs[0];
}

ValueId add(Graph& graph, Op op, std::vector<ValueId> inputs, Type type, Attrs attrs = {}) {
  return graph.add_node(op, std::move(inputs), {std::move(type)}, std::move(attrs)).outputs[0];
}

Graph border_graph(int regions) {
  Graph graph;
  graph.in_spec = "in";
  graph.out_spec = "out";
  ValueId x = add(graph, Op::Quantize, {graph.add_input(f32({1, 32}), "x")}, kCodes);
  for (int i = 0; i < regions; ++i) x = add_region(graph, x, i);
  graph.add_output(add(graph, Op::Dequantize, {x}, f32({1, 32})));
  return graph;
}

Buffer emitted(const Graph& graph, std::span<const Region> regions = {}, EmitOptions options = {}) {
  auto bytes = emit_pte(graph, regions, options);
  EXPECT_TRUE(bytes) << (bytes ? "" : bytes.error().message);
  return bytes ? *bytes : Buffer{};
}

ProgramInfo info_of(const Buffer& bytes) {
  auto info = read_pte(bytes);
  EXPECT_TRUE(info) << (info ? "" : info.error().message);
  return info ? *info : ProgramInfo{};
}

CompileSpecs specs() {
  return npu_compile_specs("ethos-u55-128", "Ethos_U55_High_End_Embedded", "Shared_Sram", "TOSA-1.0+INT+u55");
}

TEST(Program, has_border_and_delegate) {
  register_copying_backend();
  Buffer blob = blob_of(32, 1000);
  Region region{blob, specs()};
  Buffer bytes = emitted(border_graph(1), {&region, 1});
  ProgramInfo info = info_of(bytes);
  ASSERT_EQ(info.methods.size(), 1u);
  const ProgramMethod& method = info.methods[0];
  EXPECT_EQ(method.name, "forward");
  EXPECT_EQ(method.in_spec, "in");
  EXPECT_EQ(method.out_spec, "out");
  ASSERT_EQ(method.instructions.size(), 3u);
  EXPECT_EQ(method.instructions[1].substr(0, 11), "delegate 0(");
  ASSERT_EQ(method.inputs.size(), 1u);
  EXPECT_EQ(method.inputs[0].name, "x");
  EXPECT_EQ(method.inputs[0].dtype, "float32");
  EXPECT_EQ(method.inputs[0].scale, 0.5);
  EXPECT_EQ(method.outputs[0].zero_point, 3);
  ASSERT_EQ(method.delegates.size(), 1u);
  EXPECT_EQ(method.delegates[0].id, "EthosUBackend");
  EXPECT_TRUE(std::ranges::equal(method.delegates[0].blob, blob));
  EXPECT_EQ((method.delegates[0].blob.data() - bytes.data()) % 16, 0);
  EXPECT_EQ(method.delegates[0].compile_specs, specs());
  EXPECT_EQ(method.temp_bytes, 4096);
  EXPECT_EQ(method.planned_bytes, 128 + 32);  // float beside its codes; the other two reuse the memory of the first two
  EXPECT_EQ(method.kernel_calls.at("quantized_decomposed::quantize_per_tensor"), 1);

  std::vector<Tensor> inputs{random_tensor(f32({1, 32}), 3)};
  auto outcome = LoadedProgram(bytes).run(inputs);
  ASSERT_EQ(outcome.failure, "");
  for (size_t i = 0; i < 32; ++i)
    EXPECT_EQ(outcome.outputs[0].as<float>()[i], std::nearbyint(inputs[0].as<float>()[i] / 0.5f) * 0.5f);
}

TEST(Program, is_the_same_twice) {
  Buffer blob = blob_of(32, 1000);
  Region region{blob, specs()};
  EXPECT_EQ(emitted(border_graph(1), {&region, 1}), emitted(border_graph(1), {&region, 1}));
}

TEST(Program, shares_equal_blobs) {
  Buffer blob = blob_of(32, 1000);
  Buffer other = blob_of(32, 500);
  Region regions[] = {{blob, specs()}, {other, specs()}, {blob, specs()}};
  ProgramInfo info = info_of(emitted(border_graph(3), regions));
  EXPECT_EQ(info.methods[0].delegates.size(), 3u);
  EXPECT_EQ(info.methods[0].delegate_calls, 3);
  EXPECT_EQ(info.delegate_bytes, static_cast<int64_t>(blob.size() + other.size()));
}

TEST(Program, puts_blobs_into_segments) {
  register_copying_backend();
  Buffer blob = blob_of(32, 1000);
  Buffer other = blob_of(32, 500);
  Region regions[] = {{blob, specs()}, {other, specs()}};
  EmitOptions options;
  options.delegate_segments = true;
  Buffer bytes = emitted(border_graph(2), regions, options);
  ProgramInfo info = info_of(bytes);
  for (const ProgramDelegate& delegate : info.methods[0].delegates) {
    EXPECT_TRUE(delegate.in_segment);
    EXPECT_EQ((delegate.blob.data() - bytes.data()) % 128, 0);
  }
  EXPECT_TRUE(std::ranges::equal(info.methods[0].delegates[1].blob, other));
  std::vector<Tensor> inputs{random_tensor(f32({1, 32}), 3)};
  EXPECT_EQ(LoadedProgram(bytes).run(inputs).failure, "");
}

TEST(Program, refuses_a_region_that_lost_an_output) {
  Buffer blob = blob_of(16, 100);  // compiled for half the elements
  Region region{blob, specs()};
  auto bytes = emit_pte(border_graph(1), {&region, 1}, {});
  ASSERT_FALSE(bytes);
  EXPECT_NE(bytes.error().message.find("region 0"), std::string::npos);
}

TEST(Program, keeps_buffers_between_runs) {
  Graph graph;
  std::vector<float> start{10.0f, -1.0f};
  Port state{
      Port::Role::State, "total",
      graph.store(Buffer(reinterpret_cast<std::byte*>(start.data()), reinterpret_cast<std::byte*>(start.data() + 2)))};
  ValueId x = graph.add_input(f32({2}), "x");
  ValueId total = graph.add_input(f32({2}), "b_total", state);
  ValueId sum = add(graph, Op::Add, {total, x}, f32({2}));
  graph.add_output(sum, {Port::Role::State, "total", {}});
  graph.add_output(
      add(graph, Op::Reshape, {total}, f32({1, 2}), {{Key::Shape, Ints{1, 2}}}));  // the old value, seen through a view
  Buffer bytes = emitted(graph);
  ProgramInfo info = info_of(bytes);
  EXPECT_EQ(info.initial_bytes, 8);
  ASSERT_EQ(info.methods[0].states.size(), 1u);
  EXPECT_EQ(info.methods[0].states[0].name, "total");
  EXPECT_EQ(info.methods[0].inputs.size(), 1u);
  EXPECT_EQ(info.methods[0].outputs.size(), 1u);
  LoadedProgram program(bytes);
  Tensor step = make_tensor(DType::F32, {2});
  step.as<float>()[0] = 1.0f;
  step.as<float>()[1] = 2.0f;
  for (int i = 0; i < 3; ++i) {
    auto outcome = program.run({&step, 1});
    ASSERT_EQ(outcome.failure, "");
    EXPECT_EQ(outcome.outputs[0].as<float>()[0], 10.0f + static_cast<float>(i));
    EXPECT_EQ(outcome.outputs[0].as<float>()[1], -1.0f + 2.0f * static_cast<float>(i));
  }
}

TEST(Program, swaps_two_buffers) {
  Graph graph;
  auto stored = [&](float value) {
    return graph.store(Buffer(reinterpret_cast<std::byte*>(&value), reinterpret_cast<std::byte*>(&value + 1)));
  };
  ValueId a = graph.add_input(f32({1}), "a", {Port::Role::State, "a", stored(1.0f)});
  ValueId b = graph.add_input(f32({1}), "b", {Port::Role::State, "b", stored(2.0f)});
  graph.add_output(b, {Port::Role::State, "a", {}});
  graph.add_output(a, {Port::Role::State, "b", {}});
  graph.add_output(a);
  LoadedProgram program(emitted(graph));
  for (float wanted : {1.0f, 2.0f, 1.0f}) {
    auto outcome = program.run({});
    ASSERT_EQ(outcome.failure, "");
    EXPECT_EQ(outcome.outputs[0].as<float>()[0], wanted);
  }
}

TEST(Program, gives_constants_memory_of_their_own) {
  Graph graph;
  float seven = 7.0f;
  graph.add_input(f32({1}), "unused");
  graph.add_output(graph.add_constant(
      f32({1}), graph.store(Buffer(reinterpret_cast<std::byte*>(&seven), reinterpret_cast<std::byte*>(&seven + 1))),
      "c"));
  Tensor x = make_tensor(DType::F32, {1});
  x.as<float>()[0] = 0.0f;
  auto outcome = LoadedProgram(emitted(graph)).run({&x, 1});
  ASSERT_EQ(outcome.failure, "");
  EXPECT_EQ(outcome.outputs[0].as<float>()[0], 7.0f);
}

// -- quantized values on the host

TEST(Program, computes_on_codes_as_defined) {
  Graph graph;
  Type a = quantized(DType::I8, {2, 4}, 0.0513, 3);  // uneven scales: no sum is half way between two codes
  Type b = quantized(DType::I8, {2, 4}, 0.0217, -7);
  ValueId x = add(graph, Op::Quantize, {graph.add_input(f32({2, 4}), "x")}, a);
  ValueId y = add(graph, Op::Quantize, {graph.add_input(f32({2, 4}), "y")}, b);
  ValueId sum = add(graph, Op::Add, {x, y}, quantized(DType::I8, {2, 4}, 0.06, 1), {{Key::ActMin, 0.0}});
  ValueId moved = add(graph, Op::Transpose, {sum}, quantized(DType::I8, {4, 2}, 0.06, 1), {{Key::Perm, Ints{1, 0}}});
  ValueId padded = add(graph, Op::Pad, {moved}, quantized(DType::I8, {5, 2}, 0.06, 1),
                       {{Key::Padding, Ints{0, 1, 0, 0}}, {Key::Mode, std::string("constant")}, {Key::Value, 0.0}});
  graph.add_output(add(graph, Op::Dequantize, {padded}, f32({5, 2})));
  std::vector<Tensor> inputs{random_tensor(f32({2, 4}), 1), random_tensor(f32({2, 4}), 2)};
  auto wanted = execute(graph, inputs);
  ASSERT_TRUE(wanted) << wanted.error().message;
  auto outcome = LoadedProgram(emitted(graph)).run(inputs);
  ASSERT_EQ(outcome.failure, "");
  expect_close(outcome.outputs[0], (*wanted)[0], "codes");
}

// -- operators by name

TEST(Program, calls_opaque_kernels) {
  Graph graph;
  ValueId x = graph.add_input(f32({3, 5}), "x");
  Attrs attrs{{Key::Target, std::string("aten::topk")},
              {Key::Overload, std::string()},
              {Key::Args, Strings{"self=%0", "k=2", "dim=-1", "largest=true", "sorted=true"}}};
  Node& node = graph.add_node(Op::Opaque, {x}, {f32({3, 2}), i64({3, 2})}, attrs, kNone, "topk");
  graph.add_output(node.outputs[0]);
  graph.add_output(node.outputs[1]);
  std::vector<Tensor> inputs{random_tensor(f32({3, 5}), 9)};
  auto outcome = LoadedProgram(emitted(graph)).run(inputs);
  ASSERT_EQ(outcome.failure, "");
  for (size_t row = 0; row < 3; ++row) {
    auto values = inputs[0].as<float>().subspan(row * 5, 5);
    size_t best = static_cast<size_t>(std::ranges::max_element(values) - values.begin());
    EXPECT_EQ(outcome.outputs[0].as<float>()[row * 2], values[best]);
    EXPECT_EQ(outcome.outputs[1].as<int64_t>()[row * 2], static_cast<int64_t>(best));
  }
}

TEST(Program, names_an_operator_without_kernel) {
  Graph graph;
  ValueId x = graph.add_input(f32({3}), "x");
  Node& node =
      graph.add_node(Op::Opaque, {x}, {f32({3})},
                     {{Key::Target, std::string("my::fancy")}, {Key::Args, Strings{"x=%0"}}}, kNone, "fancy_1");
  graph.add_output(node.outputs[0]);
  auto bytes = emit_pte(graph, {}, {});
  ASSERT_FALSE(bytes);
  EXPECT_NE(bytes.error().message.find("my::fancy"), std::string::npos) << bytes.error().message;
}

// -- control flow

std::unique_ptr<Graph> body(std::vector<Type> inputs,
                            const std::function<std::vector<ValueId>(Graph&, const std::vector<ValueId>&)>& build) {
  auto graph = std::make_unique<Graph>();
  std::vector<ValueId> ids;
  for (size_t i = 0; i < inputs.size(); ++i) ids.push_back(graph->add_input(inputs[i], "a" + std::to_string(i)));
  for (ValueId output : build(*graph, ids)) graph->add_output(output);
  return graph;
}

void expect_as_defined(const Graph& graph, const std::vector<std::vector<Tensor>>& runs) {
  LoadedProgram program(emitted(graph));
  for (const auto& inputs : runs) {
    auto wanted = execute(graph, inputs);
    ASSERT_TRUE(wanted) << wanted.error().message;
    auto outcome = program.run(inputs);
    ASSERT_EQ(outcome.failure, "");
    ASSERT_EQ(outcome.outputs.size(), wanted->size());
    for (size_t i = 0; i < wanted->size(); ++i)
      expect_close(outcome.outputs[i], (*wanted)[i], "output " + std::to_string(i));
  }
}

Tensor flag(bool value) {
  Tensor tensor = make_tensor(DType::Bool, {});
  tensor.as<std::byte>()[0] = static_cast<std::byte>(value);
  return tensor;
}

TEST(Program, takes_either_branch) {
  register_copying_backend();
  Graph graph;
  ValueId predicate = graph.add_input(boolean({}), "p");
  ValueId x = graph.add_input(f32({2, 3}), "x");
  Type t = f32({2, 3});
  Node& cond = graph.add_node(Op::Cond, {predicate, x}, {t, f32({3, 2}), t}, {}, kNone, "cond");
  cond.bodies.push_back(body({t}, [&](Graph& g, const auto& in) {
    ValueId doubled = add(g, Op::Add, {in[0], in[0]}, t);
    ValueId view = add(g, Op::Reshape, {doubled}, f32({3, 2}), {{Key::Shape, Ints{3, 2}}});
    return std::vector<ValueId>{doubled, view, in[0]};  // a result, a view of it, and an operand passed through
  }));
  cond.bodies.push_back(body({t}, [&](Graph& g, const auto& in) {
    ValueId negated = add(g, Op::Unary, {in[0]}, t, {{Key::Fn, std::string("neg")}});
    ValueId view = add(g, Op::Reshape, {in[0]}, f32({3, 2}), {{Key::Shape, Ints{3, 2}}});
    return std::vector<ValueId>{negated, view, negated};  // one value twice
  }));
  ValueId after = add(graph, Op::Mul, {cond.outputs[0], x}, t);
  graph.add_output(after);
  graph.add_output(cond.outputs[1]);
  graph.add_output(cond.outputs[2]);
  Tensor data = random_tensor(t, 5);
  expect_as_defined(graph, {{flag(true), data}, {flag(false), data}, {flag(true), data}});
}

TEST(Program, loops_until_the_condition_fails) {
  Graph graph;
  Type t = f32({2});
  ValueId x = graph.add_input(t, "x");
  ValueId step = graph.add_input(t, "step");
  Node& loop = graph.add_node(Op::While, {x, step, step}, {t, t}, {{Key::Carried, int64_t{2}}}, kNone, "while");
  loop.bodies.push_back(body({t, t, t}, [&](Graph& g, const auto& in) {
    float limit = 20.0f;
    ValueId bound = g.add_constant(
        f32({}), g.store(Buffer(reinterpret_cast<std::byte*>(&limit), reinterpret_cast<std::byte*>(&limit + 1))),
        "limit");
    ValueId sum = add(g, Op::Sum, {in[0]}, f32({}), {{Key::Axes, Ints{0}}, {Key::Keepdim, false}});
    return std::vector<ValueId>{add(g, Op::Compare, {sum, bound}, boolean({}), {{Key::Fn, std::string("lt")}})};
  }));
  loop.bodies.push_back(body({t, t, t}, [&](Graph& g, const auto& in) {
    return std::vector<ValueId>{add(g, Op::Add, {in[0], in[2]}, t),
                                in[0]};  // the second carries the old first: order matters
  }));
  graph.add_output(loop.outputs[0]);
  graph.add_output(loop.outputs[1]);
  Tensor start = make_tensor(DType::F32, {2});
  Tensor stride = make_tensor(DType::F32, {2});
  for (size_t i = 0; i < 2; ++i) {
    start.as<float>()[i] = 0.5f;
    stride.as<float>()[i] = 1.0f + static_cast<float>(i);
  }
  Tensor done = make_tensor(DType::F32, {2});
  for (float& v : done.as<float>()) v = 50.0f;
  expect_as_defined(graph, {{start, stride}, {done, stride}, {start, stride}});
}

TEST(Program, maps_over_rows) {
  Graph graph;
  Type rows = f32({4, 3});
  Type row = f32({3});
  ValueId x = graph.add_input(rows, "x");
  ValueId y = graph.add_input(row, "y");
  Node& map = graph.add_node(Op::Map, {x, y}, {rows}, {{Key::Carried, int64_t{1}}}, kNone, "map");
  map.bodies.push_back(body({row, row}, [&](Graph& g, const auto& in) {
    ValueId scaled = add(g, Op::Mul, {in[0], in[1]}, row);
    return std::vector<ValueId>{add(g, Op::Unary, {scaled}, row, {{Key::Fn, std::string("tanh")}})};
  }));
  graph.add_output(add(graph, Op::Add, {map.outputs[0], x}, rows));
  expect_as_defined(graph,
                    {{random_tensor(rows, 1), random_tensor(row, 2)}, {random_tensor(rows, 3), random_tensor(row, 4)}});
}

TEST(Program, scans_with_a_carry) {
  Graph graph;
  Type rows = f32({4, 3});
  Type row = f32({3});
  ValueId start = graph.add_input(row, "start");
  ValueId x = graph.add_input(rows, "x");
  Node& scan = graph.add_node(Op::Scan, {start, x}, {row, rows},
                              {{Key::Carried, int64_t{1}}, {Key::Scanned, int64_t{1}}}, kNone, "scan");
  scan.bodies.push_back(body({row, row}, [&](Graph& g, const auto& in) {
    ValueId next = add(g, Op::Add, {in[0], in[1]}, row);
    return std::vector<ValueId>{next, in[0]};  // collects the carry before it changes
  }));
  graph.add_output(scan.outputs[0]);
  graph.add_output(scan.outputs[1]);
  expect_as_defined(graph,
                    {{random_tensor(row, 1), random_tensor(rows, 2)}, {random_tensor(row, 3), random_tensor(rows, 4)}});
}

// -- reading what is broken

TEST(ReadPte, survives_cuts_and_flips) {
  Buffer blob = blob_of(32, 100);
  Region region{blob, specs()};
  EmitOptions options;
  options.delegate_segments = true;
  Buffer good = emitted(border_graph(1), {&region, 1}, options);
  ASSERT_TRUE(read_pte(good));
  for (size_t size = 0; size < good.size(); ++size) {
    Buffer cut(good.begin(), good.begin() + static_cast<ptrdiff_t>(size));
    EXPECT_FALSE(read_pte(cut)) << "cut to " << size << " of " << good.size();
  }
  int accepted = 0;
  for (size_t at = 0; at < good.size() * 8; ++at) {
    Buffer flipped = good;
    flipped[at / 8] ^= static_cast<std::byte>(1 << (at % 8));
    if (read_pte(flipped)) ++accepted;  // a changed number is a sound file; the point is that nothing crashes
  }
  EXPECT_GT(accepted, 0);
}

TEST(ReadPte, reads_at_any_alignment) {
  Buffer blob = blob_of(32, 100);
  Region region{blob, specs()};
  Buffer good = emitted(border_graph(1), {&region, 1});
  Buffer shifted(good.size() + 1);
  std::memcpy(shifted.data() + 1, good.data(), good.size());
  auto info = read_pte(Bytes(shifted).subspan(1));
  ASSERT_TRUE(info) << info.error().message;
  EXPECT_TRUE(std::ranges::equal(info->methods[0].delegates[0].blob, blob));
}

}  // namespace
}  // namespace swoop
