// What Python cannot see: accuracy of the scalar functions over all floats, independence of the number of threads,
// early release, errors that only data can cause.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ops/gemm.h"
#include "ops/kernels.h"
#include "ops/ops.h"
#include "ops/product.h"
#include "ops/vmath.h"
#include "support/half.h"
#include "support/parallel.h"

namespace swoop {
namespace {

// The largest relative error against double precision, over floats spread evenly in their bit patterns.
template <typename F, typename G>
double worst_error(F fast, G exact, float low, float high) {
  double worst = 0;
  auto visit = [&](uint32_t first, uint32_t last, float sign) {
    for (uint64_t bits = first; bits <= last; bits += 997) {
      float x = sign * std::bit_cast<float>(static_cast<uint32_t>(bits));
      double wanted = exact(static_cast<double>(x));
      if (std::fabs(wanted) < 1.2e-38) continue;  // results below the normal floats have fewer bits
      worst = std::max(worst, std::fabs(static_cast<double>(fast(x)) / wanted - 1));
    }
  };
  visit(std::bit_cast<uint32_t>(1e-30f), std::bit_cast<uint32_t>(high), 1);
  visit(std::bit_cast<uint32_t>(1e-30f), std::bit_cast<uint32_t>(-low), -1);
  return worst;
}

TEST(VectorMath, is_accurate_to_a_few_units_in_the_last_place) {
  EXPECT_LT(worst_error(
                vmath::exp, [](double x) { return std::exp(x); }, -87.0f, 88.7f),
            3e-7);
  EXPECT_LT(worst_error(
                vmath::tanh, [](double x) { return std::tanh(x); }, -20.0f, 20.0f),
            3e-7);
  EXPECT_LT(worst_error(
                vmath::erf, [](double x) { return std::erf(x); }, -6.0f, 6.0f),
            3e-7);
}

TEST(VectorMath, ends_of_exp) {
  EXPECT_EQ(vmath::exp(0.0f), 1.0f);
  EXPECT_EQ(vmath::exp(INFINITY), INFINITY);
  EXPECT_EQ(vmath::exp(89.0f), INFINITY);
  EXPECT_EQ(vmath::exp(-INFINITY), 0.0f);
  EXPECT_EQ(vmath::exp(-120.0f), 0.0f);
  EXPECT_TRUE(std::isnan(vmath::exp(NAN)));
  EXPECT_TRUE(std::isnan(vmath::tanh(NAN)));
  EXPECT_TRUE(std::isnan(vmath::erf(NAN)));
  EXPECT_EQ(vmath::tanh(INFINITY), 1.0f);
  EXPECT_EQ(vmath::erf(-INFINITY), -1.0f);
}

TEST(Unary, arrays_and_scalars_have_the_same_bits) {
  std::vector<float> in(1003), out(in.size());
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i) * 0.013f - 6.0f;
  for (const char* fn : {"exp", "tanh", "erf", "gelu", "silu", "sigmoid", "hardswish", "gelu_tanh"}) {
    map_unary(fn, 0, 0, in, out);
    for (size_t i = 0; i < in.size(); ++i)
      EXPECT_EQ(out[i], unary_function(fn)->of(in[i], 0, 0)) << fn << " of " << in[i];
  }
  EXPECT_EQ(unary_function("frobnicate"), nullptr);
}

std::vector<float> random_floats(size_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> list(count);
  for (float& x : list) x = uniform(generator);
  return list;
}

struct GemmCase {
  int64_t m, n, k;
  bool a_by_column, b_by_column;
};

// Vectors, products smaller than a register tile, several tiles each way, several blocks of k.
const GemmCase kGemmCases[] = {
    {1, 1, 530, false, false}, {1, 70, 300, false, true},   {1, 70, 300, false, false},  {90, 1, 33, false, false},
    {90, 1, 33, true, true},   {3, 2, 5, false, false},     {5, 9, 1, true, false},      {2, 9, 7, false, false},
    {29, 71, 530, true, true}, {29, 71, 530, false, false}, {131, 400, 64, false, true}, {300, 800, 290, true, false},
};

// A and B as the case asks, each beginning `offset` floats after an aligned address; C row-major.
struct Operands {
  Operands(const GemmCase& c, int64_t offset)
      : a(random_floats(static_cast<size_t>(c.m * c.k), 1)), b(random_floats(static_cast<size_t>(c.k * c.n), 2)) {
    a.insert(a.begin(), static_cast<size_t>(offset), 0.0f);
    b.insert(b.begin(), static_cast<size_t>(offset), 0.0f);
    result.resize(static_cast<size_t>(c.m * c.n + offset), NAN);
    a_view = {a.data() + offset, c.a_by_column ? 1 : c.k, c.a_by_column ? c.m : 1};
    b_view = {b.data() + offset, c.b_by_column ? 1 : c.n, c.b_by_column ? c.k : 1};
    to = result.data() + offset;
  }

