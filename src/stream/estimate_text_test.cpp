#include <gtest/gtest.h>

#include "stream/stream.h"

namespace swoop {
namespace {

Estimates some_estimates() {
  Estimates estimates;
  estimates.total_cycles = 123456789012;
  estimates.npu_cycles = 1000;
  estimates.macs = 42;
  estimates.memories[static_cast<size_t>(NpuMemory::Sram)] = MemoryEstimate{.bytes_used = 7};
  estimates.memories[static_cast<size_t>(NpuMemory::OffChipFlash)] = MemoryEstimate{.bytes_used = 8};
  return estimates;
}

TEST(EstimatesText, is_one_line_with_every_total) {
  EXPECT_EQ(
      estimates_text(some_estimates(), "0.1.0"),
      "swoop 0.1.0; total_cycles=123456789012; npu_cycles=1000; macs=42; sram_bytes=7; flash_bytes=8; dram_bytes=0");
}

TEST(EstimatesText, comes_back_whole) {
  const auto figures = parse_estimates_text(estimates_text(some_estimates(), "0.1.0"));
  ASSERT_TRUE(figures);
  EXPECT_EQ(figures->version, "0.1.0");
  EXPECT_EQ(figures->total_cycles, 123456789012);
  EXPECT_EQ(figures->npu_cycles, 1000);
  EXPECT_EQ(figures->macs, 42);
  EXPECT_EQ(figures->sram_bytes, 7);
  EXPECT_EQ(figures->flash_bytes, 8);
  EXPECT_EQ(figures->dram_bytes, 0);
}

TEST(EstimatesText, passes_over_figures_of_later_versions) {
  EXPECT_TRUE(parse_estimates_text(estimates_text(some_estimates(), "9") + "; joules=3; words"));
}

TEST(EstimatesText, refuses_what_is_not_whole) {
  const std::string whole = estimates_text(some_estimates(), "0.1.0");
  for (size_t size = 0; size < whole.size(); ++size) EXPECT_FALSE(parse_estimates_text(whole.substr(0, size))) << size;
  for (std::string_view broken : {"-1", "1x", "", " 1", "99999999999999999999"}) {
    std::string text = whole;
    text.replace(text.find("42"), 2, broken);
    EXPECT_FALSE(parse_estimates_text(text)) << text;
  }
  EXPECT_FALSE(parse_estimates_text("Swoop 0.1.0" + whole.substr(11)));
}

}  // namespace
}  // namespace swoop
