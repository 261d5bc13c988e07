#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <span>

#include "report/report.h"

namespace swoop {

namespace {

std::string bytes(int64_t count) {
  if (count < 10'000) return fmt::format("{} B", count);
  if (count < 10'000'000) return fmt::format("{:.1f} KiB", static_cast<double>(count) / 1024);
  return fmt::format("{:.1f} MiB", static_cast<double>(count) / 1024 / 1024);
}

std::string thousands(int64_t value) {
  std::string digits = fmt::format("{}", value);
  for (int i = static_cast<int>(digits.size()) - 3; i > 0; i -= 3) digits.insert(static_cast<size_t>(i), ",");
  return digits;
}

std::string port(const PortSummary& p) {
  std::string text = fmt::format("{} {}[{}]", p.name, p.dtype, fmt::join(p.shape, ","));
  if (p.scale) text += fmt::format(" scale {:.8g} zero point {}", *p.scale, *p.zero_point);
  return text;
}

std::string ports(const std::vector<PortSummary>& list) {
  std::vector<std::string> texts;
  for (const PortSummary& p : list) texts.push_back(port(p));
  return fmt::format("{}", fmt::join(texts, "; "));
}

std::string fit_text(const BoardFit& board) {
  std::vector<std::string> texts;
  for (const MemoryFit& memory : board.memories) {
    const std::optional<bool> fits = memory.fits();
    const std::string_view word = !fits ? "not known whether it fits" : *fits ? "fits" : "DOES NOT FIT";
    texts.push_back(fmt::format("{} {}: {} of {}", memory.memory, word, bytes(memory.needed),
                                memory.there ? bytes(*memory.there) : "?"));
  }
  return fmt::format("{}: {}", board.board, fmt::join(texts, "; "));
}

// The three most expensive layers, with where they come from. What a layer was expanded into counts as one.
std::string hottest(const Summary& s, int64_t total) {
  std::vector<LayerSummary> layers;
  std::map<std::string_view, size_t> index;
  for (const RegionSummary& region : s.regions) {
    for (const LayerSummary& layer : region.layers) {
      auto [entry, fresh] = index.try_emplace(layer.name, layers.size());
      if (fresh)
        layers.push_back(layer);
      else
        layers[entry->second].cycles += layer.cycles;
    }
  }
  std::stable_sort(layers.begin(), layers.end(), [](const auto& a, const auto& b) { return a.cycles > b.cycles; });
  std::vector<std::string> texts;
  for (size_t i = 0; i < std::min<size_t>(3, layers.size()); ++i) {
    double share = total ? 100.0 * static_cast<double>(layers[i].cycles) / static_cast<double>(total) : 0;
    texts.push_back(fmt::format("{} {:.0f} %{}", layers[i].name, share,
                                layers[i].source.empty() ? "" : fmt::format(" ({})", layers[i].source)));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

// "SQNR 51.6 dB against float (max error 0.0006) on 4 calibration samples"
std::string noise_text(const AccuracySummary& accuracy) {
  if (accuracy.outputs.empty()) return "not known: there is no float model to compare with";
  std::vector<std::string> outputs;
  for (const OutputAccuracy& o : accuracy.outputs)
    outputs.push_back(o.equal ? fmt::format("{:.1f} % equal to float", 100 * *o.equal)
                      : o.max_error == 0
                          ? "equal to float"
                          : fmt::format("SQNR {:.1f} dB against float (max error {:.3g})", o.sqnr_db, o.max_error));
  if (!accuracy.parts.empty())
    outputs.push_back(fmt::format("worst part {} {:.1f} dB", accuracy.parts[0].name, accuracy.parts[0].sqnr_db));
  const std::string some = accuracy.samples == accuracy.given ? "" : fmt::format(" of {}", accuracy.given);
  return fmt::format("{} on {}{} {} sample{}", fmt::join(outputs, ", "), accuracy.samples, some,
                     accuracy.test ? "test" : "calibration", accuracy.given == 1 ? "" : "s");
}

// "nearly free for x, conv2d_3 and 3 more values; 104,383 -> 104,410 cycles"
std::string widened_text(const WidenedSummary& widened, bool smaller_weights) {
  constexpr size_t kMost = 4;
  std::vector<std::string_view> names;
  for (const WidenedSummary::Value& value : std::span(widened.values).first(std::min(kMost, widened.values.size())))
    names.push_back(value.name);
  const size_t more = widened.values.size() - names.size();
  return fmt::format("nearly free for {}{}; {} -> {} cycles{}", fmt::join(names, ", "),
                     more ? fmt::format(" and {} more values", more) : "", thousands(widened.cycles_before),
                     thousands(widened.cycles), smaller_weights ? ", with smaller weights" : "");
}

// "53.5 KiB of shared weights in SRAM for 32 operations; 1,023,375 -> 260,471 cycles"
std::string weights_text(std::string_view how, const WeightsInSram& weights, int64_t cycles) {
  return fmt::format("{} of {} for {} operations; {} -> {} cycles", bytes(weights.bytes), how, weights.operations,
                     thousands(weights.cycles_before), thousands(cycles));
}

// "about 12 % smaller (27.4 KiB -> 24.1 KiB) for 0.10 dB"
std::string smaller_text(const SmallerWeightsSummary& weights) {
  const double share = 1 - static_cast<double>(weights.bytes) / static_cast<double>(weights.bytes_before);
  return fmt::format("about {:.0f} % smaller ({} -> {}) for {:.2f} dB", 100 * share, bytes(weights.bytes_before),
                     bytes(weights.bytes), weights.lost_db);
}

// "top-1 94.2 % (float 94.4 %), top-5 99.9 % (float 99.9 %) of 1000 labels"
std::string labels_text(const LabelAccuracy& labels) {
  auto share = [](std::string_view name, double file, const std::optional<double>& model) {
    return fmt::format("{} {:.1f} %{}", name, 100 * file, model ? fmt::format(" (float {:.1f} %)", 100 * *model) : "");
  };
  return fmt::format("{}, {} of {} labels", share("top-1", labels.top1, labels.float_top1),
                     share("top-5", labels.top5, labels.float_top5), labels.labels);
}

// The front, in the order of cycles.
std::string search_text(const std::vector<SearchPoint>& points) {
  std::vector<const SearchPoint*> front;
  for (const SearchPoint& point : points)
    if (point.front) front.push_back(&point);
  std::stable_sort(front.begin(), front.end(),
                   [](const auto* a, const auto* b) { return a->totals.total_cycles < b->totals.total_cycles; });
  std::string text = fmt::format(
      "search: the builds (of {}) that no other one beats in cycles, SRAM, file size and SQNR alike:\n", points.size());
  text += fmt::format("  {:>12} {:>12} {:>12} {:>8}  {}\n", "cycles", "SRAM", "file", "SQNR dB", "how");
  for (const SearchPoint* point : front)
    text += fmt::format("{} {:>12} {:>12} {:>12} {:>8}  {}{}\n", point->written ? '>' : ' ',
                        thousands(point->totals.total_cycles), bytes(point->totals.sram_bytes), bytes(point->pte_bytes),
                        point->sqnr_db ? fmt::format("{:.1f}", *point->sqnr_db) : "-", point->what,
                        point->why.empty() ? "" : fmt::format(" ({})", printable(point->why)));
  return text;
}

std::string checked_text(const Summary& s) {
  if (!s.accuracy->bit_exact) return "not run";
  if (s.regions.empty()) return "nothing runs on the NPU";
  const size_t layers = s.accuracy->layers;
  const std::string forecast =
      fmt::format("; {} layer{} within what the types allow", layers, layers == 1 ? " is" : "s are");
  return fmt::format("the NPU equals the integer graph bit for bit{}", layers == 0 ? "" : forecast);
}

}  // namespace

std::string to_text(const Summary& s) {
  const Totals totals = totals_of(s);
  double total_ms = s.times.empty() ? 0 : s.times.back().second.wall_ms;
  std::string text;
  auto line = [&](std::string_view name, const std::string& value) { text += fmt::format("{:<9} {}\n", name, value); };
  line("model", fmt::format("{} -> {} ({})", s.model, s.output.empty() ? "(not written)" : s.output,
                            bytes(s.tosa_bytes.value_or(s.pte_bytes))));
  line("target", fmt::format("{}, {}, {}", s.target, s.system_config, s.memory_mode));
  line("inputs", ports(s.inputs));
  line("outputs", ports(s.outputs));
  std::vector<std::string> hosts;
  for (const auto& [op, count] : s.host_ops) hosts.push_back(fmt::format("{} x{}", op, count));
  line("regions", fmt::format("{} on the NPU ({} TOSA operators), host: {}", s.regions.size(), totals.tosa_ops,
                              hosts.empty() ? "none" : fmt::format("{}", fmt::join(hosts, ", "))));
  line("estimate", fmt::format("{} cycles, {:.3f} ms, {} MACs", thousands(totals.total_cycles), totals.inference_ms,
                               thousands(totals.macs)));
  for (const RegionSummary& region : s.regions) {
    const auto &kept = region.estimates.kept, &ahead = region.estimates.ahead;
    const int64_t cycles = region.estimates.total_cycles;
    if (const int64_t products = region.estimates.products)
      line("products",
           fmt::format("{} of two computed matrices on the MAC array, with weights that the NPU writes itself",
                       products));
    if (kept) line("kept", weights_text("shared weights in SRAM", *kept, ahead ? ahead->cycles_before : cycles));
    if (ahead) line("ahead", weights_text("weights fetched while other layers compute", *ahead, cycles));
  }
  if (s.widened) line("int16", widened_text(*s.widened, s.smaller_weights.has_value()));
  if (s.smaller_weights) line("weights", smaller_text(*s.smaller_weights));
  if (!s.regions.empty()) line("hottest", hottest(s, totals.total_cycles));
  line("memory", fmt::format("SRAM {}, DRAM {}, flash {}; runtime: planned {}, method {}, temp {}",
                             bytes(totals.sram_bytes), bytes(totals.dram_bytes), bytes(totals.flash_bytes),
                             bytes(s.planned_bytes), bytes(s.method_bytes), bytes(s.temp_bytes)));
  if (s.board) line("board", fit_text(*s.board));
  if (s.accuracy) {
    line("accuracy", noise_text(*s.accuracy));
    if (s.accuracy->labels) line("labels", labels_text(*s.accuracy->labels));
    line("checked", checked_text(s));
  } else if (!s.accuracy_why.empty()) {
    line("accuracy", fmt::format("not known: {}", s.accuracy_why));
  }
  std::vector<std::string> stages;
  for (const auto& [stage, time] : s.times)
    if (stage != "total" && time.wall_ms >= 0.05) stages.push_back(fmt::format("{} {:.1f}", stage, time.wall_ms));
  line("time", fmt::format("{:.0f} ms ({})", total_ms, fmt::join(stages, ", ")));
  if (!s.search.empty()) text += search_text(s.search);
  for (const std::string& warning : s.warnings) text += fmt::format("warning: {}\n", warning);
  for (const HostNodeSummary& node : s.host_nodes) {
    text += fmt::format("{}note: {} ({}) stays on the host: {} [{}]\n", node.source.empty() ? "" : node.source + ": ",
                        node.op, node.node, node.reason, node.rule);
    if (!node.code.empty()) text += fmt::format("    {}\n", node.code);
    if (!node.advice.empty()) text += fmt::format("  {}\n", node.advice);
  }
  return text;
}

std::string printable(std::string_view text) {
  std::string result;
  for (char c : text) {
    if (c >= ' ' && c <= '~')
      result += c;
    else
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return result;
}

}  // namespace swoop
