#include <algorithm>
#include <cmath>

#include "quantize/assign.h"
#include "quantize/layers.h"
#include "support/check.h"
#include "support/parallel.h"

namespace swoop {

namespace {

constexpr size_t kNoClass = ~size_t{0};

// What a masked score must fall short of its row's largest by, so that softmax gives it nothing even at 16 bits,
// however many there are.
double mask_depth(const Shape& shape) {
  return 8.0 + std::log(static_cast<double>(std::max<int64_t>(2, shape.empty() ? 2 : shape.back())));
}

}  // namespace

ValueId TypeAssigner::measured_id(ValueId id) const {
  auto at = source_.find(id);
  return at == source_.end() ? id : at->second;
}

size_t TypeAssigner::class_of(ValueId id) { return id < class_index_.size() ? class_index_[id] : kNoClass; }

void TypeAssigner::merge(size_t into, size_t from) {
  if (into == from) return;
  Class& a = classes_[into];
  Class& b = classes_[from];
  for (ValueId member : b.members) class_index_[member] = into;
  a.members.insert(a.members.end(), b.members.begin(), b.members.end());
  a.sources.insert(a.sources.end(), b.sources.begin(), b.sources.end());
  a.padding = {std::min(a.padding.min, b.padding.min), std::max(a.padding.max, b.padding.max)};
  if (!a.pinned) a.pinned = b.pinned;
  b = {};
}

// One class per value first; movement then joins its operand and its result. A constant that is moved has no class of
// its own.
void TypeAssigner::make_classes() {
  class_index_.assign(graph_.value_slots(), kNoClass);
  auto open = [&](ValueId id, bool source) {
    if (!lives_quantized(id) || class_index_[id] != kNoClass) return;
    class_index_[id] = classes_.size();
    Class& c = classes_.emplace_back();
    c.members = {id};
    if (source) c.sources = {id};
    if (graph_.type(id).quantized()) c.pinned = graph_.type(id);
  };
  for (ValueId input : graph_.inputs()) open(input, true);
  for (NodeId id : graph_.order()) {
    const Node& node = graph_.node(id);
    bool shares = kinds_[id] == Kind::Quantized && shares_type(node) && !graph_.type(node.outputs[0]).quantized();
    for (ValueId output : node.outputs) open(output, !shares);
    if (!shares) continue;
    size_t own = class_index_[node.outputs[0]];
    if (node.op == Op::Pad && node.text(Key::Mode) == "constant") {
      double value = node.real(Key::Value);
      if (std::isfinite(value)) classes_[own].padding = {std::min(0.0, value), std::max(0.0, value)};
    }
    if (size_t operand = class_of(node.inputs[0]); operand != kNoClass)
      merge(operand, own);
    else
      classes_[own].sources.push_back(node.inputs[0]);  // a constant: its codes are moved
  }
}

Precision TypeAssigner::precision_of_value(ValueId id) const {
  ValueId measured = measured_id(id);
  if (assignment_.raised.contains(path_ + graph_.value(measured).name)) return Precision::Int16;
  const Node* producer = graph_.producer(id);
  if (producer && producer->op != Op::Quantize) {
    Precision precision = choices_[producer->id].precision;
    return precision == Precision::Float ? assignment_.options.precision : precision;
  }
  // An input is as fine as the coarsest of its readers asks for.
  Precision precision = Precision::Int16;
  bool read = false;
  for (const Use& use : graph_.value(id).uses) {
    if (use.node == kNone || kinds_[use.node] != Kind::Quantized) continue;
    read = true;
    if (choices_[use.node].precision == Precision::Int8) precision = Precision::Int8;
  }
  return read                                                ? precision
         : assignment_.options.precision == Precision::Float ? Precision::Int8
                                                             : assignment_.options.precision;
}

// A classifier's scores that only a softmax reads: they are 16 bits wide inside it anyway, and an accumulator gives 16
// bits as fast as 8. Where there are many, twice the bytes cost more than they gain (Whisper's attention on U85: 10 %
// of the cycles).
bool TypeAssigner::holds_scores(const Class& c) const {
  constexpr int64_t kMostScores = 2048;
  if (c.sources.size() != 1 || element_count(graph_.type(c.sources[0]).shape) > kMostScores) return false;
  const Node* producer = graph_.producer(c.sources[0]);
  if (!producer || !is_layer(producer->op) || choices_[producer->id].by_scope) return false;
  NodeId reader = kNone;
  for (ValueId member : c.members)
    for (const Use& use : graph_.value(member).uses)
      if (use.node != kNone && graph_.node(use.node).op == Op::Softmax && kinds_[use.node] == Kind::Quantized)
        reader = use.node;
  return reader != kNone && read_only_by(c, reader);
}

Precision TypeAssigner::precision_of(const Class& c) const {
  if (holds_scores(c)) return Precision::Int16;
  for (ValueId source : c.sources)
    if (precision_of_value(source) == Precision::Int16) return Precision::Int16;
  return Precision::Int8;
}

// What the math of all sources' nodes allows at most, so that widening does not waste codes.
Range TypeAssigner::within_bounds(Range range, const Class& c) const {
  Range bounds{0, 0};
  for (ValueId source : c.sources) {
    const Node* node = graph_.producer(origin(graph_, measured_id(source)));
    Range own = node ? bounds_of(*node) : kAllReals;
    bounds = {std::min(bounds.min, own.min), std::max(bounds.max, own.max)};
  }
  return {std::max(range.min, bounds.min), std::min(range.max, bounds.max)};
}

Range TypeAssigner::range_of_class(Class& c) {
  if (c.range) return *c.range;
  int levels = precision_of(c) == Precision::Int16 ? 65536 : 256;
  Range range = c.padding;
  Statistics joint;
  const Statistics* statistics = &joint;
  Method method = assignment_.options.method;
  for (ValueId source : c.sources) {
    ValueId id = measured_id(source);
    if (graph_.value(id).constant) {
      Range constant = constant_range(graph_.value(id));
      range = {std::min(range.min, constant.min), std::max(range.max, constant.max)};
      continue;
    }
    ValueId from = origin(graph_, id);
    if (from >= measured_.values.size()) continue;
    if (const Node* producer = graph_.producer(source)) method = choices_[producer->id].method;
    if (c.sources.size() == 1)
      statistics = &measured_.values[from];
    else
      joint.merge(measured_.values[from]);
    if (from < masked_.size() && masked_[from] && std::isfinite(measured_.lowest_peak[from]))
      range.min =
          std::min(range.min, static_cast<double>(measured_.lowest_peak[from]) - mask_depth(graph_.type(from).shape));
  }
  Range chosen = choose_range(*statistics, method, assignment_.options.percentile, levels);
  chosen = within_bounds(chosen, c);
  c.range = Range{std::min(range.min, chosen.min), std::max(range.max, chosen.max)};
  return *c.range;
}

Type TypeAssigner::type_of_class(Class& c) {
  if (c.pinned) return *c.pinned;
  return activation_type(precision_of(c), {}, range_of_class(c));
}

// Whether nothing but `node` (and the movement inside the class) reads the class.
bool TypeAssigner::read_only_by(const Class& c, NodeId node) const {
  for (ValueId member : c.members)
    for (const Use& use : graph_.value(member).uses) {
      if (use.node == node) continue;
      if (use.node == kNone) return false;
      const Node& user = graph_.node(use.node);
      bool inside = use.index == 0 && kinds_[use.node] == Kind::Quantized && shares_type(user) &&
                    std::find(c.members.begin(), c.members.end(), user.outputs[0]) != c.members.end();
      if (!inside) return false;
    }
  return true;
}

// An operand of a concat takes the result's type when nothing else reads it: rounding once beats rounding twice. If
// others read it, its noise for them grows by r^2 (r: the ratio of the scales) while the concat's falls from 1 + 1/r^2
// to 1: worth it up to r = 1.27.
void TypeAssigner::share_joins() {
  constexpr double kWorthwhile = 1.27;
  constexpr double kSlack = 0.25;  // a searched range clips: that of a part may reach beyond that of the whole
  for (NodeId id : graph_.order()) {
    const Node& node = graph_.node(id);
    if (policy_of(node) != Policy::Joins || kinds_[id] != Kind::Quantized) continue;
    size_t own = class_of(node.outputs[0]);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      size_t operand = class_of(node.inputs[i]);
      if (static_cast<int>(i) == info(node.op).traits.selector || operand == kNoClass || operand == own) continue;
      Class& from = classes_[operand];
      Class& to = classes_[own];
      if (from.pinned || to.pinned || precision_of(from) != precision_of(to)) continue;
      Range range = range_of_class(to), own_range = range_of_class(from);
      double ratio = activation_type(precision_of(to), {}, range).scale() /
                     activation_type(precision_of(from), {}, own_range).scale();
      // The operand may be a maximum or a slice of what others read: those need their range.
      double slack = kSlack * (range.max - range.min);
      bool covered = own_range.min >= range.min - slack && own_range.max <= range.max + slack;
      bool worthwhile = read_only_by(from, id) || (node.op == Op::Concat && covered && ratio <= kWorthwhile);
      if (!worthwhile) continue;
      Range padding = from.padding;
      merge(own, operand);
      classes_[own].range = Range{std::min(range.min, padding.min), std::max(range.max, padding.max)};
    }
  }
}

