// A whole .pte on the host: the stock ExecuTorch runtime with a delegate "EthosUBackend" that is the NPU in software
// (run.h). The runtime lives in libswoop_run.so beside the program and is loaded on first use, so that compiling does
// not pay for it. The same library loaded into Python (ctypes.CDLL) lets executorch.runtime run Ethos-U programs.
// Invariants: outputs are those of the stock kernels and the command stream, bit for bit; buffers of a model keep their
// contents from one run to the next.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "run/run.h"
#include "support/bytes.h"
#include "support/result.h"

namespace swoop {

struct RunTensor {
  std::string name;   // empty when the file does not say
  std::string dtype;  // as NumPy names it: "float32", "int8", "bool", ...
  std::vector<int64_t> shape;
  Buffer data;  // row-major
};

// What crossed the border of one NPU region in the last run, as the NPU sees it.
struct RegionTraffic {
  int delegate = 0;  // index in the file
  std::vector<RunTensor> inputs;
  std::vector<RunTensor> outputs;  // none: the NPU in software refused its stream, and the run ended there
};

struct RunMemory {
  int64_t planned_bytes = 0;  // arenas
  int64_t method_bytes = 0;   // allocated while loading the method, on this (64-bit) machine
  int64_t temp_bytes = 0;     // most that was allocated for one instruction so far: delegate scratch
};

struct RuntimeOptions {
  bool record_regions = false;  // keep RegionTraffic
  int threads = 0;              // 0: one per core
  NpuRunOptions npu;
};

class ProgramRunner {
 public:
  virtual ~ProgramRunner() = default;
  // Name, type and shape, without data.
  virtual const std::vector<RunTensor>& inputs() const = 0;
  virtual const std::vector<RunTensor>& outputs() const = 0;
  virtual RunMemory memory() const = 0;
  // One inference. Inputs in order, with exactly the types and shapes of inputs().
  virtual Result<std::vector<RunTensor>> run(std::span<const RunTensor> inputs) = 0;
  virtual const std::vector<RegionTraffic>& regions() const = 0;
};

// Verifies the file fully, loads its only method (or "forward"), checks every kernel and delegate. The bytes must
// outlive the runner.
Result<std::unique_ptr<ProgramRunner>> load_program(Bytes program, const RuntimeOptions& options = {});

struct NpzRunOptions {
  RuntimeOptions runtime;
  std::string dump_directory;  // empty: no dump. Else region0_in0.npy, region0_out0.npy, ... of the last run
  std::function<Result<void>(int64_t run, std::span<const RunTensor> outputs)> after_run;  // may be absent
};

struct NpzRunSummary {
  int64_t runs = 0;
  RunMemory memory;
  double milliseconds_per_run = 0;
};

// `swoop run`: arrays named as the inputs (or in order, when the file has no names). Exactly the input's shape means
// one run, one more leading axis that many; out0, out1, ... are stacked the same way.
Result<NpzRunSummary> run_npz(Bytes program, Bytes inputs_npz, Buffer& outputs_npz, const NpzRunOptions& options = {});

// What libswoop_run.so offers to load_program; `version` guards against a library of another build.
constexpr int kRuntimeApiVersion = 2;
struct RuntimeApi {
  int version;
  Result<std::unique_ptr<ProgramRunner>> (*load)(Bytes program, const RuntimeOptions& options);
};
using RuntimeApiFn = const RuntimeApi* (*)();

}  // namespace swoop
