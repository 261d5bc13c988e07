// The file that --quantize-config names: every key, and a sentence for each thing that can be wrong.
#include "driver/quantize_config.h"

#include <gtest/gtest.h>

namespace swoop {
namespace {

std::string config_fault(std::string_view text) {
  QuantizeOptions options;
  Result<void> read = read_quantize_config(text, "q.toml", options);
  return read ? "" : read.error().message;
}

TEST(Config, reads_all_keys) {
  constexpr std::string_view kText = R"(
# everything at once
precision = "int16"   # 16x8
method = 'minmax'
percentile = 99.5
weight_bits = 4
per_channel = false
correct_bias = false
equalize = true
min_sqnr = 30
keep_float = ["head*", "aux"]

[[module]]
name = "encoder"
precision = "int8"
method = "histogram"
[[op]]
name = "softmax"
precision = "int16"
[[node]]
name = "conv2d_3"
precision = "float"
)";
  QuantizeOptions options;
  Result<void> read = read_quantize_config(kText, "q.toml", options);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(options.precision, Precision::Int16);
  EXPECT_EQ(options.method, Method::MinMax);
  EXPECT_EQ(options.weight_bits, 4);
  EXPECT_EQ(options.keep_float, (std::vector<std::string>{"head*", "aux"}));
  EXPECT_EQ(options.min_sqnr, 30);
  ASSERT_EQ(options.scopes.size(), 3u);
  // Of one kind they stay in their order; kinds come by their names.
  EXPECT_EQ(options.scopes[0].kind, Scope::Kind::Module);
  EXPECT_EQ(options.scopes[0].method, Method::Histogram);
  EXPECT_EQ(options.scopes[1].kind, Scope::Kind::Node);
  EXPECT_EQ(options.scopes[1].precision, Precision::Float);
  EXPECT_EQ(options.scopes[2].kind, Scope::Kind::Op);
  EXPECT_EQ(options.scopes[2].precision, Precision::Int16);
}

TEST(Config, reads_what_toml_allows) {
  QuantizeOptions options;
  Result<void> read = read_quantize_config(
      "keep_float = [\n  \"head\\u002a\", # a star\n  'aux',\n]\r\nmin_sqnr = 3e1\n"
      "node = [{ name = 'a', precision = 'float' }]\n",
      "q.toml", options);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(options.keep_float, (std::vector<std::string>{"head*", "aux"}));
  EXPECT_EQ(options.min_sqnr, 30);
  ASSERT_EQ(options.scopes.size(), 1u);
  EXPECT_EQ(options.scopes[0].kind, Scope::Kind::Node);
}

TEST(Config, a_sentence_with_its_line_for_each_fault) {
  EXPECT_EQ(config_fault("\nprecision = \"int9\""),
            "q.toml:2: precision \"int9\" is not known; it is auto, int8, int16 or float");
  EXPECT_EQ(config_fault("[[op]]\nname = \"conv\"\nprecision = \"auto\""),
            "q.toml:3: precision \"auto\" is not known; it is int8, int16 or float");
  EXPECT_EQ(config_fault("method = 3"), "q.toml:1: method takes a string");
  EXPECT_EQ(config_fault("[[layer]]\nname = \"conv\""),
            "q.toml:1: layer is not known here; the keys are precision, method, percentile, weight_bits, weight_rate, "
            "per_channel, correct_bias, equalize, keep_float, min_sqnr, module, op, node");
  EXPECT_EQ(config_fault("[[op]]\nname = \"conv\""),
            "q.toml:1: [[op]] for conv has none of precision, method and weight_bits");
  EXPECT_EQ(config_fault("\n[[op]]\nprecision = \"int8\""), "q.toml:2: [[op]] has no name");
  EXPECT_EQ(config_fault("[op]\nname = \"conv\""), "q.toml:1: op is a list of tables: write [[op]]");
  EXPECT_EQ(config_fault("op = [3]"), "q.toml:1: op is a list of tables: write [[op]]");
  EXPECT_EQ(config_fault("[[op]]\ncolour = \"int8\""),
            "q.toml:2: colour is not known here; the keys are name, precision, method, weight_bits");
  EXPECT_EQ(config_fault("weight_bits = 5"), "q.toml:1: weight_bits takes 8 or 4");
  EXPECT_EQ(config_fault("weight_bits = 'x'"), "q.toml:1: weight_bits takes 8 or 4");
  EXPECT_EQ(config_fault("percentile = 3"), "q.toml:1: percentile is above 50 and at most 100");
  EXPECT_EQ(config_fault("keep_float = [\"a\", 3]"), "q.toml:1: keep_float takes an array of strings");
  EXPECT_EQ(config_fault("keep_float = \"a\""), "q.toml:1: keep_float takes an array of strings");
  EXPECT_EQ(config_fault("per_channel = 1"), "q.toml:1: per_channel takes true or false");
}

// What is not TOML is refused in toml++'s words, at its line.
TEST(Config, a_text_that_is_not_toml_is_refused_with_its_line) {
  for (const char* text : {"\nprecision = int8", "\nprecision = \"int8", "\nprecision = \"int8\" 3", "\nnonsense",
                           "\nkeep_float = [\"a\" \"b\"]", "\n[[op]\nname = 'a'", "\nmethod = 'mse'\nmethod = 'mse'"})
    EXPECT_TRUE(config_fault(text).starts_with("q.toml:2: ") || config_fault(text).starts_with("q.toml:3: "))
        << text << ": " << config_fault(text);
}

}  // namespace
}  // namespace swoop
