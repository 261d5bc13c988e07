#include "driver/gates.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "support/codes.h"
#include "support/pattern.h"

namespace swoop {

namespace {

std::string in_words(int64_t value) { return fmt::to_string(value); }
std::string in_words(double value) { return fmt::format("{:.9g}", value); }

template <typename Number>
void check_limit(std::vector<std::string>& broken, std::string_view flag, const std::optional<Number>& limit,
                 Number value, std::string_view unit) {
  if (limit && value > *limit)
    broken.push_back(fmt::format("{} {}: it takes {}{}", flag, in_words(*limit), in_words(value), unit));
}

// On the file, not on the forecast: every float output by itself.
void check_sqnr(std::vector<std::string>& broken, const Summary& summary, double wanted) {
  if (!summary.accuracy || summary.accuracy->outputs.empty()) {
    broken.push_back(fmt::format("--min-sqnr {}: the file was not compared with a float model", wanted));
    return;
  }
  for (size_t i = 0; i < summary.accuracy->outputs.size(); ++i) {
    const OutputAccuracy& output = summary.accuracy->outputs[i];
    if (!output.equal && output.sqnr_db < wanted)
      broken.push_back(
          fmt::format("--min-sqnr {}: output {} has {:.1f} dB", wanted, summary.outputs[i].name, output.sqnr_db));
  }
}

// "channel 6", "channels 6 and 9", "channels 6, 9, 11 and 4 others"
std::string channels_text(const PartAccuracy& part) {
  constexpr size_t kMost = 3;
  const std::vector<size_t>& all = part.flat_channels;
  if (all.size() == 1) return fmt::format("channel {}", all[0]);
  const size_t listed = all.size() <= kMost + 1 ? all.size() - 1 : kMost;
  const size_t rest = all.size() - listed;
  const std::string last = rest == 1 ? fmt::format("{}", all[listed]) : fmt::format("{} others", rest);
  return fmt::format("channels {} and {}", fmt::join(all.begin(), all.begin() + static_cast<int64_t>(listed), ", "),
                     last);
}

void check_flat(std::vector<std::string>& broken, const Summary& summary, const Gates& gates) {
  for (const PartAccuracy* part : flat_parts(summary, gates))
    broken.push_back(fmt::format(
        "{}{}{}: give it, or the values before it, int16 or float (--quantize-config), or accept it (--allow-flat {})",
        flat_text(*part), part->source.empty() ? "" : fmt::format(" ({})", part->source),
        part->flat_channels.size() > 1 && !part->flat ? " vary in the float model and have one value each in the file"
                                                      : " varies in the float model and has one value in the file",
        part->name));
}

}  // namespace

Result<void> check_gate_options(const CompileOptions& options) {
  auto check = [](std::string_view flag, std::optional<double> limit) -> Result<void> {
    if (limit && (std::isnan(*limit) || *limit < 0)) return error("{} {}: give a number of at least 0", flag, *limit);
    return {};
  };
  const Gates& gates = options.gates;
  TRY(check("--max-sram", gates.max_sram));
  TRY(check("--max-flash", gates.max_flash));
  TRY(check("--max-cycles", gates.max_cycles));
  TRY(check("--max-ms", gates.max_ms));
  TRY(check("--min-sqnr", options.quantize.min_sqnr));
  if (options.quantize.min_sqnr && !options.verify)
    return error("--min-sqnr is checked by running the finished file: leave out --no-verify");
  return {};
}

std::optional<double> worst_sqnr(const Summary& summary) {
  std::optional<double> worst;
  if (!summary.accuracy) return worst;
  for (const OutputAccuracy& output : summary.accuracy->outputs)
    if (!output.equal) worst = std::min(worst.value_or(output.sqnr_db), output.sqnr_db);
  return worst;
}

std::optional<std::string> noise_warning(const Summary& summary) {
  constexpr double kNoisyDb = 10, kFewEqual = 0.5;
  if (!summary.accuracy) return std::nullopt;
  std::vector<std::string> noisy;
  for (size_t i = 0; i < summary.accuracy->outputs.size(); ++i) {
    const OutputAccuracy& output = summary.accuracy->outputs[i];
    const std::string& name = summary.outputs[i].name;
    if (output.equal && *output.equal < kFewEqual)
      noisy.push_back(fmt::format("{:.0f} % of {} equal the float model's", 100 * *output.equal, name));
    else if (!output.equal && output.sqnr_db < kNoisyDb)
      noisy.push_back(fmt::format("{} has {:.1f} dB", name, output.sqnr_db));
  }
  for (const PartAccuracy& part : summary.accuracy->parts)
    if (part.sqnr_db < kNoisyDb && summary.accuracy->outputs[part.output].sqnr_db >= kNoisyDb)
      noisy.push_back(
          fmt::format("{} in {} has {:.1f} dB", part.name, summary.outputs[part.output].name, part.sqnr_db));
  if (noisy.empty()) return std::nullopt;
  return with_code(fmt::format("mostly noise: {}; --min-sqnr 20 or --precision int16 may help", fmt::join(noisy, ", ")),
                   Code::Noisy);
}

std::vector<const PartAccuracy*> flat_parts(const Summary& summary, const Gates& gates) {
  std::vector<const PartAccuracy*> flat;
  if (!summary.accuracy) return flat;
  for (const PartAccuracy& part : summary.accuracy->parts) {
    auto allows = [&](const std::string& pattern) { return matches(pattern, part.name); };
    if ((part.flat || !part.flat_channels.empty()) && std::ranges::none_of(gates.allow_flat, allows))
      flat.push_back(&part);
  }
  return flat;
}

std::string flat_text(const PartAccuracy& part) {
  return part.flat ? part.name : fmt::format("{} of {}", channels_text(part), part.name);
}

std::vector<std::string> broken_gates(const Summary& summary, const CompileOptions& options) {
  const Gates& gates = options.gates;
  const Totals totals = totals_of(summary);
  std::vector<std::string> broken;
  check_limit(broken, "--max-sram", gates.max_sram, totals.sram_bytes, " bytes of SRAM");
  check_limit(broken, "--max-flash", gates.max_flash, totals.flash_bytes, " bytes of flash");
  check_limit(broken, "--max-cycles", gates.max_cycles, totals.total_cycles, " cycles");
  check_limit(broken, "--max-ms", gates.max_ms, totals.inference_ms, " ms");
  if (gates.one_region && summary.regions.size() != 1)
    broken.push_back(fmt::format("--one-region: there are {}", summary.regions.size()));
  if (gates.no_host && !summary.host_ops.empty()) {
    std::vector<std::string_view> names;
    for (const auto& [name, count] : summary.host_ops) names.push_back(name);
    broken.push_back(fmt::format("--no-host: the host computes {}", fmt::join(names, ", ")));
  }
  if (options.quantize.min_sqnr) check_sqnr(broken, summary, *options.quantize.min_sqnr);
  check_flat(broken, summary, gates);
  return broken;
}

Result<void> check_gates(const Summary& summary, const CompileOptions& options) {
  const std::vector<std::string> broken = broken_gates(summary, options);
  if (broken.empty()) return {};
  return error("{}; no file is written", fmt::join(broken, "; "));
}

}  // namespace swoop
