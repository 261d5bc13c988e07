#include "driver/advise.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "driver/changes.h"
#include "driver/cost.h"
#include "driver/pipeline.h"
#include "driver/progress.h"
#include "driver/read_model.h"
#include "support/json.h"
#include "support/timer.h"

namespace swoop {

namespace {

constexpr double kWorthSaying = 0.002;  // of all cycles

double percent(const AdviceReport& report, const Advice& advice) { return 100 * (advice.cycles / report.cycles - 1); }

std::span<const Advice> first_of(const AdviceReport& report, size_t most) {
  return std::span(report.advice).first(std::min(most, report.advice.size()));
}

class Adviser {
 public:
  Adviser(const CompileOptions& options, double seconds) : options_(options), seconds_(seconds) {
    options_.quantize.int16_budget = 0;
    options_.quantize.min_sqnr.reset();
    if (options_.samples.empty()) options_.samples = "random:0";
  }

  Result<AdviceReport> run() {
    Pipeline pipeline{.options = options_};
    TRY_ASSIGN(pipeline.target, target_of(options_));
    TRY(check_npu_options(pipeline.target, options_.npu));
    progress_.share(0, "reading the model");
    TRY_ASSIGN(Graph graph, read_model(options_.model, options_.sizes));
    TRY(run_steps(graph, pipeline, {}, step_before("quantize")));
    if (!needs_quantization(graph))
      return error("{} is already quantized; give the float model, which can be changed", options_.model);
    TRY_ASSIGN(samples_, load_samples(options_.samples, graph, options_.sample_options));
    samples_.inputs.resize(1);
    TRY_ASSIGN(const Cost before, price(graph, options_));
    report_.cycles = before.value;

    std::vector<Change> changes = possible_changes(graph);
    const auto cycles_of = [&](const Change& change) {
      double cycles = 0;
      for (ValueId value : change.values)
        if (auto found = before.each.find(name_in_model(graph.value(value))); found != before.each.end())
          cycles += found->second;
      return cycles;
    };
    std::stable_sort(changes.begin(), changes.end(),
                     [&](const Change& a, const Change& b) { return cycles_of(a) > cycles_of(b); });
    report_.possible = changes.size();
    try_layout(graph);
    for (const Change& change : changes) {
      if (since_.seconds() > seconds_) break;
      progress_.share(since_.seconds() / seconds_, change.what);
      Graph changed = clone(graph);
      ++report_.tried;
      if (!change.change(changed)) continue;
      add({change.what, change.node, change.source}, price(changed, options_));
    }
    std::stable_sort(report_.advice.begin(), report_.advice.end(),
                     [](const Advice& a, const Advice& b) { return a.cycles < b.cycles; });
    return std::move(report_);
  }

 private:
  // All steps again: what a change leaves may fold once more.
  Result<Cost> price(const Graph& float_graph, const CompileOptions& options) {
    Graph graph = clone(float_graph);
    Pipeline pipeline{.options = options, .samples = samples_};
    TRY_ASSIGN(pipeline.target, target_of(options));
    TRY(run_steps(graph, pipeline, {}, "quantize"));
    const std::optional<Cost> cost = npu_cost(graph, pipeline);
    if (!cost) return error("{} does not compile in one go for {}", options.model, options.target);
    return *cost;
  }

  void add(Advice advice, const Result<Cost>& cost) {
    if (!cost || cost->value > (1 - kWorthSaying) * report_.cycles) return;
    advice.cycles = cost->value;
    const auto same = [&](const Advice& other) { return other.what == advice.what && other.cycles == advice.cycles; };
    if (std::ranges::any_of(report_.advice, same)) return;  // layers that have the same channels
    report_.advice.push_back(std::move(advice));
  }

  void try_layout(const Graph& graph) {
    const bool has_images =
        std::ranges::any_of(graph.inputs(), [&](ValueId input) { return graph.type(input).shape.size() == 4; });
    if (!has_images || !options_.ports.channels_last.empty()) return;
    CompileOptions channels_last = options_;
    channels_last.ports.channels_last = {std::string(PortOptions::kImages)};
    ++report_.tried;
    ++report_.possible;
    add({"images channels last (--io-layout nhwc)", "", ""}, price(graph, channels_last));
  }

  CompileOptions options_;
  const double seconds_;
  Samples samples_;
  AdviceReport report_;
  Timer since_;
  Progress progress_;
};

}  // namespace

Result<AdviceReport> advise(const CompileOptions& options, double seconds) { return Adviser(options, seconds).run(); }

std::string to_text(const AdviceReport& report, size_t most) {
  std::string text =
      fmt::format("{:.0f} cycles as it is; tried {} of {} changes\n", report.cycles, report.tried, report.possible);
  if (report.advice.empty()) text += "none of them saves anything worth saying\n";
  for (const Advice& advice : first_of(report, most)) {
    const std::string where = advice.node.empty() ? "" : fmt::format("{}: ", advice.node);
    const std::string source = advice.source.empty() ? "" : fmt::format(" ({})", advice.source);
    text += fmt::format("{:>+7.1f} %  {}{}{}\n", percent(report, advice), where, advice.what, source);
  }
  return text;
}

std::string to_json(const AdviceReport& report, size_t most) {
  Json list = Json::array();
  for (const Advice& advice : first_of(report, most))
    list.push_back({{"what", advice.what},
                    {"node", advice.node},
                    {"source", advice.source},
                    {"cycles", advice.cycles},
                    {"percent", percent(report, advice)}});
  return to_line({{"cycles", report.cycles}, {"tried", report.tried}, {"possible", report.possible}, {"advice", list}});
}

}  // namespace swoop
