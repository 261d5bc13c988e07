#include "quantize/class_type.h"

#include <algorithm>
#include <cmath>

#include "quantize/known_constants.h"
#include "quantize/layers.h"
#include "support/check.h"

namespace swoop {

namespace {

// What a masked score must fall short of its row's largest by, so that softmax gives it nothing even at 16 bits,
// however many there are.
double mask_depth(const Shape& shape) {
  return 8.0 + std::log(static_cast<double>(std::max<int64_t>(2, shape.empty() ? 2 : shape.back())));
}

// What the math of all sources' nodes allows at most, so that widening does not waste codes.
Range within_bounds(const Context& c, Range range, const std::vector<ValueId>& sources) {
  Range bounds{0, 0};
  for (ValueId source : sources) {
    const Node* node = c.graph.producer(c.borders.measured_origin(c.graph, source));
    Range own = node ? bounds_of(*node) : kAllReals;
    bounds = {std::min(bounds.min, own.min), std::max(bounds.max, own.max)};
  }
  return {std::max(range.min, bounds.min), std::min(range.max, bounds.max)};
}

// A classifier's scores that only a softmax reads: they are 16 bits wide inside it anyway, and an accumulator gives 16
// bits as fast as 8. Where there are many, twice the bytes cost more than they gain (Whisper's attention on U85: 10 %
// of the cycles).
bool holds_scores(const Context& c, const Draft& draft) {
  constexpr int64_t kMostScores = 2048;
  if (draft.sources.size() != 1 || element_count(c.graph.type(draft.sources[0]).shape) > kMostScores) return false;
  const Node* producer = c.graph.producer(draft.sources[0]);
  if (!producer || !is_layer(producer->op) || c.borders.choices[producer->id].by_scope) return false;
  NodeId reader = kNone;
  for (ValueId member : draft.members)
    for (const Use& use : c.graph.value(member).uses)
      if (use.node != kNone && c.graph.node(use.node).op == Op::Softmax &&
          c.borders.domains[use.node] == Domain::Quantized)
        reader = use.node;
  return reader != kNone && read_only_by(c, draft, reader);
}

// Its results are whole numbers, whatever its operands are.
bool gives_whole_numbers(const Graph& graph, const Node& n) {
  if (n.op == Op::Cast) return !is_float(graph.type(n.inputs[0]).dtype) && !graph.type(n.inputs[0]).quantized();
  if (n.op == Op::Div) return n.has(Key::Mode);
  const UnaryFunction* function = n.op == Op::Unary ? unary_function(n.text(Key::Fn)) : nullptr;
  if (!function) return false;
  auto parameter = [&](Key key) { return static_cast<float>(n.real(key, 0)); };
  for (float x : {-2.6f, 0.3f, 1.9f, 7.5f}) {
    const float y = function->of(x, parameter(Key::Alpha), parameter(Key::Beta));
    if (y != std::nearbyint(y)) return false;
  }
  return true;
}

bool cast_to_integers(const Graph& graph, ValueId id) {
  for (const Use& use : graph.value(id).uses) {
    const Node* reader = use.node == kNone ? nullptr : &graph.node(use.node);
    if (!reader) continue;
    if (reader->op == Op::Cast && is_integer(graph.type(reader->outputs[0]).dtype)) return true;
    if (reader->op == Op::Dequantize && cast_to_integers(graph, reader->outputs[0])) return true;
  }
  return false;
}

// The type in which whole numbers are exact: what is cast to an integer must not be 2.99 where it was 3.
std::optional<Type> whole_type(const Context& c, const Draft& draft, Precision precision, const Range& range) {
  const auto cast = [&](ValueId member) { return cast_to_integers(c.graph, member); };
  if (std::none_of(draft.members.begin(), draft.members.end(), cast)) return std::nullopt;
  for (ValueId source : draft.sources) {
    const Node* producer = c.graph.producer(c.borders.measured_origin(c.graph, source));
    if (!producer || !gives_whole_numbers(c.graph, *producer)) return std::nullopt;
  }
  const bool wide = precision == Precision::Int16;
  const double most = wide ? 32767 : 127;
  if (draft.sources.empty() || range.min < -most || range.max > most) return std::nullopt;
  return quantized(wide ? DType::I16 : DType::I8, {}, 1.0, 0);
}

Precision precision_of_value(const Context& c, ValueId id) {
  Precision usual = c.request.options.precision;
  const std::string& name = c.graph.value(c.borders.measured_id(id)).name;
  if (c.request.raised.contains(c.request.path + name)) return Precision::Int16;
  const Node* producer = c.graph.producer(id);
  if (producer && producer->op != Op::Quantize) {
    Precision precision = c.borders.choices[producer->id].precision;
    return precision == Precision::Float ? usual : precision;
  }
  // An input is as fine as the coarsest of its readers asks for.
  Precision precision = Precision::Int16;
  bool read = false;
  for (const Use& use : c.graph.value(id).uses) {
    if (use.node == kNone) continue;
    read |= c.graph.node(use.node).op == Op::Compare;  // which has 32 bits anyway
    if (c.borders.domains[use.node] != Domain::Quantized) continue;
    read = true;
    if (c.borders.choices[use.node].precision == Precision::Int8) precision = Precision::Int8;
  }
  if (read) return precision;
  return usual == Precision::Float ? Precision::Int8 : usual;
}

}  // namespace

Precision precision_of(const Context& c, const Draft& draft) {
  if (holds_scores(c, draft)) return Precision::Int16;
  for (ValueId source : draft.sources) {
    if (precision_of_value(c, source) == Precision::Int16) return Precision::Int16;
    const Node* producer = c.graph.producer(source);
    bool by_scope = producer && c.borders.choices[producer->id].by_scope;
    if (!by_scope && (c.borders.is_wide(source) || c.borders.is_wide(c.borders.measured_id(source))))
      return Precision::Int16;
  }
  return Precision::Int8;
}

namespace {

// `id`: of the value that the statistics are of; none: they are of several, and nothing is remembered.
Range chosen_range(const Context& c, ValueId id, const Statistics& statistics, Method method, int levels) {
  KnownConstants* known = c.request.known;
  const KnownConstants::RangeQuestion question{&statistics, method, levels, c.request.room};
  if (auto range = known ? known->ranges.find(id, question) : std::nullopt) return *range;
  const Range range = choose_range(statistics, method, c.request.options.percentile, levels, c.request.room);
  if (known) known->ranges.keep(id, question, range);
  return range;
}

}  // namespace

Range range_of(const Context& c, Draft& draft) {
  if (draft.range) return *draft.range;
  const Measured& measured = c.request.measured;
  Range fixed = draft.padding;  // what must be representable, whatever was measured
  Statistics joint;
  const Statistics* statistics = &joint;
  ValueId alone = kNone;
  Method method = c.request.options.method;
  for (ValueId source : draft.sources) {
    ValueId id = c.borders.measured_id(source);
    if (c.graph.value(id).constant) {
      fixed = joined(fixed, constant_range(c.graph.value(id)));
      continue;
    }
    ValueId from = c.borders.measured_origin(c.graph, id);
    CHECK(from < measured.values.size(), "{} has no range", c.graph.value(id).name);
    if (const Node* producer = c.graph.producer(source)) method = c.borders.choices[producer->id].method;
    if (draft.sources.size() == 1) {
      alone = from;
      statistics = &measured.values[from];
    } else {
      joint.merge(measured.values[from]);
    }
    if (measured.masked[from] && std::isfinite(measured.lowest_peak[from]))
      fixed.min =
          std::min(fixed.min, static_cast<double>(measured.lowest_peak[from]) - mask_depth(c.graph.type(from).shape));
  }
  int levels = precision_of(c, draft) == Precision::Int16 ? 65536 : 256;
  const Range chosen = chosen_range(c, alone, *statistics, method, levels);
  draft.range = joined(fixed, within_bounds(c, chosen, draft.sources));
  return *draft.range;
}

Range measured_range(const Context& c, const Draft& draft) {
  Range range = draft.padding;
  for (ValueId source : draft.sources) {
    const Value& value = c.graph.value(c.borders.measured_id(source));
    if (value.constant) {
      range = joined(range, constant_range(value));
      continue;
    }
    const Statistics& s = c.request.measured.values[c.borders.measured_origin(c.graph, c.borders.measured_id(source))];
    if (!s.empty()) range = joined(range, {static_cast<double>(s.min), static_cast<double>(s.max)});
  }
  return range;
}

namespace {

// Whether a product reads it as its second matrix, or attention as keys or values, and makes weights of it.
bool holds_weights(const Context& c, const Draft& draft) {
  const auto& writes_weights = c.request.options.writes_weights;
  const auto is_weight = [&](const Use& use) {
    if (use.node == kNone || c.borders.domains[use.node] != Domain::Quantized) return false;
    const Node& node = c.graph.node(use.node);
    const bool keys = node.op == Op::Attention && use.index == 1;
    if (!keys && !(node.op == Op::MatMul && use.index == 1) && !(node.op == Op::Attention && use.index == 2))
      return false;
    const Shape& result = c.graph.type(node.outputs[0]).shape;
    const Shape& matrix = c.graph.type(node.inputs[use.index]).shape;
    const int64_t rows = result[result.size() - 2];
    int64_t depth = matrix[matrix.size() - 2], channels = matrix.back();
    if (keys) std::swap(depth, channels);
    return writes_weights(element_count(result) / (rows * result.back()), rows, depth, channels);
  };
  return writes_weights && std::ranges::any_of(draft.members, [&](ValueId member) {
           return std::ranges::any_of(c.graph.value(member).uses, is_weight);
         });
}

// As weights have it: zero is code 0, and there is a positive code for each negative one.
Type weight_type(const Range& range) {
  const double most = std::max(-range.min, range.max);
  Type type = quantized(DType::I8, {}, (most > 0 ? most : 1) / 127, 0);
  type.quant->qmin = -127;
  return type;
}

}  // namespace

Type type_of(const Context& c, Draft& draft) {
  if (draft.pinned) return *draft.pinned;
  const Precision precision = precision_of(c, draft);
  const Range range = range_of(c, draft);
  if (std::optional<Type> whole = whole_type(c, draft, precision, range)) return *whole;
  if (precision == Precision::Int8 && holds_weights(c, draft)) return weight_type(range);
  return activation_type(precision, {}, range);
}

bool read_only_by(const Context& c, const Draft& draft, NodeId node) {
  for (ValueId member : draft.members)
    for (const Use& use : c.graph.value(member).uses) {
      if (use.node == node) continue;
      if (use.node == kNone) return false;
      const Node& user = c.graph.node(use.node);
      bool inside = use.index == 0 && c.borders.domains[use.node] == Domain::Quantized && shares_type(user) &&
                    std::find(draft.members.begin(), draft.members.end(), user.outputs[0]) != draft.members.end();
      if (!inside) return false;
    }
  return true;
}

}  // namespace swoop
