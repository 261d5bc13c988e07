#include "npu/config.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/file.h"

namespace swoop {
namespace {

constexpr std::string_view kBoard = R"(; a board
[System_Config.Board]
core_clock=100e6
axi0_port=Sram
axi1_port=OffChipFlash
Sram_clock_scale=1.0
Sram_burst_length=32

[Memory_Mode.Shared]
const_mem_area=Axi1
arena_mem_area=Axi0
cache_mem_area=Axi0
[Memory_Mode.Small]
inherit=Memory_Mode.Shared
arena_cache_size=1000
)";

NpuOptions board(std::string config = std::string(kBoard)) {
  NpuOptions options;
  options.config = std::move(config);
  options.config_path = "board.ini";
  options.system_config = "Board";
  options.memory_mode = "Small";
  return options;
}

std::string replaced(std::string_view from, std::string_view to) {
  std::string text(kBoard);
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string problem(const NpuOptions& options, std::string_view target = "ethos-u55-128") {
  const auto result = resolve_system(*parse_target(target), options);
  return result ? "none" : result.error().message;
}

TEST(Config, the_largest_numbers_are_no_overflow) {
  const std::string config =
      replaced("Sram_burst_length=32", "Sram_burst_length=2147483647\nSram_max_reads=2147483647\nSram_ports_used=4");
  const auto system = resolve_system(*parse_target("ethos-u55-128"), board(config));
  ASSERT_TRUE(system) << system.error().message;
  EXPECT_GT(system->staging_reads.bytes_under_way, 1e19);
}

TEST(Config, every_pair_of_velas_own_file_is_accepted_or_refused_with_a_reason) {
  const NpuOptions defaults;
  const auto systems = *system_configs(defaults);
  const auto modes = *memory_modes(defaults);
  EXPECT_EQ(systems.size(), 11u);
  EXPECT_EQ(modes.size(), 6u);
  int accepted = 0;
  for (const auto& system : systems) {
    for (const auto& mode : modes) {
      NpuOptions options;
      options.system_config = system;
      options.memory_mode = mode;
      const std::string text = problem(options);
      accepted += text == "none";
      EXPECT_TRUE(text == "none" || text.find("must be") != std::string::npos) << text;
    }
  }
  EXPECT_EQ(accepted, 11 * 2 + 6 * 4);  // a dedicated SRAM needs a DRAM beside it, which 6 of the 11 have
}

TEST(Config, defaults_of_every_target_are_valid) {
  for (const NpuTarget& target : npu_targets()) {
    const auto system = resolve_system(target, {});
    ASSERT_TRUE(system) << system.error().message;
    const bool shared = target.facts().memory_mode == "Shared_Sram";
    EXPECT_EQ(system->arena_cache_size, shared ? int64_t{1} << target.facts().address_bits : 393216);
    EXPECT_GE(system->clock_hz, 500e6);
  }
}

TEST(Config, reads_clock_memories_and_inherited_sizes) {
  const auto system = resolve_system(*parse_target("ethos-u55-128"), board());
  ASSERT_TRUE(system) << system.error().message;
  EXPECT_EQ(system->clock_hz, 100e6);
  EXPECT_EQ(system->constants, NpuMemory::OffChipFlash);
  EXPECT_EQ(system->feature_maps, NpuMemory::Sram);
  EXPECT_EQ(system->arena_cache_size, 1000);
  NpuOptions larger = board();
  larger.arena_cache_size = 5000;
  EXPECT_EQ(resolve_system(*parse_target("ethos-u55-128"), larger)->arena_cache_size, 5000);
}

TEST(Config, reads_windows_line_ends) {
  std::string text;
  for (char c : kBoard) text += c == '\n' ? std::string("\r\n") : std::string(1, c);
  EXPECT_EQ(problem(board(text)), "none");
}

TEST(Config, unknown_names_list_the_known_ones) {
  NpuOptions options = board();
  options.memory_mode = "Dedicated";
  EXPECT_EQ(problem(options),
            "board.ini: there is no section [Memory_Mode.Dedicated]; --memory-mode can be one of Shared, Small.");
  options = board();
  options.system_config = "Ethos_U55";
  EXPECT_EQ(problem(options),
            "board.ini: there is no section [System_Config.Ethos_U55]; --system-config can be one of Board.");
  options.config.clear();
  EXPECT_NE(problem(options).find("Ethos_U55_Deep_Embedded, Ethos_U55_High_End_Embedded"), std::string::npos);
}

TEST(Config, errors_have_line_numbers) {
  const auto message = [](std::string_view from, std::string_view to) { return problem(board(replaced(from, to))); };
  EXPECT_EQ(message("100e6", "fast"), "board.ini:3: 'core_clock' must be a positive number, not 'fast'.");
  EXPECT_EQ(message("100e6", "0"), "board.ini:3: 'core_clock' must be a positive number, not '0'.");
  EXPECT_EQ(message("100e6", "100e6 ; slow"),
            "board.ini:3: 'core_clock' must be a positive number, not '100e6 ; slow'.");
  EXPECT_EQ(message("length=32", "length=0"),
            "board.ini:7: 'Sram_burst_length' must be a whole number of at least 1, not '0'.");
  EXPECT_EQ(message("axi0_port=Sram", "axi0_port=Ram"),
            "board.ini:4: 'axi0_port' must be Sram, Dram, OnChipFlash or OffChipFlash, not 'Ram'.");
  EXPECT_EQ(message("axi1_port=OffChipFlash\n", ""), "board.ini:2: [System_Config.Board] does not say 'axi1_port'.");
  EXPECT_EQ(message("const_mem_area=Axi1", "const_mem_area=Axi2"),
            "board.ini:10: 'const_mem_area' must be Axi0 or Axi1, not 'Axi2'.");
  EXPECT_EQ(message("size=1000", "size=-1"),
            "board.ini:15: arena_cache_size must be a number of bytes from 0 to 4294967296, not '-1'.");
  EXPECT_EQ(message("; a board", "# a board"),
            "board.ini:1: write comments with ';'. regor does not know '#' and would ignore the rest of the file.");
  EXPECT_EQ(message("; a board", "a=1"), "board.ini:1: 'a' stands before the first section.");
  EXPECT_EQ(message("axi0_port", " axi0_port"),
            "board.ini:4: the line starts with a space, which makes it part of the line before. Remove the space.");
  EXPECT_EQ(message("axi0_port=Sram", "axi0_port: Sram"),
            "board.ini:4: expected a section [Name], a line key=value or a comment, not 'axi0_port: Sram'.");
  EXPECT_EQ(message("[Memory_Mode.Shared]", "[Memory_Mode.Shared"), "board.ini:9: a section looks like [Name].");
  EXPECT_EQ(message("[Memory_Mode.Small]", "[Memory_Mode.Shared]"),
            "board.ini:13: the section [Memory_Mode.Shared] was already given in line 9.");
  EXPECT_EQ(message("axi1_port", "axi0_port"), "board.ini:5: 'axi0_port' was already given in line 4.");
}

TEST(Config, inherits_only_what_regor_can_follow) {
  const auto message = [](std::string_view to) { return problem(board(replaced("inherit=Memory_Mode.Shared", to))); };
  for (std::string_view parent : {"Memory_Mode.Small", "Memory_Mode.Later", "System_Config.Board", ""}) {
    EXPECT_NE(message("inherit=" + std::string(parent)).find("board.ini:14: [Memory_Mode.Small] inherits from"),
              std::string::npos)
        << parent;
  }
  EXPECT_EQ(message("cache_mem_area=Axi0\ninherit=Memory_Mode.Shared"),
            "board.ini:15: 'inherit' must be the first line of its section.");
}

TEST(Config, refuses_memories_that_cannot_do_it) {
  EXPECT_NE(
      problem(board(replaced("arena_mem_area=Axi0", "arena_mem_area=Axi1"))).find("feature maps into OffChipFlash"),
      std::string::npos);
  EXPECT_NE(problem(board(replaced("cache_mem_area=Axi0", "cache_mem_area=Axi1"))).find("the cache into OffChipFlash"),
            std::string::npos);
  NpuOptions options = board();
  options.arena_cache_size = (uint64_t{1} << 32) + 1;
  EXPECT_NE(problem(options).find("more than ethos-u55-128 can address"), std::string::npos);
  EXPECT_EQ(problem(options, "ethos-u85-128"), "none");
}

TEST(Config, binary_and_huge_files_are_errors) {
  EXPECT_NE(problem(board(std::string("[a]\0", 4))).find("binary"), std::string::npos);
  EXPECT_NE(problem(board(std::string(2 << 20, '\n'))).find("too many"), std::string::npos);
}

TEST(Compile, bad_options_are_found_without_compiling) {
  NpuOptions options;
  options.memory_mode = "Nowhere";
  EXPECT_FALSE(check_npu_options(*parse_target("ethos-u55-128"), options));
  EXPECT_FALSE(compile_npu({}, *parse_target("ethos-u55-128"), options, "region0"));
  options = {};
  options.timeout_seconds = 0;
  EXPECT_FALSE(check_npu_options(*parse_target("ethos-u55-128"), options));
  EXPECT_TRUE(check_npu_options(*parse_target("ethos-u55-128"), {}));
}

TEST(Compile, rubbish_is_refused_and_kept) {
  const Bytes rubbish = bytes_of("this is no TOSA file");
  const auto program = compile_npu(rubbish, *parse_target("ethos-u55-128"), {}, "../region 0");
  ASSERT_FALSE(program);
  EXPECT_NE(program.error().message.find("while compiling ___region_0 for ethos-u55-128"), std::string::npos)
      << program.error().message;
  const std::string folder = testing::TempDir() + "swoop-rubbish";
  ASSERT_TRUE(keep_reproducer(rubbish, *parse_target("ethos-u55-128"), {}, "../region 0", folder));
  const auto kept = MappedFile::open(folder + "/___region_0.tosa");
  ASSERT_TRUE(kept);
  EXPECT_EQ(text_of((*kept)->bytes()), "this is no TOSA file");
}

TEST(Optimise, has_velas_names) {
  EXPECT_EQ(*parse_optimise("Size"), Optimise::Size);
  EXPECT_EQ(*parse_optimise("Performance"), Optimise::Performance);
  EXPECT_FALSE(parse_optimise("size"));
}

}  // namespace
}  // namespace swoop
