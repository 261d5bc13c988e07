#include "driver/pipeline.h"

#include <algorithm>

#include "clean/clean.h"
#include "driver/cost.h"
#include "legalize/legalize.h"
#include "npu/npu.h"
#include "support/check.h"
#include "support/nearest.h"
#include "support/timer.h"

namespace swoop {

namespace {

std::vector<Rule> tables(std::initializer_list<std::span<const Rule>> parts) {
  std::vector<Rule> all;
  for (std::span<const Rule> part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

bool has_quantized_values(const Graph& graph) {
  for (NodeId id = graph.first(); id != kNone; id = graph.node(id).next)
    for (ValueId output : graph.node(id).outputs)
      if (graph.type(output).quantized()) return true;
  return false;
}

// "x float32[1,3,32,32], ..." for the sentence that asks for samples.
std::string expected_arrays(const Graph& graph) {
  std::string text;
  for (size_t i = 0; i < graph.inputs().size(); ++i)
    if (graph.input_port(i).role == Port::Role::User)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", graph.value(graph.inputs()[i]).name,
                          to_text(graph.type(graph.inputs()[i])));
  return text;
}

bool chose_all_types(const Graph&, const Pipeline& pipeline) { return pipeline.own_types; }

bool will_quantize(const Graph& graph, const Pipeline& pipeline) {
  return !pipeline.options.samples.empty() && needs_quantization(graph);
}

Result<void> choose_types(Graph& graph, Pipeline& pipeline) {
  const CompileOptions& options = pipeline.options;
  if (!options.test.empty() && !pipeline.test) {
    TRY_ASSIGN(pipeline.test, load_test_set(options.test, graph));
  }
  if (options.samples.empty()) {
    if (!needs_quantization(graph) || has_quantized_values(graph)) {
      note_least_variances(graph);
      return {};
    }
    return error(
        "{} is a float model and needs samples to measure its ranges: give --calibrate FILE.npz with an array per "
        "input ({}), "
        "samples stacked along a new first axis; --calibrate random:0 makes some up for a dry run",
        options.model, expected_arrays(graph));
  }
  if (!pipeline.samples) {
    TRY_ASSIGN(pipeline.samples, load_samples(options.samples, graph, options.sample_options));
  }
  TRY(check_names(graph, pipeline.following, options.quantize));
  if (!will_quantize(graph, pipeline)) {
    note_least_variances(graph);
    return {};
  }
  pipeline.own_types = !has_quantized_values(graph);
  pipeline.reference = clone(graph);
  QuantizeOptions quantize_options = options.quantize;
  quantize_options.shift_resizes = pipeline.target.facts().resize_only_shifts;
  quantize_options.writes_weights = [&](int64_t heads, int64_t rows, int64_t depth, int64_t channels) {
    return pipeline.target.writes_weights({heads, rows, depth, channels});
  };
  quantize_options.cost = [&](const Graph& quantized) { return npu_cost(quantized, pipeline); };
  quantize_options.opaque = pipeline.opaque.get();
  if (!pipeline.widens) quantize_options.int16_budget = 0;
  if (pipeline.finer.weights) quantize_options.weight_rate = 0;
  quantize_options.wide = {pipeline.finer.int16.begin(), pipeline.finer.int16.end()};
  quantize_options.raises_inputs = options.ports.inputs == PortNumbers::Float;
  quantize_options.raises_outputs = options.ports.outputs == PortNumbers::Float;
  std::optional<Ranking> ranking;  // of the try before, if there was one
  if (pipeline.aim) {
    quantize_options.min_sqnr = pipeline.aim;
    ranking = std::move(pipeline.quantized->ranking);
    if (ranking) quantize_options.ranking = &*ranking;
  }
  TRY_ASSIGN(pipeline.quantized, quantize(graph, *pipeline.samples, quantize_options));
  return {};
}

Result<void> fix_types(Graph& graph, Pipeline& pipeline) {
  TRY(choose_types(graph, pipeline));
  pipeline.typed = clone(graph);
  return {};
}

// Names of --io-layout that are no input or output with channels.
Result<void> check_layouts(const Graph& graph, const PortOptions& ports) {
  std::vector<std::string> known;
  size_t user = 0;
  for (size_t i = 0; i < graph.inputs().size(); ++i)
    if (graph.input_port(i).role == Port::Role::User && graph.type(graph.inputs()[i]).shape.size() > 2)
      known.push_back(graph.value(graph.inputs()[i]).name);
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    if (graph.output_port(i).role != Port::Role::User) continue;
    if (graph.type(graph.outputs()[i]).shape.size() > 2) known.push_back(fmt::format("out{}", user));
    ++user;
  }
  for (const std::string& name : ports.channels_last)
    if (name != PortOptions::kImages && std::find(known.begin(), known.end(), name) == known.end())
      return error("--io-layout {}=nhwc: no input or output of that name has channels{}", name,
                   did_you_mean(name, known));
  return {};
}

Result<void> set_ports(Graph& graph, Pipeline& pipeline) {
  TRY(check_layouts(graph, pipeline.options.ports));
  choose_ports(graph, pipeline.options.ports);
  return {};
}

Result<void> cut_regions(Graph& graph, Pipeline& pipeline) {
  pipeline.partition = partition(graph, pipeline.target, pipeline.verdicts);
  return {};
}

}  // namespace

std::span<const Step> pipeline_steps() {
  static const Step kPipeline[] = {
      {"clean", "clean", Repeat::Fixpoint, tables({constant_rules(), movement_rules(), fold_rules()}), nullptr},
      // After clean: a clamp sits on its conv before the quantize is taken in.
      {"types", "clean", Repeat::Fixpoint, tables({qdq_rules(), fold_rules(), movement_rules()}), nullptr},
      // After types: every result has the type that its own quantize node asks for.
      {"carry", "clean", Repeat::Fixpoint, tables({carry_rules(), qdq_rules(), fold_rules(), movement_rules()}),
       nullptr},
      // Before prepare, where what is minus infinity becomes a number.
      {"infinities", "clean", Repeat::Fixpoint, tables({infinity_rules(), movement_rules(), constant_rules()}), nullptr,
       will_quantize},
      // After types: what came quantized has its types, and a model that is quantized throughout stays as it came.
      {"prepare", "clean", Repeat::Fixpoint,
       tables({recognise_rules(), exponential_rules(), fold_rules(), prepare_rules(), computed_rules(), mask_rules()}),
       nullptr, will_quantize},
      // After prepare: what a model spells out with sums and products has been recognised.
      {"affine", "clean", Repeat::Fixpoint, tables({affine_rules(), fold_rules()}), nullptr, will_quantize},
      // After affine: ranges are those of the folded weights.
      {"quantize", "quantize", Repeat::Once, {}, fix_types},
      // Before anything moves across the border.
      {"ports", "legalize", Repeat::Once, {}, set_ports},
      // Before expand, which takes apart what the types were chosen for.
      {"squares", "legalize", Repeat::Fixpoint, tables({square_rules()}), nullptr, chose_all_types},
      {"expand", "legalize", Repeat::Fixpoint, tables({expand_rules(), movement_rules(), constant_rules()}), nullptr},
      // After expand: only windows on two dims are left.
      {"channels-last", "legalize", Repeat::Once, tables({channels_last_rules()}), nullptr},
      // Before partition: a stray transpose splits a region.
      {"layout", "legalize", Repeat::Fixpoint,
       tables({layout_rules(), movement_rules(), constant_rules(), fold_rules()}), nullptr},
      // After layout, which matches transposes by their rank.
      {"finish", "legalize", Repeat::Fixpoint,
       tables({finish_rules(), extreme_rules(), movement_rules(), constant_rules()}), nullptr},
      // After finish: it asks what the NPU takes as it stands.
      {"branches", "legalize", Repeat::Fixpoint, tables({branch_rules()}), nullptr},
      {kPartition, kPartition, Repeat::Once, {}, cut_regions},
  };
  return kPipeline;
}

namespace {

size_t number_of(std::string_view name) {
  std::span<const Step> steps = pipeline_steps();
  auto found = std::find_if(steps.begin(), steps.end(), [&](const Step& step) { return step.name == name; });
  CHECK(found != steps.end(), "there is no step {}", name);
  return static_cast<size_t>(found - steps.begin());
}

// One step, with what it counted and took.
Result<void> run_step(const Step& step, Graph& graph, Pipeline& pipeline) {
  set_check_context(std::string(step.name));
  Timer timer;
  const Elapsed pricing = pipeline.pricing;
  StepStats stats;
  if (step.applies && !step.applies(graph, pipeline)) {
    stats.skipped = true;
  } else if (step.whole) {
    TRY(step.whole(graph, pipeline));
  } else {
    stats = rewrite(graph, step.rules, step.repeat, &pipeline.target);
  }
  stats.name = step.name;
  stats.microseconds = timer.microseconds();
  if (pipeline.times.empty() || pipeline.times.back().first != step.stage)
    pipeline.times.emplace_back(step.stage, Elapsed());
  pipeline.times.back().second += timer.elapsed() - (pipeline.pricing - pricing);
  pipeline.stats.push_back(std::move(stats));
  if (std::optional<std::string> fault = verify(graph))
    CHECK(false, "the graph is broken after step {}: {}", step.name, *fault);
  return {};
}

}  // namespace

std::string_view step_before(std::string_view name) { return pipeline_steps()[number_of(name) - 1].name; }

Result<NpuTarget> target_of(const CompileOptions& options) {
  TRY_ASSIGN(NpuTarget target, parse_target(options.target));
  target.plain_stream = options.plain_stream;
  TRY_ASSIGN(target.staging_bytes, staging_bytes(target, options.npu));
  return target;
}

Result<void> run_steps(Graph& graph, Pipeline& pipeline, std::string_view from, std::string_view to,
                       const AfterStep& after) {
  std::span<const Step> steps = pipeline_steps();
  size_t first = from.empty() ? 0 : number_of(from);
  size_t last = to.empty() ? steps.size() - 1 : number_of(to);
  for (size_t i = first; i <= last; ++i) {
    TRY(run_step(steps[i], graph, pipeline));
    if (after) TRY(after(i + 1, steps[i].name));
  }
  return {};
}

std::string stats_text(std::span<const StepStats> stats) {
  std::string text = fmt::format("{:<34} {:>8} {:>8} {:>8} {:>10}\n", "step / rule", "", "visits", "hits", "us");
  for (const StepStats& step : stats) {
    text += fmt::format("{:<34} {:>8} {:>8} {:>8} {:>10.0f}\n", step.name, step.skipped ? "skipped" : "run",
                        step.visits, step.hits, step.microseconds);
    for (const RuleStats& rule : step.rules)
      if (rule.hits > 0) text += fmt::format("  {:<32} {:>8} {:>8} {:>8}\n", rule.name, "", rule.tries, rule.hits);
  }
  return text;
}

}  // namespace swoop
