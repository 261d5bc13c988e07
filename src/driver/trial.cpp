#include "driver/trial.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <filesystem>

#include "driver/compile.h"
#include "driver/gates.h"

namespace swoop {

Scratch::Scratch(std::string_view command)
    : path_(std::filesystem::temp_directory_path() / fmt::format("swoop-{}-{}", command, getpid())) {}

Scratch::~Scratch() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Result<void> Scratch::make() const {
  std::error_code problem;
  std::filesystem::create_directories(path_, problem);
  if (problem) return error("{}: {}", path_, problem.message());
  return {};
}

std::string Scratch::file(size_t number) const { return fmt::format("{}/{}.pte", path_, number); }

std::optional<Summary> build_point(CompileOptions options, const CompileOptions& asked, std::string output,
                                   BuildPoint& point) {
  options.output = std::move(output);
  options.report.clear();
  options.dump.clear();
  options.says_progress = false;
  options.gates = {};
  options.gates.allow_flat = {"*"};
  Result<CompileResult> result = compile(options);
  if (!result) {
    point.why = result.error().message;
    return std::nullopt;
  }
  Summary& summary = result->summary;
  point.built = true;
  point.why = fmt::format("{}", fmt::join(broken_gates(summary, asked), "; "));
  point.totals = totals_of(summary);
  point.pte_bytes = summary.pte_bytes;
  point.sqnr_db = worst_sqnr(summary);
  return std::move(summary);
}

}  // namespace swoop
