// Streams that lost a wait or let kernels overlap get it back, and compute what they did before.
#include <map>

#include "run/registers.h"
#include "run/samples_for_tests.h"

namespace swoop {
namespace {

using ethos::Cmd;

constexpr size_t kHeaderWords = 8;

std::vector<NpuCommand> commands_of(const NpuProgram& program) {
  return *decode_commands(*parse_payload(program.commands));
}

void set_parameter(NpuProgram& program, const NpuCommand& command, uint16_t parameter) {
  std::memcpy(program.commands.data() + 4 * (kHeaderWords + command.position) + 2, &parameter, 2);
}

// The value with which a command orders nothing, or 0 when it is not about order.
uint16_t most(const NpuCommand& command, NpuEncoding encoding) {
  const Cmd id = static_cast<Cmd>(command.id);
  if (id != Cmd::BLOCKDEP && id != Cmd::OP_DMA_WAIT && id != Cmd::OP_KERNEL_WAIT) return 0;
  return static_cast<uint16_t>(ethos::command_info(id).mask(encoding));
}

class Repair : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, Repair, testing::ValuesIn(sample_names()), [](const auto& sample) {
  std::string name = sample.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST_P(Repair, leaves_a_stream_without_faults_as_it_is) {
  Sample sample(GetParam());
  const Buffer before = sample.program.commands;
  auto faults = repair_npu(sample.program);
  ASSERT_TRUE(faults.has_value()) << faults.error().message;
  EXPECT_TRUE(faults->empty());
  EXPECT_EQ(sample.program.commands, before);
}

// Every command about order loses its meaning, in all samples.
TEST(Repairs, gives_back_what_was_taken) {
  std::map<NpuRepair, int> repaired;
  for (const std::string& name : sample_names()) {
    Sample sample(name);
    const NpuEncoding encoding = parse_payload(sample.program.commands)->config.target->facts().encoding;
    for (const NpuCommand& command : commands_of(sample.program))
      if (uint16_t parameter = most(command, encoding)) set_parameter(sample.program, command, parameter);
    const bool right = sample.run().has_value();
    auto faults = repair_npu(sample.program);
    ASSERT_TRUE(faults.has_value()) << name << ": " << faults.error().message;
    EXPECT_EQ(faults->empty(), right) << name;
    auto output = sample.run();
    ASSERT_TRUE(output.has_value()) << name << ": " << output.error().message;
    EXPECT_EQ(*output, sample.expected) << name;
    const std::vector<NpuCommand> commands = commands_of(sample.program);
    for (const NpuFault& fault : *faults) {
      ++repaired[fault.repair];
      auto at = std::find_if(commands.begin(), commands.end(),
                             [&](const NpuCommand& c) { return c.position == fault.position; });
      ASSERT_NE(at, commands.end());
      EXPECT_EQ(at->name(), fault.operation);
    }
  }
  EXPECT_GT(repaired[NpuRepair::NoOverlap], 0);
  EXPECT_GT(repaired[NpuRepair::WaitForTransfers], 0);
}

// A transfer over the convolution's input, before the convolution must have read it.
TEST(Repairs, a_transfer_waits_for_the_kernel_that_reads_its_place) {
  Sample sample("conv_ethos-u55-128");
  const auto place = static_cast<uint32_t>(sample.program.inputs[0].offset);
  Buffer& words = sample.program.commands;
  words.resize(words.size() - 4);  // the stop
  auto wide = [](uint32_t code) { return code | 1u << 14; };
  for (uint32_t word :
       {0x00000130u, wide(48), 0u, 0x00010131u, wide(49), place, wide(50), 16u, 0x00000010u, 0xffff0000u})
    append(words, word);  // from byte 0 of region 0 to the input in region 1, 16 bytes
  const uint32_t length = static_cast<uint32_t>(words.size() / 4 - kHeaderWords) << 16 | 2;
  std::memcpy(words.data() + 4 * (kHeaderWords - 1), &length, 4);
  EXPECT_NE(sample.run().error().message.find("a wait is missing"), std::string::npos);
  auto faults = repair_npu(sample.program);
  ASSERT_TRUE(faults.has_value()) << faults.error().message;
  ASSERT_EQ(faults->size(), 1u);
  EXPECT_EQ((*faults)[0].repair, NpuRepair::WaitForKernels);
  EXPECT_EQ(*sample.run(), sample.expected);
}

TEST(Repairs, keeps_the_layer_of_each_operation) {
  Sample sample("matmul_ethos-u85-256");
  const NpuEncoding encoding = parse_target("ethos-u85-256")->facts().encoding;
  std::vector<std::string_view> names;
  for (const NpuCommand& command : commands_of(sample.program)) {
    if (uint16_t parameter = most(command, encoding)) set_parameter(sample.program, command, parameter);
    if (!command.is_kernel()) continue;
    sample.program.layer_of_operation.push_back({command.position, static_cast<uint32_t>(names.size())});
    names.push_back(command.name());
  }
  ASSERT_FALSE(repair_npu(sample.program)->empty());
  const std::vector<NpuCommand> commands = commands_of(sample.program);
  for (const StreamOperation& operation : sample.program.layer_of_operation) {
    auto at = std::find_if(commands.begin(), commands.end(),
                           [&](const NpuCommand& c) { return c.position == operation.position; });
    ASSERT_NE(at, commands.end());
    EXPECT_EQ(at->name(), names[operation.layer]);
  }
}

// branch -> the operation behind it, which gets a wait: the branch must reach the wait.
TEST(Repairs, moves_the_targets_of_branches) {
  Sample sample("branch_ethos-u85-256");
  const NpuEncoding encoding = parse_target("ethos-u85-256")->facts().encoding;
  for (const NpuCommand& command : commands_of(sample.program))
    if (uint16_t parameter = most(command, encoding)) set_parameter(sample.program, command, parameter);
  auto faults = repair_npu(sample.program);
  ASSERT_TRUE(faults.has_value() && !faults->empty());
  for (const NpuCommand& command : commands_of(sample.program))
    if (static_cast<Cmd>(command.id) == Cmd::OP_BRANCH) {
      const std::vector<NpuCommand> commands = commands_of(sample.program);
      EXPECT_TRUE(std::any_of(commands.begin(), commands.end(),
                              [&](const NpuCommand& c) { return 4 * c.position == command.payload; }));
    }
  EXPECT_EQ(*sample.run(), sample.expected);
}

TEST(Rehearse, finds_what_nobody_wrote) {
  Sample sample("conv_ethos-u55-128");
  sample.program.inputs.clear();
  EXPECT_NE(rehearse_npu(sample.program).error().message.find("which was never written"), std::string::npos);
}

}  // namespace
}  // namespace swoop