  std::vector<float> a, b, result;
  MatrixView a_view, b_view;
  float* to;
};

float at(const MatrixView& view, int64_t row, int64_t column) {
  return view.data[row * view.row_stride + column * view.col_stride];
}

// PackColumns of a matrix that is there.
PackColumns columns_of(MatrixView b) {
  return [b](int64_t k0, int64_t k1, int64_t n0, int64_t n1, float* to) {
    for (int64_t p = k0; p < k1; ++p)
      for (int64_t j = n0; j < n1; ++j) *to++ = at(b, p, j);
  };
}

void expect_product(const GemmCase& c, const Operands& operands) {
  for (int64_t i = 0; i < c.m; i += 1 + c.m / 9)
    for (int64_t j = 0; j < c.n; j += 1 + c.n / 11) {
      double exact = 0;
      for (int64_t p = 0; p < c.k; ++p)
        exact += static_cast<double>(at(operands.a_view, i, p)) * static_cast<double>(at(operands.b_view, p, j));
      EXPECT_NEAR(static_cast<double>(operands.to[i * c.n + j]), exact, 2e-5) << c.m << " " << c.n << " " << c.k;
    }
}

TEST(Gemm, is_the_product_in_all_shapes_and_orders) {
  for (const GemmCase& c : kGemmCases) {
    Operands viewed(c, 0), packed(c, 0);
    gemm(c.m, c.n, c.k, viewed.a_view, viewed.b_view, viewed.to, c.n);
    expect_product(c, viewed);
    gemm(c.m, c.n, c.k, packed.a_view, columns_of(packed.b_view), packed.to, c.n);
    expect_product(c, packed);
  }
  float nothing[] = {1, 1};
  gemm(1, 2, 0, {nullptr, 1, 1}, MatrixView{nullptr, 1, 1}, nothing, 2);
  EXPECT_EQ(nothing[0] + nothing[1], 0);
}

TEST(Gemm, is_right_without_avx2_too) {
  for (const GemmCase& c : kGemmCases) {
    Operands operands(c, 0);
    multiply_plain({c.m, c.n, c.k, operands.a_view, operands.b_view, operands.to, c.n, false});
    expect_product(c, operands);
  }
}

#if defined(__x86_64__)
TEST(Gemm, wider_vectors_give_the_same_bits) {
  if (!__builtin_cpu_supports("avx512f")) GTEST_SKIP() << "this machine has no AVX-512";
  std::vector<GemmCase> cases;
  for (int64_t m : {1, 2, 3, 8, 13, 128})
    for (int64_t n : {1, 23, 24, 25, 26, 31, 40, 48, 71, 72, 97, 120, 383, 384})
      for (int64_t k : {1, 7, 8, 27, 256, 287, 288, 289, 576, 600, 1300}) {
        const bool a_by_column = (m + k) % 2 == 0, b_by_column = (n + k) % 3 == 0;
        cases.push_back({m, n, k, a_by_column, b_by_column});
      }
  for (const GemmCase& c : cases)
    for (bool add : {false, true}) {
      Operands narrow(c, 3), wide(c, 3);
      for (Operands* one : {&narrow, &wide}) std::fill(one->result.begin(), one->result.end(), 0.37f);
      multiply_avx2({c.m, c.n, c.k, narrow.a_view, narrow.b_view, narrow.to, c.n, add});
      multiply_avx512({c.m, c.n, c.k, wide.a_view, wide.b_view, wide.to, c.n, add});
      ASSERT_EQ(narrow.result, wide.result) << c.m << " " << c.n << " " << c.k << " " << add;
    }
}
#endif

TEST(Gemm, bits_do_not_depend_on_threads_or_alignment) {
  for (const GemmCase& c : kGemmCases)
    for (bool pack : {false, true}) {
      auto run = [&](int threads, int64_t offset) {
        Operands operands(c, offset);
        set_thread_count(threads);
        if (pack)
          gemm(c.m, c.n, c.k, operands.a_view, columns_of(operands.b_view), operands.to, c.n);
        else
          gemm(c.m, c.n, c.k, operands.a_view, operands.b_view, operands.to, c.n);
        set_thread_count(0);
        return std::vector<float>(operands.to, operands.to + c.m * c.n);
      };
      std::vector<float> alone = run(1, 0);
      for (int threads : {2, 3, 16}) EXPECT_EQ(alone, run(threads, 0)) << c.m << " " << c.n << " " << c.k;
      for (int64_t offset : {1, 2, 3, 4, 7}) EXPECT_EQ(alone, run(1, offset)) << c.m << " " << c.n << " " << c.k;
    }
}

TEST(Execute, does_not_depend_on_the_number_of_threads) {
  Result<Graph> graph = parse(R"(graph "g" (%x: f32[1,16,40,40], %w: f32[32,16,3,3])
  %c = conv %x, %w dilation=[1,1] groups=1 padding=[1,1,1,1] stride=[1,1] : f32[1,32,40,40]
  %g = unary %c fn="gelu" : f32[1,32,40,40]
  %s = softmax %g axis=1 : f32[1,32,40,40]
  %m = mean %s axes=[2,3] keepdim=false : f32[1,32]
  return %s, %m
)");
  ASSERT_TRUE(graph) << graph.error().message;
  std::vector<Tensor> inputs;
  for (ValueId id : graph->inputs()) {
    inputs.push_back(make_tensor(DType::F32, graph->type(id).shape));
    std::vector<float> values = random_floats(inputs.back().as<float>().size(), id);
    std::copy(values.begin(), values.end(), inputs.back().as<float>().begin());
  }
  set_thread_count(1);
  Result<std::vector<Tensor>> alone = execute(*graph, inputs);
  set_thread_count(5);
  Result<std::vector<Tensor>> together = execute(*graph, inputs);
  set_thread_count(0);
  ASSERT_TRUE(alone && together);
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(Buffer((*alone)[i].data), Buffer((*together)[i].data));
}

Result<std::vector<Tensor>> run(const char* text, std::vector<Tensor> inputs) {
  Result<Graph> graph = parse(text);
  if (!graph) return graph.error();
  return execute(*graph, inputs);
}

Tensor integers(std::vector<int64_t> values) {
  Tensor tensor = make_tensor(DType::I64, {static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), tensor.as<int64_t>().begin());
  return tensor;
}

Tensor floats(std::vector<float> values) {
  Tensor tensor = make_tensor(DType::F32, {static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), tensor.as<float>().begin());
  return tensor;
}

TEST(Execute, says_what_the_data_got_wrong) {
  auto message = [](const Result<std::vector<Tensor>>& result) {
    return result ? std::string("no error") : result.error().message;
  };
  EXPECT_EQ(message(run("graph \"g\" (%x: f32[3], %i: i64[1])\n  %y = gather %x, %i axis=0 : f32[1]\n  return %y\n",
                        {floats({1, 2, 3}), integers({3})})),
            "y: gather has index 3 in a dim of size 3");
  EXPECT_EQ(message(run("graph \"g\" (%x: i64[1], %i: i64[1])\n  %y = remainder %x, %i : i64[1]\n  return %y\n",
                        {integers({1}), integers({0})})),
            "y: remainder of integers by zero");
  EXPECT_EQ(message(run("graph \"g\" (%x: i64[1])\n  return %x\n", {floats({1})})),
            "input x is i64[1], and was given as f32[1]");
  EXPECT_EQ(message(run("graph \"g\" (%x: i64[1])\n  return %x\n", {})), "this graph has 1 inputs, and 0 were given");
  EXPECT_EQ(message(run("graph \"g\" (%x: f32[1])\n  %y = opaque %x target=\"aten::topk\" : f32[1]\n  return %y\n",
                        {floats({1})})),
            "y: aten::topk cannot be computed in float");
  EXPECT_EQ(message(run("graph \"g\" ()\n  %y = opaque target=\"aten::rand\" : f32[1]\n  return %y\n", {})),
            "y: aten::rand cannot be computed in float");
}

TEST(Execute, shows_every_value_to_the_observer_once_and_with_its_type) {
  Result<Graph> graph = parse(R"(graph "g" (%x: i8[4] q(0.5, 0))
  %a = add %x, %x : i8[4] q(1.0, 0)
  %b = mul %a, %x : f32[4]
  return %b
)");
  ASSERT_TRUE(graph);
  std::vector<std::pair<std::string, float>> seen;
  std::vector<Tensor> inputs = {floats({0.6f, 1, 2, 3})};
  auto see = [&](const Graph& where, ValueId id, const Tensor& tensor) {
    seen.emplace_back(where.value(id).name, tensor.as<float>()[0]);
  };
  Result<std::vector<Tensor>> result = execute(*graph, inputs, {.observer = see});
  ASSERT_TRUE(result);
  EXPECT_EQ(seen, (decltype(seen){{"x", 0.5f}, {"a", 1.0f}, {"b", 0.5f}}));
}

TEST(Execute, observes_inside_bodies) {
  Result<Graph> graph = parse(R"(graph "g" (%x: f32[3,2])
  %y = map %x carried=1 : f32[3,2] {
    graph "body" (%a: f32[2])
      %r = add %a, %a : f32[2]
      return %r
  }
  return %y
)");
  ASSERT_TRUE(graph);
  int inside = 0;
  Tensor x = floats({1, 2, 3, 4, 5, 6});
  x.shape = {3, 2};
  auto see = [&](const Graph& where, ValueId, const Tensor&) { inside += where.name == "body"; };
  Result<std::vector<Tensor>> result = execute(*graph, std::span(&x, 1), {.observer = see});
  ASSERT_TRUE(result);
  EXPECT_EQ(inside, 6);
  EXPECT_EQ((*result)[0].as<float>()[5], 12.0f);
}

TEST(Execute, opaque_operators_are_computed_by_the_kernels_that_are_given) {
  struct Doubling final : OpaqueKernels {
    Result<void> evaluate(const Node& node, std::span<const Tensor* const> inputs, std::span<Tensor> results) override {
      names.push_back(node.name);
      results[0].as<float>()[0] = 2 * inputs[0]->as<float>()[0];
      return {};
    }
    std::vector<std::string> names;
  } doubling;
  Result<Graph> graph = parse(R"(graph "g" (%x: f32[2,1])
  %y = map %x carried=1 : f32[2,1] {
    graph "body" (%a: f32[1])
      %inside = opaque %a target="aten::double" : f32[1]
      return %inside
  }
  return %y
)");
  ASSERT_TRUE(graph);
  Tensor x = floats({3, 5});
  x.shape = {2, 1};
  Result<std::vector<Tensor>> result = execute(*graph, std::span(&x, 1), {.opaque = &doubling});
  ASSERT_TRUE(result);
  EXPECT_EQ((*result)[0].as<float>()[1], 10.0f);
  EXPECT_EQ(doubling.names, (std::vector<std::string>{"inside", "inside"}));
}

TEST(Execute, an_endless_loop_is_an_error) {
  EXPECT_EQ(run(R"(graph "g" (%p: bool[])
  %y = while %p carried=1 : bool[] {
    graph "condition" (%a: bool[])
      return %a
  } {
    graph "body" (%a: bool[])
      return %a
  }
  return %y
)",
                [] {
                  Tensor yes = make_tensor(DType::Bool, {});
                  yes.as<uint8_t>()[0] = 1;
                  return std::vector<Tensor>{yes};
                }())
                .error()
                .message,
            "y: this while loop has not ended after 1048576 iterations");
}

