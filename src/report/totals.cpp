#include <algorithm>

#include "report/report.h"

namespace swoop {

Totals totals_of(const Summary& summary) {
  Totals totals;
  for (const RegionSummary& region : summary.regions) {
    const Estimates& estimates = region.estimates;
    totals.tosa_ops += region.tosa_ops;
    totals.macs += estimates.macs;
    totals.npu_cycles += estimates.npu_cycles;
    totals.total_cycles += estimates.total_cycles;
    totals.inference_ms += estimates.inference_ms;
    totals.sram_bytes = std::max(totals.sram_bytes, estimates.sram_bytes());
    totals.dram_bytes = std::max(totals.dram_bytes, estimates.dram_bytes());
    totals.flash_bytes += estimates.flash_bytes();
  }
  return totals;
}

std::optional<bool> MemoryFit::fits() const {
  if (needed == 0) return true;
  if (!there) return std::nullopt;
  return needed <= *there && (!within || largest <= *within);
}

}  // namespace swoop
