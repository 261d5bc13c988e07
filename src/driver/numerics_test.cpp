// Legalized and lowered graphs against what they stand for: the float kernels between quantized types (execute) are the
// reference, the TOSA interpreter runs what legalize and lower made of the same graph. Bounds are in steps of the
// result's type.
#include "driver/numerics_for_tests.h"

namespace swoop {
namespace {

// The same products and sums with one rounding: a tie may fall on the other side of the float one.
void expect_exact(const std::string& text, double deviation = 40) {
  for (const std::string& target : {kU55, kU85}) {
    Errors errors = run(text, target, deviation);
    EXPECT_LE(errors.most, 1.01) << target << "\n" << text.substr(0, 600);
    EXPECT_LE(errors.mean, 0.15) << target << "\n" << text.substr(0, 600);
  }
}

std::string ones(std::string_view separator, int64_t count, std::string_view each) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) text += fmt::format("{}{}", i ? separator : "", each);
  return text;
}

// -- convolutions

struct Window {
  int64_t channels, results, height, width, ky, kx, stride_y, stride_x, pad_y, pad_x, dilation_y, dilation_x, groups;
  int64_t batch = 1;
};

std::string conv_text(const Window& w) {
  Numbers numbers;
  int64_t oh = (w.height + 2 * w.pad_y - w.dilation_y * (w.ky - 1) - 1) / w.stride_y + 1;
  int64_t ow = (w.width + 2 * w.pad_x - w.dilation_x * (w.kx - 1) - 1) / w.stride_x + 1;
  int64_t inputs = w.channels / w.groups;
  std::string scales;
  for (int64_t i = 0; i < w.results; ++i)
    scales += fmt::format("{}{}", i ? "," : "", 0.01 + 0.001 * static_cast<double>(i % 7));
  double out = 0.05 * 0.013 * 40 * 40 * std::sqrt(static_cast<double>(inputs * w.ky * w.kx)) / 30;
  return fmt::format(
      "graph \"main\" (%x : i8[{},{},{},{}] q(0.05, -7))\n"
      "%w = const i8[{},{},{},{}] q(axis=0, [{}], [{}]) = {}\n%b = const i32[{}] q(0.001, 0) = {}\n"
      "%y = conv %x, %w, %b stride=[{},{}] padding=[{},{},{},{}] dilation=[{},{}] groups={} : i8[{},{},{},{}] q({}, "
      "3)\nreturn %y\n",
      w.batch, w.channels, w.height, w.width, w.results, inputs, w.ky, w.kx, scales, ones(",", w.results, "0"),
      numbers.codes(w.results * inputs * w.ky * w.kx, 40), w.results, numbers.words(w.results, out * 10000), w.stride_y,
      w.stride_x, w.pad_y, w.pad_y, w.pad_x, w.pad_x, w.dilation_y, w.dilation_x, w.groups, w.batch, w.results, oh, ow,
      out);
}

TEST(Numerics, conv_with_every_stride_and_dilation) {
  for (int64_t stride = 1; stride <= 8; ++stride)
    for (int64_t kernel : {1, 3, 4, 8})
      for (int64_t pad : {0, 1, 3})
        if (pad < kernel) expect_exact(conv_text({3, 5, 17, 19, kernel, kernel, stride, stride, pad, pad, 1, 1, 1}));
  for (int64_t dilation = 1; dilation <= 8; ++dilation)
    for (int64_t stride : {1, 2})
      expect_exact(conv_text({4, 3, 20, 21, 3, 3, stride, stride, dilation, dilation, dilation, dilation, 1}));
}

TEST(Numerics, conv_with_uneven_windows) {
  expect_exact(conv_text({1, 8, 1, 300, 1, 50, 1, 8, 0, 21, 1, 1, 1}));
  expect_exact(conv_text({1, 8, 1, 303, 1, 200, 1, 8, 0, 96, 1, 1, 1}));
  expect_exact(conv_text({8, 4, 20, 20, 5, 3, 5, 2, 2, 1, 1, 1, 1}));
  expect_exact(conv_text({3, 4, 32, 48, 16, 16, 16, 16, 0, 0, 1, 1, 1}));
  for (int64_t dilation : {3, 4, 7, 16}) {
    expect_exact(conv_text({5, 6, 1, 70, 1, 5, 1, 1, 0, 2 * dilation, 1, dilation, 1}));
    expect_exact(conv_text({5, 6, 1, 71, 1, 3, 1, 1, 0, 0, 1, dilation, 1}));
  }
}

