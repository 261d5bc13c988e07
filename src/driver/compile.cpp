#include "driver/compile.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <list>
#include <utility>

#include "accuracy/accuracy.h"
#include "driver/boards.h"
#include "driver/bundle.h"
#include "driver/finer_tries.h"
#include "driver/gates.h"
#include "driver/lift.h"
#include "driver/model_check.h"
#include "driver/pipeline.h"
#include "driver/progress.h"
#include "driver/read_model.h"
#include "driver/regions.h"
#include "driver/summarize.h"
#include "driver/tosa_model.h"
#include "driver/verify.h"
#include "emit/emit.h"
#include "support/codes.h"
#include "support/file.h"
#include "support/nearest.h"
#include "support/timer.h"

namespace swoop {

namespace {

// What --stop-after takes besides the steps of the pipeline.
constexpr std::string_view kImport = "import";
constexpr std::string_view kLower = "lower";

// What a person sees of a long compile, in order.
constexpr std::string_view kStages[] = {"reading the model",
                                        "rewriting the graph",
                                        "lowering to TOSA",
                                        "generating NPU code",
                                        "building the program",
                                        "running the finished program",
                                        "finding another form for what regor gets wrong",
                                        "writing the program"};

Result<void> check_stop_after(std::string_view name) {
  std::vector<std::string> known = {std::string(kImport)};
  for (const Step& step : pipeline_steps()) known.emplace_back(step.name);
  known.emplace_back(kLower);
  if (name.empty() || std::find(known.begin(), known.end(), name) != known.end()) return {};
  return error("--stop-after {}: there is no such step; the steps are {}{}", name, fmt::join(known, ", "),
               did_you_mean(name, known));
}

// What --min-sqnr came to, of a file that meets it.
std::string raised_text(const QuantizeReport& report, double wanted, const Summary& summary) {
  std::string text = fmt::format("--min-sqnr {:.1f} dB is met: {:.1f} dB with {} moved to int16", wanted,
                                 worst_sqnr(summary).value_or(0), raised_layers_text(report));
  if (report.raised > 0)
    text += fmt::format("; {:.0f} -> {} cycles", report.ranking->cost, totals_of(summary).total_cycles);
  return with_code(std::move(text), Code::Raised);
}

class Compile {
  // The stage's time, of all tries, goes into the summary.
  template <typename Body>
  auto timed(std::string_view stage, Body body) {
    Timer timer;
    auto value = body();
    time_of(stage) += timer.elapsed();
    return value;
  }

  Elapsed& time_of(std::string_view stage) {
    auto& times = result_.summary.times;
    auto known = std::find_if(times.begin(), times.end(), [&](const auto& time) { return time.first == stage; });
    if (known == times.end()) known = times.emplace(times.end(), stage, Elapsed());
    return known->second;
  }

 public:
  using UseTypes = std::function<Result<void>(const Pipeline&)>;
  explicit Compile(const CompileOptions& options, const UseTypes& use = nullptr)
      : options_(options), use_(use), pipeline_{.options = options} {}

