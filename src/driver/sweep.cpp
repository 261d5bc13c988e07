#include "driver/sweep.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>
#include <optional>

#include "driver/compile.h"
#include "driver/gates.h"
#include "driver/progress.h"
#include "driver/trial.h"
#include "support/parallel.h"
#include "support/pattern.h"

namespace swoop {

namespace {

bool is_asked_for(std::string_view target, const std::vector<std::string>& patterns) {
  auto names = [&](const std::string& pattern) { return matches(pattern, target); };
  return patterns.empty() || std::any_of(patterns.begin(), patterns.end(), names);
}

// Every target that is asked for, with every memory mode that it can have.
Result<std::vector<SweepPoint>> combinations(const SweepOptions& options) {
  TRY_ASSIGN(const std::vector<std::string> modes, memory_modes(options.compile.npu));
  std::vector<SweepPoint> points;
  for (const NpuTarget& target : npu_targets()) {
    if (!is_asked_for(target.name, options.targets)) continue;
    for (const std::string& mode : modes) {
      NpuOptions npu = options.compile.npu;
      npu.memory_mode = mode;
      if (!check_npu_options(target, npu)) continue;
      SweepPoint& point = points.emplace_back();
      point.target = target.name;
      point.memory_mode = mode;
    }
  }
  if (points.empty()) return error("--target names no NPU that the configuration knows; `swoop sweep` alone takes all");
  return points;
}

void build(const CompileOptions& options, SweepPoint& point, Summary& summary, const std::string& output) {
  CompileOptions own = options;
  own.target = point.target;
  own.npu.memory_mode = point.memory_mode;
  std::optional<Summary> built = build_point(std::move(own), options, output, point);
  if (!built) return;
  summary = std::move(*built);
  point.system_config = summary.system_config;
  point.regions = summary.regions.size();
  point.host_ops = summary.host_ops;
}

// Pareto's front of time and SRAM. Of equal points the first is on it.
void mark_front(std::vector<SweepPoint>& points) {
  auto cost = [](const SweepPoint& point) { return std::pair(point.totals.inference_ms, point.totals.sram_bytes); };
  std::vector<SweepPoint*> order;
  for (SweepPoint& point : points)
    if (point.built) order.push_back(&point);
  std::stable_sort(order.begin(), order.end(), [&](const auto* a, const auto* b) { return cost(*a) < cost(*b); });
  std::optional<int64_t> least;  // SRAM of what is as fast or faster
  for (SweepPoint* point : order) {
    point->front = !least || point->totals.sram_bytes < *least;
    least = std::min(least.value_or(point->totals.sram_bytes), point->totals.sram_bytes);
  }
}

bool is_better(const SweepPoint& a, const SweepPoint& b) {
  if (a.built != b.built) return a.built;
  if (a.fits() != b.fits()) return a.fits();
  return a.totals.inference_ms < b.totals.inference_ms;
}

std::string kib(int64_t bytes) { return fmt::format("{:.1f}", static_cast<double>(bytes) / 1024); }

}  // namespace

Result<Sweep> sweep(const SweepOptions& options) {
  TRY(check_gate_options(options.compile));
  Sweep result;
  TRY_ASSIGN(result.points, combinations(options));
  std::vector<SweepPoint>& points = result.points;
  std::vector<Summary> summaries(points.size());
  Scratch scratch("sweep");
  TRY(scratch.make());
  Progress progress({}, options.compile.says_progress);
  std::mutex mutex;
  size_t done = 0;
  const auto say = [&](size_t more) {
    std::lock_guard lock(mutex);
    done += more;
    progress.share(static_cast<double>(done) / static_cast<double>(points.size()),
                   fmt::format("{} of {} builds", done, points.size()));
  };
  say(0);
  parallel_for(points.size(), 1, [&](size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) {
      build(options.compile, points[i], summaries[i], scratch.file(i));
      say(1);
    }
  });
  const auto best = std::min_element(points.begin(), points.end(), is_better);
  if (!best->built) return error("{}", points[0].why);
  mark_front(points);
  result.best = std::move(summaries[static_cast<size_t>(best - points.begin())]);
  result.best.output.clear();
  result.best.sweep = points;
  if (best->fits()) {
    result.best.max_sram = options.compile.gates.max_sram;
    result.best.max_flash = options.compile.gates.max_flash;
  }
  return result;
}

std::string to_text(const std::vector<SweepPoint>& points) {
  std::string text =
      fmt::format("{:<15} {:<22} {:>10} {:>12} {:>10} {:>10} {:>10} {:>8} {:>5}  {}\n", "target", "memory mode", "ms",
                  "cycles", "SRAM KiB", "DRAM KiB", "flash KiB", "SQNR dB", "host", "fits");
  for (const SweepPoint& point : points) {
    text += fmt::format("{:<15} {:<22} ", point.target, point.memory_mode);
    if (!point.built) {
      text += fmt::format("not built: {}\n", printable(point.why));
      continue;
    }
    const Totals& totals = point.totals;
    text += fmt::format("{:>10.3f} {:>12} {:>10} {:>10} {:>10} {:>8} {:>5}  {}\n", totals.inference_ms,
                        totals.total_cycles, kib(totals.sram_bytes), kib(totals.dram_bytes), kib(totals.flash_bytes),
                        point.sqnr_db ? fmt::format("{:.1f}", *point.sqnr_db) : "-", point.host_ops.size(),
                        point.fits() ? "yes" : printable(point.why));
  }
  return text;
}

}  // namespace swoop