TEST(Numerics, conv_with_dilation_beyond_the_plane) {
  for (int64_t dilation : {6, 11, 12, 24}) {
    expect_exact(conv_text({5, 24, 9, 8, 3, 3, 1, 1, dilation, dilation, dilation, dilation, 1}));
    expect_exact(conv_text({5, 24, 30, 26, 3, 3, 1, 1, dilation, dilation, dilation, dilation, 1}));
    expect_exact(conv_text({6, 6, 9, 8, 3, 3, 1, 1, dilation, dilation, dilation, dilation, 6}));
  }
  expect_exact(conv_text({5, 24, 60, 52, 3, 3, 2, 2, 9, 9, 12, 12, 1}));
  expect_exact(conv_text({208, 208, 3, 4, 3, 3, 1, 1, 1, 1, 1, 1, 104}));  // and many groups
}

TEST(Numerics, conv_with_groups_and_batches) {
  expect_exact(conv_text({6, 6, 9, 9, 3, 3, 1, 1, 1, 1, 1, 1, 6}));
  expect_exact(conv_text({6, 12, 9, 9, 3, 3, 1, 1, 1, 1, 1, 1, 6}));
  expect_exact(conv_text({6, 6, 20, 20, 4, 4, 4, 4, 0, 0, 1, 1, 6}));
  expect_exact(conv_text({6, 4, 9, 9, 3, 3, 2, 2, 1, 1, 1, 1, 2}));
  expect_exact(conv_text({6, 6, 20, 20, 3, 3, 1, 1, 5, 5, 5, 5, 6}));
  expect_exact(conv_text({3, 4, 17, 16, 4, 4, 4, 4, 0, 0, 1, 1, 1, 3}));
}

TEST(Numerics, transposed_conv_with_every_stride) {
  Numbers numbers;
  for (int64_t stride = 1; stride <= 5; ++stride)
    for (int64_t kernel : {1, 2, 3, 5})
      for (int64_t pad : {0, 1})
        for (int64_t dilation : {1, 2})
          for (int64_t groups : {1, 2}) {
            int64_t extra = stride > 1 && kernel > 1 ? 1 : 0, reach = dilation * (kernel - 1) + 1;
            int64_t oh = (4 - 1) * stride - 2 * pad + reach + extra, ow = (5 - 1) * stride - 2 * pad + reach + extra;
            if (pad >= reach || oh <= 0) continue;
            expect_exact(fmt::format(
                "graph \"main\" (%x : i8[2,4,4,5] q(0.05, -7))\n%w = const i8[4,{},{},{}] q(0.02, 0) = {}\n%b = const "
                "i32[6] q(0.001, 0) = {}\n"
                "%y = conv_transpose %x, %w, %b stride=[{},{}] padding=[{},{},{},{}] output_padding=[{},{}] "
                "dilation=[{},{}] groups={} "
                ": i8[2,6,{},{}] q(0.08, 3)\nreturn %y\n",
                6 / groups, kernel, kernel, numbers.codes(24 / groups * kernel * kernel, 40), numbers.words(6, 1000),
                stride, stride, pad, pad, pad, pad, extra, extra, dilation, dilation, groups, oh, ow));
          }
}

TEST(Numerics, operands_of_8_and_of_16_bits) {
  for (const char* op : {"add", "sub", "mul", "maximum"})
    for (const std::string& target : {kU55, kU85}) {
      const char* from = std::string(op) == "mul" ? "0.002" : "0.0002";
      Errors errors = run(fmt::format("graph \"main\" (%x : i8[1,3,5,16] q(0.05, 7), %y : i16[1,3,5,16] q({}, 0))\n"
                                      "%z = {} %x, %y : i8[1,3,5,16] q(0.06, -4)\nreturn %z\n",
                                      from, op),
                          target);
      EXPECT_LE(errors.most, 1.01) << op << target;
    }
}

// -- composites