  Result<CompileResult> run() {
    TRY_ASSIGN(pipeline_.target, target_of(options_));
    TRY(check_npu_options(pipeline_.target, options_.npu));
    TRY(check_stop_after(options_.stop_after));
    TRY(check_gate_options(options_));
    if (!options_.test.empty() && !options_.verify)
      return error("--test is measured by running the finished file: leave out --no-verify");
    const std::string reads[] = {options_.model, options_.samples, options_.test, options_.npu.config_path};
    TRY(check_output(output_path(), reads));
    if (!options_.dump.empty()) TRY(make_directory(options_.dump));

    progress_.stage("reading the model");
    TRY_ASSIGN(const bool is_tosa, is_tosa_file(options_.model));
    if (is_tosa && !use_) return run_tosa();
    TRY_ASSIGN(Graph whole,
               timed("import", [&] { return read_model(options_.model, options_.sizes, &import_warnings_, &file_); }));
    TRY(after_step(whole, 0, "import"));
    pipeline_.following = following_nodes(whole);
    std::optional<Graph> imported;
    if (options_.verify && !options_.samples.empty()) imported = clone(whole);
    if (options_.stop_after == kImport) return stopped(print(whole, {false, true}));

    progress_.stage("rewriting the graph");
    const bool stops_before =
        !options_.stop_after.empty() && options_.stop_after != kPartition && options_.stop_after != kLower;
    TRY(run_steps(whole, pipeline_, {}, stops_before ? options_.stop_after : step_before(kPartition),
                  [&](size_t number, std::string_view step) { return after_step(whole, number, step); }));
    result_.summary.times.insert(result_.summary.times.end(), pipeline_.times.begin(), pipeline_.times.end());
    if (stops_before) return stopped(print(whole, {false, true}));
    if (imported && pipeline_.quantized) TRY(timed("verify", [&] { return check_rewriting(*imported, pipeline_); }));

    std::list<Graph> tries;  // none is let go: a clone points to the original's constants
    const auto build_again = [&]() -> Result<std::optional<std::string>> {
      Graph& other = tries.emplace_back(clone(*pipeline_.reference));
      pipeline_.verdicts.clear();
      TRY(timed("quantize", [&] {
        return run_steps(other, pipeline_, "quantize", step_before(kPartition),
                         [&](size_t number, std::string_view step) { return after_step(other, number, step); });
      }));
      return build_soundly(other);
    };
    Result<std::optional<std::string>> text = build_soundly(whole);
    // What regor gets wrong with int16 that was nearly free, it may get right without; else the int16 stays.
    const bool widened = pipeline_.quantized && !pipeline_.quantized->cheap.candidates.empty();
    if (widened && (!text || !pipeline_.verdicts.empty())) {
      const auto wrong = [&] { return text ? pipeline_.verdicts.size() : std::numeric_limits<size_t>::max(); };
      const size_t before = wrong();
      pipeline_.widens = false;
      text = build_again();
      if (wrong() >= before && before < std::numeric_limits<size_t>::max()) {
        pipeline_.widens = true;
        text = build_again();
      }
    }
    if (!text) return text.error();
    if (*text) return stopped(std::move(**text));
    while (aim_higher()) TRY(build_again());
    TRY(lift(build_again));
    while (finer_.next(pipeline_, text ? &result_.summary : nullptr)) {
      text = build_again();
      while (text && aim_higher()) text = build_again();
    }
    if (!text) return finer_.refusal();
    if (!use_) return finish();
    TRY(use_(pipeline_));
    return std::move(result_);
  }

 private:
  // A .tosa file is one region as it is: there is no other form to try.
  Result<CompileResult> run_tosa() {
    if (!options_.stop_after.empty() && options_.stop_after != kLower)
      return error("--stop-after {}: a .tosa file goes through no such step; {} prints its operators",
                   options_.stop_after, kLower);
    TRY_ASSIGN(TosaModel model, timed("import", [&] { return read_tosa_model(options_.model); }));
    pipeline_.partition.regions.push_back(std::move(model.region));
    given_ = std::move(model.program);
    if (!options_.samples.empty()) {
      TRY_ASSIGN(pipeline_.samples, load_samples(options_.samples, model.graph, options_.sample_options));
    }
    Result<std::vector<RegionFault>> faults = build(model.graph);
    if (faults && !faults->empty() && goes_without_moved(*faults)) faults = build(model.graph);
    if (!faults) return error("{}: {}", options_.model, faults.error().message);
    if (options_.stop_after == kLower) return stopped(tosa_text(regions_, pipeline_));
    if (faults->empty()) return finish();
    const RegionFault& fault = faults->front();
    if (!fault.inputs) return error("{}: {}", options_.model, fault.what);
    if (Result<std::vector<tosa::TensorData>> legal = tosa::run(*given_, *fault.inputs); !legal)
      return error("{}: {}", options_.model, legal.error().message);
    TRY(rescue(*faults));
    return lost("");
  }

