// The one ordered table of graph steps, and the loop that runs it.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "driver/opaque_kernels.h"
#include "driver/options.h"
#include "partition/partition.h"
#include "quantize/quantize.h"
#include "rewriter/rewriter.h"
#include "samples/samples.h"
#include "support/timer.h"

namespace swoop {

// What tells one TOSA file from another: its size, and two hashes, because one of 64 bits is not sure enough for a
// program that ships.
struct Fingerprint {
  size_t bytes = 0;
  uint64_t first = 0, second = 0;
  bool operator==(const Fingerprint&) const = default;
};

// What regor makes of a TOSA file. The file itself is not kept: it is as large as the weights.
struct PricedProgram {
  Fingerprint tosa;
  NpuProgram program;
};

// Than the options ask for, because something in an output would have one value.
struct Finer {
  bool weights = false;                 // none with coarser steps
  std::vector<std::string> int16 = {};  // values
};

// What the steps share.
struct Pipeline {
  const CompileOptions& options;
  NpuTarget target = {};
  std::optional<Samples> samples = {};  // given with --calibrate
  FollowingNodes following = {};        // of the model as it was imported
  std::optional<TestSet> test = {};     // given with --test
  std::optional<Graph> reference = {};  // the float graph, as it was before it was quantized
  std::optional<Graph> typed = {};      // the graph when its types had been chosen: what the file has to compute
  std::optional<QuantizeReport> quantized = {};
  std::optional<double> aim = {};  // dB that --min-sqnr must forecast, after a file that fell short of its forecast
  bool widens = true;              // with --precision auto; not where that leads to something that regor gets wrong
  bool own_types = false;          // all of them were chosen here: the model came without any
  Finer finer = {};
  std::deque<PricedProgram> priced = {};  // what regor compiled while types were chosen
  Elapsed pricing = {};                   // that it took for them
  Verdicts verdicts = {};                 // of earlier tries
  Partition partition = {};
  std::unique_ptr<OpaqueKernels> opaque = make_opaque_kernels();
  std::vector<StepStats> stats = {};
  std::vector<std::pair<std::string, Elapsed>> times = {};  // per stage
};

// The NPU that the options name, with what they ask of its streams.
Result<NpuTarget> target_of(const CompileOptions& options);

struct Step {
  std::string_view name;   // of --stop-after and of the dump
  std::string_view stage;  // of the time table
  Repeat repeat = Repeat::Fixpoint;
  std::vector<Rule> rules;
  Result<void> (*whole)(Graph&, Pipeline&) = nullptr;        // in place of rules
  bool (*applies)(const Graph&, const Pipeline&) = nullptr;  // absent: always
};

std::span<const Step> pipeline_steps();
constexpr std::string_view kPartition = "partition";  // the last step
std::string_view step_before(std::string_view name);

// Runs the steps from `from` to `to`, both included; empty: from the first, to the last. Nothing else runs steps, so
// that what is priced, measured or tested goes the way of what ships. `after` is called after each with the step's
// number in the table, from 1, and its name.
using AfterStep = std::function<Result<void>(size_t number, std::string_view name)>;
Result<void> run_steps(Graph& graph, Pipeline& pipeline, std::string_view from = {}, std::string_view to = {},
                       const AfterStep& after = {});

// run/skipped, visits, hits and microseconds of each step and rule.
std::string stats_text(std::span<const StepStats> stats);

}  // namespace swoop