TEST(Numerics, layer_norm_of_any_width) {
  Numbers numbers;
  for (int64_t length : {2, 8, 15, 16, 17, 128, 129, 384})
    for (bool measured : {true, false}) {
      std::string inner = !measured ? "" : length < 100 ? "inner=d[0.001, 8.0] " : "inner=d[0.5, 2.5] ";
      std::string text = fmt::format(
          "graph \"main\" (%x : i8[2,7,{0}] q(0.03, -3))\n%w = const f32[{0}] = {1}\n%b = const f32[{0}] = {2}\n"
          "%y = layer_norm %x, %w, %b axis=2 eps=1e-5 {3}: i8[2,7,{0}] q(0.03, 2)\nreturn %y\n",
          length, numbers.floats(length, 1, 0.3), numbers.floats(length, 0, 0.3), inner);
      for (const std::string& target : {kU55, kU85}) {
        Errors errors = run(text, target);
        EXPECT_LE(errors.most, 1.01) << text.substr(0, 100);
        EXPECT_GE(errors.sqnr, measured && length > 2 ? 46 : 42) << text.substr(0, 100);
      }
    }
}

TEST(Numerics, layer_norm_of_more_rows_than_sram_holds) {
  Errors errors = run(
      "graph \"main\" (%x : i8[2,420,256] q(0.03, -3))\n%y = layer_norm %x, _, _ axis=2 eps=1e-5 inner=d[0.5, 2.5] : "
      "i8[2,420,256] q(0.03, 2)\nreturn %y\n",
      kU85);
  EXPECT_LE(errors.most, 1.01);
  EXPECT_GE(errors.sqnr, 46);
}

TEST(Numerics, layer_norm_of_rows_with_very_different_deviations) {
  // Deviation 2 steps, where calibration saw rows of up to 60: a table for each part of that range.
  std::string text =
      "graph \"main\" (%x : i8[1,9,192] q(0.03, 0))\n%y = layer_norm %x, _, _ axis=2 eps=1e-5 inner=d[0.003, 3.3] : "
      "i8[1,9,192] q(0.03, 0)\nreturn %y\n";
  for (double deviation : {2.0, 8.0, 30.0, 60.0}) {
    Errors errors = run(text, kU55, deviation);
    EXPECT_LE(errors.most, 1.01) << deviation;
    EXPECT_GE(errors.sqnr, deviation < 4 ? 36 : 45) << deviation;  // squares of 2 steps are few codes of 16 bits
  }
}

TEST(Numerics, norms_in_16_bits_and_of_groups) {
  for (const std::string& target : {kU55, kU85}) {
    EXPECT_GE(run("graph \"main\" (%x : i16[2,5,200] q(0.0002, 0))\n%y = layer_norm %x, _, _ axis=2 eps=1e-6 "
                  "inner=d[2, 6] : i16[2,5,200] q(0.0003, 0)\nreturn %y\n",
                  target)
                  .sqnr,
              70);
    EXPECT_LE(run("graph \"main\" (%x : i8[2,5,96] q(0.05, 4))\n%y = rms_norm %x, _ axis=2 eps=1e-6 inner=d[2, 6] : "
                  "i8[2,5,96] q(0.04, 0)\nreturn %y\n",
                  target)
                  .most,
              1.01);
    for (int64_t groups : {1, 2, 6})
      EXPECT_LE(run(fmt::format("graph \"main\" (%x : i8[2,6,5,7] q(0.03, -3))\n%y = group_norm %x, _, _ groups={} "
                                "eps=1e-5 inner=d[0.5, 2.5] : i8[2,6,5,7] q(0.03, 1)\nreturn %y\n",
                                groups),
                    target)
                    .most,
                1.01);
    EXPECT_LE(run("graph \"main\" (%x : i8[2,5,12] q(0.05, 4))\n%y = var %x axes=[1,2] keepdim=false correction=1.0 : "
                  "i8[2] q(0.05, -128)\nreturn %y\n",
                  target)
                  .most,
              1.01);
    // Of one number it is 0.
    EXPECT_EQ(run("graph \"main\" (%x : i8[2,1] q(0.05, 4))\n%y = var %x axes=[1] keepdim=false correction=0.0 : i8[2] "
                  "q(0.05, -128)\nreturn %y\n",
                  target)
                  .most,
              0);
  }
}