  // What the file has to keep to, and the file.
  Result<CompileResult> finish() {
    remove_bundle(bundle());
    if (!options_.board.empty()) {
      TRY_ASSIGN(const Board* board, find_board(options_.board));
      result_.summary.board = fit_board(*board, result_.summary);
    }
    if (Result<void> gates = check_gates(result_.summary, options_); !gates)
      return error("{}{}{}", gates.error().message, best_db_ ? "; " + best_text() : "",
                   flat_parts(result_.summary, options_.gates).empty() ? "" : finer_.tried_text());
    if (std::optional<std::string> finer = finer_.warning(result_.summary))
      result_.summary.warnings.push_back(std::move(*finer));
    if (std::optional<std::string> lifted = lift_.warning(pipeline_, result_.summary))
      result_.summary.warnings.push_back(std::move(*lifted));
    if (const auto& wanted = options_.quantize.min_sqnr; wanted && pipeline_.quantized)
      result_.summary.warnings.push_back(raised_text(*pipeline_.quantized, *wanted, result_.summary));
    const bool random = pipeline_.quantized && pipeline_.quantized->uncalibrated;
    if (std::optional<std::string> noisy = noise_warning(result_.summary); noisy && !random)
      result_.summary.warnings.push_back(std::move(*noisy));
    progress_.stage("writing the program");
    result_.summary.output = output_path();
    if (options_.tosa) TRY(check_one_region());
    TRY(write_file(result_.summary.output, options_.tosa ? regions_.front().tosa_bytes : pte_));
    if (options_.tosa) result_.summary.tosa_bytes = static_cast<int64_t>(regions_.front().tosa_bytes.size());
    result_.summary.times.emplace_back("total", total_.elapsed());
    result_.stats = stats_text(pipeline_.stats);
    return std::move(result_);
  }

  Result<CompileResult> stopped(std::string text) {
    result_.stopped = std::move(text);
    result_.stats = stats_text(pipeline_.stats);
    return std::move(result_);
  }

  // Tries until regor's program computes what it should. A text: what --stop-after asks for.
  Result<std::optional<std::string>> build_soundly(const Graph& whole) {
    while (true) {
      Graph graph = clone(whole);
      TRY(timed(kPartition, [&] {
        return run_steps(graph, pipeline_, kPartition, kPartition,
                         [&](size_t number, std::string_view step) { return after_step(graph, number, step); });
      }));
      if (options_.stop_after == kPartition) return std::optional(print(graph, {false, true}));
      Result<std::vector<RegionFault>> faults = build(graph);
      if (faults && faults->empty() && options_.stop_after == kLower)
        return std::optional(tosa_text(regions_, pipeline_));
      if (faults && faults->empty()) return std::optional<std::string>();
      if (!faults && pipeline_.verdicts.empty()) return faults.error();
      if (!faults) return lost(fmt::format("; in another form the build fails as well: {}", faults.error().message));
      TRY_ASSIGN(const bool again, rescue(*faults));
      if (!again) return lost("");
    }
  }

  // With --precision auto, an output that is little more than noise gets int16 where that makes it useful. The file
  // stays as it was where int16 does not help much, or where it breaks a limit.
  Result<void> lift(const std::function<Result<std::optional<std::string>>()>& build_again) {
    lift_.begin(pipeline_, result_.summary);
    while (lift_.next(pipeline_, result_.summary)) {
      if (Result<std::optional<std::string>> text = build_again(); text) continue;
      lift_.give_up();
      break;
    }
    if (lift_.undo(pipeline_, result_.summary)) TRY(build_again());
    return {};
  }

  // Whether more layers in int16 may bring the file to --min-sqnr; then the forecast has to be better by what the file
  // falls short. The last try raises all that there is.
  bool aim_higher() {
    constexpr int kTries = 3;
    const std::optional<double>& wanted = options_.quantize.min_sqnr;
    const std::optional<double> worst = worst_sqnr(result_.summary);
    if (!wanted || !worst || !pipeline_.quantized || *worst >= *wanted) return false;
    best_db_ = std::max(best_db_.value_or(*worst), *worst);
    const QuantizeReport& report = *pipeline_.quantized;
    if (tries_ == kTries || (report.ranking && report.raised == report.ranking->candidates.size())) return false;
    const double missing = *wanted - *worst + 0.1;
    pipeline_.aim = ++tries_ < kTries ? *report.sqnr_db + missing : std::numeric_limits<double>::infinity();
    return true;
  }

  std::string best_text() const {
    const QuantizeReport& report = *pipeline_.quantized;
    return fmt::format("{:.1f} dB is the best that was reached, with up to {} of {} layers in int16", *best_db_,
                       report.raised, report.ranking ? report.ranking->candidates.size() : 0);
  }

  // A .tosa file holds one program, and no kernels of the runtime.
  Result<void> check_one_region() const {
    if (regions_.size() != 1)
      return error("--target tosa: the NPU's part is in {} pieces, not in one", regions_.size());
    if (pipeline_.partition.host.empty()) return {};
    const HostReason& host = pipeline_.partition.host.front();
    return error("--target tosa: {} ({}) has no place in it: {}", host.op, host.node, host.reason);
  }