TEST(Execute, refuses_arrays_beyond_memory) {
  Result<std::vector<Tensor>> result = run(
      "graph \"g\" (%x: f32[1])\n  %y = expand %x shape=[4000000000] : f32[4000000000]\n  return %y\n", {floats({1})});
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("16000000000 bytes"), std::string::npos) << result.error().message;
}

TEST(Quantize, rounds_half_to_even_and_clamps) {
  EXPECT_EQ(quantize_value(0.5f, 1, 0, -128, 127), 0);
  EXPECT_EQ(quantize_value(1.5f, 1, 0, -128, 127), 2);
  EXPECT_EQ(quantize_value(-2.5f, 1, 5, -128, 127), 3);
  EXPECT_EQ(quantize_value(1e30f, 1e-10, 0, -128, 127), 127);
  EXPECT_EQ(quantize_value(-INFINITY, 1, 0, -127, 127), -127);
  EXPECT_EQ(quantize_value(NAN, 1, 0, -128, 127), 0);
}

TEST(Quantize, whole_tensors_go_to_codes_and_back) {
  Type type{DType::I8, {2, 2}, Quant{{0.5, 0.25}, {0, 10}, 1, -127, 127}};
  Tensor x = floats({1.3f, 1.3f, -100, 0.1f});
  x.shape = {2, 2};
  Result<Buffer> codes = quantize(x, type);
  ASSERT_TRUE(codes);
  EXPECT_EQ(static_cast<int8_t>((*codes)[0]), 3);
  EXPECT_EQ(static_cast<int8_t>((*codes)[1]), 15);
  EXPECT_EQ(static_cast<int8_t>((*codes)[2]), -127);
  EXPECT_EQ(static_cast<int8_t>((*codes)[3]), 10);
  Tensor back = dequantize(*codes, type);
  EXPECT_EQ(back.as<float>()[1], 1.25f);
  fake_quantize(x, type);
  EXPECT_EQ(Buffer(x.data), Buffer(back.data));
  EXPECT_FALSE(quantize(x, Type{DType::F32, {2, 2}, {}}));
}

