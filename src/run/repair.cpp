// Commands that a stream lacks, put in: NPU_SET_BLOCKDEP 0 around an operation, or a wait before it.
#include <algorithm>
#include <map>
#include <utility>

#include "run/registers.h"

namespace swoop {

using namespace ethos;

namespace {

// A command of one word.
uint32_t word_of(Cmd id, uint16_t parameter) { return uint32_t{parameter} << 16 | command_info(id).code; }

class Rewriter {
 public:
  Rewriter(Bytes payload, Bytes stream, std::span<const NpuFault> faults)
      : header_(payload.first(payload.size() - stream.size())), stream_(stream), faults_(faults) {}

  void run(const std::vector<NpuCommand>& commands) {
    for (const NpuCommand& command : commands) {
      if (static_cast<Cmd>(command.id) == Cmd::BLOCKDEP) blockdep_ = command.parameter;
      begins_[command.position] = size();
      const bool apart = add_repairs(command.position);
      stands_[command.position] = size();
      append(words_, load<uint32_t>(stream_.data() + 4 * size_t{command.position}));
      if (command_info(static_cast<Cmd>(command.id)).wide) append(words_, command.payload);
      if (apart) append(words_, word_of(Cmd::BLOCKDEP, blockdep_));  // the next operation may count on it
    }
    // Branches go to bytes of the stream; one to a repaired operation meets its repairs too.
    for (const NpuCommand& command : commands)
      if (static_cast<Cmd>(command.id) == Cmd::OP_BRANCH)
        if (auto target = begins_.find(command.payload / 4); target != begins_.end())
          store(words_, 4 * (size_t{stands_.at(command.position)} + 1), 4 * target->second);
  }

  // Where a command stands now.
  uint32_t moved(uint32_t position) const {
    auto found = stands_.find(position);
    return found != stands_.end() ? found->second : position;
  }

  Buffer payload() const {
    Buffer bytes(header_.begin(), header_.end());
    // The header's last word holds the stream's length in words: low 16 bits above the high 8 bits above the action.
    const uint32_t action = load<uint32_t>(bytes.data() + bytes.size() - 4) & 0xff;
    store(bytes, bytes.size() - 4, size() << 16 | (size() >> 16 & 0xff) << 8 | action);
    append(bytes, Bytes(words_));
    return bytes;
  }

 private:
  uint32_t size() const { return static_cast<uint32_t>(words_.size() / 4); }
  static void store(Buffer& bytes, size_t at, uint32_t word) { std::memcpy(bytes.data() + at, &word, sizeof word); }

  // Before the operation at this word; true when its BLOCKDEP was changed.
  bool add_repairs(uint32_t position) {
    bool apart = false;
    for (const NpuFault& fault : faults_) {
      if (fault.position != position) continue;
      switch (fault.repair) {
        case NpuRepair::NoOverlap:
          append(words_, word_of(Cmd::BLOCKDEP, 0));
          apart = true;
          break;
        case NpuRepair::WaitForKernels: append(words_, word_of(Cmd::OP_KERNEL_WAIT, 0)); break;
        case NpuRepair::WaitForTransfers: append(words_, word_of(Cmd::OP_DMA_WAIT, 0)); break;
      }
    }
    return apart;
  }

  Bytes header_, stream_;
  std::span<const NpuFault> faults_;
  Buffer words_;
  uint16_t blockdep_ = 0;
  std::map<uint32_t, uint32_t> begins_,
      stands_;  // old word of a command: its new word, repairs before it included or not
};

}  // namespace

Result<std::vector<NpuFault>> repair_npu(NpuProgram& program) {
  TRY_ASSIGN(std::vector<NpuFault> faults, rehearse_npu(program));
  if (faults.empty()) return faults;
  TRY_ASSIGN(DriverPayload payload, parse_payload(program.commands));
  TRY_ASSIGN(std::vector<NpuCommand> commands, decode_commands(payload));
  Rewriter rewriter(program.commands, payload.stream, faults);
  rewriter.run(commands);
  Buffer before = std::exchange(program.commands, rewriter.payload());
  Result<std::vector<NpuFault>> left = rehearse_npu(program);
  if (!left || !left->empty()) {
    program.commands = std::move(before);
    if (!left) return left.error();
    const NpuFault& first = left->front();
    return error("{} at word {} of the repaired stream: {}", first.operation, first.position, first.what);
  }
  for (StreamOperation& operation : program.layer_of_operation) operation.position = rewriter.moved(operation.position);
  for (NpuFault& fault : faults) fault.position = rewriter.moved(fault.position);
  return faults;
}

}  // namespace swoop
