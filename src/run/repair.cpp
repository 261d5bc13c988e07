// Commands that a stream lacks, put in: NPU_SET_BLOCKDEP 0 around an operation, or a wait before it. Transfers that
// come too early, moved.
#include <algorithm>
#include <map>
#include <utility>

#include "run/rewrite.h"

namespace swoop {

using namespace ethos;

namespace {

// Before the operation; true when its BLOCKDEP was changed.
bool add_repairs(std::span<const NpuFault> faults, uint32_t position, StreamWriter& writer) {
  bool apart = false;
  for (const NpuFault& fault : faults) {
    if (fault.position != position) continue;
    switch (fault.repair) {
      case NpuRepair::NoOverlap:
        writer.add(Cmd::BLOCKDEP, 0);
        apart = true;
        break;
      case NpuRepair::WaitForKernels: writer.add(Cmd::OP_KERNEL_WAIT, 0); break;
      case NpuRepair::WaitForTransfers: writer.add(Cmd::OP_DMA_WAIT, 0); break;
      case NpuRepair::StartLater: break;
    }
  }
  return apart;
}

// By the position of a transfer that comes too early: the last operation that it has to wait for.
using Later = std::map<uint32_t, uint32_t>;

Later moved_transfers(std::span<const NpuFault> faults) {
  Later later;
  for (const NpuFault& fault : faults)
    if (fault.repair == NpuRepair::StartLater) later[fault.position] = std::max(later[fault.position], fault.after);
  return later;
}

// Its registers must still be as they are when it starts.
Result<void> check_movable(const std::vector<NpuCommand>& commands, const Later& later) {
  for (const auto& [from, to] : later)
    for (const NpuCommand& command : commands) {
      const bool between = command.position > from && command.position < to;
      const Cmd id = static_cast<Cmd>(command.id);
      if (between &&
          (id == Cmd::OP_BRANCH || id == Cmd::OP_DMA_START || command.name().find("_DMA0_") != std::string::npos))
        return error("The transfer at word {} comes too early, and {} follows it.", from, command.name());
    }
  return {};
}

void write_repaired(const std::vector<NpuCommand>& commands, std::span<const NpuFault> faults, StreamWriter& writer) {
  const Later later = moved_transfers(faults);
  std::multimap<uint32_t, const NpuCommand*> late;  // by the operation that they come after
  for (const NpuCommand& command : commands)
    if (const auto found = later.find(command.position); found != later.end()) late.emplace(found->second, &command);
  uint16_t blockdep = 0;
  for (const NpuCommand& command : commands) {
    if (later.contains(command.position)) continue;
    if (static_cast<Cmd>(command.id) == Cmd::BLOCKDEP) blockdep = command.parameter;
    writer.begin(command);
    const bool apart = add_repairs(faults, command.position, writer);
    writer.copy(command);
    if (apart) writer.add(Cmd::BLOCKDEP, blockdep);  // the next operation may count on it
    const auto [first, last] = late.equal_range(command.position);
    for (auto transfer = first; transfer != last; ++transfer) {
      writer.add(Cmd::OP_KERNEL_WAIT, 0);
      writer.begin(*transfer->second);
      writer.copy(*transfer->second);
      writer.add(Cmd::OP_DMA_WAIT, 0);
    }
  }
  writer.finish(commands);
}

}  // namespace

Result<std::vector<NpuFault>> repair_npu(NpuProgram& program) {
  TRY_ASSIGN(std::vector<NpuFault> faults, rehearse_npu(program));
  if (faults.empty()) return faults;
  TRY_ASSIGN(DriverPayload payload, parse_payload(program.commands));
  TRY_ASSIGN(std::vector<NpuCommand> commands, decode_commands(payload));
  TRY(check_movable(commands, moved_transfers(faults)));
  StreamWriter writer(program.commands, payload.stream);
  write_repaired(commands, faults, writer);
  Buffer before = std::exchange(program.commands, writer.payload());
  Result<std::vector<NpuFault>> left = rehearse_npu(program);
  if (!left || !left->empty()) {
    program.commands = std::move(before);
    if (!left) return left.error();
    const NpuFault& first = left->front();
    return error("{} at word {} of the repaired stream: {}", first.operation, first.position, first.what);
  }
  for (StreamOperation& operation : program.layer_of_operation) operation.position = writer.moved(operation.position);
  std::ranges::sort(program.layer_of_operation, {}, &StreamOperation::position);
  for (NpuFault& fault : faults) fault.position = writer.moved(fault.position);
  return faults;
}

}  // namespace swoop
