#include "npu/regor.h"

#include <regor.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <regor_interface.hpp>
#include <stdexcept>

namespace swoop {
namespace {

using Header = regor_raw_tensor_header_t;
static_assert(sizeof(Header) == 56, "the layout this was written against (Vela 5.1.0)");

// What regor logged. Its writer takes no argument, hence a variable; there is one compile per process.
std::string* log_text = nullptr;

struct LogScope {
  explicit LogScope(std::string& log) { log_text = &log; }
  ~LogScope() { log_text = nullptr; }
  LogScope(const LogScope&) = delete;
  LogScope& operator=(const LogScope&) = delete;
};

void write_log(const void* data, size_t size) {
  constexpr size_t kMaxLog = 1 << 16;  // enough for an error message
  if (log_text && log_text->size() < kMaxLog) log_text->append(static_cast<const char*>(data), size);
}

class Context {
 public:
  explicit Context(const NpuFacts& facts) {
    if (!regor_create(&id_, std::string(facts.regor_name).c_str()))
      throw std::runtime_error("regor does not know this NPU");
  }
  ~Context() { regor_destroy(id_); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  regor_context_t id() const { return id_; }

  std::string last_error() const {
    size_t size = 0;
    if (!regor_get_error(id_, nullptr, &size) || size == 0) return {};
    std::string text(size, '\0');
    regor_get_error(id_, text.data(), &size);
    text.resize(size);
    return text;
  }

 private:
  regor_context_t id_ = 0;
};

template <typename T>
NpuTensor read_tensor(const T& tensor) {
  NpuTensor out;
  for (size_t i = 0; i < out.shape.size(); ++i) out.shape[i] = static_cast<int32_t>(tensor.shape[i]);
  out.elem_size = tensor.element_size;
  out.region = tensor.region;
  out.offset = static_cast<int64_t>(tensor.address);
  return out;
}

// Adds one of regor's blobs to the program.
void read_blob(Bytes blob, NpuProgram& program) {
  if (blob.size() < sizeof(Header)) throw std::runtime_error("regor made a blob without a header");
  const auto header = load<Header>(blob.data());
  const Bytes payload = blob.subspan(sizeof(Header));
  const auto take = [&](uint32_t size) {
    if (size > payload.size()) throw std::runtime_error("regor made a blob shorter than its header says");
    return Buffer(payload.begin(), payload.begin() + size);
  };
  switch (header.type) {
    case Header::RAW_TENSOR_TYPE_COMMAND_STREAM: program.commands = take(header.tensor.command_stream.size); break;
    case Header::RAW_TENSOR_TYPE_READ_ONLY:
      program.weights = take(header.tensor.read_only.size);
      program.weight_region = header.tensor.read_only.region;
      break;
    case Header::RAW_TENSOR_TYPE_SCRATCH:
      program.scratch_size = header.tensor.scratch.size;
      program.scratch_region = header.tensor.scratch.region;
      break;
    case Header::RAW_TENSOR_TYPE_SCRATCH_FAST:
      program.scratch_fast_size = header.tensor.scratch_fast.size;
      program.scratch_fast_region = header.tensor.scratch_fast.region;
      break;
    case Header::RAW_TENSOR_TYPE_INPUT: program.inputs.push_back(read_tensor(header.tensor.input)); break;
    case Header::RAW_TENSOR_TYPE_OUTPUT: program.outputs.push_back(read_tensor(header.tensor.output)); break;
    case Header::RAW_TENSOR_TYPE_VARIABLE: program.variables.push_back(read_tensor(header.tensor.variable)); break;
    default: throw std::runtime_error("regor made a blob of an unknown kind");
  }
}

std::optional<NpuMemory> memory_called(std::string_view name) {
  for (size_t i = 0; i < kNpuMemoryCount; ++i) {
    if (memory_name(static_cast<NpuMemory>(i)) == name) return static_cast<NpuMemory>(i);
  }
  return std::nullopt;  // lutram and shram: on the NPU, and not reported
}

Estimates read_report(regor_context_t context, const NpuTarget& target, const NpuSystem& system) {
  regor_perf_report_t report{};
  if (!regor_get_perf_report(context, &report)) throw std::runtime_error("regor gave no performance report");
  // The list of memories is only filled when there is a place for the accesses, so there always is one.
  std::vector<regor_memory_access_perf_t> accesses(static_cast<size_t>(std::max(report.accessCount, 1)));
  report.access = accesses.data();
  if (!regor_get_perf_report(context, &report)) throw std::runtime_error("regor gave no performance report");
  accesses.resize(static_cast<size_t>(std::max(report.accessCount, 0)));

  Estimates out;
  out.macs = report.macCount;
  out.npu_cycles = report.npuCycles;
  out.total_cycles = report.totalCycles;
  out.clock_hz = system.clock_hz;
  out.inference_ms = static_cast<double>(report.totalCycles) / system.clock_hz * 1e3;
  out.arena_cache_size = system.arena_cache_size;
  out.weights_memory = system.constants;
  out.feature_map_memory = system.feature_maps;
  out.original_weight_bytes = report.originalWeights;
  out.encoded_weight_bytes = report.encodedWeights;
  out.operations = report.npuOps + report.cpuOps;
  out.operations_after_cascading = out.operations - report.cascadedOps + report.cascades;
  out.macs_per_cycle = target.macs;

  for (int i = 0; i < report.numMemories; ++i) {
    const auto& usage = report.peakUsages[i];
    const auto memory = memory_called(usage.memoryName);
    if (!memory) continue;
    MemoryEstimate& estimate = out.memories[static_cast<size_t>(*memory)].emplace();
    estimate.bytes_used = usage.peakUsage;
    estimate.access_cycles = usage.totalAccessCycles;
    if (i == report.stagingMemory) {
      out.staging_memory = memory;
      out.staging_peak_bytes = usage.peakUsage;
    }
  }
  for (const auto& access : accesses) {
    const auto memory = memory_called(access.memoryName);
    if (!memory || !out.memories[static_cast<size_t>(*memory)]) continue;
    MemoryEstimate& estimate = *out.memories[static_cast<size_t>(*memory)];
    const std::string_view purpose = access.accessType;
    if (purpose == "FeatureMap") {
      estimate.feature_map_read_bytes = access.bytesRead;
      estimate.feature_map_write_bytes = access.bytesWritten;
    } else if (purpose == "Weights") {
      estimate.weight_read_bytes = access.bytesRead;
      estimate.weight_write_bytes = access.bytesWritten;
    }
    estimate.total_bytes += access.bytesRead + access.bytesWritten;
  }
  // Constants that share the SRAM are reported as if they had a flash of their own, as Vela does.
  auto& flash = out.memories[static_cast<size_t>(NpuMemory::OnChipFlash)];
  auto& sram = out.memories[static_cast<size_t>(NpuMemory::Sram)];
  if (report.readOnlyPeakUsage > 0 && system.constants == NpuMemory::OnChipFlash && !flash) {
    flash.emplace().bytes_used = report.readOnlyPeakUsage;
    if (!sram) sram.emplace();
    sram->bytes_used -= report.readOnlyPeakUsage;
  }
  return out;
}

using Row = std::map<std::string, std::string, std::less<>>;

struct DatabaseRow {
  int id;
  Row columns;
};

// The rows of one table of regor's database. Released by hand: the interface is reference-counted C style.
std::vector<DatabaseRow> read_rows(regor::ITableIterator& table) {
  std::vector<std::string> names;
  regor::IRowIterator<std::string>* header = table.ColumnNames();
  while (header->Next()) names.push_back(header->Value());
  header->Release();
  std::vector<DatabaseRow> rows;
  for (int i = 0; i < table.Rows(); ++i) {
    regor::IRowIterator<std::string>* row = table.Row(i);
    DatabaseRow out{row->Id(), {}};
    for (size_t column = 0; row->Next() && column < names.size(); ++column) out.columns[names[column]] = row->Value();
    row->Release();
    rows.push_back(std::move(out));
  }
  return rows;
}

int64_t number(const Row& row, std::string_view column) {
  const auto found = row.find(column);
  int64_t value = 0;
  if (found != row.end()) std::from_chars(found->second.data(), found->second.data() + found->second.size(), value);
  return value;
}

std::string text(const Row& row, std::string_view column, std::string_view otherwise) {
  const auto found = row.find(column);
  return std::string(found != row.end() ? std::string_view(found->second) : otherwise);
}

// Layers from the tables `perf` (one row per scheduled operation) and `source` (TOSA operators; ext_key is the
// position), the layer of each operation of the stream from `queue` (offset: last word of the operation's commands).
void read_layers(regor_context_t context, const NpuTarget& target, NpuProgram& program) {
  regor::IRegorReporting* reporting = regor_get_reporting_interface(context);
  regor::IDatabase* database = reporting ? reporting->OptimiserDatabase() : nullptr;
  if (!database) return;
  std::vector<DatabaseRow> performance;
  std::vector<DatabaseRow> queue;
  std::map<int64_t, Row> sources;
  regor::ITableIterator* table = database->Tables();
  while (table->Next()) {
    const std::string name = table->Name();
    if (name == "perf") performance = read_rows(*table);
    if (name == "queue") queue = read_rows(*table);
    if (name == "source") {
      for (DatabaseRow& row : read_rows(*table)) sources[row.id] = std::move(row.columns);
    }
  }
  table->Release();

  std::vector<Layer>& layers = program.estimates->layers;
  std::map<int64_t, uint32_t> layer_of_id;
  for (const DatabaseRow& entry : performance) {
    layer_of_id[entry.id] = static_cast<uint32_t>(layers.size());
    const Row& row = entry.columns;
    Layer layer;
    layer.name = text(row, "name", "");
    layer.npu_op = text(row, "operator", "");
    layer.tosa_op = "N/A";
    if (const auto source = sources.find(number(row, "source_id")); source != sources.end()) {
      layer.tosa_op = text(source->second, "operator", "N/A");
      if (const int64_t index = number(source->second, "ext_key"); source->second.contains("ext_key") && index >= 0) {
        layer.tosa_index = static_cast<int>(index);
      }
    }
    layer.cycles = number(row, "op_cycles");
    layer.npu_cycles = number(row, "npu_cycles");
    layer.macs = number(row, "mac_count");
    layer.staging_bytes = number(row, "staging_usage");
    for (size_t i = 0; i < kNpuMemoryCount; ++i) {
      layer.access_cycles[i] = number(row, std::string(memory_name(static_cast<NpuMemory>(i))) + "_ac");
    }
    const int64_t possible = layer.cycles * target.macs;
    layer.utilisation = possible == 0 ? 1 : static_cast<double>(layer.macs) / static_cast<double>(possible);
    layers.push_back(std::move(layer));
  }
  for (const DatabaseRow& entry : queue) {
    const auto layer = layer_of_id.find(number(entry.columns, "scheduled_id"));
    if (layer == layer_of_id.end()) continue;
    program.layer_of_operation.push_back({static_cast<uint32_t>(number(entry.columns, "offset") / 4), layer->second});
  }
}

}  // namespace

std::string system_text(const NpuTarget& target, const NpuSystem& system, std::string_view config) {
  return fmt::format("[architecture]\nmacs={}\ncores={}\n[vela]\nsystem_config_name={}\nmemory_mode_name={}\n{}",
                     target.macs / target.cores, target.cores, system.system_config, system.memory_mode, config);
}

std::string options_text(const NpuOptions& options, const NpuSystem& system) {
  // enable_db only adds the tables that the layers are read from; the other values are the command's defaults.
  return fmt::format(
      "\n[compiler]\nenable_db=true\noutput_format=Raw\ncop_format=COP1\n"
      "\n[scheduler]\noptimize={}\narena_size_limit={}\ndisable_feature=\ncpu_tensor_alignment=16\ntensor_allocator="
      "HillClimb\n"
      "\n[graph]\nsoftmax_int16_neg_exp_range=10.0\n",
      options.optimise == Optimise::Size ? "Size" : "Performance", system.arena_cache_size);
}

Result<NpuProgram> call_regor(Bytes tosa, const RegorCall& call) {
  const auto& [target, system, system_config, compiler_options] = call;
  std::string log;
  const LogScope scope(log);
  const Context context(target.facts());
  regor_set_logging(write_log, ~0u);
  const auto said = [&](std::string_view otherwise) {
    std::string message = context.last_error();
    if (message.empty()) message = log;
    while (!message.empty() && (message.back() == '\n' || message.back() == ' ')) message.pop_back();
    return Error{message.empty() ? std::string(otherwise) : message};
  };
  if (!regor_set_system_config(context.id(), system_config.c_str(), system_config.size())) {
    return said("it does not understand the system configuration");
  }
  if (!regor_set_compiler_options(context.id(), compiler_options.c_str(), compiler_options.size())) {
    return said("it does not understand its options");
  }
  if (!regor_compile(context.id(), REGOR_INPUTFORMAT_TOSA, tosa.data(), tosa.size(), nullptr))
    return said("it gives no reason");

  NpuProgram program;
  regor::IRegorBlob* blob = nullptr;
  while (regor_get_output(context.id(), &blob)) {
    int64_t size = 0;
    void* data = blob->Map(size);
    read_blob(Bytes(static_cast<const std::byte*>(data), static_cast<size_t>(size)), program);
    blob->Unmap(data);
    blob->Release();
  }
  if (program.commands.empty()) return said("it made no command stream");
  if (!program.scratch_fast_size) program.scratch_fast_size = 0;
  program.estimates = read_report(context.id(), target, system);
  read_layers(context.id(), target, program);
  return program;
}

}  // namespace swoop
