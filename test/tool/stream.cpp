// Ethos-U programs in the block format of a .pte.
#include <algorithm>
#include <chrono>
#include <filesystem>

#include "run/run.h"
#include "support/file.h"
#include "tool/commands.h"

namespace swoop::test_tool {
namespace {

class Printer : public NpuObserver {
 public:
  void on_step(const NpuStep& step, const std::array<Bytes, kNpuRegionCount>&) override {
    std::string writes;
    for (const NpuRange& range : step.writes)
      writes += fmt::format(" r{}[{:#x},{:#x})", range.region, range.first, range.last);
    fmt::print("{:6} {:<20} {} writes{}\n", step.position, step.operation.substr(7), step.summary, writes);
  }
};

// The bytes of weights that the program has written itself, a line for each convolution that reads them.
class WrittenWeights : public NpuObserver {
 public:
  WrittenWeights(const std::vector<NpuCommand>& commands, int constants) : commands_(commands), constants_(constants) {}

  void on_step(const NpuStep& step, const std::array<Bytes, kNpuRegionCount>& regions) override {
    for (; at_ < commands_.size() && commands_[at_].position < step.position; ++at_) {
      const NpuCommand& command = commands_[at_];
      if (command.name() == "NPU_SET_WEIGHT_REGION") region_ = command.parameter;
      if (command.name() == "NPU_SET_WEIGHT_BASE") base_ = command.payload;
      if (command.name() == "NPU_SET_WEIGHT_LENGTH") length_ = command.payload;
    }
    if (step.operation != "NPU_OP_CONV" || region_ == constants_) return;
    for (std::byte byte : regions[static_cast<size_t>(region_)].subspan(base_, length_))
      fmt::print("{:02x}", static_cast<unsigned>(byte));
    fmt::print("\n");
  }

 private:
  const std::vector<NpuCommand>& commands_;
  const int constants_;
  size_t at_ = 0;
  int region_ = 0;
  uint32_t base_ = 0, length_ = 0;
};

struct Case {
  NpuProgram program;
  std::shared_ptr<const MappedFile> data;
  std::vector<Bytes> inputs;
};

Result<Case> read_case(const std::string& blob, const std::string& inputs, uint64_t fast_bytes) {
  TRY_ASSIGN(auto file, MappedFile::open(blob));
  Case out;
  TRY_ASSIGN(out.program, unpack(file->bytes()));
  if (fast_bytes > 0) out.program.scratch_fast_size = fast_bytes;
  uint64_t at = 0;
  if (std::filesystem::file_size(inputs) > 0) {
    TRY_ASSIGN(out.data, MappedFile::open(inputs));
  }
  Bytes all = out.data ? out.data->bytes() : Bytes{};
  for (const NpuTensor& tensor : out.program.inputs) {
    uint64_t size = static_cast<uint64_t>(tensor.byte_size());
    if (!contains(all, at, size)) return error("{} is too short.", inputs);
    out.inputs.push_back(all.subspan(at, size));
    at += size;
  }
  return out;
}

Result<void> run_one(const std::string& stem, int repeat, NpuObserver* observer, std::string* repairs = nullptr) {
  TRY_ASSIGN(Case one, read_case(stem + ".blob", stem + ".in", 0));
  if (repairs != nullptr) {
    TRY_ASSIGN(std::vector<NpuFault> faults, repair_npu(one.program));
    for (const NpuFault& fault : faults) *repairs += fmt::format("; {}: {}", fault.operation, fault.what);
  }
  std::vector<Buffer> outputs;
  NpuRunOptions options;
  options.observer = observer;
  for (int i = 0; i < repeat; ++i) {
    auto start = std::chrono::steady_clock::now();
    TRY(execute_npu(one.program, one.inputs, outputs, options));
    if (repeat > 1)
      fmt::print("{:.2f} ms\n",
                 std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  Buffer joined;
  for (const Buffer& output : outputs) append(joined, Bytes(output));
  return write_file(stem + ".out", joined);
}

struct BlobFlags {
  std::string folder;
  int repeat = 1;
  bool repair = false;
};

Result<void> run_folder(const BlobFlags& flags) {
  std::vector<std::string> stems;
  for (const auto& entry : std::filesystem::directory_iterator(flags.folder))
    if (entry.path().extension() == ".blob")
      stems.push_back((entry.path().parent_path() / entry.path().stem()).string());
  std::sort(stems.begin(), stems.end());
  for (const std::string& stem : stems) {
    std::string repairs;
    Result<void> done = run_one(stem, flags.repeat, nullptr, flags.repair ? &repairs : nullptr);
    fmt::print("{} {}\n", std::filesystem::path(stem).filename().string(),
               done ? "ok" + repairs : "error: " + done.error().message);
  }
  return {};
}

Result<void> print_commands(const std::string& blob) {
  TRY_ASSIGN(auto file, MappedFile::open(blob));
  TRY_ASSIGN(NpuProgram program, unpack(file->bytes()));
  TRY_ASSIGN(DriverPayload payload, parse_payload(program.commands));
  fmt::print("{}\n", payload.config.name());
  TRY_ASSIGN(auto commands, decode_commands(payload));
  for (const NpuCommand& command : commands) fmt::print("{}\n", to_text(command));
  return {};
}

Result<void> print_weights(const std::string& stem) {
  TRY_ASSIGN(auto file, MappedFile::open(stem + ".blob"));
  TRY_ASSIGN(NpuProgram program, unpack(file->bytes()));
  TRY_ASSIGN(DriverPayload payload, parse_payload(program.commands));
  TRY_ASSIGN(const std::vector<NpuCommand> commands, decode_commands(payload));
  WrittenWeights written(commands, program.weight_region);
  return run_one(stem, 1, &written);
}

Result<void> trace(const std::string& stem) {
  Printer printer;
  return run_one(stem, 1, &printer);
}

}  // namespace

void add_stream(Commands& commands) {
  auto flags = std::make_shared<BlobFlags>();
  CLI::App* run = commands.add(
      "run-blobs",
      "executes every FOLDER/NAME.blob on NAME.in (inputs one after the other) and writes NAME.out; a line "
      "per program says \"NAME ok\" or \"NAME error: ...\"",
      flags, run_folder);
  run->add_option("FOLDER", flags->folder)->required();
  run->add_option("--repeat", flags->repeat, "runs each so often and prints the milliseconds");
  run->add_flag("--repair", flags->repair, "repairs each first; its line then says what was wrong");
  auto blob = std::make_shared<std::string>();
  commands.add("commands", "prints the commands of a program", blob, print_commands)
      ->add_option("BLOB", *blob)
      ->required();
  auto stem = std::make_shared<std::string>();
  commands
      .add("weights", "prints the weights that STEM.blob on STEM.in has written when a convolution reads them", stem,
           print_weights)
      ->add_option("STEM", *stem)
      ->required();
  commands.add("trace", "prints each operation of STEM.blob on STEM.in as it is carried out", stem, trace)
      ->add_option("STEM", *stem)
      ->required();
}

}  // namespace swoop::test_tool
