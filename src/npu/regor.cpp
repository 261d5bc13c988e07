#include "npu/regor.h"

#include <regor.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <regor_interface.hpp>
#include <span>
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
  // It is not destroyed: that takes a while, and the process ends with its compile.
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

// The rows of one table of regor's database, with the columns that are `wanted`. Released by hand: the interface is
// reference-counted C style.
std::vector<DatabaseRow> read_rows(regor::ITableIterator& table, std::span<const std::string> wanted) {
  std::vector<std::string> names;
  regor::IRowIterator<std::string>* header = table.ColumnNames();
  while (header->Next()) names.push_back(header->Value());
  header->Release();
  std::vector<bool> is_wanted;
  for (const std::string& name : names) is_wanted.push_back(std::ranges::find(wanted, name) != wanted.end());
  std::vector<DatabaseRow> rows;
  for (int i = 0; i < table.Rows(); ++i) {
    regor::IRowIterator<std::string>* row = table.Row(i);
    DatabaseRow out{row->Id(), {}};
    for (size_t column = 0; row->Next() && column < names.size(); ++column)
      if (is_wanted[column]) out.columns[names[column]] = row->Value();
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

// The tables of regor's database that the layers are read from.
constexpr std::string_view kPerformance = "perf", kDetails = "perf_debug", kBlocks = "perf_debug_main",
                           kQueue = "queue", kSource = "source";
constexpr std::string_view kAxes[] = {"_n", "_h", "_w", "_c"};

using Tables = std::map<std::string, std::vector<DatabaseRow>, std::less<>>;

Tables read_tables(regor::IDatabase& database, NpuMemory weights_memory) {
  std::map<std::string, std::vector<std::string>, std::less<>> columns;
  columns[std::string(kPerformance)] = {"source_id",  "operator",  "name",         "op_cycles",
                                        "npu_cycles", "mac_count", "staging_usage"};
  for (size_t i = 0; i < kNpuMemoryCount; ++i)
    columns[std::string(kPerformance)].push_back(std::string(memory_name(static_cast<NpuMemory>(i))) + "_ac");
  columns[std::string(kQueue)] = {"scheduled_id", "offset"};
  columns[std::string(kSource)] = {"operator", "ext_key"};
  columns[std::string(kDetails)] = {"weight_buffering", "weight_total_bytes"};
  for (std::string_view column : {"Weights_ac", "Weights_read", "Scales_ac", "FeatureMap_ac", "Lut_ac"})
    columns[std::string(kDetails)].push_back(std::string(memory_name(weights_memory)) + std::string(column));
  columns[std::string(kBlocks)] = {"mac_cycles", "ao_cycles", "cmd_cycles"};
  for (std::string_view axis : kAxes) {
    for (std::string_view column : {"ofm_shape", "ofm_slice"})
      columns[std::string(kDetails)].push_back(std::string(column) + std::string(axis));
    for (std::string_view column : {"ofm_block", "ofm_ublock"})
      columns[std::string(kBlocks)].push_back(std::string(column) + std::string(axis));
  }
  Tables tables;
  regor::ITableIterator* table = database.Tables();
  while (table->Next()) {
    if (const auto wanted = columns.find(table->Name()); wanted != columns.end())
      tables[table->Name()] = read_rows(*table, wanted->second);
  }
  table->Release();
  return tables;
}

std::map<int64_t, Row> by_id(std::vector<DatabaseRow>& rows) {
  std::map<int64_t, Row> out;
  for (DatabaseRow& row : rows) out[row.id] = std::move(row.columns);
  return out;
}

// The cycles that an operation would save if its scales were in SRAM. regor's estimate: for each block of the result,
// products take `mac` cycles and the output stage `out`, or as long as the block's scales take to come where that is
// more; products and output overlap, and neither takes less than a quarter of both together. Its tables have the sums
// over all blocks, from which the parts follow. 0 where they do not: this only ever says too little.
int64_t saved_by_near_scales(const Row& details, const Row& blocks, const NpuSystem& system) {
  constexpr double kBytesPerChannel = 10, kBytesInFlight = 256;
  double all = 1, in_block = 1, channels = 0;
  for (std::string_view axis : kAxes) {
    const auto of = [&](const Row& row, std::string_view name) {
      return static_cast<double>(number(row, std::string(name) + std::string(axis)));
    };
    const double slice = of(details, "ofm_slice"), unit = of(blocks, "ofm_ublock");
    const double size = slice > 0 ? slice : of(details, "ofm_shape");
    const double extent = std::min(size, of(blocks, "ofm_block"));
    if (unit <= 0 || extent <= 0) return 0;
    all *= std::ceil(size / unit);
    in_block *= std::ceil(extent / unit);
    channels = extent;  // the last axis
  }
  const double count = all / in_block;
  const double far = kBytesPerChannel * channels * system.constants_reads.latency / kBytesInFlight;
  const double near = kBytesPerChannel * channels * system.staging_reads.latency / kBytesInFlight;
  const double mac = (static_cast<double>(number(blocks, "mac_cycles")) - far) / count;
  const double out = (static_cast<double>(number(blocks, "ao_cycles")) - mac) / count;
  const double commands = 4 * static_cast<double>(number(blocks, "cmd_cycles")) - mac - far;
  if (mac < 0 || out < 0 || out >= far || near >= far) return 0;
  const auto total = [&](double output) {
    const double least = (commands + mac + output) / 4;
    const double longer = std::max({mac, output, least}), shorter = std::max(std::min(mac, output), least);
    return longer * count + shorter;
  };
  return std::max<int64_t>(0, std::llround(total(far) - total(std::max(out, near))));
}

SlowReads slow_reads(const Row& details, const Row& blocks, const NpuSystem& system, bool channels_apart,
                     int64_t access_cycles) {
  SlowReads slow{.other_cycles = access_cycles};
  if (number(details, "weight_total_bytes") == 0 || !text(details, "weight_buffering", "").empty()) return slow;
  const auto of = [&](std::string_view what) {
    return number(details, std::string(memory_name(system.constants)) + std::string(what));
  };
  slow.weight_cycles = of("Weights_ac");
  slow.weight_bytes = of("Weights_read");
  slow.scale_cycles = of("Scales_ac");
  slow.other_cycles = channels_apart ? of("FeatureMap_ac") + of("Lut_ac")
                                     : std::max<int64_t>(0, access_cycles - slow.weight_cycles - slow.scale_cycles);
  slow.scale_npu_cycles = saved_by_near_scales(details, blocks, system);
  return slow;
}

// The channels of the U85: how many bytes may be under way for transfers and for weights, by the number of multipliers.
struct Channels {
  int macs, transfers, weights;
};
constexpr Channels kChannels[] = {{128, 64 * 16, 128 * 16},
                                  {256, 104 * 16, 128 * 16},
                                  {512, 128 * 16, 256 * 16},
                                  {1024, 256 * 16, 416 * 16},
                                  {2048, 256 * 16, 512 * 16}};

const Channels* channels_of(const NpuTarget& target) {
  if (!target.facts().channels_apart) return nullptr;
  const auto found = std::ranges::find(kChannels, target.macs, &Channels::macs);
  return found != std::end(kChannels) ? found : nullptr;
}

// Bytes per cycle of a channel: regor counts on four fifths of what the memory could have under way, and of what comes.
double channel_speed(const MemoryReads& memory, int bytes_under_way) {
  constexpr double kUsable = 0.8;
  if (memory.latency == 0) return 0;
  return kUsable * std::min<double>(bytes_under_way, kUsable * memory.bytes_under_way) / memory.latency;
}

// Whether the memory is so fast that transfers and weights come side by side.
bool channels_apart(const NpuTarget& target, const NpuSystem& system) {
  constexpr double kBusBytes = 16;
  const Channels* channels = channels_of(target);
  const MemoryReads& memory = system.constants_reads;
  return channels && kBusBytes * memory.width >= 2 * channel_speed(memory, channels->weights);
}

// How long a transfer takes: as long as weights take, unless it may have fewer bytes under way.
void read_transfers(Estimates& estimates, const NpuTarget& target, const NpuSystem& system) {
  double cycles = 0, bytes = 0;
  for (const Layer& layer : estimates.layers) {
    cycles += static_cast<double>(layer.slow.weight_cycles);
    bytes += static_cast<double>(layer.slow.weight_bytes);
  }
  if (bytes == 0) return;
  estimates.transfer_latency = system.constants_reads.latency;
  estimates.transfer_cycles_per_byte = cycles / bytes;
  const Channels* channels = channels_of(target);
  const double speed = channels ? channel_speed(system.constants_reads, channels->transfers) : 0;
  if (speed > 0) estimates.transfer_cycles_per_byte = std::max(cycles / bytes, 1 / speed);
}

// Layers from the tables `perf` (one row per scheduled operation) and `source` (TOSA operators; ext_key is the
// position), the layer of each operation of the stream from `queue` (offset: last word of the operation's commands).
void read_layers(regor_context_t context, const NpuTarget& target, const NpuSystem& system, NpuProgram& program) {
  regor::IRegorReporting* reporting = regor_get_reporting_interface(context);
  regor::IDatabase* database = reporting ? reporting->OptimiserDatabase() : nullptr;
  if (!database) return;
  Tables tables = read_tables(*database, system.constants);
  const std::map<int64_t, Row> sources = by_id(tables[std::string(kSource)]);
  const std::map<int64_t, Row> details = by_id(tables[std::string(kDetails)]);
  const std::map<int64_t, Row> blocks = by_id(tables[std::string(kBlocks)]);

  Estimates& estimates = *program.estimates;
  estimates.channels_apart = channels_apart(target, system);
  std::map<int64_t, uint32_t> layer_of_id;
  for (const DatabaseRow& entry : tables[std::string(kPerformance)]) {
    layer_of_id[entry.id] = static_cast<uint32_t>(estimates.layers.size());
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
    const auto detail = details.find(entry.id), block = blocks.find(entry.id);
    layer.slow =
        slow_reads(detail != details.end() ? detail->second : Row(), block != blocks.end() ? block->second : Row(),
                   system, estimates.channels_apart, layer.access_cycles[static_cast<size_t>(system.constants)]);
    const int64_t possible = layer.cycles * target.macs;
    layer.utilisation = possible == 0 ? 1 : static_cast<double>(layer.macs) / static_cast<double>(possible);
    estimates.layers.push_back(std::move(layer));
  }
  read_transfers(estimates, target, system);
  for (const DatabaseRow& entry : tables[std::string(kQueue)]) {
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
  read_layers(context.id(), target, system, program);
  return program;
}

}  // namespace swoop
