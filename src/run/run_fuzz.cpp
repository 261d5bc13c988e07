// libFuzzer: any bytes as a program of the block format. Nothing may crash, hang or read outside its memory.
#include "run/run.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace swoop;
  auto program = unpack({reinterpret_cast<const std::byte*>(data), size});
  if (!program) return 0;
  constexpr uint64_t kMaxMemory =
      1 << 22;  // scratch memory costs nothing to ask for; the fuzzer should spend its time elsewhere
  if (program->scratch_size > kMaxMemory) return 0;
  std::vector<Buffer> storage;
  for (const NpuTensor& tensor : program->inputs) {
    if (tensor.byte_size() < 0 || static_cast<uint64_t>(tensor.byte_size()) > kMaxMemory) return 0;
    storage.emplace_back(static_cast<size_t>(tensor.byte_size()), std::byte{17});
  }
  std::vector<Bytes> inputs(storage.begin(), storage.end());
  std::vector<Buffer> outputs;
  NpuRunOptions options;
  options.max_work = uint64_t{1} << 26;
  options.scratch_fast_bytes = 1 << 16;
  (void)execute_npu(*program, inputs, outputs, options).has_value();
  return 0;
}