// With a weight of zero for the other channel, a dense convolution gives the same; it goes another way.
TEST(Conv, depthwise_sums_equal_dense_ones) {
  struct Case {
    int64_t height, width, kernel, stride_y, stride_x, dilation, pad;
  };
  for (const Case& c :
       {Case{9, 5, 3, 1, 1, 1, 1}, Case{20, 41, 3, 1, 1, 1, 0}, Case{20, 41, 5, 2, 2, 1, 2},
        Case{12, 30, 3, 1, 2, 2, 1}, Case{12, 11, 3, 2, 1, 1, 1}, Case{7, 8, 3, 3, 3, 1, 0}, Case{5, 70, 1, 1, 2, 1, 0},
        Case{6, 3, 2, 1, 1, 1, 0}, Case{1, 15, 3, 1, 1, 1, 1}, Case{3, 151, 3, 1, 1, 1, 1}}) {
    const auto size = [&](int64_t in, int64_t stride) {
      return (in + 2 * c.pad - c.dilation * (c.kernel - 1) - 1) / stride + 1;
    };
    const std::string attributes = fmt::format("stride=[{},{}] padding=[{p},{p},{p},{p}] dilation=[{d},{d}]",
                                               c.stride_y, c.stride_x, fmt::arg("p", c.pad), fmt::arg("d", c.dilation));
    const std::string result = fmt::format("f32[1,4,{},{}]", size(c.height, c.stride_y), size(c.width, c.stride_x));
    const std::string text = fmt::format(
        "graph \"main\" (%x: f32[1,2,{0},{1}], %t: f32[4,1,{2},{2}], %w: f32[4,2,{2},{2}])\n"
        "  %a = conv %x, %t {3} groups=2 : {4}\n  %b = conv %x, %w {3} groups=1 : {4}\n  return %a, %b\n",
        c.height, c.width, c.kernel, attributes, result);
    Result<Graph> graph = parse(text);
    ASSERT_TRUE(graph) << graph.error().message;
    std::mt19937 random(7);
    std::vector<Tensor> inputs;
    for (ValueId id : graph->inputs()) {
      inputs.push_back(make_tensor(DType::F32, graph->type(id).shape));
      for (float& x : inputs.back().as<float>()) x = static_cast<float>(random() % 2001) / 1000.0f - 1.0f;
    }
    const auto taps = static_cast<size_t>(c.kernel * c.kernel);
    for (size_t o = 0; o < 4; ++o)
      for (size_t i = 0; i < 2 * taps; ++i)
        inputs[2].as<float>()[o * 2 * taps + i] = i / taps == o / 2 ? inputs[1].as<float>()[o * taps + i % taps] : 0;
    Result<std::vector<Tensor>> outputs = execute(*graph, inputs);
    ASSERT_TRUE(outputs) << outputs.error().message;
    for (size_t i = 0; i < (*outputs)[0].as<float>().size(); ++i)
      ASSERT_NEAR((*outputs)[0].as<float>()[i], (*outputs)[1].as<float>()[i], 1e-5) << text << i;
  }
}