TEST(Numerics, softmax_of_any_length) {
  for (int64_t length : {1, 2, 15, 16, 17, 100, 300})
    for (const std::string& target : {kU55, kU85}) {
      double scale = std::min(1.0, 40.0 / static_cast<double>(length)) / 255;
      std::string text = fmt::format(
          "graph \"main\" (%x : i8[3,{0},4] q(0.05, 9))\n%y = softmax %x axis=1 : i8[3,{0},4] q({1}, -128)\nreturn "
          "%y\n",
          length, scale);
      EXPECT_LE(run(text, target).most, 1.01) << text;
      text = fmt::format(
          "graph \"main\" (%x : i8[3,{0}] q(0.05, 9))\n%y = log_softmax %x axis=1 : i8[3,{0}] q(0.1, 127)\nreturn %y\n",
          length);
      EXPECT_LE(run(text, target).most, 1.01) << text;
      text = fmt::format(
          "graph \"main\" (%x : i16[3,{0}] q(0.0003, 0))\n%y = softmax %x axis=1 : i16[3,{0}] q(0.0000306, 0)\nreturn "
          "%y\n",
          length);
      EXPECT_GE(run(text, target).sqnr, 62) << text;
    }
}

// Below zero it is exp, above zero the reciprocal of the sum.
TEST(Numerics, softmax_has_one_table) {
  for (const char* type : {"i8[3,12] q(0.05, 9)", "i8[3,12] q(0.3, 9)", "i16[3,12] q(0.0003, 0)",
                           "i16[3,12] q(0.00005, 0)", "i16[3,12] q(0.02, 0)", "i16[3,12] q(3.0, 0)"})
    for (const std::string& target : {kU55, kU85}) {
      Errors errors = run(
          fmt::format("graph \"main\" (%x : {})\n%y = softmax %x axis=1 : i8[3,12] q(0.0039, -128)\nreturn %y\n", type),
          target);
      EXPECT_LE(errors.most, 1.01) << type << target;
      EXPECT_EQ(errors.wide_tables, 1) << type << target;
    }
}

TEST(Numerics, attention_with_and_without_masks) {
  for (int64_t length : {1, 15, 16, 50})
    for (bool causal : {false, true})
      for (const std::string& target : {kU55, kU85}) {
        std::string text = fmt::format(
            "graph \"main\" (%q : i8[1,2,{0},16] q(0.03, -3), %k : i8[1,2,{0},16] q(0.03, 5), %v : i8[1,2,{0},16] "
            "q(0.02, 1))\n"
            "%y = attention %q, %k, %v scale=0.25 causal={1} inner=d[-6.0, 6.0] : i8[1,2,{0},16] q(0.02, 2)\nreturn "
            "%y\n",
            length, causal);
        Errors errors = run(text, target);
        EXPECT_LE(errors.most, 3.01) << text;
        EXPECT_LE(errors.mean, 0.15) << text;  // in peers' forms a causal mask costs 13 dB; here nothing
      }
}

TEST(Numerics, attention_that_is_spread_over_many_keys) {
  for (int64_t keys : {512, 513, 2900})
    for (int64_t zero : {-128, 0, 127})
      for (const std::string& target : {kU55, kU85}) {
        std::string text = fmt::format(
            "graph \"main\" (%q : i8[1,1,2,16] q(0.00003, 0), %k : i8[1,1,{0},16] q(0.00003, 0), %v : i8[1,1,{0},16] "
            "q(0.02, {1}))\n%y = attention %q, %k, %v scale=0.25 causal=false inner=d[-0.001, 0.001] : i8[1,1,2,16] "
            "q(0.02, {1})\nreturn %y\n",
            keys, zero);
        for (const Codes& codes : {Codes([](const Type&type, size_t, int64_t) { return type.quant->qmin; }),
                                   Codes([](const Type&type, size_t, int64_t) { return type.quant->qmax; })})
          EXPECT_LE(run(text, target, 0, codes).most, 2.01) << text;
      }
}

// -- values of any size

