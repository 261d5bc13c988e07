#include "driver/verify.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "accuracy/accuracy.h"
#include "driver/bundle.h"
#include "driver/forecast.h"
#include "run/runtime.h"
#include "support/check.h"
#include "support/file.h"

namespace swoop {

namespace {

constexpr size_t kMaxChecked = 4;               // samples compared bit for bit: more would run the same commands again
constexpr int64_t kLargeMacs = 1'000'000'000;   // one sample of such a program takes seconds
constexpr int64_t kBudgetMacs = 4'000'000'000;  // of all samples that are run for the figures: about two seconds

tosa::TensorData operand_of(const tosa::Tensor& tensor, const Buffer& data) {
  return {tensor.dtype, tensor.shape, data};
}

class FileChecker {
 public:
  explicit FileChecker(const FileCheck& check) : check_(check) {
    if (check.pipeline->typed) forecast_.emplace(*check.pipeline->typed, check.pipeline->opaque.get());
    for (size_t i = 0; i < check.source->outputs().size(); ++i)
      if (check.source->output_port(i).role == Port::Role::User)
        output_types_.push_back(check.source->type(check.source->outputs()[i]));
  }

  Result<FileVerdict> run() {
    RuntimeOptions options;
    options.record_regions = true;
    options.npu.target = check_.pipeline->target;
    TRY_ASSIGN(runner_, load_program(check_.pte, options));
    const Pipeline& pipeline = *check_.pipeline;
    if (pipeline.reference) {
      TRY_ASSIGN(groups_, OutputGroups::of(*pipeline.reference));
    }
    const Samples& samples = pipeline.samples ? *pipeline.samples : check_.made_up;
    const size_t checked = std::min(samples.inputs.size(), check_.macs > kLargeMacs ? 1 : kMaxChecked);
    const size_t count = std::clamp(static_cast<size_t>(kBudgetMacs / std::max<int64_t>(check_.macs, 1)), checked,
                                    samples.inputs.size());
    const bool measured = pipeline.samples.has_value();
    for (size_t i = 0; i < (measured ? count : checked); ++i) {
      Result<std::vector<RunTensor>> ran = run_program(samples.inputs[i]);
      note_refusal(ran);
      if (fault_) return FileVerdict{{}, std::move(fault_)};
      TRY_ASSIGN(std::vector<RunTensor> outputs, std::move(ran));
      if (i < checked) TRY(check_sample(samples.inputs[i]));
      if (fault_) return FileVerdict{{}, std::move(fault_)};
      if (measured) TRY(compare_with_float(samples.inputs[i], outputs, {}, i));
    }
    AccuracySummary summary;
    summary.bit_exact = true;
    summary.layers = layers_ - inexact_.size();
    for (const auto& [layer, what] : inexact_) summary.inexact.push_back(what);
    if (measured) {
      summary.samples = count;
      summary.given = samples.inputs.size();
    }
    // Channels are judged where the file saw all that their type was chosen for: fewer inputs may not move them.
    std::vector<GroupAccuracy> groups = groups_ ? groups_->worst_first() : std::vector<GroupAccuracy>();
    const bool judges_channels = measured && count == samples.inputs.size();
    if (pipeline.test) {
      TRY_ASSIGN(runner_, load_program(check_.pte, options));  // its state is the first one again
      TRY(start_again());
      TRY(run_test(*pipeline.test, summary));
      if (groups_) groups = with_flat_channels_of(groups, groups_->worst_first());
    }
    for (const OutputNoise& output : outputs_)
      summary.outputs.push_back({output.noise.db(), output.max_error, output.equal_share()});
    summary.parts = parts_of(std::move(groups), judges_channels);
    return FileVerdict{std::move(summary), {}};
  }

 private:
  // How often the label has the largest value of its row, and how often one of the five largest.
  struct Hits {
    size_t first = 0, among_five = 0;

