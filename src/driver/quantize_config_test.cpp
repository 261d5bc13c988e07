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
  EXPECT_EQ(options.scopes[2].precision, Precision::Float);
  EXPECT_EQ(options.scopes[0].method, Method::Histogram);
}

TEST(Config, a_sentence_with_its_line_for_each_fault) {
  EXPECT_EQ(config_fault("\nprecision = int8"), "q.toml:2: \"int8\" is no value; strings stand in quotes");
  EXPECT_EQ(config_fault("precision = \"int9\""),
            "q.toml:1: precision \"int9\" is not known; it is int8, int16 or float");
  EXPECT_EQ(config_fault("method = 3"), "q.toml:1: method takes a string");
  EXPECT_EQ(config_fault("[[layer]]"),
            "q.toml:1: [[layer]] is not known; the tables are [[module]], [[op]] and [[node]]");
  EXPECT_EQ(config_fault("[[op]]\nname = \"conv\""), "q.toml:2: the table for conv says neither precision nor method");
  EXPECT_EQ(config_fault("[[op]]\nprecision = \"int8\""), "q.toml:2: the table above this line has no name");
  EXPECT_EQ(config_fault("[[op]]\ncolour = \"int8\""),
            "q.toml:2: colour is not known here; a table has name, precision and method");
  EXPECT_EQ(config_fault("bits = 3"),
            "q.toml:1: bits is not known; the keys are precision, method, percentile, weight_bits, per_channel, "
            "correct_bias, equalize, keep_float and min_sqnr");
  EXPECT_EQ(config_fault("weight_bits = 5"), "q.toml:1: weight_bits is 8 or 4");
  EXPECT_EQ(config_fault("percentile = 3"), "q.toml:1: percentile lies above 50 and goes to 100");
  EXPECT_EQ(config_fault("keep_float = [\"a\" \"b\"]"), "q.toml:1: a comma or ] is missing in an array");
  EXPECT_EQ(config_fault("keep_float = [a]"), "q.toml:1: an array holds strings in quotes and ends on its line");
  EXPECT_EQ(config_fault("precision = \"int8"), "q.toml:1: a string does not end on its line");
  EXPECT_EQ(config_fault("precision = \"int8\" 3"), "q.toml:1: \"3\" follows the value of precision");
  EXPECT_EQ(config_fault("nonsense"), "q.toml:1: a line is a [[table]] or key = value");
  EXPECT_EQ(config_fault("per_channel = 1"), "q.toml:1: per_channel takes true or false");
}

}  // namespace
}  // namespace swoop
