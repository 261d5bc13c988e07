#include "driver/search.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <set>

#include "driver/gates.h"
#include "driver/pipeline.h"
#include "driver/progress.h"
#include "driver/read_model.h"
#include "driver/trial.h"
#include "support/timer.h"

namespace swoop {

namespace {

// One choice; of those with the same `about`, a build has at most one.
struct Variation {
  std::string what;
  std::string about;
  std::function<void(CompileOptions&)> apply;
};

// Layers that hold a large part of all weights, the largest first.
Result<std::vector<std::string>> heaviest_layers(const CompileOptions& options) {
  constexpr size_t kMost = 6;
  constexpr int64_t kShare = 20;  // at least one part in this many
  Pipeline pipeline{.options = options};
  TRY_ASSIGN(pipeline.target, target_of(options));
  TRY_ASSIGN(Graph graph, read_model(options.model, options.sizes));
  TRY(run_steps(graph, pipeline, {}, step_before("quantize")));
  std::vector<std::pair<int64_t, std::string>> layers;
  int64_t all = 0;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!info(node.op).traits.weights || !graph.value(node.inputs[1]).constant) continue;
    const int64_t weights = element_count(graph.type(node.inputs[1]).shape);
    all += weights;
    layers.emplace_back(-weights, node.name);
  }
  std::stable_sort(layers.begin(), layers.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (const auto& [negated, name] : layers)
    if (names.size() < kMost && -negated * kShare >= all) names.push_back(name);
  return names;
}

Result<std::vector<Variation>> variations(const CompileOptions& options) {
  std::vector<Variation> list;
  for (int percent : {2, 5, 10, 25, 50})
    list.push_back({fmt::format("int16 for up to {} % more", percent), "precision", [percent](CompileOptions& o) {
                      o.quantize.precision = Precision::Int8;
                      o.quantize.int16_budget = percent / 100.0;
                    }});
  for (Precision precision : {Precision::Int8, Precision::Int16})
    list.push_back({fmt::format("--precision {}", name_of(precision)), "precision", [precision](CompileOptions& o) {
                      o.quantize.precision = precision;
                      o.quantize.int16_budget = 0;
                    }});
  list.push_back({"--equalize", "equalize", [](CompileOptions& o) { o.quantize.equalize = true; }});
  for (Method method : {Method::MinMax, Method::Percentile, Method::Histogram, Method::Mse})
    if (method != options.quantize.method)
      list.push_back({fmt::format("--calibration-method {}", name_of(method)), "method",
                      [method](CompileOptions& o) { o.quantize.method = method; }});
  list.push_back({"--no-bias-correction", "bias", [](CompileOptions& o) { o.quantize.correct_bias = false; }});
  list.push_back({"--optimise Size", "optimise", [](CompileOptions& o) { o.npu.optimise = Optimise::Size; }});
  for (double db : {0.0, 1.0, 3.0, 6.0})
    list.push_back(
        {fmt::format("--weight-rate {}", db), "rate", [db](CompileOptions& o) { o.quantize.weight_rate = db; }});
  list.push_back({"--weight-bits 4", "weights", [](CompileOptions& o) { o.quantize.weight_bits = 4; }});
  TRY_ASSIGN(const std::vector<std::string> heavy, heaviest_layers(options));
  for (const std::string& name : heavy)
    list.push_back({fmt::format("4-bit weights in {}", name), name, [name](CompileOptions& o) {
                      o.quantize.scopes.push_back({Scope::Kind::Node, name, {}, {}, 4});
                    }});
  return list;
}

// By its variations, in the order of the table.
using Choices = std::set<size_t>;

class Searcher {
 public:
  Searcher(const CompileOptions& options, double seconds, std::vector<Variation> variations)
      : options_(options), seconds_(seconds), variations_(std::move(variations)) {}

  Result<Searched> run() {
    TRY(scratch_.make());
    build({});
    if (!points_[0].built) return error("{}", points_[0].why);
    for (size_t next = 0; next < points_.size() && in_time();) {
      mark_front();
      next = 0;
      while (next < points_.size() && (!points_[next].front || !expanded_.insert(next).second)) ++next;
      if (next < points_.size()) build_around(next);
    }
    mark_front();
    const size_t best = best_point();
    points_[best].written = true;
    return Searched{options_of(choices_[best]), std::move(points_)};
  }