TEST(Numerics, quotients_of_any_size) {
  for (const char* a : {"i8", "i16"})
    for (const char* b : {"i8", "i16"})
      for (const char* out : {"i8", "i16"})
        for (double scale : {1e-4, 0.003, 0.2, 30.0})
          for (const std::string& target : {kU55, kU65, kU85}) {
            bool narrow = a[1] == '8' && b[1] == '8' && out[1] == '8';
            std::string text = fmt::format(
                "graph \"main\" (%a : {}[4096] q(0.01, 0), %b : {}[4096] q(0.003, 0))\n%y = div %a, %b : {}[4096] "
                "q({}, "
                "0)\nreturn %y\n",
                a, b, out, scale);
            EXPECT_LE(run(text, target, 0, any_size).beyond, narrow ? 4.5e-3 : 1.2e-4) << target << "\n" << text;
          }
}

TEST(Numerics, roots_and_logarithms_of_any_size) {
  auto every_positive = [](const Type&, size_t, int64_t i) { return i + 1; };
  for (const char* fn : {"reciprocal", "rsqrt", "sqrt", "log", "log2", "log10"})
    for (double least : {1.0, 40.0, 3000.0})  // codes; below, the result is clipped
      for (const char* out : {"i8", "i16"})
        for (const std::string& target : {kU55, kU85}) {
          double step = 0.002;
          auto of = [&](double x) {
            return std::fabs(static_cast<double>(unary_function(fn)->of(static_cast<float>(x), 0, 0)));
          };
          double most = std::max(of(least * step), std::string_view(fn) == "sqrt" ? of(32767 * step / least) : 0.0);
          std::string text = fmt::format(
              "graph \"main\" (%x : i16[32767] q({}, 0))\n%y = unary %x fn=\"{}\" : {}[32767] q({}, 0)\nreturn %y\n",
              step, fn, out, most / (out[1] == '8' ? 127 : 32767));
          Errors errors = run(text, target, 0, every_positive);
          EXPECT_LE(errors.beyond, 1.2e-4) << target << "\n" << text;
        }
}

TEST(Numerics, norms_of_16_bits_with_any_deviation) {
  for (double deviation : {0.2, 1.0, 10.0, 30.0})  // times 256 codes
    for (bool measured : {true, false}) {
      if (!measured && deviation < 1) continue;  // less than a hundredth of all codes
      double variance = std::pow(deviation * 256 * 0.0002, 2);
      std::string inner = measured ? fmt::format("inner=d[{}, {}] ", variance / 2, variance * 2) : "";
      for (const std::string& target : {kU55, kU85})
        for (const char* norm :
             {"i16[3,5,200] q(0.0002, 0))\n%y = layer_norm %x, _, _ axis=2 {}eps=1e-9 : i16[3,5,200]",
              "i16[1,8,9,10] q(0.0002, 0))\n%y = group_norm %x, _, _ groups=2 {}eps=1e-9 : "
              "i16[1,8,9,10]",
              "i16[3,5,200] q(0.0002, 0))\n%y = rms_norm %x, _ axis=2 {}eps=1e-9 : i16[3,5,200]"}) {
          std::string text = fmt::format(fmt::runtime(norm), inner);
          bool root_mean_square = text.find("rms") != std::string::npos;
          if (root_mean_square && deviation < 1) continue;  // its squares are of all codes
          EXPECT_GE(run("graph \"main\" (%x : " + text + " q(0.0003, 0)\nreturn %y\n", target, deviation).sqnr, 66)
              << deviation << text;
        }
    }
}

// -- no sum and no rescale leaves its type, whatever the input: lower() refuses what might, and these graphs it takes