    void count(const Tensor& output, std::span<const int64_t> labels) {
      const size_t classes = static_cast<size_t>(output.shape.back());
      for (size_t row = 0; row < labels.size(); ++row) {
        std::span<const float> scores = output.as<float>().subspan(row * classes, classes);
        const float right = scores[static_cast<size_t>(labels[row])];
        // Of equal scores the first counts as the larger one, as argmax has it.
        size_t above = 0;
        for (size_t i = 0; i < classes; ++i)
          above += scores[i] > right || (scores[i] == right && i < static_cast<size_t>(labels[row]));
        first += above == 0;
        among_five += above < 5;
      }
    }
  };

  // As if nothing had been compared.
  Result<void> start_again() {
    outputs_.clear();
    float_state_.clear();
    if (!groups_) return {};
    TRY_ASSIGN(groups_, OutputGroups::of(*check_.pipeline->reference));
    return {};
  }

  // What the test set shows of each part, with the channels that are flat on the samples of calibration.
  static std::vector<GroupAccuracy> with_flat_channels_of(const std::vector<GroupAccuracy>& calibration,
                                                          std::vector<GroupAccuracy> test) {
    for (GroupAccuracy& group : test) {
      const auto same = [&](const GroupAccuracy& g) { return g.output == group.output && g.name == group.name; };
      const auto found = std::ranges::find_if(calibration, same);
      group.flat_channels = found == calibration.end() ? std::vector<size_t>() : found->flat_channels;
    }
    return test;
  }

  Result<std::vector<RunTensor>> run_program(const Sample& sample) {
    TRY_ASSIGN(std::vector<RunTensor> inputs, program_inputs(sample));
    return runner_->run(inputs);
  }

  Result<void> run_test(const TestSet& test, AccuracySummary& summary) {
    summary.test = true;
    summary.samples = summary.given = test.samples.inputs.size();
    for (size_t i = 0; i < summary.samples; ++i) {
      std::vector<std::optional<Tensor>> expected;
      for (const auto& given : test.expected)
        expected.push_back(given ? std::optional<Tensor>((*given)[i]) : std::nullopt);
      TRY_ASSIGN(std::vector<RunTensor> outputs, run_program(test.samples.inputs[i]));
      TRY(compare_with_float(test.samples.inputs[i], outputs, expected));
      if (test.labels.empty()) continue;
      const size_t rows = test.labels.size() / summary.samples;
      std::span<const int64_t> labels = std::span(test.labels).subspan(i * rows, rows);
      of_file_.count(model_output(outputs[0], 0), labels);
      if (first_float_) of_float_.count(*first_float_, labels);
    }
    if (!test.labels.empty()) summary.labels = label_accuracy(test.labels.size());
    return {};
  }

  LabelAccuracy label_accuracy(size_t labels) const {
    auto share = [&](size_t hits) { return static_cast<double>(hits) / static_cast<double>(labels); };
    LabelAccuracy accuracy{labels, share(of_file_.first), share(of_file_.among_five), {}, {}};
    if (!first_float_) return accuracy;
    accuracy.float_top1 = share(of_float_.first);
    accuracy.float_top5 = share(of_float_.among_five);
    return accuracy;
  }

  Result<void> check_sample(const Sample& sample) {
    std::vector<size_t> calls(check_.regions.size(), 0);
    for (const RegionTraffic& traffic : runner_->regions()) {
      if (static_cast<size_t>(traffic.delegate) >= calls.size())
        return error("the program calls delegate {}, which was not compiled", traffic.delegate);
      ++calls[static_cast<size_t>(traffic.delegate)];
    }
    for (const RegionTraffic& traffic : runner_->regions()) {
      const auto region = static_cast<size_t>(traffic.delegate);
      // What a loop calls again has another value each time: the forecast has one.
      const bool once = calls[region] == 1;
      if (fault_) return {};
      TRY(check_region(traffic, once && forecast_
                                    ? forecast_->observer(*check_.graphs[region], check_.regions[region]->bodies[0])
                                    : tosa::Observer()));
    }
    if (!fault_ && forecast_) TRY(check_forecast(sample));
    return {};
  }