// A bilinear resize weighs codes by multiples of a power of two. When the result's scale is one of the operand's too,
// U85 only shifts the sums; otherwise they are written out in 32 bits and rescaled by an op of their own (64 x 64 x 32
// results: 78.0 against 6.4 k cycles).
void TypeAssigner::align_resizes() {
  for (NodeId id : graph_.order()) {
    const Node& node = graph_.node(id);
    if (node.op != Op::Resize || kinds_[id] != Kind::Quantized) continue;
    size_t operand = class_of(node.inputs[0]), own = class_of(node.outputs[0]);
    if (operand == kNoClass || own == kNoClass || operand == own) continue;
    Class& from = classes_[operand];
    if (from.pinned || !read_only_by(from, id)) continue;
    Type fine = type_of_class(from);
    const Type coarse = type_of_class(classes_[own]);
    auto shift = static_cast<int>(std::floor(std::log2(coarse.scale() / fine.scale())));
    if (fine.dtype != coarse.dtype || shift < 0 || shift > 7 || fine.zero_point() % (int64_t{1} << shift) != 0)
      continue;
    from.range = range_of(quantized(fine.dtype, {}, std::ldexp(coarse.scale(), -shift), fine.zero_point()));
  }
}

void TypeAssigner::report(const Class& c, const Type& type) {
  if (!assignment_.values) return;
  for (ValueId source : c.sources) {
    ValueId id = measured_id(source);
    const Value& value = graph_.value(id);
    if (value.constant) continue;
    const Statistics& statistics = measured_.values[origin(graph_, id)];
    const Node* producer = graph_.producer(id);
    const Loc* loc = producer ? graph_.loc(producer->loc) : nullptr;
    Range range = range_of(type);
    Type shown = type;
    shown.shape = value.type.shape;
    assignment_.values->push_back(
        {.name = path_ + value.name,
         .node = producer ? producer->name : "",
         .op = producer ? std::string(name_of(producer->op)) : "input",
         .source = loc ? to_text(*loc) : "",
         .type = to_text(shown),
         .min = statistics.empty() ? 0.0 : static_cast<double>(statistics.min),
         .max = statistics.empty() ? 0.0 : static_cast<double>(statistics.max),
         .clipped = statistics.share_outside(range.min - type.scale() / 2, range.max + type.scale() / 2)});
  }
}