TEST(Numerics, extreme_codes_of_every_input) {
  std::vector<std::string> graphs;
  for (const char* t : {"i8", "i16"}) {
    for (const char* inner : {"", "inner=d[1e-9, 1e-7] ", "inner=d[0.001, 1.0] "}) {
      graphs.push_back(
          fmt::format("(%x : {0}[2,96] q(0.05, 0))\n%y = layer_norm %x, _, _ axis=1 eps=1e-6 {1}: {0}[2,96] "
                      "q(0.03, 0)",
                      t, inner));
      graphs.push_back(
          fmt::format("(%x : {0}[1,64,32,32] q(0.3, 0))\n%y = group_norm %x, _, _ groups=1 eps=1e-6 {1}: "
                      "{0}[1,64,32,32] q(0.03, 0)",
                      t, inner));
    }
    for (const char* line :
         {"(%x : {0}[2,70000] q(0.05, 0))\n%y = sum %x axes=[1] keepdim=true : {0}[2,1] q(3.0, 0)",
          "(%x : {0}[2,70000] q(0.05, 0))\n%y = mean %x axes=[1] keepdim=true : {0}[2,1] q(0.001, 0)",
          "(%x : {0}[2,50] q(0.05, 0))\n%y = var %x axes=[1] keepdim=true correction=1.0 : {0}[2,1] q(1e-9, 0)",
          "(%x : {0}[2,50] q(0.05, 0))\n%y = softmax %x axis=1 : {0}[2,50] q(0.00003, 0)",
          "(%x : {0}[2,50] q(0.05, 0))\n%y = mul %x, %x : {0}[2,50] q(1e-12, 0)",
          "(%x : {0}[2,50] q(1e9, 0), %z : {0}[2,50] q(1e-9, 0))\n%y = add %x, %z : {0}[2,50] q(1e-3, 0)",
          "(%x : {0}[2,50] q(1e9, 0), %z : {0}[2,50] q(1e-9, 0))\n%y = maximum %x, %z : {0}[2,50] q(1e-9, 0)",
          "(%x : {0}[2,50] q(1e9, 0), %z : {0}[2,50] q(1e-9, 0))\n%y = div %x, %z : {0}[2,50] q(1, 0)",
          "(%x : {0}[2,50] q(1e-9, 0), %z : {0}[2,50] q(1e9, 0))\n%y = div %x, %z : {0}[2,50] q(1, 0)",
          "(%x : {0}[2,50] q(0.05, 0))\n%y = unary %x fn=\"rsqrt\" : {0}[2,50] q(1e-9, 0)",
          "(%x : {0}[2,50] q(0.05, 0))\n%y = unary %x fn=\"log\" : {0}[2,50] q(1e-9, 0)"})
      graphs.push_back(fmt::format(fmt::runtime(line), t));
  }
  graphs.push_back(
      "(%x : i8[1,600,2,2] q(0.05, 0))\n%w = const i8[3,600,1,1] q(0.01, 0) = fill 127\n%y = conv %x, %w, _ "
      "stride=[1,1] padding=[0,0,0,0] dilation=[1,1] groups=1 : i8[1,3,2,2] q(1e-9, 0)");
  graphs.push_back(
      "(%x : i16[1,600,2,2] q(0.05, 0))\n%w = const i8[3,600,1,1] q(0.01, 0) = fill 127\n%y = conv %x, %w, _ "
      "stride=[1,1] padding=[0,0,0,0] dilation=[1,1] groups=1 : i16[1,3,2,2] q(0.02, 0)");
  graphs.push_back(
      "(%a : i8[1,9,700] q(0.05, -128), %b : i8[1,700,5] q(0.05, 127))\n%y = matmul %a, %b : i8[1,9,5] q(1e-9, 0)");
  for (const char* norm : {"layer_norm %x, _, _", "rms_norm %x, _"})  // epsilon is larger than any square
    for (const char* t : {"i8", "i16"})
      graphs.push_back(
          fmt::format("(%x : {0}[2,6] q(1e-9, 0))\n%y = {1} axis=1 eps=1e-5 inner=d[0, 1e-14] : {0}[2,6] "
                      "q(1e-6, 0)",
                      t, norm));
  std::vector<Codes> extremes = {
      [](const Type& type, size_t, int64_t) { return type.quant->qmin; },
      [](const Type& type, size_t, int64_t) { return type.quant->qmax; },
      [](const Type& type, size_t, int64_t i) { return i % 2 ? type.quant->qmin : type.quant->qmax; },
      [](const Type&, size_t input, int64_t) { return input == 0 ? 1 : 0; },
  };
  for (const std::string& graph : graphs)
    for (const std::string& target : {kU55, kU85})
      for (const Codes& codes : extremes) run("graph \"main\" " + graph + "\nreturn %y\n", target, 0, codes);
}

// -- pools, padding, resizing, arithmetic

