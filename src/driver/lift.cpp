#include "driver/lift.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "driver/gates.h"
#include "support/codes.h"

namespace swoop {

namespace {

constexpr double kUsefulDb = 20;           // errors of a tenth of the numbers
constexpr double kWorthDb = 6;             // what all that int16 has to gain where it does not reach that
constexpr double kMostCycles = 1.1;        // times those of the first file
constexpr int64_t kFewCycles = 10'000;     // more are taken in any case: some 10 microseconds
constexpr int kTries = 3;                  // the last raises all that there is
constexpr int64_t kMostMacs = 30'000'000;  // a trial of each layer of a larger model takes seconds,
constexpr size_t kMostValues = 500;        // and so do as many trials of as many layers: 1,300 took a minute

bool may_lift(const Pipeline& pipeline) {
  const CompileOptions& options = pipeline.options;
  return options.quantize.int16_budget > 0 && !options.quantize.min_sqnr && pipeline.quantized &&
         !pipeline.quantized->uncalibrated;
}

Lift::Figures figures_of(const Summary& summary) {
  return {worst_sqnr(summary).value_or(0), totals_of(summary).total_cycles};
}

}  // namespace

std::string raised_layers_text(const QuantizeReport& report) {
  constexpr size_t kMost = 12;
  const std::span<const Candidate> raised = report.raised_layers();
  const size_t listed = raised.size() > kMost ? kMost - 1 : raised.size();
  std::vector<std::string> names;
  for (const Candidate& layer : raised.first(listed)) names.push_back(layer.name);
  if (raised.empty()) return "no layer";
  std::string text = fmt::format("{} layer{}", raised.size(), raised.size() == 1 ? "" : "s");
  text += fmt::format(": {}", fmt::join(names, ", "));
  if (listed < raised.size()) text += fmt::format(" and {} more", raised.size() - listed);
  return text;
}

void Lift::begin(const Pipeline& pipeline, const Summary& summary) {
  const std::optional<double> worst = worst_sqnr(summary);
  open_ = may_lift(pipeline) && worst && *worst < kUsefulDb && totals_of(summary).macs <= kMostMacs &&
          pipeline.quantized->values.size() <= kMostValues;
  if (!open_) return;
  broken_ = broken_gates(summary, pipeline.options).size();
  first_ = figures_of(summary);
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
  reached_ = figures_of(summary);
  const bool worth = reached_.db >= kUsefulDb || reached_.db >= first_.db + kWorthDb;
  const double most =
      std::max(kMostCycles * static_cast<double>(first_.cycles), static_cast<double>(first_.cycles + kFewCycles));
  const bool cheap = static_cast<double>(reached_.cycles) <= most;
  if (failed_ || !worth || broken_gates(summary, pipeline.options).size() > broken_) tries_ = 0;  // nothing to tell
  if (tries_ > 0 && cheap) return false;
  undone_ = true;
  pipeline.aim.reset();
  return true;
}

std::optional<std::string> Lift::warning(const Pipeline& pipeline, const Summary& summary) const {
  if (tries_ == 0) return std::nullopt;
  const Figures now = undone_ ? reached_ : figures_of(summary);
  const std::string gain = fmt::format("{:.1f} dB for {} -> {} cycles", now.db, first_.cycles, now.cycles);
  if (undone_)
    return with_code(fmt::format("the worst output has {:.1f} dB; int16, with --min-sqnr {:.0f}, gives {}", first_.db,
                                 std::min(kUsefulDb, std::floor(reached_.db)), gain),
                     Code::Noisy);
  const QuantizeReport& report = *pipeline.quantized;  // none raised: what else the second try chose was enough
  const std::string how = report.raised > 0 ? "int16 for " + raised_layers_text(report) : "other weights and scales";
  const std::string_view give = report.raised > 0 ? "gives" : "give";
  return with_code(fmt::format("the worst output would have {:.1f} dB; {} {} {}", first_.db, how, give, gain),
                   Code::Raised);
}

}  // namespace swoop
