// The command loop: sets registers, starts operations, follows branches, and reports every failure with its place.
#include <algorithm>
#include <cstring>

#include "run/machine.h"

namespace swoop {

using namespace ethos;

namespace {

constexpr uint64_t kOperationCost = 4096;  // so that no number of empty operations runs for long

// Fast scratch is large and seldom used; programs that never name it do not get it.
bool uses_region(const std::vector<NpuCommand>& commands, int region) {
  auto names = [&](const NpuCommand& command) {
    switch (static_cast<Cmd>(command.id)) {
      case Cmd::IFM_REGION:
      case Cmd::IFM2_REGION:
      case Cmd::OFM_REGION:
      case Cmd::WEIGHT_REGION:
      case Cmd::SCALE_REGION:
      case Cmd::DMA0_SRC_REGION:
      case Cmd::DMA0_DST_REGION:
      case Cmd::DMA0_IDX_REGION: return (command.parameter & 7) == region;
      default: return false;
    }
  };
  return std::any_of(commands.begin(), commands.end(), names);
}

Result<void> set_up_memory(Machine& machine, const NpuProgram& program, const std::vector<NpuCommand>& commands,
                           uint64_t scratch_fast_bytes, Buffer& scratch, Buffer& fast) {
  constexpr uint64_t kMaxScratch = uint64_t{1} << 32;
  auto region_ok = [](int region) { return region >= 0 && region < kNpuRegionCount; };
  if (!region_ok(program.weight_region) || !region_ok(program.scratch_region) ||
      !region_ok(program.scratch_fast_region))
    return error("The program names a region outside 0 to {}.", kNpuRegionCount - 1);
  if (program.scratch_size > kMaxScratch)
    return error("The program asks for {} bytes of scratch memory.", program.scratch_size);
  uint64_t fast_size = program.scratch_fast_size.value_or(scratch_fast_bytes);
  if (fast_size > kMaxScratch) return error("The program asks for {} bytes of fast scratch memory.", fast_size);
  scratch.assign(program.scratch_size, std::byte{0});
  if (uses_region(commands, program.scratch_fast_region)) {
    fast.assign(fast_size, std::byte{0});
    machine.memory.add_scratch(program.scratch_fast_region, fast);
  }
  machine.memory.add_scratch(program.scratch_region, scratch);
  machine.memory.add_read_only(program.weight_region, program.weights);
  machine.memory.set_internal_size(machine.config.internal_bytes);
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const NpuTensor& tensor = program.inputs[i];
    if (tensor.region != program.scratch_region)
      return error("Input {} is in region {}; inputs are in the scratch region.", i, tensor.region);
    const auto bytes = static_cast<uint64_t>(tensor.byte_size());
    if (tensor.offset < 0 || !contains(scratch, static_cast<uint64_t>(tensor.offset), bytes))
      return error("Input {} is outside the scratch memory.", i);
    machine.memory.mark_written(tensor.region, static_cast<uint64_t>(tensor.offset), bytes);
  }
  return {};
}

Result<void> fill_inputs(const NpuProgram& program, std::span<const Bytes> inputs, Buffer& scratch) {
  if (inputs.size() != program.inputs.size())
    return error("The program has {} inputs; {} were given.", program.inputs.size(), inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const NpuTensor& tensor = program.inputs[i];
    if (static_cast<int64_t>(inputs[i].size()) != tensor.byte_size())
      return error("Input {} has {} bytes; the program expects {}.", i, inputs[i].size(), tensor.byte_size());
    if (!inputs[i].empty()) std::memcpy(scratch.data() + tensor.offset, inputs[i].data(), inputs[i].size());
  }
  return {};
}

Result<void> run_operation(Machine& machine, Cmd id, uint32_t parameter) {
  switch (id) {
    case Cmd::OP_CONV: return run_convolution(machine, false, parameter);
    case Cmd::OP_DEPTHWISE: return run_convolution(machine, true, 0);
    case Cmd::OP_POOL: return run_pooling(machine, parameter);
    case Cmd::OP_ELEMENTWISE: return run_elementwise(machine, parameter);
    case Cmd::OP_RESIZE: return run_resize(machine, parameter);
    case Cmd::OP_DMA_START: return run_transfer(machine);
    default: return error("nobody emits this command.");
  }
}

std::array<Bytes, kNpuRegionCount> all_regions(const Memory& memory) {
  std::array<Bytes, kNpuRegionCount> regions;
  for (int i = 0; i < kNpuRegionCount; ++i) regions[static_cast<size_t>(i)] = memory.region_bytes(i);
  return regions;
}

// What operations that were begun before may still be doing.
struct Underway {
  Hazards hazards;
  KernelBlocks previous;  // the last kernel; nothing when the stream has waited for it

