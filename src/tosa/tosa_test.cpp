#include "tosa/tosa.h"

#include <gtest/gtest.h>

#include <numeric>

namespace swoop::tosa {
namespace {

Buffer filled(size_t count, int seed) {
  Buffer data(count);
  for (size_t i = 0; i < count; ++i) data[i] = static_cast<std::byte>((i * 37 + static_cast<size_t>(seed) * 11) % 251);
  return data;
}

// x -> conv -> rescale -> add -> rescale -> pad -> reshape, with an i48 and an i4 constant, a branch and a loop.
Program sample() {
  Program program;
  Builder b(program);
  TensorId x = b.input("x", DType::I8, {1, 4, 4, 3});
  b.set_location("features.0");
  TensorId weight = b.constant(DType::I8, {5, 3, 3, 3}, filled(135, 1), "weight");
  TensorId bias = b.constant(DType::I32, {5}, {1, -2, 3, -4, 5});
  TensorId y = b.conv2d(x, weight, bias, {.pad = {1, 1, 1, 1}}, -3);
  y = b.rescale(y,
                {.multiplier = std::vector<int32_t>(5, 1 << 30), .shift = std::vector<int8_t>(5, 38), .output_zp = 7});
  b.set_location("features.1");
  TensorId wide = b.rescale(y, {.multiplier = {1 << 30}, .shift = {12}, .input_zp = 7, .to = DType::I32});
  wide = b.add(wide, b.scalar(DType::I32, 9, 4));

  Builder yes(program, "yes");
  yes.output(yes.abs(yes.input("v", DType::I32, {1, 4, 4, 5})));
  Builder no(program, "no");
  no.output(no.identity(no.input("v", DType::I32, {1, 4, 4, 5})));
  TensorId positive = b.greater(b.scalar(DType::I32, 1), b.scalar(DType::I32, 0));
  wide = b.cond_if(positive, std::array{wide}, yes.body_id(), no.body_id())[0];

  TensorId narrow =
      b.rescale(wide, {.multiplier = {1 << 30}, .shift = {42}, .output_zp = -1, .rounding = Rounding::Double});
  narrow = b.clamp(narrow, -100, 100);
  TensorId padded = b.pad(narrow, {0, 0, 1, 1, 1, 1, 0, 0}, -1);
  b.output(b.reshape(padded, {36, 5}));
  TensorId i4 =
      b.constant(DType::I4, {7, 1, 1, 3}, {1, -2, 3, -4, 5, -6, 7, 0, 1, 2, 3, 4, 5, 6, 7, -1, -2, -3, -4, -5, -7});
  b.output(b.conv2d(x, i4, b.scalar(DType::I32, 0), {}, 0));
  TensorId x16 = b.cast(x, DType::I16);
  TensorId wide_bias = b.constant(DType::I48, {2}, {(int64_t{1} << 40) + 5, -(int64_t{1} << 41)});
  TensorId w16 = b.constant(DType::I8, {2, 1, 1, 3}, filled(6, 2));
  b.output(b.rescale(b.conv2d(x16, w16, wide_bias, {}, 0),
                     {.multiplier = {1 << 14}, .shift = {30}, .to = DType::I32, .scale32 = false}));
  return program;
}

TensorData sample_input() { return {DType::I8, {1, 4, 4, 3}, filled(48, 3)}; }

std::string problem(const Program& program) {
  Result<void> result = validate(program);
  return result ? "" : result.error().message;
}

TEST(Tosa, builder_makes_valid_programs) { EXPECT_EQ(problem(sample()), ""); }

TEST(Tosa, builder_shares_equal_constants) {
  Program program;
  Builder b(program);
  EXPECT_EQ(b.constant(DType::I8, {2}, {1, 2}), b.constant(DType::I8, {2}, {1, 2}));
  EXPECT_NE(b.constant(DType::I8, {2}, {1, 2}), b.constant(DType::I8, {2, 1}, {1, 2}));
  EXPECT_NE(b.scalar(DType::I8, 0), b.scalar(DType::I16, 0));
}

TEST(Tosa, builder_makes_names_unique) {
  Program program;
  Builder b(program);
  TensorId a = b.input("x", DType::I32, {1});
  TensorId c = b.abs(a);
  b.rename(c, "x");
  EXPECT_EQ(b.tensor(a).name, "x");
  EXPECT_NE(b.tensor(c).name, "x");
}

TEST(Tosa, reads_back_what_it_writes) {
  Program program = sample();
  Buffer file = write(program);
  EXPECT_EQ(text_of(Bytes(file).subspan(4, 4)), "TOSA");
  Result<Program> back = read(file);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(text(*back), text(program));
  EXPECT_EQ(write(*back), file);
  EXPECT_EQ(write(program), file) << "the same program must give the same bytes";
}

TEST(Tosa, computes_the_same_after_a_round_trip) {
  Program program = sample();
  Result<Program> back = read(write(program));
  ASSERT_TRUE(back);
  auto before = run(program, std::array{sample_input()});
  auto after = run(*back, std::array{sample_input()});
  ASSERT_TRUE(before) << before.error().message;
  ASSERT_TRUE(after) << after.error().message;
  ASSERT_EQ(before->size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ((*before)[i].data, (*after)[i].data);
}

TEST(Tosa, observer_sees_every_output_in_order) {
  Program program = sample();
  std::vector<std::string> seen;
  auto result = run(program, std::array{sample_input()},
                    [&](const Body& body, const Operator& op, TensorId output, const TensorData& value) {
                      EXPECT_EQ(value.shape, body.tensors[output].shape);
                      seen.emplace_back(name(op.op));
                    });
  ASSERT_TRUE(result);
  ASSERT_EQ(seen.size(), program.bodies[0].operators.size() + 1);  // one operator of the branch
  EXPECT_EQ(seen[0], "CONV2D");
  EXPECT_EQ(seen[5], "ABS");
  EXPECT_EQ(seen[6], "COND_IF");
}

TEST(Tosa, text_has_one_line_per_operator) {
  Program program;
  Builder b(program);
  b.set_location("act");
  TensorId x = b.input("x", DType::I8, {1, 2});
  b.output(b.clamp(x, 0, 6));
  EXPECT_EQ(text(program),
            "body @main(%x : i8[1,2])\n"
            "  %CLAMP1 : i8[1,2] = CLAMP %x min=0 max=6  # act\n"
            "  return %CLAMP1\n");
}

TEST(Tosa, run_rejects_other_inputs) {
  Program program = sample();
  EXPECT_FALSE(run(program, {}));
  EXPECT_FALSE(run(program, std::array{TensorData{DType::I8, {1, 4, 4, 2}, filled(32, 0)}}));
  EXPECT_FALSE(run(program, std::array{TensorData{DType::I16, {1, 4, 4, 3}, filled(96, 0)}}));
}

TEST(Tosa, overflow_names_the_operator) {
  Program program;
  Builder b(program);
  TensorId x = b.input("x", DType::I32, {1});
  b.set_location("layer7");
  TensorId total = b.add(x, x);
  b.rename(total, "total");
  b.output(total);
  TensorData value{DType::I32, {1}, {}};
  append(value.data, int32_t{1 << 30});
  auto result = run(program, std::array{value});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "ADD at 'layer7' making 'total': a result does not fit i32.");
}

TEST(Tosa, an_endless_loop_ends) {
  Program program;
  Builder b(program);
  Builder cond(program, "cond");
  cond.input("v", DType::Bool, {1});
  cond.output(cond.scalar(DType::Bool, 1));
  Builder body(program, "body");
  body.output(body.input("v", DType::Bool, {1}));
  TensorId x = b.input("x", DType::Bool, {1});
  b.output(b.while_loop(std::array{x}, cond.body_id(), body.body_id())[0]);
  ASSERT_EQ(problem(program), "");
  auto result = run(program, std::array{TensorData{DType::Bool, {1}, Buffer(1)}});
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("does not end"), std::string::npos);
}

// What validate() says after one change to a good program.
template <typename Change>
std::string broken(const Change& change) {
  Program program = sample();
  change(program.bodies[0]);
  return problem(program);
}

size_t find(const Body& body, Op op) {
  size_t i = 0;
  while (body.operators[i].op != op) ++i;
  return i;
}

TEST(Tosa, validator_names_what_is_wrong) {
  auto has = [](const std::string& message, std::string_view part) {
    return message.find(part) != std::string::npos
               ? testing::AssertionSuccess()
               : testing::AssertionFailure() << "'" << message << "' lacks '" << part << "'";
  };
  EXPECT_TRUE(has(broken([](Body& r) {
                    std::get<Conv2dAttributes>(r.operators[0].attributes).stride = {2, 2};
                  }),
                  "windows do not fit exactly along height"));
  EXPECT_TRUE(has(broken([](Body& r) {
                    std::get<Conv2dAttributes>(r.operators[0].attributes).pad = {-1, 0, 0, 0};
                  }),
                  "padding is -1"));
  EXPECT_TRUE(has(broken([](Body& r) {
                    std::get<Conv2dAttributes>(r.operators[0].attributes).stride = {9000, 1};
                  }),
                  "stride is 9000"));
  EXPECT_TRUE(has(broken([](Body& r) { r.tensors[r.operators[0].outputs[0]].shape[1] = 5; }),
                  "the operator makes i32[1,4,4,5]"));
  EXPECT_TRUE(
      has(broken([](Body& r) { r.tensors[r.operators[0].outputs[0]].dtype = DType::I16; }), "CONV2D at 'features.0'"));
  EXPECT_TRUE(has(broken([](Body& r) { r.operators[0].inputs.pop_back(); }), "it has 4 inputs; it needs 5"));
  EXPECT_TRUE(has(broken([](Body& r) { r.operators[0].inputs[0] = 9999; }), "an input does not exist"));
  EXPECT_TRUE(
      has(broken([](Body& r) { r.operators[0].attributes = NoAttributes{}; }), "attributes of another operator"));
  EXPECT_TRUE(has(broken([](Body& r) { std::swap(r.operators[0], r.operators[1]); }), "used before it is made"));
  EXPECT_TRUE(has(broken([](Body& r) { r.operators.push_back(r.operators[0]); }), "is made twice"));
  EXPECT_TRUE(has(broken([](Body& r) { r.outputs.push_back(9999); }), "output that does not exist"));
  EXPECT_TRUE(has(broken([](Body& r) { r.tensors[0].shape = {1, 0, 4, 3}; }), "shape [1,0,4,3]"));
  EXPECT_TRUE(has(broken([](Body& r) { r.tensors[0].shape = {1, 1, 1, 1, 1, 1, 48}; }), "at most 6 sizes"));
  EXPECT_TRUE(has(broken([](Body& r) { r.tensors[0].shape = {65536, 65536, 65536, 65536}; }), "fewer than 2^31"));
  EXPECT_TRUE(has(broken([](Body& r) { r.tensors[1].data.pop_back(); }), "134 bytes"));
  EXPECT_TRUE(has(broken([](Body& r) { r.tensors[1].name = "x"; }), "are called 'x'"));
  EXPECT_TRUE(has(broken([](Body& r) { r.tensors[r.operators[1].inputs[2]].data[0] = std::byte{1}; }), "shift 0 is 1"));
  EXPECT_TRUE(has(broken([](Body& r) { std::get<RescaleAttributes>(r.operators[1].attributes).scale32 = false; }),
                  "must be a constant i16[5]"));
  EXPECT_TRUE(
      has(broken([](Body& r) { std::get<RescaleAttributes>(r.operators[1].attributes).output_unsigned = true; }),
          "cannot go with unsigned"));
  EXPECT_TRUE(
      has(broken([](Body& r) { std::get<ClampAttributes>(r.operators[find(r, Op::Clamp)].attributes).max_val = 300; }),
          "not a range of i8"));
  EXPECT_TRUE(has(
      broken([](Body& r) { std::get<ReshapeAttributes>(r.operators[find(r, Op::Reshape)].attributes).shape = {7}; }),
      "cannot become [7]"));
  EXPECT_TRUE(has(broken([](Body& r) {
                    std::get<CondIfAttributes>(r.operators[find(r, Op::CondIf)].attributes) = {0, 0};
                  }),
                  "contains itself"));
  EXPECT_TRUE(has(broken([](Body& r) {
                    std::get<CondIfAttributes>(r.operators[find(r, Op::CondIf)].attributes) = {1, 77};
                  }),
                  "does not exist"));
}

TEST(Tosa, zero_points_follow_the_type) {
  Program program;
  Builder b(program);
  TensorId x = b.input("x", DType::I16, {2});
  b.output(b.negate(x));
  Body& body = program.bodies[0];
  body.tensors[body.operators[0].inputs[1]].data[0] = std::byte{1};
  EXPECT_NE(problem(program).find("the zero point of i16 is 1"), std::string::npos);
}

TEST(Tosa, survives_every_cut_file) {
  Buffer file = write(sample());
  for (size_t size = 0; size < file.size(); size += size < 400 ? 1 : 7) EXPECT_FALSE(read(Bytes(file).first(size)));
}

// Any single changed byte gives an error or a program that runs or refuses; the sanitizer builds watch the rest.
TEST(Tosa, survives_changed_bytes) {
  Buffer file = write(sample());
  size_t readable = 0;
  for (size_t at = 0; at < file.size(); ++at) {
    for (unsigned flip : {0x01u, 0x80u, 0xffu}) {
      Buffer changed = file;
      changed[at] ^= static_cast<std::byte>(flip);
      Result<Program> program = read(changed);
      if (!program) continue;
      ++readable;
      EXPECT_EQ(problem(*program), "");
      EXPECT_FALSE(text(*program).empty());
      const Body& main = program->bodies[0];
      if (main.inputs.size() != 1 || element_count(main.tensors[main.inputs[0]].shape) != 48) continue;
      static_cast<void>(run(*program, std::array{sample_input()}));
    }
  }
  EXPECT_GT(readable, 0u);
}

TEST(Tosa, the_file_grows_with_its_operators) {
  const auto bytes = [](int operators) {
    Program program;
    Builder b(program);
    TensorId x = b.input("x", DType::I32, {1, 16, 16, 8});
    for (int i = 0; i < operators; ++i) {
      b.set_location("layers." + std::to_string(i));
      x = b.add(x, b.scalar(DType::I32, i, 4));
    }
    b.output(x);
    return write(program).size();
  };
  EXPECT_GT(bytes(1200), 100000u);
  EXPECT_LT(bytes(2400), 3 * bytes(1200));
}

}  // namespace
}  // namespace swoop::tosa