  Error lost(std::string_view more) const { return defect("{}{}", fault_, more); }

  // From regions to a file that was run. Faults: what regor got wrong; then there is no file.
  Result<std::vector<RegionFault>> build(const Graph& graph) {
    progress_.stage("lowering to TOSA");
    TRY_ASSIGN(std::vector<RegionFault> faults,
               timed("lower", [&] { return lower_regions(regions_, pipeline_, given_ ? &*given_ : nullptr); }));
    if (!faults.empty() || options_.stop_after == kLower) return faults;

    progress_.stage("generating NPU code");
    time_of("npu") += std::exchange(pipeline_.pricing, {});
    TRY_ASSIGN(faults, timed("npu", [&] { return compile_regions(regions_, pipeline_, !wrong_with_moved_); }));
    if (!faults.empty()) return faults;

    progress_.stage("building the program");
    TRY(timed("emit", [&] { return emit(graph); }));
    summarize_try(graph);
    return verify_program(graph);
  }

  // Whether the next try has regor's own streams, because one that was changed computes something else.
  bool goes_without_moved(const std::vector<RegionFault>& faults) {
    if (std::exchange(wrong_with_moved_, std::nullopt)) {
      tried_without_moved_ = true;  // it is wrong without them as well
      return false;
    }
    if (tried_without_moved_ || std::ranges::none_of(regions_, has_moved_weights)) return false;
    wrong_with_moved_ = faults.front().what;
    for (CompiledRegion& region : regions_)
      if (has_moved_weights(region)) region.blob.clear();
    return true;
  }

  // A node that regor gets wrong begins a region of its own in the next try, so that nothing is joined with it. If that
  // does not help, it goes to the host. False: it is there already.
  Result<bool> rescue(const std::vector<RegionFault>& faults) {
    progress_.stage("finding another form for what regor gets wrong");
    if (goes_without_moved(faults)) return true;
    for (const RegionFault& fault : faults) {
      const Graph& region = *pipeline_.partition.regions[fault.region];
      if (!fault.value.empty()) {  // it has no TOSA form: no other region helps
        fault_ = fault.what;
        Verdict& verdict = pipeline_.verdicts[fault.value];  // it may begin a region, from an earlier try
        if (std::exchange(verdict, {true, fault.what}).host) return false;
        continue;
      }
      TRY(keep_bundle(bundle(), fault, region.name, regions_[fault.region].tosa_bytes, pte_, pipeline_));
      const Culprit culprit = find_culprit(fault, region, regions_[fault.region].tosa, pipeline_);
      fault_ = fmt::format("{}: {}; what reproduces it is kept in {}", culprit.node, fault.what, bundle());
      auto [entry, fresh] = pipeline_.verdicts.try_emplace(culprit.value);
      Verdict& verdict = entry->second;
      if (verdict.host) return false;
      verdict = {culprit.first || !fresh, fault.what};
    }
    return true;
  }

  // The model's file is large, and most steps read none of it.
  Result<void> after_step(const Graph& graph, size_t number, std::string_view step) const {
    if (file_) file_->release_pages();
    if (options_.dump.empty()) return {};
    return write_file(fmt::format("{}/{:02}-{}.ir", options_.dump, number, step), print(graph, {false, true}));
  }

  Result<void> emit(const Graph& graph) {
    TRY_ASSIGN(pte_, emit_pte(graph, delegates_of(regions_, pipeline_), {.delegate_segments = options_.segments}));
    TRY_ASSIGN(info_, read_pte(pte_));
    return {};
  }

  // Of this try alone, but for the times.
  void summarize_try(const Graph& graph) {
    Summary& s = result_.summary;
    auto times = std::move(s.times);
    s = summarize(graph, pipeline_, regions_, info_);
    s.times = std::move(times);
    s.pte_bytes = static_cast<int64_t>(pte_.size());
    s.warnings.insert(s.warnings.begin(), import_warnings_.begin(), import_warnings_.end());
    if (wrong_with_moved_)
      s.warnings.push_back(with_code(
          fmt::format("regor's own stream is used, without weights that are moved or written: {}", *wrong_with_moved_),
          Code::Fetched));
  }

  std::string output_path() const {
    if (!options_.output.empty()) return options_.output;
    return std::filesystem::path(options_.model).replace_extension(options_.tosa ? ".tosa" : ".pte").string();
  }

  std::string bundle() const { return output_path() + ".differs"; }