  void wait_for_kernels(size_t allowed) {
    hazards.wait_for_kernels(allowed);
    if (allowed == 0) previous = {};
  }
};

void show(Machine& machine, const NpuCommand& command, const Accesses& accesses, NpuObserver& observer) {
  NpuStep step{command.position,        command.name(), command.is_kernel(), std::move(machine.summary), {},
               std::move(machine.block)};
  for (const Access& access : accesses)
    if (access.write) step.writes.push_back(access.range);
  observer.on_step(step, all_regions(machine.memory));
}

// An Error; but a rehearsal takes it down and goes on as if it were repaired.
Result<void> fault(Machine& machine, const NpuCommand& command, NpuRepair repair, std::string what) {
  if (!machine.rehearsal) return Error{std::move(what)};
  machine.faults.push_back({command.position, command.name(), repair, std::move(what)});
  return {};
}

// The operation may not touch what others that are still under way touch.
Result<void> check_order(Machine& machine, Underway& underway, const NpuCommand& command, const Accesses& accesses) {
  Hazards& hazards = underway.hazards;
  auto conflict = [&] {
    return command.is_kernel() ? hazards.conflict_of_kernel(accesses) : hazards.conflict_of_transfer(accesses);
  };
  while (std::optional<Conflict> found = conflict()) {
    TRY(fault(machine, command, found->with_transfer ? NpuRepair::WaitForTransfers : NpuRepair::WaitForKernels,
              std::move(found->what)));
    if (found->with_transfer)
      hazards.wait_for_transfers(0);
    else
      underway.wait_for_kernels(0);
  }
  if (!command.is_kernel()) {
    hazards.add_transfer(command.position, accesses);
    return {};
  }
  machine.blocks.position = command.position;
  machine.blocks.accesses = accesses;
  TRY(check_in_place(machine, machine.blocks));
  const int blockdep = static_cast<int>(machine.registers.parameter(Cmd::BLOCKDEP));
  TRY(machine.check_registers());
  TRY_ASSIGN(std::optional<std::string> overlap, find_overlap(machine, underway.previous, machine.blocks, blockdep));
  if (overlap) TRY(fault(machine, command, NpuRepair::NoOverlap, std::move(*overlap)));
  underway.previous = std::move(machine.blocks);
  hazards.add_kernel(command.position, accesses, machine.chain_open);
  return {};
}

Result<void> run_commands(Machine& machine, const std::vector<NpuCommand>& commands, const NpuRunOptions& options) {
  machine.wants_summary = options.observer != nullptr;
  machine.wants_block = options.observer != nullptr && options.observer->wants_blocks();
  Underway underway{Hazards(machine.config.target->facts()), {}};
  for (size_t i = 0; i < commands.size(); ++i) {
    const NpuCommand& command = commands[i];
    const Cmd id = static_cast<Cmd>(command.id);
    const CommandInfo& info = command_info(id);
    if (!info.starts_work) {
      machine.registers.set(id, command.parameter, command.payload);
      continue;
    }
    TRY(machine.spend(kOperationCost));
    switch (id) {
      case Cmd::OP_STOP: return {};
      case Cmd::OP_DMA_WAIT: underway.hazards.wait_for_transfers(command.parameter); continue;
      case Cmd::OP_KERNEL_WAIT: underway.wait_for_kernels(command.parameter); continue;
      case Cmd::OP_BRANCH: {
        if (machine.rehearsal) continue;  // each command once, in the order of the stream
        if ((command.parameter & 1) != 0 && !machine.result_flag) continue;
        auto target = std::lower_bound(commands.begin(), commands.end(), command.payload / 4,
                                       [](const NpuCommand& c, uint32_t position) { return c.position < position; });
        if (command.payload % 4 != 0 || target == commands.end() || target->position != command.payload / 4)
          return error("NPU_OP_BRANCH at word {} goes to byte {}, where no command begins.", command.position,
                       command.payload);
        TRY(machine.spend(commands.size() * 64));
        i = static_cast<size_t>(target - commands.begin()) - 1;
        continue;
      }
      default: break;
    }
    machine.position = command.position;
    machine.summary.clear();
    machine.block.reset();
    machine.chain_open = false;
    machine.blocks = {};
    Result<void> done = run_operation(machine, id, command.parameter);
    if (done) {
      const Accesses accesses = machine.memory.take_accesses();
      if (options.observer != nullptr) show(machine, command, accesses, *options.observer);
      if (machine.rehearsal)
        machine.uses.push_back({command.position, command.is_kernel(), machine.chain_open, accesses});
      done = check_order(machine, underway, command, accesses);
    }
    if (!done) return error("{} at word {}: {}", info.name, command.position, done.error().message);
  }
  return error("The command stream ends without NPU_OP_STOP.");
}

// From the first command to the stop; `fill` puts the inputs into the scratch memory, `take` gets each output.
template <typename Fill, typename Take>
Result<void> run_program(Machine& machine, const NpuProgram& program, const NpuRunOptions& options, const Fill& fill,
                         const Take& take) {
  TRY_ASSIGN(DriverPayload payload, parse_payload(program.commands));
  if (options.target && options.target->name != payload.config.target->name)
    return error("The command stream is for {}, not for {}.", payload.config.name(), options.target->name);
  TRY_ASSIGN(std::vector<NpuCommand> commands, decode_commands(payload));
  machine.config = payload.config;
  machine.work_left = options.max_work;
  machine.cache = options.cache ? options.cache : make_run_cache();
  Buffer scratch, fast;
  TRY(set_up_memory(machine, program, commands, options.scratch_fast_bytes, scratch, fast));
  TRY(fill(scratch));
  TRY(run_commands(machine, commands, options));
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    const NpuTensor& tensor = program.outputs[i];
    const auto bytes = static_cast<uint64_t>(tensor.byte_size());
    std::string what = fmt::format("Output {}", i);
    TRY_ASSIGN(const std::byte* data, machine.memory.readable(tensor.region, tensor.offset, bytes, what.c_str()));
    take(Bytes(data, bytes));
  }
  return {};
}

}  // namespace

std::shared_ptr<NpuRunCache> make_run_cache() { return std::make_shared<NpuRunCache>(); }

Result<void> execute_npu(const NpuProgram& program, std::span<const Bytes> inputs, std::vector<Buffer>& outputs,
                         const NpuRunOptions& options) {
  Machine machine;
  outputs.clear();
  return run_program(
      machine, program, options, [&](Buffer& scratch) { return fill_inputs(program, inputs, scratch); },
      [&](Bytes output) { outputs.emplace_back(output.begin(), output.end()); });
}

namespace {

Result<void> rehearse(Machine& machine, const NpuProgram& program) {
  machine.rehearsal = true;
  return run_program(
      machine, program, {}, [](Buffer&) { return Result<void>(); }, [](Bytes) {});
}

}  // namespace

Result<std::vector<NpuFault>> rehearse_npu(const NpuProgram& program) {
  Machine machine;
  TRY(rehearse(machine, program));
  return std::move(machine.faults);
}

Result<std::vector<OperationUse>> ethos::operation_uses(const NpuProgram& program) {
  Machine machine;
  TRY(rehearse(machine, program));
  return std::move(machine.uses);
}

}  // namespace swoop
