#include "driver/sweep.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "driver/compile.h"
#include "driver/gates.h"
#include "support/json.h"
#include "support/parallel.h"
#include "support/pattern.h"

namespace swoop {

namespace {

bool is_asked_for(std::string_view target, const std::vector<std::string>& patterns) {
  auto names = [&](const std::string& pattern) { return matches(pattern, target); };
  return patterns.empty() || std::any_of(patterns.begin(), patterns.end(), names);
}

// Every target that is asked for, with every memory mode that it can have.
Result<std::vector<SweepRow>> combinations(const SweepOptions& options) {
  TRY_ASSIGN(const std::vector<std::string> modes, memory_modes(options.compile.npu));
  std::vector<SweepRow> rows;
  for (const NpuTarget& target : npu_targets()) {
    if (!is_asked_for(target.name, options.targets)) continue;
    for (const std::string& mode : modes) {
      NpuOptions npu = options.compile.npu;
      npu.memory_mode = mode;
      if (check_npu_options(target, npu)) rows.push_back({std::string(target.name), mode, {}, {}});
    }
  }
  if (rows.empty()) return error("--targets names no NPU that the configuration knows; `swoop sweep` alone takes all");
  return rows;
}

// A folder for the files that nobody asked for.
class Scratch {
 public:
  Scratch() : path_(std::filesystem::temp_directory_path() / fmt::format("swoop-sweep-{}", getpid())) {}
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  Result<void> make() const {
    std::error_code problem;
    std::filesystem::create_directories(path_, problem);
    if (problem) return error("{}: {}", path_.string(), problem.message());
    return {};
  }
  std::string file(size_t number) const { return (path_ / fmt::format("{}.pte", number)).string(); }

 private:
  std::filesystem::path path_;
};

void build_row(const CompileOptions& options, SweepRow& row, const std::string& output) {
  CompileOptions own = options;
  own.target = row.target;
  own.npu.memory_mode = row.memory_mode;
  own.output = output;
  own.gates = {};
  own.gates.allow_flat = {"*"};
  Result<CompileResult> result = compile(own);
  if (!result) {
    row.why = result.error().message;
    return;
  }
  row.summary = std::move(result->summary);
  row.why = fmt::format("{}", fmt::join(broken_gates(*row.summary, options), "; "));
}

std::string kib(int64_t bytes) { return fmt::format("{:.1f}", static_cast<double>(bytes) / 1024); }

}  // namespace

std::optional<double> SweepRow::sqnr_db() const { return summary ? worst_sqnr(*summary) : std::nullopt; }

Result<std::vector<SweepRow>> sweep(const SweepOptions& options) {
  TRY(check_gate_options(options.compile));
  TRY_ASSIGN(std::vector<SweepRow> rows, combinations(options));
  Scratch scratch;
  TRY(scratch.make());
  parallel_for(rows.size(), 1, [&](size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) build_row(options.compile, rows[i], scratch.file(i));
  });
  if (std::none_of(rows.begin(), rows.end(), [](const SweepRow& row) { return row.summary.has_value(); }))
    return error("{}", rows[0].why);
  return rows;
}

std::string to_text(const std::vector<SweepRow>& rows) {
  std::string text =
      fmt::format("{:<15} {:<22} {:>10} {:>12} {:>10} {:>10} {:>10} {:>8} {:>5}  {}\n", "target", "memory mode", "ms",
                  "cycles", "SRAM KiB", "DRAM KiB", "flash KiB", "SQNR dB", "host", "fits");
  for (const SweepRow& row : rows) {
    text += fmt::format("{:<15} {:<22} ", row.target, row.memory_mode);
    if (!row.summary) {
      text += fmt::format("not built: {}\n", printable(row.why));
      continue;
    }
    const Totals totals = totals_of(*row.summary);
    const std::optional<double> sqnr = row.sqnr_db();
    text += fmt::format("{:>10.3f} {:>12} {:>10} {:>10} {:>10} {:>8} {:>5}  {}\n", totals.inference_ms,
                        totals.total_cycles, kib(totals.sram_bytes), kib(totals.dram_bytes), kib(totals.flash_bytes),
                        sqnr ? fmt::format("{:.1f}", *sqnr) : "-", row.summary->host_ops.size(),
                        row.fits() ? "yes" : printable(row.why));
  }
  return text;
}

std::string to_json(const std::vector<SweepRow>& rows) {
  Json list = Json::array();
  for (const SweepRow& row : rows) {
    Json json = {{"target", row.target}, {"memory_mode", row.memory_mode}, {"fits", row.fits()}};
    if (!row.why.empty()) json["why"] = row.why;
    if (row.summary) {
      const Totals totals = totals_of(*row.summary);
      json["system_config"] = row.summary->system_config;
      json["inference_ms"] = totals.inference_ms;
      json["total_cycles"] = totals.total_cycles;
      json["sram_bytes"] = totals.sram_bytes;
      json["dram_bytes"] = totals.dram_bytes;
      json["flash_bytes"] = totals.flash_bytes;
      json["pte_bytes"] = row.summary->pte_bytes;
      json["regions"] = row.summary->regions.size();
      json["host_ops"] = row.summary->host_ops;
      set(json, "sqnr_db",
          row.sqnr_db() ? Figure(*row.sqnr_db(), "the file computes what the float model does")
                        : Figure::none("not compared with a float model"));
    }
    list.push_back(std::move(json));
  }
  return to_line(Json{{"rows", std::move(list)}});
}

}  // namespace swoop