  // Each layer's own error, against what its type allows.
  Result<void> check_forecast(const Sample& sample) {
    const Graph& typed = *check_.pipeline->typed;
    Sample inputs = sample;
    carry_state(typed, forecast_state_, inputs);
    TRY_ASSIGN(Forecast::Comparison comparison, forecast_->compare(inputs));
    forecast_state_ = std::move(comparison.outputs);
    layers_ = comparison.layers;
    for (const Forecast::Fault& fault : comparison.faults) {
      const Node& node = *typed.producer(fault.value);
      const Loc* loc = typed.loc(node.loc);
      const std::string what =
          fmt::format("{}{} computes other numbers than its type allows: {:.1f} dB by itself, where rounding leaves {}",
                      node.name, loc ? fmt::format(" ({})", to_text(*loc)) : "", fault.of_file.db(),
                      fault.of_types.error == 0 ? "it exact" : fmt::format("{:.1f} dB", fault.of_types.db()));
      if (!fault.wrong) {
        inexact_.try_emplace(node.name, what);
        continue;
      }
      TRY(keep_bundle());
      return defect("{}; what reproduces it is kept in {}", what, check_.bundle);
    }
    return {};
  }

  // The sample's user inputs as the program takes them: floats as they are, codes where the border was left out.
  Result<std::vector<RunTensor>> program_inputs(const Sample& sample) const {
    std::vector<RunTensor> inputs(runner_->inputs());
    size_t next = 0;
    for (size_t i = 0; i < check_.source->inputs().size() && next < inputs.size(); ++i) {
      if (check_.source->input_port(i).role != Port::Role::User) continue;
      const Value& port = check_.source->value(check_.source->inputs()[i]);
      const size_t rank = sample[i].shape.size();
      const bool turned = check_.pipeline->options.ports.is_channels_last(port.name, rank);
      const Tensor& tensor = turned ? transposed(sample[i], to_channels_last(rank)) : sample[i];
      Buffer& data = inputs[next++].data;
      if (port.type.quantized() && tensor.dtype == DType::F32) {
        TRY_ASSIGN(data, quantize(tensor, port.type));
      } else {
        data = to_bytes(tensor, port.type.dtype);
      }
    }
    return inputs;
  }

  // An output of the program as the model has it.
  Tensor model_output(const RunTensor& output, size_t user) const {
    Tensor tensor = dequantize(output.data, output_types_[user]);
    const size_t rank = tensor.shape.size();
    const bool turned = check_.pipeline->options.ports.is_channels_last(fmt::format("out{}", user), rank);
    return turned ? transposed(tensor, to_channels_first(rank)) : tensor;
  }

  std::vector<tosa::TensorData> inputs_of(const RegionTraffic& traffic) const {
    const tosa::Body& main = check_.regions[static_cast<size_t>(traffic.delegate)]->bodies[0];
    std::vector<tosa::TensorData> inputs;
    for (size_t i = 0; i < traffic.inputs.size(); ++i)
      inputs.push_back(operand_of(main.tensors[main.inputs[i]], traffic.inputs[i].data));
    return inputs;
  }

  // A run ends in the region whose stream the NPU in software refuses.
  void note_refusal(const Result<std::vector<RunTensor>>& ran) {
    if (ran || runner_->regions().empty() || !runner_->regions().back().outputs.empty()) return;
    const RegionTraffic& last = runner_->regions().back();
    fault_ = {static_cast<size_t>(last.delegate),
              fmt::format("the NPU in software refuses the program that regor made ({})", ran.error().message),
              inputs_of(last)};
  }

  Result<void> check_region(const RegionTraffic& traffic, const tosa::Observer& observer) {
    auto index = static_cast<size_t>(traffic.delegate);
    std::vector<tosa::TensorData> inputs = inputs_of(traffic);
    TRY_ASSIGN(std::vector<tosa::TensorData> expected, tosa::run(*check_.regions[index], inputs, observer));
    for (size_t i = 0; i < expected.size(); ++i) {
      if (expected[i].data == traffic.outputs[i].data) continue;
      fault_ = {index, "the program that regor made computes other numbers than its TOSA graph", std::move(inputs)};
      return {};
    }
    return {};
  }

