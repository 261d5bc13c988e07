#include "driver/lift.h"

#include <fmt/ranges.h>

#include <limits>

#include "driver/gates.h"
#include "support/codes.h"

namespace swoop {

namespace {

constexpr double kUsefulDb = 20;            // errors of a tenth of the numbers
constexpr double kWorthDb = 6;              // what all that int16 has to gain where it does not reach that
constexpr int kTries = 3;                   // the last raises all that there is
constexpr int64_t kMostMacs = 300'000'000;  // a trial of each layer would take minutes

bool may_lift(const Pipeline& pipeline) {
  const CompileOptions& options = pipeline.options;
  return options.quantize.int16_budget > 0 && !options.quantize.min_sqnr && pipeline.quantized &&
         !pipeline.quantized->uncalibrated;
}

}  // namespace

std::string raised_layers_text(const QuantizeReport& report) {
  constexpr size_t kMost = 12;
  const std::span<const Candidate> raised = report.raised_layers();
  const size_t listed = raised.size() > kMost ? kMost - 1 : raised.size();
  std::vector<std::string> names;
  for (const Candidate& layer : raised.first(listed)) names.push_back(layer.name);
  std::string text = fmt::format("{} layer{}", raised.size(), raised.size() == 1 ? "" : "s");
  if (!names.empty()) text += fmt::format(": {}", fmt::join(names, ", "));
  if (listed < raised.size()) text += fmt::format(" and {} more", raised.size() - listed);
  return text;
}

void Lift::begin(const Pipeline& pipeline, const Summary& summary) {
  const std::optional<double> worst = worst_sqnr(summary);
  const Totals totals = totals_of(summary);
  open_ = may_lift(pipeline) && worst && *worst < kUsefulDb && totals.macs <= kMostMacs;
  if (!open_) return;
  broken_ = broken_gates(summary, pipeline.options).size();
  first_db_ = *worst;
  first_cycles_ = totals.total_cycles;
}

// The file may fall short of its forecast: then the forecast has to be better by as much.
bool Lift::next(Pipeline& pipeline, const Summary& summary) {
  const double worst = worst_sqnr(summary).value_or(kUsefulDb);
  if (!open_ || tries_ == kTries || worst >= kUsefulDb) return false;
  const QuantizeReport& report = *pipeline.quantized;
  if (tries_ > 0 && report.ranking && report.raised == report.ranking->candidates.size()) return false;
  ++tries_;
  if (tries_ == 1)
    pipeline.aim = kUsefulDb;
  else
    pipeline.aim =
        tries_ < kTries ? *report.sqnr_db + kUsefulDb - worst + 0.1 : std::numeric_limits<double>::infinity();
  return true;
}

bool Lift::undo(Pipeline& pipeline, const Summary& summary) {
  if (tries_ == 0) return false;
  const double worst = worst_sqnr(summary).value_or(first_db_);
  const bool worth = worst >= kUsefulDb || worst >= first_db_ + kWorthDb;
  if (!failed_ && worth && broken_gates(summary, pipeline.options).size() <= broken_) return false;
  pipeline.aim.reset();
  tries_ = 0;
  return true;
}

std::optional<std::string> Lift::warning(const Pipeline& pipeline, const Summary& summary) const {
  if (tries_ == 0 || pipeline.quantized->raised == 0) return std::nullopt;
  return with_code(fmt::format("the worst output would have {:.1f} dB: {:.1f} dB with int16 for {}; {} -> {} cycles",
                               first_db_, worst_sqnr(summary).value_or(0), raised_layers_text(*pipeline.quantized),
                               first_cycles_, totals_of(summary).total_cycles),
                   Code::Raised);
}

}  // namespace swoop
