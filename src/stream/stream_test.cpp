#include "stream/stream.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace swoop {
namespace {

Buffer buffer_of(std::string_view text) {
  const Bytes bytes = bytes_of(text);
  return Buffer(bytes.begin(), bytes.end());
}

NpuProgram small_program() {
  NpuProgram program;
  program.commands = buffer_of("COP1 and some commands");
  program.weights = buffer_of("weights of the layers");
  program.scratch_size = 4096;
  program.inputs = {{{1, 1, 1, 4, 4, 3}, 1, kScratchRegion, 16}, {{1, 1, 1, 1, 1, 8}, 4, kScratchRegion, 64}};
  program.outputs = {{{1, 1, 1, 1, 1, 10}, 2, kScratchRegion, 4076}};
  return program;
}

std::string failure(Bytes blob) {
  const auto program = unpack(blob);
  return program ? "no error" : program.error().message;
}

// Where the block begins.
size_t block_at(const Buffer& blob, std::string_view name) { return text_of(blob).find(name); }

template <typename T>
Buffer with(Buffer blob, size_t offset, T value) {
  std::memcpy(blob.data() + offset, &value, sizeof(value));
  return blob;
}

TEST(Blob, has_the_layout_of_the_peer) {
  const Buffer blob = *pack(small_program());
  const std::string_view text = text_of(blob);
  EXPECT_EQ(blob.size() % 16, 0u);
  EXPECT_EQ(text.substr(0, 16), std::string_view("vela_bin_stream\0", 16));
  EXPECT_EQ(text.substr(32, 9), std::string_view("cmd_data\0", 9));
  EXPECT_EQ(load<uint32_t>(blob.data() + 48), 22u);
  EXPECT_EQ(text.substr(64, 24), std::string_view("COP1 and some commands\0\0", 24));
  EXPECT_EQ(text.substr(96, 12), std::string_view("weight_data\0", 12));
  EXPECT_EQ(text.substr(blob.size() - 32, 16), std::string_view("vela_end_stream\0", 16));
}

TEST(Blob, comes_back_whole) {
  const NpuProgram program = small_program();
  const auto again = unpack(*pack(program));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->commands, program.commands);
  EXPECT_EQ(again->weights, program.weights);
  EXPECT_EQ(again->scratch_size, program.scratch_size);
  EXPECT_EQ(again->inputs, program.inputs);
  EXPECT_EQ(again->outputs, program.outputs);
  EXPECT_FALSE(again->scratch_fast_size);  // the format does not record it
  EXPECT_FALSE(again->estimates);
}

TEST(Blob, may_lie_at_any_address) {
  const Buffer blob = *pack(small_program());
  Buffer shifted(blob.size() + 1);
  std::copy(blob.begin(), blob.end(), shifted.begin() + 1);
  EXPECT_EQ(failure(Bytes(shifted).subspan(1)), "no error");
}

TEST(Blob, refuses_to_pack_what_the_format_cannot_say) {
  NpuProgram program = small_program();
  program.scratch_size = uint64_t{1} << 32;
  EXPECT_FALSE(pack(program));
  program = small_program();
  program.inputs[0].offset = int64_t{1} << 31;
  EXPECT_FALSE(pack(program));
  program = small_program();
  program.variables.push_back(program.inputs[0]);
  EXPECT_FALSE(pack(program));
}

TEST(Blob, every_shortened_blob_is_an_error) {
  const Buffer blob = *pack(small_program());
  for (size_t size = 0; size < blob.size(); ++size) EXPECT_NE(failure(Bytes(blob).first(size)), "no error") << size;
}

TEST(Blob, sizes_and_names_are_checked) {
  const Buffer blob = *pack(small_program());
  Buffer longer = blob;
  longer.resize(blob.size() + 16);
  EXPECT_NE(failure(longer).find("The NPU program ends at byte"), std::string::npos);
  EXPECT_NE(failure(with<uint32_t>(blob, block_at(blob, "cmd_data") + 16, 0xffffffff)).find("claims 4294967295 bytes"),
            std::string::npos);
  EXPECT_NE(failure(with<uint8_t>(blob, block_at(blob, "cmd_data") + 20, 1)).find("separate data file"),
            std::string::npos);
  EXPECT_NE(failure(with<uint8_t>(blob, block_at(blob, "cmd_data") + 20, 2)).find("unknown kind 2"), std::string::npos);
  EXPECT_NE(failure(with(blob, 0, 'x')).find("no NPU program"), std::string::npos);
  EXPECT_NE(failure(with(blob, block_at(blob, "weight_data"), 'x')).find("unknown block 'xeight_data'"),
            std::string::npos);
  EXPECT_NE(failure(with(blob, block_at(blob, "weight_data"), '\n')).find("readable name"), std::string::npos);
  EXPECT_NE(failure(with(blob, block_at(blob, "COP1"), 'X')).find("COP1 or COP2"), std::string::npos);
}