  Result<void> keep_bundle() {
    remove_bundle(check_.bundle);
    TRY(make_directory(check_.bundle));
    return write_file(check_.bundle + "/program.pte", check_.pte);
  }

  // The program's outputs against what is expected, and where nothing is given, against the float model's.
  // `number`: of a calibration sample, whose float outputs may be known from there.
  Result<void> compare_with_float(const Sample& sample, const std::vector<RunTensor>& outputs,
                                  std::vector<std::optional<Tensor>> expected, std::optional<size_t> number = {}) {
    std::vector<Tensor> actual;
    for (size_t i = 0; i < outputs.size(); ++i) actual.push_back(model_output(outputs[i], i));
    expected.resize(outputs.size());
    first_float_.reset();
    if (check_.pipeline->reference) {
      const Graph& reference = *check_.pipeline->reference;
      const std::optional<QuantizeReport>& quantized = check_.pipeline->quantized;
      if (number && quantized && *number < quantized->float_outputs.size()) {
        float_state_ = quantized->float_outputs[*number];
      } else {
        Sample inputs = sample;
        carry_state(reference, float_state_, inputs);
        TRY_ASSIGN(float_state_, execute(reference, inputs, {check_.pipeline->opaque.get()}));
      }
      for (size_t i = 0, next = 0; i < float_state_.size() && next < outputs.size(); ++i) {
        if (reference.output_port(i).role != Port::Role::User) continue;
        if (next == 0) first_float_ = float_state_[i];
        groups_->add(i, float_state_[i], actual[next]);
        if (!expected[next]) expected[next] = float_state_[i];
        ++next;
      }
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!expected[i]) continue;
      outputs_.resize(outputs.size());
      compare(*expected[i], actual[i], outputs_[i]);
    }
    return {};
  }

  // Outputs of one part say it all themselves, unless something in that part is flat.
  std::vector<PartAccuracy> parts_of(std::vector<GroupAccuracy> groups, bool judges_channels) const {
    std::vector<PartAccuracy> parts;
    for (GroupAccuracy& group : groups) {
      if (!judges_channels) group.flat_channels.clear();
      size_t beside =
          std::count_if(groups.begin(), groups.end(), [&](const auto& g) { return g.output == group.output; });
      if (check_.pipeline->reference->output_port(group.output).role != Port::Role::User) continue;
      if (beside > 1 || group.flat || !group.flat_channels.empty())
        parts.push_back({group.output, group.name, group.source, group.sqnr_db, group.flat,
                         std::move(group.flat_channels), group.worst_channel});
    }
    return parts;
  }

  static void compare(const Tensor& expected, const Tensor& actual, OutputNoise& output) {
    CHECK(expected.shape == actual.shape && expected.dtype == actual.dtype, "an output is {}{} instead of {}{}",
          name_of(actual.dtype), to_text(actual.shape), name_of(expected.dtype), to_text(expected.shape));
    output.add(expected, actual);
  }

  const FileCheck& check_;
  std::unique_ptr<ProgramRunner> runner_;
  std::vector<Type> output_types_;      // of the program
  std::optional<Forecast> forecast_;    // absent: nothing but the TOSA says what the file computes
  std::vector<Tensor> forecast_state_;  // what the last run gave; its state goes into the next
  std::vector<Tensor> float_state_;     // the same, of the float model
  std::optional<Tensor> first_float_;   // output 0 of the float model's last run
  Hits of_file_, of_float_;
  std::vector<OutputNoise> outputs_;
  std::optional<OutputGroups> groups_;          // of the float model
  size_t layers_ = 0;                           // that were compared with the forecast
  std::map<std::string, std::string> inexact_;  // of those, by name: what is off by more than its forms declare
  std::optional<RegionFault> fault_;
};

}  // namespace

Result<FileVerdict> check_file(const FileCheck& check) { return FileChecker(check).run(); }

}  // namespace swoop
