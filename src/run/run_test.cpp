// The NPU in software without Python: small programs with known results (test/data/npu), the decoder's refusals, and
// programs with every single bit flipped, which must end in an error or in other numbers.
#include "run/run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>

#include "run/gemm.h"
#include "run/memory.h"
#include "run/output.h"
#include "run/registers.h"
#include "run/samples_for_tests.h"
#include "run/weights.h"

namespace swoop {
namespace {

// A payload with the given register commands.
Buffer payload(uint32_t config, std::vector<uint32_t> stream) {
  std::vector<uint32_t> words = {0x31504f43, 0x00100001, config, 0x10060000,
                                 5,          5,          5,      static_cast<uint32_t>(stream.size()) << 16 | 2};
  words.insert(words.end(), stream.begin(), stream.end());
  Buffer bytes;
  for (uint32_t word : words) append(bytes, word);
  return bytes;
}
constexpr uint32_t kU55x128 = 7 | 24 << 8, kU65x512 = 9 | 96 << 8 | 1u << 28, kU85x256 = 8 | 1 << 4 | 2u << 28;

std::string decode_error(uint32_t config, std::vector<uint32_t> stream) {
  Buffer bytes = payload(config, std::move(stream));
  auto parsed = parse_payload(bytes);
  if (!parsed) return parsed.error().message;
  auto commands = decode_commands(*parsed);
  return commands ? "" : commands.error().message;
}

TEST(Memory, a_byte_that_was_never_written_is_found_in_any_page) {
  constexpr uint64_t kPage = 4096, kSize = 4 * kPage + 100, kHole = 2 * kPage + 5;
  Buffer storage(kSize);
  ethos::Memory memory;
  memory.add_scratch(1, storage);
  const auto fault = [&](int64_t first, uint64_t size) {
    auto read = memory.readable(1, first, size, "It");
    return read ? std::string() : read.error().message;
  };
  ASSERT_TRUE(memory.writable(1, 0, kHole, "It"));
  ASSERT_TRUE(memory.writable(1, kHole + 1, kSize - kHole - 1, "It"));
  EXPECT_EQ(fault(0, kHole), "");
  EXPECT_EQ(fault(100, kSize - 100), fmt::format("It reads byte {} of region 1, which was never written.", kHole));
  ASSERT_TRUE(memory.writable(1, kHole - 10, 20, "It"));
  EXPECT_EQ(fault(100, kSize - 100), "");
  Buffer other(kSize);
  memory.add_scratch(2, other);
  ASSERT_TRUE(memory.copy(2, 0, 1, kPage + 7, 1));  // a byte of a full page, with its mark
  EXPECT_EQ(fault(0, kSize), fmt::format("It reads byte {} of region 1, which was never written.", kPage + 7));
}

TEST(Memory, runs_with_gaps_are_written_until_a_transfer_brings_holes) {
  Buffer storage(1000), other(1000);
  ethos::Memory memory;
  memory.add_scratch(1, storage);
  memory.add_scratch(2, other);
  const ethos::Memory::Runs runs{10, 3, 5, 100};  // 10 to 12, 15 to 17, ...
  const auto fault = [&](const ethos::Memory::Runs& read) {
    auto done = memory.readable(1, read, "It");
    return done ? std::string() : done.error().message;
  };
  EXPECT_EQ(fault(runs), "It reads byte 10 of region 1, which was never written.");
  for (int time = 0; time < 2; ++time) {
    ASSERT_TRUE(memory.writable(1, runs, "It"));
    EXPECT_FALSE(memory.take_accesses().at(0).whole());
    EXPECT_EQ(fault(runs), "");
  }
  EXPECT_EQ(fault({10, 4, 5, 100}), "It reads byte 13 of region 1, which was never written.");
  ASSERT_TRUE(memory.copy(2, 0, 1, 26, 1));
  EXPECT_EQ(fault(runs), "It reads byte 26 of region 1, which was never written.");
}

class Samples : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, Samples, testing::ValuesIn(sample_names()), [](const auto& sample) {
  std::string name = sample.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST_P(Samples, equal_the_reference_model) {
  Sample sample(GetParam());
  auto output = sample.run();
  ASSERT_TRUE(output.has_value()) << output.error().message;
  EXPECT_EQ(*output, sample.expected);
}

TEST_P(Samples, survive_every_flipped_bit) {
  Sample sample(GetParam());
  NpuRunOptions options;
  options.max_work = uint64_t{1} << 27;
  int failed = 0, other = 0, same = 0;
  auto flip_all = [&](Buffer& bytes) {
    for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
      bytes[bit / 8] ^= std::byte{1} << (bit % 8);
      auto output = sample.run(options);
      if (!output)
        ++failed;
      else if (*output != sample.expected)
        ++other;
      else
        ++same;
      bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    }
  };
  flip_all(sample.program.commands);
  flip_all(sample.program.weights);
  EXPECT_GT(failed, other);  // most words name sizes and places, which the checks know
  EXPECT_GT(failed + other, same);
}

TEST_P(Samples, stop_when_the_work_is_used_up) {
  Sample sample(GetParam());
  NpuRunOptions options;
  options.max_work = 100;
  auto output = sample.run(options);
  ASSERT_FALSE(output.has_value());
  EXPECT_NE(output.error().message.find("more work than allowed"), std::string::npos) << output.error().message;
}

// Configuration word of an NPU: its version is that of the encoding.
uint32_t config_word(const NpuTarget& target) {
  return static_cast<uint32_t>(std::bit_width(static_cast<uint32_t>(target.macs)) - 1) |
         ethos::by_encoding(target.facts().encoding, 0u, 1u) << 4 | target.facts().product << 28;
}

TEST(Decode, names_every_npu) {
  for (const NpuTarget& target : npu_targets()) {
    auto parsed = parse_payload(payload(config_word(target), {}));
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(parsed->config.name(), target.name);
    EXPECT_EQ(target.facts().brick, ethos::kBrick) << target.name;
  }
}

TEST(Decode, names_the_npu) {
  EXPECT_EQ(parse_payload(payload(kU55x128, {}))->config.name(), "ethos-u55-128");
  EXPECT_EQ(parse_payload(payload(kU65x512, {}))->config.name(), "ethos-u65-512");
  EXPECT_EQ(parse_payload(payload(kU65x512, {}))->config.cores, 2);
  EXPECT_EQ(parse_payload(payload(kU85x256, {}))->config.name(), "ethos-u85-256");
  EXPECT_NE(decode_error(3u << 28, {}).find("product 3"), std::string::npos);
  EXPECT_NE(decode_error(10 | 24 << 8, {}).find("no Ethos-U55 with 1024 MACs"), std::string::npos);
}

TEST(Decode, refuses_what_it_does_not_know_with_its_place) {
  EXPECT_EQ(decode_error(kU55x128, {0x0000010f, 0x000001ff}),
            "Word 1 of the command stream, 0x000001ff, is not a command of the Ethos-U55.");
  EXPECT_EQ(decode_error(kU55x128, {0x0008010f}),
            "NPU_SET_IFM_REGION at word 0 has bits 0x8 set, which have no meaning there.");
  EXPECT_EQ(decode_error(kU55x128, {0x00004000}), "The command stream ends inside NPU_SET_IFM_BASE0 at word 0.");
  EXPECT_NE(decode_error(kU55x128, {0x00000007}).find("not a command"),
            std::string::npos);  // RESIZE is a command of the U85
  EXPECT_EQ(decode_error(kU85x256, {0x00000007}), "");
}

TEST(Decode, payload_lengths_must_agree) {
  Buffer bytes = payload(kU55x128, {0, 0});
  bytes.resize(bytes.size() - 4);
  EXPECT_NE(parse_payload(bytes).error().message.find("says 2 words; 1 follow"), std::string::npos);
  bytes.resize(bytes.size() - 1);
  EXPECT_FALSE(parse_payload(bytes).has_value());
}

TEST(Execute, refuses_a_stream_for_another_npu) {
  Sample sample("conv_ethos-u55-128");
  NpuRunOptions options;
  options.target = *parse_target("ethos-u55-256");
  EXPECT_EQ(sample.run(options).error().message, "The command stream is for ethos-u55-128, not for ethos-u55-256.");
  options.target = *parse_target("ethos-u55-128");
  EXPECT_TRUE(sample.run(options).has_value());
}

TEST(Execute, refuses_inputs_of_another_size) {
  Sample sample("conv_ethos-u55-128");
  sample.inputs[0] = sample.inputs[0].first(3);
  EXPECT_NE(sample.run().error().message.find("Input 0 has 3 bytes"), std::string::npos);
  sample.inputs.clear();
  EXPECT_EQ(sample.run().error().message, "The program has 1 inputs; 0 were given.");
}

TEST(Execute, a_register_that_was_never_set_is_an_error) {
  Sample sample("conv_ethos-u55-128");
  sample.program.commands = payload(kU55x128, {0x00000002, 0xffff0000});
  EXPECT_EQ(sample.run().error().message, "NPU_OP_CONV at word 0: NPU_SET_KERNEL_STRIDE was never set.");
}

TEST(Execute, reading_what_nobody_wrote_is_an_error) {
  Sample sample("conv_ethos-u55-128");
  sample.program.inputs.clear();  // the input's place stays unwritten
  sample.inputs.clear();
  EXPECT_NE(sample.run().error().message.find("which was never written"), std::string::npos);
}

TEST(Execute, a_stream_without_stop_is_an_error) {
  Sample sample("conv_ethos-u55-128");
  sample.program.commands.resize(sample.program.commands.size() - 4);
  auto& words = sample.program.commands;
  uint32_t length = static_cast<uint32_t>(words.size() / 4 - 8) << 16 | 2;
  std::memcpy(words.data() + 28, &length, 4);
  EXPECT_EQ(sample.run().error().message, "The command stream ends without NPU_OP_STOP.");
}

// Two transfers into the same bytes, the second while the first may still be under way (the U85 keeps four in flight).
TEST(Execute, a_missing_wait_is_an_error) {
  Sample sample("conv_ethos-u85-256");
  auto wide = [](uint32_t code, uint32_t value) { return std::pair{code | 1u << 14, value}; };
  auto stream = [&](bool waits) {
    std::vector<uint32_t> words = {0x00000130, 0x00010131,
                                   0x00010132};  // source region 0, destination region 1, size 1
    for (auto [first, second] : {wide(48, 0), wide(49, 256), wide(50, 16)}) words.insert(words.end(), {first, second});
    words.push_back(0x00000010);
    if (waits) words.push_back(0x00000011);
    words.insert(words.end(), {0x00000010, 0xffff0000});
    return payload(kU85x256, words);
  };
  sample.program.outputs.clear();
  sample.program.commands = stream(true);
  auto output = sample.run();
  EXPECT_TRUE(output.has_value()) << output.error().message;
  sample.program.commands = stream(false);
  EXPECT_NE(sample.run().error().message.find("a wait is missing"), std::string::npos);
}

// The input copied to `destination`, 16 bytes, while nothing else is under way.
TEST(Execute, a_transfer_may_copy_bytes_onto_themselves_but_not_onto_their_neighbours) {
  Sample sample("conv_ethos-u85-256");
  const auto place = static_cast<uint32_t>(sample.program.inputs[0].offset);
  auto run_copy = [&](uint32_t destination) {
    auto wide = [](uint32_t code) { return code | 1u << 14; };
    sample.program.commands = payload(kU85x256, {0x00010130, 0x00010131, 0x00010132, wide(48), place, wide(49),
                                                 destination, wide(50), 16, 0x00000010, 0xffff0000});
    return sample.run();
  };
  sample.program.outputs.clear();
  EXPECT_TRUE(run_copy(place).has_value());
  EXPECT_NE(run_copy(place + 8).error().message.find("overlap in region 1"), std::string::npos);
}

// A copy, then a product that reads it: BLOCKDEP is 0. With 1 the product may begin while the copy's last block is
// written.
TEST(Execute, a_kernel_that_begins_too_early_is_an_error) {
  Sample sample("matmul_ethos-u85-256");
  std::vector<NpuCommand> commands = *decode_commands(*parse_payload(sample.program.commands));
  auto found = std::find_if(commands.begin(), commands.end(),
                            [](const NpuCommand& c) { return c.name() == "NPU_SET_BLOCKDEP"; });
  ASSERT_NE(found, commands.end());
  ASSERT_EQ(found->parameter, 0);
  constexpr size_t kHeaderWords = 8;
  sample.program.commands[4 * (kHeaderWords + found->position) + 2] = std::byte{1};
  EXPECT_NE(sample.run().error().message.find("may still be writing it; NPU_SET_BLOCKDEP is 1"), std::string::npos);
}

TEST(Execute, a_cache_does_not_change_results) {
  Sample sample("conv_ethos-u85-256");
  NpuRunOptions options;
  options.cache = make_run_cache();
  EXPECT_EQ(*sample.run(options), sample.expected);
  EXPECT_EQ(*sample.run(options), sample.expected);
}

TEST(Output, rounds_as_the_modes_say) {
  using ethos::Rounding;
  using ethos::scale_and_round;
  EXPECT_EQ(scale_and_round(5, 1, 1, Rounding::Natural), 3);
  EXPECT_EQ(scale_and_round(-5, 1, 1, Rounding::Natural), -2);
  EXPECT_EQ(scale_and_round(-5, 1, 1, Rounding::Symmetric), -3);
  EXPECT_EQ(scale_and_round(-5, 1, 1, Rounding::TruncateToZero), -2);
  EXPECT_EQ(scale_and_round(-5, 1, 1, Rounding::TruncateToLower), -3);
  // TOSA's double rounding: above 31 bits of shift, halves move away from zero.
  EXPECT_EQ(scale_and_round(-5, 1u << 30, 32, Rounding::Natural), -1);
  EXPECT_EQ(scale_and_round(-6, 1u << 30, 32, Rounding::Natural), -1);
  EXPECT_EQ(scale_and_round(-6, 1u << 30, 32, Rounding::DoubleSymmetric), -2);
  EXPECT_EQ(scale_and_round(int64_t{1} << 46, 32767, 20, Rounding::Natural), (int64_t{1} << 26) * 32767);
}

TEST(Weights, plain_and_vector_products_agree) {
  std::mt19937 random(1);
  std::uniform_int_distribution<int> value(-255, 255);
  for (int depth : {1, 2, 7, 64, 129})
    for (int out : {1, 16, 17}) {
      const int rows = 6, even = depth + depth % 2, panels = (out + ethos::kPanel - 1) / ethos::kPanel;
      std::vector<int16_t> weights(static_cast<size_t>(out * depth)), in(static_cast<size_t>(rows * even));
      for (int16_t& w : weights) w = static_cast<int16_t>(value(random));
      for (int16_t& x : in) x = static_cast<int16_t>(value(random));
      std::vector<int16_t> packed = ethos::pack_weights(weights.data(), out, depth);
      std::vector<int32_t> fast(static_cast<size_t>(rows * panels * ethos::kPanel)), plain(fast.size());
      ethos::Panels all{0, panels, even / 2, 0, even / 2};
      ethos::multiply(in.data(), even, rows, packed.data(), all, fast.data(), panels * ethos::kPanel);
      ethos::multiply_plain(in.data(), even, rows, packed.data(), all, plain.data(), panels * ethos::kPanel);
      EXPECT_EQ(fast, plain);
      int32_t sum = 0;
      for (int d = 0; d < depth; ++d) sum += in[static_cast<size_t>(d)] * weights[static_cast<size_t>(d)];
      EXPECT_EQ(plain[0], sum);
    }
}

TEST(Weights, the_bound_on_padding_is_near_the_truth) {
  ethos::WeightOrder order;
  order.out = 2000;
  order.kernel_h = order.kernel_w = 1;
  order.in = 320;
  order.block_depth = 128;
  for (bool part_kernel_first : {false, true}) {
    order.part_kernel_first = part_kernel_first;
    const uint64_t places = ethos::weight_positions_u55(order, 0)->size();
    EXPECT_GE(ethos::padded_weights(order), places);
    EXPECT_TRUE(part_kernel_first || ethos::padded_weights(order) < 2 * places);
  }
}

TEST(Weights, a_stream_with_too_many_weights_is_refused) {
  Sample sample("conv_ethos-u55-128");
  EXPECT_FALSE(ethos::decode_weight_stream(sample.program.weights, 1).has_value());
  EXPECT_FALSE(ethos::decode_fast_stream(Bytes(sample.program.weights).first(8), 1).has_value());
}

}  // namespace
}  // namespace swoop
