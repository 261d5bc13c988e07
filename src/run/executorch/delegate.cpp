// The delegate "EthosUBackend": accepts and refuses what the device's own backend does, and executes the command stream
// in software.
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/platform/log.h>

#include <algorithm>

#include "run/executorch/session.h"
#include "support/check.h"

namespace swoop {

namespace {

namespace et = executorch::runtime;
using executorch::aten::ScalarType;

constexpr size_t kBlobAlignment = 16;  // the NPU reads commands and weights in place

struct LoadedRegion {
  NpuProgram program;
  int index = 0;
};

// Says it where someone will see it: in swoop's own error, or in the runtime's log.
et::Error fail(et::Error code, const std::string& message) {
  if (ActiveRun* run = active_run()) {
    if (run->failure.empty()) run->failure = message;
  } else {
    ET_LOG(Error, "EthosUBackend: %s", message.c_str());
  }
  return code;
}

// Pairs the device copies: 32-bit, 16-bit and 8-bit integers, and bool.
bool supported(ScalarType type, int element_size) {
  switch (type) {
    case ScalarType::Int: return element_size == 4;
    case ScalarType::Short: return element_size == 2;
    case ScalarType::Char:
    case ScalarType::Byte:
    case ScalarType::Bool: return element_size == 1;
    default: return false;
  }
}

int64_t element_count(const NpuTensor& tensor) {
  int64_t count = 1;
  for (int32_t size : tensor.shape) count *= size;
  return count;
}

RunTensor traffic_of(const executorch::aten::Tensor& tensor) {
  RunTensor copy;
  copy.dtype = type_name(static_cast<int>(tensor.scalar_type()));
  copy.shape.assign(tensor.sizes().begin(), tensor.sizes().end());
  const auto* bytes = static_cast<const std::byte*>(tensor.const_data_ptr());
  copy.data.assign(bytes, bytes + tensor.nbytes());
  return copy;
}

// The NPU may pad the last dimension of a result; the tensor takes the front of each row.
bool copy_rows(const NpuTensor& source, const Buffer& bytes, executorch::aten::Tensor& target) {
  size_t wanted = target.nbytes();
  if (bytes.size() == wanted) {
    std::memcpy(target.mutable_data_ptr(), bytes.data(), wanted);
    return true;
  }
  size_t rows = 1;
  for (size_t d = 0; d + 1 < source.shape.size(); ++d) rows *= static_cast<size_t>(std::max(source.shape[d], 1));
  size_t source_row = bytes.size() / rows;
  if (wanted % rows != 0 || wanted / rows > source_row) return false;
  size_t row = wanted / rows;
  for (size_t r = 0; r < rows; ++r)
    std::memcpy(static_cast<std::byte*>(target.mutable_data_ptr()) + r * row, bytes.data() + r * source_row, row);
  return true;
}

class EthosUBackend final : public et::BackendInterface {
 public:
  bool is_available() const override { return true; }

  et::Result<et::DelegateHandle*> init(et::BackendInitContext&, et::FreeableBuffer* processed,
                                       et::ArrayRef<et::CompileSpec>) const override {
    const auto* data = static_cast<const std::byte*>(processed->data());
    ActiveRun* run = active_run();
    int index = run ? run->delegates_loaded++ : 0;
    if (!data) return fail(et::Error::InvalidProgram, fmt::format("Region {} has no data.", index));
    if (reinterpret_cast<uintptr_t>(data) % kBlobAlignment != 0 || processed->size() % kBlobAlignment != 0)
      return fail(et::Error::InvalidProgram,
                  fmt::format("Region {} is not at a multiple of {} bytes, as the NPU's driver demands.", index,
                              kBlobAlignment));
    auto program = unpack(Bytes(data, processed->size()));
    if (!program) return fail(et::Error::InvalidProgram, fmt::format("Region {}: {}", index, program.error().message));
    if (run) run->scratch_bytes = std::max(run->scratch_bytes, static_cast<uint32_t>(program->scratch_size));
    return new LoadedRegion{std::move(*program), index};
  }

