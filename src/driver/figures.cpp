#include "driver/figures.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "emit/emit.h"
#include "run/runtime.h"
#include "support/npz.h"

namespace swoop {

namespace {

// Commands that start nothing.
bool is_bookkeeping(std::string_view operation) {
  constexpr std::string_view kNames[] = {"STOP", "IRQ", "DMA_WAIT", "KERNEL_WAIT", "PMU_MASK"};
  return std::find(std::begin(kNames), std::end(kNames), operation) != std::end(kNames);
}

Result<void> add_region(ProgramFigures& figures, const ProgramDelegate& delegate) {
  TRY_ASSIGN(NpuProgram program, unpack(delegate.blob));
  TRY_ASSIGN(DriverPayload payload, parse_payload(program.commands));
  TRY_ASSIGN(std::vector<NpuCommand> commands, decode_commands(payload));
  ++figures.regions;
  if (std::string npu = payload.config.name();
      std::find(figures.npus.begin(), figures.npus.end(), npu) == figures.npus.end())
    figures.npus.push_back(npu);
  constexpr std::string_view kLead = "NPU_OP_";
  for (const NpuCommand& command : commands) {
    std::string_view name = command.name();
    if (!name.starts_with(kLead)) continue;
    name.remove_prefix(kLead.size());
    if (!is_bookkeeping(name)) ++figures.operations[std::string(name)];
  }
  figures.weight_bytes += static_cast<int64_t>(program.weights.size());
  figures.command_bytes += static_cast<int64_t>(program.commands.size());
  figures.scratch_bytes = std::max(figures.scratch_bytes, static_cast<int64_t>(program.scratch_size));
  return {};
}

// Regions run one after the other in the same SRAM and DRAM, but each has constants of its own in flash.
void add_estimates(ProgramFigures& figures, const ProgramDelegate& delegate) {
  auto spec = std::find_if(delegate.compile_specs.begin(), delegate.compile_specs.end(),
                           [](const auto& s) { return s.first == kEstimatesKey; });
  std::optional<EstimateFigures> found;
  if (spec != delegate.compile_specs.end()) found = parse_estimates_text(spec->second);
  if (!found) {
    figures.estimates.reset();
    figures.estimates_why = "the file has no estimates; files of other compilers have none";
    return;
  }
  if (!figures.estimates) return;
  EstimateFigures& sum = *figures.estimates;
  sum.version = found->version;
  sum.total_cycles += found->total_cycles;
  sum.npu_cycles += found->npu_cycles;
  sum.macs += found->macs;
  sum.sram_bytes = std::max(sum.sram_bytes, found->sram_bytes);
  sum.dram_bytes = std::max(sum.dram_bytes, found->dram_bytes);
  sum.flash_bytes += found->flash_bytes;
}

// An element as a real number; every type that the runtime returns.
double element(const NpyArray& array, size_t i) {
  size_t size = npy_element_bytes(array.dtype);
  const std::byte* at = array.data.data() + i * size;
  char kind = array.dtype[1];
  switch (size) {
    case 1: return kind == 'i' ? load<int8_t>(at) : load<uint8_t>(at);
    case 2: return kind == 'i' ? load<int16_t>(at) : load<uint16_t>(at);
    case 4:
      return kind == 'f' ? static_cast<double>(load<float>(at)) : kind == 'i' ? load<int32_t>(at) : load<uint32_t>(at);
    default:
      return kind == 'f'   ? load<double>(at)
             : kind == 'i' ? static_cast<double>(load<int64_t>(at))
                           : static_cast<double>(load<uint64_t>(at));
  }
}

OutputDifference compare(const NamedArray& a, const NamedArray& b) {
  OutputDifference result;
  result.name = a.name;
  if (a.array.dtype != b.array.dtype || a.array.shape != b.array.shape) {
    result.incomparable = fmt::format("{}[{}] against {}[{}]", a.array.dtype, fmt::join(a.array.shape, ","),
                                      b.array.dtype, fmt::join(b.array.shape, ","));
    return result;
  }
  size_t size = npy_element_bytes(a.array.dtype);
  size_t count = size ? a.array.data.size() / size : 0;
  result.elements = static_cast<int64_t>(count);
  result.equal = a.array.data == b.array.data;
  if (result.equal) return result;
  if (a.array.dtype == "<f2") {
    result.incomparable = "16-bit floats that are not equal";
    return result;
  }
  double signal = 0, noise = 0;
  for (size_t i = 0; i < count; ++i) {
    double x = element(a.array, i), y = element(b.array, i);
    double difference = x == y ? 0 : std::abs(x - y);
    if (std::isnan(difference)) {
      result.incomparable = "one of them holds a NaN";
      return result;
    }
    result.different += difference != 0;
    result.max_difference = std::max(result.max_difference, difference);
    signal += x * x;
    noise += difference * difference;
  }
  if (signal > 0 && noise > 0) result.sqnr_db = 10 * std::log10(signal / noise);
  return result;
}

Result<std::vector<NamedArray>> outputs_of(const ProgramFigures& figures, Bytes pte, Bytes inputs) {
  Buffer outputs;
  if (Result<NpzRunSummary> done = run_npz(pte, inputs, outputs); !done)
    return error("{}: {}", figures.path, done.error().message);
  return read_npz(outputs);
}

}  // namespace

std::vector<FigureLine> byte_lines(const ProgramFigures& a, const ProgramFigures& b) {
  return {{"file_bytes", a.file_bytes, b.file_bytes},
          {"weight_bytes", a.weight_bytes, b.weight_bytes},
          {"scratch_bytes", a.scratch_bytes, b.scratch_bytes},
          {"planned_bytes", a.planned_bytes, b.planned_bytes}};
}

std::vector<FigureLine> estimate_lines(const ProgramFigures& a, const ProgramFigures& b) {
  std::vector<FigureLine> lines;
  for (const NamedEstimate& estimate : kEstimates) {
    FigureLine& line = lines.emplace_back(FigureLine{estimate.name, std::nullopt, std::nullopt});
    if (a.estimates) line.a = (*a.estimates).*estimate.value;
    if (b.estimates) line.b = (*b.estimates).*estimate.value;
  }
  return lines;
}

Result<ProgramFigures> read_figures(const std::string& path, Bytes pte) {
  ProgramFigures figures;
  figures.path = path;
  Result<ProgramInfo> info = read_pte(pte);
  if (!info) return error("{}: {}", path, info.error().message);
  figures.file_bytes = info->file_bytes;
  figures.estimates = EstimateFigures{};
  for (const ProgramMethod& method : info->methods) {
    figures.planned_bytes += method.planned_bytes;
    for (const auto& [kernel, count] : method.kernel_calls) figures.kernels[kernel] += count;
    for (const ProgramDelegate& delegate : method.delegates) {
      if (delegate.id != kNpuBackend) {
        ++figures.other_delegates[delegate.id];
        continue;
      }
      if (Result<void> added = add_region(figures, delegate); !added)
        return error("{}: {}", path, added.error().message);
      add_estimates(figures, delegate);
    }
  }
  return figures;
}

Result<std::vector<OutputDifference>> compare_outputs(const ProgramFigures& a, Bytes pte_a, const ProgramFigures& b,
                                                      Bytes pte_b, Bytes inputs) {
  TRY_ASSIGN(std::vector<NamedArray> of_a, outputs_of(a, pte_a, inputs));
  TRY_ASSIGN(std::vector<NamedArray> of_b, outputs_of(b, pte_b, inputs));
  if (of_a.size() != of_b.size())
    return error("{} has {} outputs and {} has {}: they do not compute the same function", a.path, of_a.size(), b.path,
                 of_b.size());
  std::vector<OutputDifference> differences;
  for (size_t i = 0; i < of_a.size(); ++i) differences.push_back(compare(of_a[i], of_b[i]));
  return differences;
}

}  // namespace swoop