TEST(Numerics, pools) {
  struct Pool {
    const char *op, *in, *window, *out;
  };
  for (const Pool& p :
       {Pool{"avg_pool", "1,17,20,21", "kernel=[3,3] stride=[2,2] padding=[1,1,1,1] count_include_pad=true divisor=0",
             "1,17,10,11"},
        Pool{"avg_pool", "1,17,20,21", "kernel=[3,3] stride=[2,2] padding=[1,1,1,1] count_include_pad=false divisor=0",
             "1,17,10,11"},
        Pool{"avg_pool", "1,9,20,21", "kernel=[9,9] stride=[1,1] padding=[4,4,4,4] count_include_pad=false divisor=0",
             "1,9,20,21"},
        Pool{"avg_pool", "1,16,8,8", "kernel=[8,8] stride=[8,8] padding=[0,0,0,0] count_include_pad=true divisor=0",
             "1,16,1,1"},
        Pool{"avg_pool", "2,15,33,24", "kernel=[5,5] stride=[5,5] padding=[0,0,0,0] count_include_pad=true divisor=0",
             "2,15,6,4"},
        Pool{"avg_pool", "1,3,12,12", "kernel=[3,3] stride=[1,1] padding=[1,1,1,1] count_include_pad=true divisor=7",
             "1,3,12,12"},
        Pool{"avg_pool", "1,8,112,96",
             "kernel=[112,96] stride=[1,1] padding=[0,0,0,0] count_include_pad=true divisor=0", "1,8,1,1"},
        Pool{"avg_pool", "1,8,12,13",
             "kernel=[3,3] stride=[2,2] padding=[0,0,0,0] ceil_mode=true count_include_pad=true divisor=0", "1,8,6,6"},
        Pool{"avg_pool", "1,8,25", "kernel=[4] stride=[3] padding=[1,1] count_include_pad=true divisor=0", "1,8,8"},
        Pool{"avg_pool", "1,8,40,40", "kernel=[6,6] stride=[4,5] padding=[2,2,2,2] count_include_pad=true divisor=0",
             "1,8,10,8"},
        Pool{"adaptive_avg_pool", "1,5,16,11", "size=[7,3]", "1,5,7,3"},
        Pool{"adaptive_avg_pool", "1,5,16,10", "size=[16,4]", "1,5,16,4"}})
    expect_exact(fmt::format("graph \"main\" (%x : i8[{}] q(0.05, -7))\n%y = {} %x {} : i8[{}] q(0.03, 3)\nreturn %y\n",
                             p.in, p.op, p.window, p.out));
  for (const Pool& p :
       {Pool{"max_pool", "1,16,16,16", "kernel=[5,5] stride=[1,1] padding=[2,2,2,2] dilation=[1,1]", "1,16,16,16"},
        Pool{"max_pool", "1,3,16,19", "kernel=[4,4] stride=[4,4] padding=[0,0,0,0] dilation=[1,1]", "1,3,4,4"},
        Pool{"max_pool", "1,3,16,19", "kernel=[5,5] stride=[4,4] padding=[2,2,2,2] dilation=[1,1]", "1,3,4,5"},
        Pool{"max_pool", "1,3,16,19", "kernel=[3,3] stride=[2,2] padding=[1,1,1,1] dilation=[2,2]", "1,3,7,9"},
        Pool{"max_pool", "2,3,16", "kernel=[3] stride=[3] padding=[0,0] dilation=[1]", "2,3,5"},
        Pool{"adaptive_max_pool", "1,5,16,11", "size=[7,3]", "1,5,7,3"}})
    expect_exact(
        fmt::format("graph \"main\" (%x : i8[{}] q(0.05, -7))\n%y = {} %x {} : i8[{}] q(0.05, -7)\nreturn %y\n", p.in,
                    p.op, p.window, p.out));
}

TEST(Numerics, a_mean_over_a_large_plane_keeps_its_last_bit) {
  // 1/N as a factor of its own would be 0 in 8 bits.
  expect_exact(
      "graph \"main\" (%x : i8[1,3,224,224] q(0.05, -7))\n%y = mean %x axes=[2,3] keepdim=false : i8[1,3] q(0.003, "
      "0)\nreturn %y\n");
  expect_exact(
      "graph \"main\" (%x : i8[2,3,4,5,6] q(0.05, -7))\n%y = mean %x axes=[1,3] keepdim=true : i8[2,1,4,1,6] q(0.02, "
      "0)\nreturn %y\n");
}