 private:
  bool in_time() const { return since_.seconds() < seconds_; }

  CompileOptions options_of(const Choices& choices) const {
    CompileOptions own = options_;
    for (size_t choice : choices) variations_[choice].apply(own);
    if (!choices.empty()) own.quantize.min_sqnr.reset();  // the limits are looked at when it is built
    return own;
  }

  void build_around(size_t point) {
    const Choices choices(choices_[point]);  // a copy, because the list grows
    for (size_t i = 0; i < variations_.size() && in_time(); ++i) {
      Choices more = choices;
      std::erase_if(more, [&](size_t other) { return variations_[other].about == variations_[i].about; });
      more.insert(i);
      if (std::ranges::find(choices_, more) == choices_.end()) build(more);
    }
  }

  void build(const Choices& choices) {
    progress_.share(since_.seconds() / seconds_, fmt::format("build {} of the search", points_.size() + 1));
    SearchPoint& point = points_.emplace_back();
    choices_.push_back(choices);
    std::vector<std::string_view> words;
    for (size_t choice : choices) words.push_back(variations_[choice].what);
    point.what = words.empty() ? "as given" : fmt::format("{}", fmt::join(words, ", "));
    build_point(options_of(choices), options_, scratch_.file(points_.size()), point);
  }

  static bool at_least_as_good(const SearchPoint& a, const SearchPoint& b) {
    return a.totals.total_cycles <= b.totals.total_cycles && a.totals.sram_bytes <= b.totals.sram_bytes &&
           a.pte_bytes <= b.pte_bytes && a.sqnr_db.value_or(0) >= b.sqnr_db.value_or(0);
  }

  // Of equal points, the first is on it.
  void mark_front() {
    for (size_t i = 0; i < points_.size(); ++i) {
      points_[i].front = points_[i].built;
      for (size_t j = 0; j < points_.size(); ++j) {
        if (i == j || !points_[j].built || !at_least_as_good(points_[j], points_[i])) continue;
        if (j < i || !at_least_as_good(points_[i], points_[j])) points_[i].front = false;
      }
    }
  }

  size_t best_point() const {
    const Gates& gates = options_.gates;
    const bool limited = gates.max_sram || gates.max_flash || gates.max_cycles || gates.max_ms;
    const SearchPoint& given = points_[0];
    const auto allowed = [&](const SearchPoint& point) {
      if (!point.fits()) return false;
      return limited || options_.quantize.min_sqnr ||
             (point.totals.total_cycles <= given.totals.total_cycles &&
              point.totals.sram_bytes <= given.totals.sram_bytes &&
              point.totals.flash_bytes <= given.totals.flash_bytes);
    };
    const auto better = [&](const SearchPoint& a, const SearchPoint& b) {
      if (options_.quantize.min_sqnr) return a.totals.total_cycles < b.totals.total_cycles;
      return a.sqnr_db.value_or(0) > b.sqnr_db.value_or(0);
    };
    size_t best = 0;
    for (size_t i = 1; i < points_.size(); ++i)
      if (allowed(points_[i]) && (!allowed(points_[best]) || better(points_[i], points_[best]))) best = i;
    return best;
  }

  const CompileOptions& options_;
  const double seconds_;
  const std::vector<Variation> variations_;
  Scratch scratch_{"search"};
  std::vector<SearchPoint> points_;
  std::vector<Choices> choices_;  // of each point
  std::set<size_t> expanded_;     // points whose neighbours were built
  Timer since_;
  Progress progress_;
};

}  // namespace

Result<Searched> search(const CompileOptions& options, double seconds) {
  TRY(check_gate_options(options));
  if (!options.verify)
    return error("--search compares SQNR, which is measured by running the finished files: leave out --no-verify");
  if (!options.stop_after.empty()) return error("--search builds whole programs: leave out --stop-after");
  if (options.samples.empty()) return error("--search chooses how a float model is quantized: give --calibrate");
  TRY_ASSIGN(std::vector<Variation> list, variations(options));
  return Searcher(options, seconds, std::move(list)).run();
}

Result<double> parse_duration(std::string_view flag, std::string_view text) {
  double value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  const double seconds = unit.empty() || unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  if (fault != std::errc() || seconds == 0 || !(value > 0))
    return error("{} {}: write a time, such as 90s, 5m or 1h", flag, text);
  return value * seconds;
}

}  // namespace swoop