  et::Error execute(et::BackendExecutionContext& context, et::DelegateHandle* handle,
                    et::Span<et::EValue*> args) const override {
    const auto& region = *static_cast<const LoadedRegion*>(handle);
    const NpuProgram& program = region.program;
    // The device ignores arguments too many and leaves such a result unwritten: wrong numbers without an error.
    if (args.size() != program.inputs.size() + program.outputs.size())
      return fail(et::Error::InvalidProgram,
                  fmt::format("Region {} was compiled with {} inputs and {} outputs and is called with {} "
                              "arguments; a device would leave results unwritten.",
                              region.index, program.inputs.size(), program.outputs.size(), args.size()));
    // The device takes its scratch memory from here; a program that does not fit there must not fit here.
    if (program.scratch_size > 0 && !context.allocate(program.scratch_size, kBlobAlignment))
      return fail(et::Error::MemoryAllocationFailed,
                  fmt::format("Region {} needs {} bytes of temporary memory.", region.index, program.scratch_size));

    std::vector<Bytes> inputs;
    for (size_t i = 0; i < program.inputs.size(); ++i) {
      if (!args[i]->isTensor())
        return fail(et::Error::InvalidProgram, fmt::format("Input {} of region {} is no tensor.", i, region.index));
      const executorch::aten::Tensor& tensor = args[i]->toTensor();
      if (!supported(tensor.scalar_type(), program.inputs[i].elem_size))
        return fail(
            et::Error::InvalidProgram,
            fmt::format("Input {} of region {} is {} in the program and {} bytes wide on the NPU.", i, region.index,
                        type_name(static_cast<int>(tensor.scalar_type())), program.inputs[i].elem_size));
      if (tensor.numel() != element_count(program.inputs[i]))
        return fail(et::Error::InvalidProgram,
                    fmt::format("Input {} of region {} has {} elements in the program and {} on the NPU.", i,
                                region.index, tensor.numel(), element_count(program.inputs[i])));
      inputs.emplace_back(static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes());
    }

    ActiveRun* run = active_run();
    if (run && run->options.npu.observer) run->options.npu.observer->on_call(region.index);
    RegionTraffic traffic{region.index, {}, {}};
    bool record = run && run->options.record_regions;
    for (size_t i = 0; record && i < inputs.size(); ++i) traffic.inputs.push_back(traffic_of(args[i]->toTensor()));
    std::vector<Buffer> outputs;
    auto done = execute_npu(program, inputs, outputs, run ? run->options.npu : NpuRunOptions{});
    if (!done) {
      if (record) run->traffic.push_back(std::move(traffic));
      return fail(et::Error::DelegateInvalidCompatibility,
                  fmt::format("Region {}: {}", region.index, done.error().message));
    }

    for (size_t i = 0; i < outputs.size(); ++i) {
      et::EValue* argument = args[inputs.size() + i];
      if (!argument->isTensor())
        return fail(et::Error::InvalidProgram, fmt::format("Output {} of region {} is no tensor.", i, region.index));
      executorch::aten::Tensor& tensor = argument->toTensor();
      if (!copy_rows(program.outputs[i], outputs[i], tensor))
        return fail(et::Error::InvalidProgram,
                    fmt::format("Output {} of region {} has {} bytes in the program and {} on the NPU.", i,
                                region.index, tensor.nbytes(), outputs[i].size()));
      if (record) traffic.outputs.push_back(traffic_of(tensor));
    }
    if (record) run->traffic.push_back(std::move(traffic));
    return et::Error::Ok;
  }

  void destroy(et::DelegateHandle* handle) const override { delete static_cast<LoadedRegion*>(handle); }
};

// Loading the library is enough. A process that already has such a backend keeps it.
struct Registration {
  Registration() {
    static EthosUBackend backend;
    if (!et::get_backend_class("EthosUBackend")) (void)et::register_backend({"EthosUBackend", &backend});
  }
} registration;

}  // namespace

ActiveRun*& active_run() {
  thread_local ActiveRun* run = nullptr;
  return run;
}

}  // namespace swoop
