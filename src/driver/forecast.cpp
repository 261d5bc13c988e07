#include "driver/forecast.h"

#include <algorithm>
#include <cmath>

namespace swoop {

namespace {

// Of the layer's own signal: what integer forms of functions, norms and softmax may be off by (docs/accuracy.md).
constexpr double kApproximation = 0.01;

double squared(double x) { return x * x; }

// `tensor` goes back through `moves`, which led here from `shape`. Null: they did not.
std::optional<Tensor> moved_back(Tensor tensor, const Shape& shape, std::span<const Origin::Move> moves) {
  std::vector<Shape> before = {shape};
  for (const Origin::Move& move : moves) {
    const Shape& from = before.back();
    Shape to = move.to;
    if (move.op == Op::Transpose) {
      if (to.size() != from.size()) return std::nullopt;
      for (size_t i = 0; i < to.size(); ++i) to[i] = from[static_cast<size_t>(move.to[i])];
    }
    if (element_count(to) != element_count(from)) return std::nullopt;
    before.push_back(std::move(to));
  }
  if (before.back() != tensor.shape) return std::nullopt;
  Graph graph;
  ValueId at = graph.add_input({tensor.dtype, tensor.shape, {}}, "x");
  for (size_t i = moves.size(); i-- > 0;) {
    Attrs attrs{{Key::Shape, Ints(before[i])}};
    if (moves[i].op == Op::Transpose) {
      Ints back(before[i].size());
      for (size_t axis = 0; axis < back.size(); ++axis)
        back[static_cast<size_t>(moves[i].to[axis])] = static_cast<int64_t>(axis);
      attrs = {{Key::Perm, std::move(back)}};
    }
    at = graph.add_node(moves[i].op, {at}, {{tensor.dtype, before[i], {}}}, std::move(attrs)).outputs[0];
  }
  graph.add_output(at);
  Result<std::vector<Tensor>> result = execute(graph, {&tensor, 1});
  if (!result) return std::nullopt;
  return std::move(result->front());
}

double mean_square_error(const Tensor& a, const Tensor& b) {
  std::span<const float> x = a.as<float>(), y = b.as<float>();
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i)
    if (std::isfinite(x[i]) && std::isfinite(y[i]))
      sum += squared(static_cast<double>(x[i]) - static_cast<double>(y[i]));
  return x.empty() ? 0 : sum / static_cast<double>(x.size());
}

double mean_square(const Tensor& a) {
  double sum = 0;
  for (float x : a.as<float>())
    if (std::isfinite(x)) sum += squared(static_cast<double>(x));
  return a.as<float>().empty() ? 0 : sum / static_cast<double>(a.as<float>().size());
}

double db(double signal, double noise) { return noise > 0 && signal > 0 ? 10 * std::log10(signal / noise) : 0; }

}  // namespace

Forecast::Forecast(const Graph& typed, OpaqueKernels* opaque) : typed_(typed), opaque_(opaque) {
  for (NodeId id : typed.order())
    for (ValueId output : typed.node(id).outputs)
      if (const Value& value = typed.value(output); value.origin && value.type.quantized())
        by_origin_[value.origin->name] = output;
}

void Forecast::take(const Value& value, Buffer codes) {
  if (!value.origin || !value.type.quantized() || value.type.quant->per_channel()) return;
  auto found = by_origin_.find(value.origin->name);
  if (found == by_origin_.end()) return;
  // Copies of a value in another scale come after it.
  taken_.try_emplace(found->second, Taken{&value, std::move(codes)});
}

tosa::Observer Forecast::observer(const Graph& region) {
  std::map<std::string, const Value*> by_name;
  for (NodeId id : region.order())
    for (ValueId output : region.node(id).outputs) by_name.emplace(region.value(output).name, &region.value(output));
  return [this, by_name = std::move(by_name)](const tosa::Body& body, const tosa::Operator&, tosa::TensorId output,
                                              const tosa::TensorData& result) {
    auto found = by_name.find(body.tensors[output].name);
    if (found != by_name.end()) take(*found->second, result.data);
  };
}

// The file's value in the order of elements that it has in the typed graph.
std::optional<Tensor> Forecast::as_in_typed(ValueId id) const {
  auto found = taken_.find(id);
  if (found == taken_.end()) return std::nullopt;
  const Value& value = *found->second.value;
  const std::vector<Origin::Move>& moves = value.origin->moves;
  const std::vector<Origin::Move>& first = typed_.value(id).origin->moves;
  if (first.size() > moves.size() || !std::equal(first.begin(), first.end(), moves.begin())) return std::nullopt;
  return moved_back(dequantize(found->second.codes, value.type), typed_.type(id).shape,
                    std::span(moves).subspan(first.size()));
}

Result<std::vector<Tensor>> Forecast::run(std::span<const Tensor> sample, bool rounds, const See& see) {
  auto observer = [&](const Graph& graph, ValueId id, Tensor& tensor) {
    if (&graph != &typed_) return;
    std::optional<Tensor> file = as_in_typed(id);
    if (!file || file->dtype != tensor.dtype) return;
    see(id, tensor, *file);
    tensor = std::move(*file);
  };
  return execute(typed_, sample, {opaque_, observer, rounds});
}

Result<Forecast::Comparison> Forecast::compare(std::span<const Tensor> sample) {
  Comparison comparison;
  std::map<ValueId, Tensor> rounded;  // what looks wrong: rounding inside the layer may explain it
  auto allowed = [&](ValueId id, double signal) {
    double step = std::max(typed_.type(id).scale(), taken_.at(id).value->type.scale());
    return step + kApproximation * std::sqrt(signal);
  };
  TRY_ASSIGN(comparison.outputs, run(sample, true, [&](ValueId id, const Tensor& computed, const Tensor& file) {
               ++comparison.layers;
               if (std::sqrt(mean_square_error(computed, file)) > allowed(id, mean_square(computed)))
                 rounded.emplace(id, computed);
             }));
  if (!rounded.empty())
    TRY(run(sample, false, [&](ValueId id, const Tensor& exact, const Tensor& file) {
      auto suspect = rounded.find(id);
      if (suspect == rounded.end()) return;
      double signal = mean_square(exact);
      double of_file = mean_square_error(exact, file);
      double of_types = mean_square_error(exact, suspect->second);
      if (std::sqrt(of_file) <= 2 * std::sqrt(of_types) + allowed(id, signal)) return;
      comparison.faults.push_back({id, db(signal, of_types), db(signal, of_file)});
    }));
  taken_.clear();
  return comparison;
}

}  // namespace swoop
