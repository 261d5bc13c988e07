// Sums over the estimate, and its layers as the table that Vela writes.
#include <algorithm>

#include "stream/stream.h"

namespace swoop {
namespace {

int64_t bytes_used(const Estimates& estimates, NpuMemory memory) {
  const auto& found = estimates.memory(memory);
  return found ? found->bytes_used : 0;
}

// As Python prints a float: the shortest digits that read back, and always with a point.
std::string python_float(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

// Vela counts a share of nothing as all of it.
std::string percentage(int64_t part, int64_t whole) {
  if (whole == 0) return "100";
  return python_float(static_cast<double>(part * 100) / static_cast<double>(whole));
}

}  // namespace

std::string_view memory_name(NpuMemory memory) {
  switch (memory) {
    case NpuMemory::Sram: return "Sram";
    case NpuMemory::Dram: return "Dram";
    case NpuMemory::OnChipFlash: return "OnChipFlash";
    case NpuMemory::OffChipFlash: return "OffChipFlash";
  }
  return "";
}

int64_t Estimates::sram_bytes() const { return bytes_used(*this, NpuMemory::Sram); }
int64_t Estimates::dram_bytes() const { return bytes_used(*this, NpuMemory::Dram); }
int64_t Estimates::flash_bytes() const {
  return bytes_used(*this, NpuMemory::OnChipFlash) + bytes_used(*this, NpuMemory::OffChipFlash);
}

std::string layers_csv(const Estimates& estimates) {
  std::string csv =
      "Original Operator,NNG Operator,Target,Staging Usage,Peak% (Staging),Op Cycles,Network% (cycles),NPU,SRAM "
      "AC,DRAM AC,"
      "OnFlash AC,OffFlash AC,MAC Count,Network% (MAC),Util% (MAC),Name\n";
  for (const Layer& layer : estimates.layers) {
    const auto& access = layer.access_cycles;
    csv += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", layer.tosa_op, layer.npu_op,
                       layer.npu_op == "Passthrough" ? "CPU" : "NPU", layer.staging_bytes,
                       estimates.staging_memory ? percentage(layer.staging_bytes, estimates.staging_peak_bytes) : "NaN",
                       layer.cycles, percentage(layer.cycles, estimates.total_cycles), layer.npu_cycles, access[0],
                       access[1], access[2], access[3], layer.macs, percentage(layer.macs, estimates.macs),
                       percentage(layer.macs, layer.cycles * estimates.macs_per_cycle), layer.name);
  }
  return csv;
}

}  // namespace swoop
