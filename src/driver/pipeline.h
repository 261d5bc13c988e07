// The one ordered table of graph steps, and the loop that runs it.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "driver/options.h"
#include "partition/partition.h"
#include "quantize/quantize.h"
#include "rewriter/rewriter.h"

namespace swoop {

// What the steps share.
struct Pipeline {
  const CompileOptions& options;
  NpuTarget target = {};
  std::optional<Samples> samples = {};  // given with --calibrate
  std::optional<Graph> reference = {};  // the float graph, as it was before it was quantized
  std::optional<QuantizeReport> quantized = {};
  Partition partition = {};
  std::vector<StepStats> stats = {};
  std::vector<std::pair<std::string, double>> milliseconds = {};  // per stage
};

struct Step {
  std::string_view name;   // of --stop-after and of the dump
  std::string_view stage;  // of the time table
  Repeat repeat = Repeat::Fixpoint;
  std::vector<Rule> rules;
  Result<void> (*whole)(Graph&, Pipeline&) = nullptr;        // in place of rules
  bool (*applies)(const Graph&, const Pipeline&) = nullptr;  // absent: always
};

std::span<const Step> pipeline_steps();

// Runs all steps, or those up to and including options.stop_after. `after` is called behind each with the step's number
// and name.
Result<void> run_pipeline(Graph& graph, Pipeline& pipeline,
                          const std::function<Result<void>(size_t, std::string_view)>& after);

// run/skipped, visits, hits and microseconds of each step and rule.
std::string stats_text(std::span<const StepStats> stats);

}  // namespace swoop