  Result<std::vector<RegionFault>> verify_program(const Graph& graph) {
    Summary& summary = result_.summary;
    std::vector<RegionFault> faults;
    if (!options_.verify) {
      summary.accuracy_why = "--no-verify was given";
      return faults;
    }
    progress_.stage("running the finished program");
    return timed("verify", [&]() -> Result<std::vector<RegionFault>> {
      FileCheck check;
      check.pte = pte_;
      std::vector<size_t> numbers;  // in the partition, of the file's regions
      for (const ProgramDelegate& delegate :
           info_.methods[0].delegates) {  // the file numbers them in the order of its calls
        auto region = std::find_if(regions_.begin(), regions_.end(), [&](const CompiledRegion& r) {
          return std::equal(r.blob.begin(), r.blob.end(), delegate.blob.begin(), delegate.blob.end());
        });
        if (region == regions_.end()) return error("the finished file holds an NPU program that was not compiled");
        check.regions.push_back(&region->tosa);
        check.graphs.push_back(pipeline_.partition.regions[static_cast<size_t>(region - regions_.begin())].get());
        numbers.push_back(static_cast<size_t>(region - regions_.begin()));
      }
      check.source = &graph;
      check.pipeline = &pipeline_;
      for (const RegionSummary& region : summary.regions) check.macs += region.estimates.macs;
      check.bundle = bundle();
      if (!pipeline_.samples) {
        TRY_ASSIGN(check.made_up, given_ ? random_codes(*given_, graph) : load_samples("random:0", *pipeline_.typed));
        if (!given_) check.made_up.inputs.resize(1);
      }
      Result<FileVerdict> checked = check_file(check);
      if (!checked && given_ && !pipeline_.samples)
        return error("{} (with made-up inputs; --calibrate FILE.npz gives others)", checked.error().message);
      TRY_ASSIGN(FileVerdict verdict, std::move(checked));
      summary.accuracy = std::move(verdict.accuracy);
      for (const std::string& layer : summary.accuracy->inexact)
        summary.warnings.push_back(with_code(layer, Code::Inexact));
      if (pipeline_.quantized && pipeline_.quantized->left_out)
        summary.accuracy->left_out = {pipeline_.quantized->left_out->seen_db, pipeline_.quantized->left_out->unseen_db};
      if (!verdict.fault && !options_.report.empty() && pipeline_.reference) TRY(measure_layers(*summary.accuracy));
      if (!verdict.fault) return faults;
      verdict.fault->region = numbers[verdict.fault->region];
      faults.push_back(std::move(*verdict.fault));
      return faults;
    });
  }

  // As `swoop accuracy` does it, on a few samples.
  Result<void> measure_layers(AccuracySummary& summary) {
    constexpr size_t kMost = 4;
    Samples some = *pipeline_.samples;
    some.inputs.resize(std::min(some.inputs.size(), kMost));
    TRY_ASSIGN(AccuracyReport report,
               measure_accuracy(*pipeline_.reference, *pipeline_.typed, some, pipeline_.opaque.get()));
    for (const LayerAccuracy& layer : report.layers)
      summary.by_layer.push_back({layer.name, layer.op, layer.source, layer.own_db, layer.sqnr_db, layer.clipped});
    return {};
  }

  const CompileOptions& options_;
  const UseTypes use_;  // in place of writing the file
  std::vector<std::string> import_warnings_;
  std::shared_ptr<const MappedFile> file_;  // of the model
  Pipeline pipeline_;
  std::optional<tosa::Program> given_;  // of a .tosa file: the only region
  Progress progress_{kStages, options_.says_progress};
  std::vector<CompiledRegion> regions_;
  Buffer pte_;
  ProgramInfo info_;   // of pte_
  std::string fault_;  // the last that regor showed
  bool tried_without_moved_ = false;
  std::optional<std::string> wrong_with_moved_;  // what was wrong with weights in SRAM; then they are not
  int tries_ = 0;                                // to meet --min-sqnr
  std::optional<double> best_db_;                // of the tries that did not
  FinerTries finer_;
  Lift lift_;
  Timer total_;
  CompileResult result_;
};

}  // namespace

Result<CompileResult> compile(const CompileOptions& options) { return Compile(options).run(); }

Result<void> compile_for_types(const CompileOptions& options, const std::function<Result<void>(const Pipeline&)>& use) {
  TRY(Compile(options, use).run());
  return {};
}

}  // namespace swoop