void TypeAssigner::set_types() {
  // A body's outputs take the cond's types where nothing else reads them.
  for (size_t i = 0; i < wanted_.size(); ++i) {
    size_t c = class_of(graph_.outputs()[i]);
    if (c == kNoClass || classes_[c].pinned || !wanted_[i].quantized()) continue;
    bool only = std::all_of(classes_[c].members.begin(), classes_[c].members.end(),
                            [&](ValueId v) { return graph_.value(v).uses.size() == 1; });
    if (only) classes_[c].pinned = wanted_[i];
  }
  if (assignment_.options.shift_resizes) align_resizes();
  // Ranges are searched side by side; each is a function of its class alone.
  parallel_for(classes_.size(), 4, [&](size_t first, size_t last) {
    for (size_t i = first; i < last; ++i)
      if (!classes_[i].members.empty() && !classes_[i].pinned) range_of_class(classes_[i]);
  });
  for (Class& c : classes_) {
    if (c.members.empty()) continue;
    Type type = type_of_class(c);
    if (!c.pinned || !wanted_.empty()) report(c, type);
    for (ValueId member : c.members) {
      if (graph_.type(member).quantized()) continue;
      type.shape = graph_.type(member).shape;
      graph_.value(member).type = type;
    }
  }
}

}  // namespace swoop
