#include "driver/model_check.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "accuracy/accuracy.h"

namespace swoop {

namespace {

constexpr double kAlike = 50;    // dB: nothing but the order of sums differs
constexpr double kOther = 25;    // dB: another function
constexpr double kClearly = 20;  // dB, below what rounding does
constexpr double kFewer = 0.1;   // of an integer output's elements

// Multiply-accumulates, roughly.
double work_of(const Graph& graph) {
  double work = 0;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    for (const auto& body : node.bodies) work += work_of(*body);
    if (node.outputs.empty()) continue;
    auto each = [&]() -> int64_t {
      if (info(node.op).traits.weights) {
        const Shape& weights = graph.type(node.inputs[1]).shape;
        return element_count(weights) / std::max<int64_t>(1, node.op == Op::ConvTranspose ? 1 : weights[0]);
      }
      if (node.op == Op::Attention) return 2 * graph.type(node.inputs[1]).shape.end()[-2];
      return node.op == Op::MatMul ? graph.type(node.inputs[0]).shape.back() : 1;
    };
    work += static_cast<double>(element_count(graph.type(node.outputs[0]).shape)) * static_cast<double>(each());
  }
  return work;
}

// How near two results of one output are: dB of floats, or the share of equal integers as if it were dB.
struct Nearness {
  std::optional<double> db, share;

  bool alike() const { return db ? *db >= kAlike : *share == 1; }
  // By so much that no rounding explains it: `rounded` is what rounding does.
  bool other(const Nearness& rounded) const {
    if (db) return *db < kOther && *db < *rounded.db - kClearly;
    return *share < *rounded.share - kFewer;
  }
  std::string text() const { return db ? fmt::format("{:.1f} dB", *db) : fmt::format("{:.0f} %", 100 * *share); }
};

Nearness nearness(const Tensor& a, const Tensor& b) {
  OutputNoise noise;
  noise.add(a, b);
  const std::optional<double> share = noise.equal_share();
  return share ? Nearness{{}, share} : Nearness{noise.noise.db(), {}};
}

// Every value off by one part in four million, in this or that direction: what another order of sums might do.
Result<std::vector<Tensor>> execute_rounded(const Graph& graph, const Sample& sample, OpaqueKernels* opaque) {
  std::mt19937 engine(1);
  auto observer = [&](const Graph&, ValueId, Tensor& tensor) {
    if (tensor.dtype != DType::F32) return;
    for (float& x : tensor.as<float>()) x *= engine() & 1 ? 1 + 0x1p-22f : 1 - 0x1p-22f;
  };
  return execute(graph, sample, {.opaque = opaque, .observer = observer});
}

bool has_nan(const Tensor& tensor) {
  if (tensor.dtype != DType::F32) return false;
  return std::ranges::any_of(tensor.as<float>(), [](float x) { return std::isnan(x); });
}

// The first step after which the output is another one.
std::string guilty_step(const Graph& imported, const Pipeline& pipeline, const Sample& sample, size_t output,
                        const Tensor& expected, const Nearness& found) {
  std::string guilty = "quantize";
  Graph graph = clone(imported);
  Pipeline again{.options = pipeline.options, .target = pipeline.target};
  (void)run_steps(graph, again, {}, step_before("quantize"), [&](size_t, std::string_view step) -> Result<void> {
    TRY_ASSIGN(const std::vector<Tensor> now, execute(graph, sample, {.opaque = pipeline.opaque.get()}));
    const Nearness near = nearness(expected, now[output]);
    const bool there = near.db ? *near.db < *found.db + kClearly / 2 : *near.share < *found.share + kFewer / 2;
    if (!there) return {};
    guilty = step;
    return error("found");
  });
  return guilty;
}

Result<void> check_sample(const Graph& imported, const Pipeline& pipeline, size_t number) {
  const Sample& sample = pipeline.samples->inputs[number];
  OpaqueKernels* opaque = pipeline.opaque.get();
  Result<std::vector<Tensor>> model = execute(imported, sample, {.opaque = opaque});
  if (!model) return {};  // a kernel that only the device has
  const std::vector<std::vector<Tensor>>& known = pipeline.quantized->float_outputs;
  std::vector<Tensor> executed;
  if (number >= known.size()) {
    TRY_ASSIGN(executed, execute(*pipeline.reference, sample, {.opaque = opaque}));
  }
  const std::vector<Tensor>& ours = number < known.size() ? known[number] : executed;
  std::vector<Tensor> rounded;
  for (size_t i = 0; i < model->size(); ++i) {
    const Tensor& expected = (*model)[i];
    const std::string name = fmt::format("output {} of the float model", i);
    if (has_nan(expected) && !has_nan(ours[i]))
      return error(
          "{} holds NaN on calibration sample {}: where a mask hides all of a row, softmax is NaN; choose "
          "zeros there, or a mask with a finite number",
          name, number);
    const Nearness near = nearness(expected, ours[i]);
    if (near.alike()) continue;
    if (rounded.empty()) {
      TRY_ASSIGN(rounded, execute_rounded(imported, sample, opaque));
    }
    if (!near.other(nearness(expected, rounded[i]))) continue;
    return defect("the step {} rewrites the model into another one: {} is {} there, on calibration sample {}",
                  guilty_step(imported, pipeline, sample, i, expected, near), name, near.text(), number);
  }
  return {};
}

}  // namespace

Result<void> check_rewriting(const Graph& imported, const Pipeline& pipeline) {
  constexpr size_t kMost = 4;
  constexpr double kBudget = 1e9;  // multiply-accumulates: a twentieth of a second
  const StorageReuse reuse;
  const size_t given = pipeline.samples->inputs.size();
  size_t count = has_state(imported) ? 1 : std::min(kMost, given);
  while (count > 1 && work_of(imported) * static_cast<double>(count) > kBudget) --count;
  for (size_t i = 0; i < count; ++i) TRY(check_sample(imported, pipeline, i));
  return {};
}

}  // namespace swoop