TEST(Numerics, padding_by_the_data_and_resizing) {
  for (const char* mode : {"reflect", "replicate", "circular"})
    expect_exact(
        fmt::format("graph \"main\" (%x : i8[1,3,8,9] q(0.05, -7))\n%y = pad %x padding=[0,0,0,0,2,1,3,2] mode=\"{}\" "
                    "value=0.0 : i8[1,3,11,14] q(0.05, -7)\nreturn %y\n",
                    mode));
  expect_exact(
      "graph \"main\" (%x : i8[1,3,8,9] q(0.05, -7))\n%y = pad %x padding=[0,0,0,0,-2,1,3,-2] mode=\"constant\" "
      "value=0.5 : i8[1,3,7,10] q(0.05, -7)\nreturn %y\n");
  for (const char* size : {"16,18", "24,27", "16,36", "12,13", "5,4"})
    expect_exact(
        fmt::format("graph \"main\" (%x : i8[1,5,8,9] q(0.05, -7))\n%y = resize %x size=[{0}] mode=\"nearest\" "
                    "align_corners=false scales=d[0.0,0.0] : i8[1,5,{0}] q(0.05, -7)\nreturn %y\n",
                    size));
  for (const char* size : {"16,18", "24,27", "32,36", "8,18", "40,45"})
    for (const char* type : {"q(0.05, -7)", "q(0.03, 4)"})
      expect_exact(
          fmt::format("graph \"main\" (%x : i8[1,5,8,9] q(0.05, -7))\n%y = resize %x size=[{0}] mode=\"bilinear\" "
                      "align_corners=false scales=d[0.0,0.0] : i8[1,5,{0}] {1}\nreturn %y\n",
                      size, type));
}

TEST(Numerics, arithmetic) {
  Numbers numbers;
  expect_exact(
      fmt::format("graph \"main\" (%x : i8[1,5,8,9] q(0.05, -7))\n%w = const f32[5] = {}\n%y = prelu %x, %w : "
                  "i8[1,5,8,9] q(0.06, -20)\nreturn %y\n",
                  numbers.floats(5, 0.2, 0.1)));
  expect_exact(
      fmt::format("graph \"main\" (%x : i8[3,5] q(0.05, -7))\n%w = const f32[5] = {}\n%y = prelu %x, %w : i8[3,5] "
                  "q(0.06, -20)\nreturn %y\n",
                  numbers.floats(5, 1, 0.5)));
  for (const char* line : {"%c = const i8[1] q(0.0173, 0) = fill 100\n%y = mul %x, %c",
                           "%c = const i8[1] q(0.0173, 0) = fill -100\n%y = div %x, %c",
                           "%c = const i8[1] q(0.0173, 0) = fill 100\n%y = add %x, %c", "%y = cumsum %x axis=1",
                           "%y = unary %x fn=\"gelu\""})
    expect_exact(
        fmt::format("graph \"main\" (%x : i8[2,5,12] q(0.05, -7))\n{} : i8[2,5,12] q(0.2, 5)\nreturn %y\n", line));
  expect_exact(
      "graph \"main\" (%x : i8[40] q(0.05, -7), %b : i8[40] q(0.02, -128))\n%c = clamp %b min=0.3 : i8[40] q(0.02, "
      "-128)\n%y = div %x, %c : i8[40] q(0.1, 5)\nreturn %y\n");
  expect_exact(
      "graph \"main\" (%x : i8[40] q(0.05, -7), %b : i8[40] q(0.023, -28))\n%y = add %x, %b : i8[40] q(0.06, "
      "5)\nreturn %y\n");
  expect_exact(
      "graph \"main\" (%x : i16[40] q(0.0003, 0), %b : i16[40] q(0.00017, 0))\n%y = sub %x, %b : i16[40] q(0.0004, "
      "0)\nreturn %y\n");
  expect_exact(
      "graph \"main\" (%x : i8[40] q(0.05, -7))\n%y = unary %x fn=\"gelu\" : i16[40] q(0.0002, 0)\nreturn %y\n");
}

}  // namespace
}  // namespace swoop