TEST(Blob, blocks_come_once_and_all) {
  const Buffer blob = *pack(small_program());
  const size_t begin = block_at(blob, "scratch_size");
  const size_t end = block_at(blob, "inputs");
  Buffer twice = blob;
  twice.insert(twice.begin() + static_cast<ptrdiff_t>(end), blob.begin() + static_cast<ptrdiff_t>(begin),
               blob.begin() + static_cast<ptrdiff_t>(end));
  EXPECT_NE(failure(twice).find("'scratch_size' twice"), std::string::npos);
  Buffer without = blob;
  without.erase(without.begin() + static_cast<ptrdiff_t>(begin), without.begin() + static_cast<ptrdiff_t>(end));
  EXPECT_NE(failure(without).find("no block 'scratch_size'"), std::string::npos);
}

TEST(Blob, tensors_lie_inside_the_arena) {
  const Buffer blob = *pack(small_program());
  const size_t inputs = block_at(blob, "inputs") + 32;
  const size_t first = inputs + 4;
  EXPECT_NE(failure(with<int32_t>(blob, inputs, 3)).find("lists 3 inputs"), std::string::npos);
  EXPECT_NE(failure(with<int32_t>(blob, inputs, -1)).find("lists -1 inputs"), std::string::npos);
  EXPECT_NE(failure(with<int32_t>(blob, inputs, 0x7fffffff)).find("do not fit together"), std::string::npos);
  EXPECT_NE(failure(with<int32_t>(blob, first, 0)).find("dimension of 0"), std::string::npos);
  EXPECT_NE(failure(with<int32_t>(blob, first, -5)).find("dimension of -5"), std::string::npos);
  EXPECT_NE(failure(with<int32_t>(blob, first + 24, 0)).find("elements of 0 bytes"), std::string::npos);
  EXPECT_NE(failure(with<int32_t>(blob, first + 28, -16)).find("inside its arena"), std::string::npos);
  EXPECT_NE(failure(with<int32_t>(blob, first + 28, 4096)).find("inside its arena"), std::string::npos);
  EXPECT_NE(failure(with<int32_t>(blob, first + 32, 2)).find("region 2"), std::string::npos);
  Buffer huge = blob;
  for (size_t i = 0; i < 6; ++i) huge = with<int32_t>(huge, first + 4 * i, 0x7fffffff);
  EXPECT_NE(failure(huge).find("inside its arena"), std::string::npos);
  // The output ends exactly at the arena's end; one byte further is outside.
  const size_t output = block_at(blob, "outputs") + 32 + 4;
  EXPECT_NE(failure(with<int32_t>(blob, output + 28, 4077)).find("Output 0"), std::string::npos);
}

TEST(Estimates, table_has_velas_columns_and_digits) {
  Estimates estimates;
  estimates.macs = 300;
  estimates.total_cycles = 7;
  estimates.macs_per_cycle = 128;
  estimates.staging_memory = NpuMemory::Sram;
  estimates.staging_peak_bytes = 64;
  Layer& conv = estimates.layers.emplace_back();
  conv.name = "y";
  conv.tosa_op = conv.npu_op = "Conv2D";
  conv.cycles = 7;
  conv.npu_cycles = 5;
  conv.macs = 100;
  conv.staging_bytes = 32;
  conv.access_cycles = {1, 2, 3, 4};
  Layer& clamp = estimates.layers.emplace_back();
  clamp.name = "z";
  clamp.tosa_op = clamp.npu_op = "Clamp";
  EXPECT_EQ(layers_csv(estimates),
            "Original Operator,NNG Operator,Target,Staging Usage,Peak% (Staging),Op Cycles,Network% (cycles),NPU,SRAM "
            "AC,DRAM AC,"
            "OnFlash AC,OffFlash AC,MAC Count,Network% (MAC),Util% (MAC),Name\n"
            "Conv2D,Conv2D,NPU,32,50.0,7,100.0,5,1,2,3,4,100,33.333333333333336,11.160714285714286,y\n"
            "Clamp,Clamp,NPU,0,0.0,0,0.0,0,0,0,0,0,0,0.0,100,z\n");
}

TEST(Estimates, sums_only_what_is_used) {
  Estimates estimates;
  EXPECT_EQ(estimates.sram_bytes(), 0);
  estimates.memories[static_cast<size_t>(NpuMemory::OnChipFlash)].emplace().bytes_used = 5;
  estimates.memories[static_cast<size_t>(NpuMemory::OffChipFlash)].emplace().bytes_used = 7;
  EXPECT_EQ(estimates.flash_bytes(), 12);
  EXPECT_EQ(estimates.dram_bytes(), 0);
}

}  // namespace
}  // namespace swoop
