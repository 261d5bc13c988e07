// Commands that a stream lacks, put in: NPU_SET_BLOCKDEP 0 around an operation, or a wait before it.
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
    }
  }
  return apart;
}

void write_repaired(const std::vector<NpuCommand>& commands, std::span<const NpuFault> faults, StreamWriter& writer) {
  uint16_t blockdep = 0;
  for (const NpuCommand& command : commands) {
    if (static_cast<Cmd>(command.id) == Cmd::BLOCKDEP) blockdep = command.parameter;
    writer.begin(command);
    const bool apart = add_repairs(faults, command.position, writer);
    writer.copy(command);
    if (apart) writer.add(Cmd::BLOCKDEP, blockdep);  // the next operation may count on it
  }
  writer.finish(commands);
}

}  // namespace

Result<std::vector<NpuFault>> repair_npu(NpuProgram& program) {
  TRY_ASSIGN(std::vector<NpuFault> faults, rehearse_npu(program));
  if (faults.empty()) return faults;
  TRY_ASSIGN(DriverPayload payload, parse_payload(program.commands));
  TRY_ASSIGN(std::vector<NpuCommand> commands, decode_commands(payload));
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
  for (NpuFault& fault : faults) fault.position = writer.moved(fault.position);
  return faults;
}

}  // namespace swoop