// A graph with a constant that is not floats: codes of 8 bits for `count` numbers.
Graph graph_of_codes(size_t constants, int64_t count) {
  Graph graph;
  for (size_t i = 0; i < constants; ++i)
    graph.add_constant(quantized(DType::I8, {count}, 0.5, 0), graph.store(Buffer(static_cast<size_t>(count))), "c");
  return graph;
}

TEST(ConstantTensors, floats_are_read_where_they_are) {
  Graph graph;
  const ValueId id = graph.add_constant({DType::F32, {4}, {}}, graph.store(Buffer(16)), "c");
  ConstantTensors constants(graph);
  ASSERT_TRUE(constants.of(id));
  EXPECT_EQ(std::as_const(constants.of(id)->data).data(), graph.value(id).data.data());
  const Tensor copy = *constants.of(id);
  EXPECT_NE(std::as_const(copy.data).data(), graph.value(id).data.data()) << "a copy is one of its own";
}

TEST(ConstantTensors, memory_does_not_fill_with_those_that_are_no_floats) {
  constexpr int64_t kMany = int64_t{1} << 23;  // 32 MiB as floats
  const Graph graph = graph_of_codes(4, kMany);
  ConstantTensors constants(graph);
  EXPECT_TRUE(constants.of(0));
  EXPECT_TRUE(constants.of(1));
  EXPECT_FALSE(constants.of(2));
  EXPECT_TRUE(constants.of(0)) << "those that were made stay";
}

