#include "driver/forecast.h"

#include <algorithm>
#include <cmath>

#include "legalize/legalize.h"
#include "lower/lower.h"

namespace swoop {

namespace {

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
  for (size_t i = moves.size(); i-- > 0;) {
    if (moves[i].op == Op::Transpose)
      tensor = transposed(tensor, inverse(moves[i].to));
    else
      tensor.shape = before[i];
  }
  return tensor;
}

// The largest number that a type holds, either side of zero.
double largest_of(const Type& type) {
  const Range range = range_of(type);
  return std::max(-range.min, range.max);
}

// What the float kernels themselves are off by: 24 bits of their operands. The mean of a LayerNorm, say, is nothing but
// that.
double float_step(const Graph& graph, ValueId id) {
  double most = 0;
  for (ValueId input : graph.producer(id)->inputs) {
    if (input == kNone || !graph.type(input).quantized() || graph.type(input).quant->per_channel()) continue;
    most = std::max(most, largest_of(graph.type(input)));
  }
  return most * 0x1p-22;
}

Noise noise_of(const Tensor& reference, const Tensor& actual) {
  Noise noise;
  noise.add(reference, actual);
  return noise;
}

// Steps of its type that any layer may be off by. Scales of 48-bit sums have 15 bits: at the end of its range a result
// of 16 bits is off by one step more, and by two where a sum is taken in two parts.
double steps_of(const Type& type) { return type.dtype == DType::I16 ? 3 : 1; }

// A layer that is off by more is wrong, whatever its forms declare; one that is off by less, but more than they
// declare, is worth a warning.
constexpr double kWrong = 1e-2;

// What the forms of a node declare, for its first operand.
double off_by(const Graph& graph, const Node& node) {
  const ErrorBound bound = declared_off(node.op);
  const bool narrow = !node.inputs.empty() && node.inputs[0] != kNone && graph.type(node.inputs[0]).dtype == DType::I8;
  return narrow ? bound.of_8_bits : bound.of_16_bits;
}

}  // namespace

ErrorBound declared_off(Op op) {
  static const std::vector<ErrorBound> kBounds = [] {
    std::vector<ErrorBound> bounds(kOpCount);
    for (int i = 0; i < kOpCount; ++i)
      bounds[static_cast<size_t>(i)] = {lowered_off(static_cast<Op>(i), 8), lowered_off(static_cast<Op>(i), 16)};
    for (const Rule& rule : expand_rules())
      for (Op root : rule.roots) {
        ErrorBound& bound = bounds[static_cast<size_t>(root)];
        bound.of_8_bits = std::max(bound.of_8_bits, rule.off.of_8_bits);
        bound.of_16_bits = std::max(bound.of_16_bits, rule.off.of_16_bits);
      }
    return bounds;
  }();
  return kBounds[static_cast<size_t>(op)];
}

Forecast::Forecast(const Graph& typed, OpaqueKernels* opaque) : typed_(typed), opaque_(opaque), constants_(typed) {
  for (NodeId id : typed.order())
    for (ValueId output : typed.node(id).outputs)
      if (const Value& value = typed.value(output); value.origin && value.type.quantized())
        by_origin_[value.origin->name] = output;
}

// What the forms between the file's values and each value may be off by together: a value that the file does not have
// is inside the layer that comes next.
std::vector<double> Forecast::declared() const {
  std::vector<double> off(typed_.value_slots());
  for (NodeId id : typed_.order()) {
    const Node& node = typed_.node(id);
    double before = 0;
    for (ValueId input : node.inputs)
      if (input != kNone && !taken_.contains(input)) before = std::max(before, off[input]);
    for (ValueId output : node.outputs) off[output] = before + off_by(typed_, node);
  }
  return off;
}

void Forecast::take(const Value& value, Buffer codes) {
  if (!value.origin || !value.type.quantized() || value.type.quant->per_channel()) return;
  auto found = by_origin_.find(value.origin->name);
  if (found == by_origin_.end()) return;
  // Copies of a value in another scale come after it.
  taken_.try_emplace(found->second, Taken{&value, std::move(codes)});
}

tosa::Observer Forecast::observer(const Graph& region, const tosa::Body& main) {
  std::map<std::string, const Value*> by_name;
  for (NodeId id : region.order())
    for (ValueId output : region.node(id).outputs) by_name.emplace(region.value(output).name, &region.value(output));
  return [this, &main, by_name = std::move(by_name)](const tosa::Body& body, const tosa::Operator&,
                                                     tosa::TensorId output, const tosa::TensorData& result) {
    if (&body != &main) return;  // a branch may use a name of the region's for another value
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
  return execute(typed_, sample, {opaque_, observer, rounds, &constants_});
}

Result<Forecast::Comparison> Forecast::compare(std::span<const Tensor> sample) {
  Comparison comparison;
  std::map<ValueId, Tensor> rounded;  // what looks wrong: rounding inside the layer may explain it
  const std::vector<double> off = declared();
  auto allowed = [&](ValueId id, double share) {
    const Type& type = typed_.type(id);
    const double step =
        std::max({steps_of(type) * type.scale(), taken_.at(id).value->type.scale(), float_step(typed_, id)});
    return (step + share * largest_of(type)) * std::sqrt(static_cast<double>(element_count(type.shape)));
  };
  TRY_ASSIGN(comparison.outputs, run(sample, true, [&](ValueId id, const Tensor& computed, const Tensor& file) {
               ++comparison.layers;
               Noise noise = noise_of(computed, file);
               if (std::sqrt(noise.error) > allowed(id, off[id])) rounded.emplace(id, computed);
             }));
  if (!rounded.empty())
    TRY(run(sample, false, [&](ValueId id, const Tensor& exact, const Tensor& file) {
      auto suspect = rounded.find(id);
      if (suspect == rounded.end()) return;
      Noise of_file = noise_of(exact, file);
      Noise of_types = noise_of(exact, suspect->second);
      const double beyond = std::sqrt(of_file.error) - 2 * std::sqrt(of_types.error);
      if (beyond > allowed(id, off[id]))
        comparison.faults.push_back({id, of_types, of_file, beyond > allowed(id, std::max(off[id], kWrong))});
    }));
  taken_.clear();
  return comparison;
}

}  // namespace swoop
