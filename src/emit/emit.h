// The ExecuTorch program (.pte): written from the host graph and the finished NPU regions, and read back for
// inspection. Schema and calling conventions are those of the executorch wheel, so that the stock runtime loads the
// file as it is. Invariants: same graph, same bytes; every region's arguments match its blob; read_pte takes bytes from
// anywhere and never trusts them.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ir/ir.h"
#include "support/bytes.h"
#include "support/result.h"

namespace swoop {

constexpr std::string_view kNpuBackend = "EthosUBackend";

using CompileSpecs = std::vector<std::pair<std::string, std::string>>;

// One delegate: the packed program (stream.h) and what is recorded beside it. The device runtime ignores the specs;
// people read them.
struct Region {
  Bytes blob;
  CompileSpecs compile_specs;
};

// The specs that ExecuTorch's own flow stores, with its keys.
CompileSpecs npu_compile_specs(std::string_view target, std::string_view system_config, std::string_view memory_mode,
                               std::string_view tosa_spec);

struct EmitOptions {
  std::string method = "forward";
  bool delegate_segments = false;  // blobs after the program, each at a multiple of 128, instead of inside it
  bool input_names = true;  // keep the names of inputs and buffers in the file, for `swoop run` and `swoop inspect`
};

// Fails when a host operator has no kernel in the stock runtime, or a size exceeds the format's 2 GiB.
Result<Buffer> emit_pte(const Graph& graph, std::span<const Region> regions, const EmitOptions& options = {});

// Whether emit_pte finds a kernel for this node, and if not, why: for the partitioner's report. Regions and control
// flow are accepted.
Result<void> host_supports(const Graph& graph, const Node& node);

// ---- reading
// -------------------------------------------------------------------------------------------------------------------

struct ProgramTensor {
  std::string name;   // empty when the file does not say
  std::string dtype;  // "float32", "int8", ...
  Shape shape;
  int64_t bytes = 0;
  std::optional<int64_t> arena_offset;  // nullopt: not planned
  // Of an input that goes into, or an output that comes out of, a quantize or dequantize of the border.
  std::optional<double> scale;
  std::optional<int64_t> zero_point;
};

struct ProgramDelegate {
  std::string id;
  Bytes blob;  // inside the bytes given to read_pte
  CompileSpecs compile_specs;
  bool in_segment = false;
  std::optional<uint64_t> scratch_bytes;  // of Ethos-U blobs
};

struct ProgramMethod {
  std::string name;
  std::string in_spec;
  std::string out_spec;
  std::vector<ProgramTensor> inputs;
  std::vector<ProgramTensor> outputs;
  std::vector<ProgramTensor> states;        // planned tensors with initial data
  std::vector<std::string> operators;       // "aten::add.out", in the order of the file
  std::map<std::string, int> kernel_calls;  // the same names without ".out", with how often they are called
  std::vector<std::string> instructions;    // one line each
  std::vector<ProgramDelegate> delegates;
  int delegate_calls = 0;
  size_t values = 0;
  int64_t planned_bytes = 0;  // the arena
  int64_t method_bytes = 0;   // what the runtime allocates to load the method, on a 64-bit machine; 32 bits take less
  int64_t temp_bytes = 0;     // largest delegate scratch: the temporary allocator must hold it
};

struct ProgramInfo {
  std::vector<ProgramMethod> methods;
  int64_t file_bytes = 0;
  int64_t program_bytes = 0;   // the flatbuffer
  int64_t constant_bytes = 0;  // tensors that host kernels read
  int64_t initial_bytes = 0;   // initial data of buffers
  int64_t delegate_bytes = 0;  // all blobs, shared ones once
};

Result<ProgramInfo> read_pte(Bytes file);

}  // namespace swoop