TEST(Half, every_value_survives_the_way_there_and_back) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    auto half = static_cast<uint16_t>(bits);
    EXPECT_TRUE(std::isnan(from_f16(half)) || to_f16(from_f16(half)) == half) << bits;
    EXPECT_TRUE(std::isnan(from_bf16(half)) || to_bf16(from_bf16(half)) == half) << bits;
  }
}

TEST(Half, rounds_to_nearest_even_as_pytorch_does) {
  EXPECT_EQ(to_f16(1.0f + 0x1p-11f), 0x3c00);  // half way: to the even one below
  EXPECT_EQ(to_f16(1.0f + 0x3p-11f), 0x3c02);  // half way: to the even one above
  EXPECT_EQ(to_f16(65519.0f), 0x7bff);         // the largest half
  EXPECT_EQ(to_f16(65520.0f), 0x7c00);         // half way beyond it: infinity
  EXPECT_EQ(to_f16(-0x1p-25f), 0x8000);        // half of the smallest subnormal
  EXPECT_EQ(to_f16(0x1.8p-24f), 0x0002);       // subnormals round to even too
  EXPECT_EQ(to_f16(NAN) & 0x7fff, 0x7e00);
  EXPECT_EQ(to_bf16(1.0f + 0x1p-8f), 0x3f80);
  EXPECT_EQ(to_bf16(1.0f + 0x3p-8f), 0x3f82);
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(to_bf16(NAN) & 0x7fff, 0x7fc0);
}

}  // namespace
}  // namespace swoop
