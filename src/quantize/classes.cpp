#include "quantize/classes.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

#include "quantize/class_type.h"
#include "quantize/layers.h"
#include "support/parallel.h"

namespace swoop {

namespace {

constexpr size_t kNoClass = ~size_t{0};

struct Classes {
  std::vector<Draft> drafts;
  std::vector<size_t> index;  // by value id

  size_t of(ValueId id) const { return id < index.size() ? index[id] : kNoClass; }
};

void merge(Classes& classes, size_t into, size_t from) {
  if (into == from) return;
  Draft& a = classes.drafts[into];
  Draft& b = classes.drafts[from];
  for (ValueId member : b.members) classes.index[member] = into;
  a.members.insert(a.members.end(), b.members.begin(), b.members.end());
  a.sources.insert(a.sources.end(), b.sources.begin(), b.sources.end());
  a.padding = joined(a.padding, b.padding);
  if (!a.pinned) a.pinned = b.pinned;
  b = {};
}

// One class per value first; movement then joins its operand and its result. A constant that is moved has no class of
// its own.
Classes group_by_movement(const Graph& graph, const Borders& borders) {
  Classes classes;
  classes.index.assign(graph.value_slots(), kNoClass);
  auto open = [&](ValueId id, bool source) {
    if (!borders.has_codes(id) || classes.index[id] != kNoClass) return;
    classes.index[id] = classes.drafts.size();
    Draft& draft = classes.drafts.emplace_back();
    draft.members = {id};
    if (source) draft.sources = {id};
    if (graph.type(id).quantized()) draft.pinned = graph.type(id);
  };
  for (ValueId input : graph.inputs()) open(input, true);
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    bool shares =
        borders.domains[id] == Domain::Quantized && shares_type(node) && !graph.type(node.outputs[0]).quantized();
    for (ValueId output : node.outputs) open(output, !shares);
    if (!shares) continue;
    size_t own = classes.of(node.outputs[0]);
    if (node.op == Op::Pad && node.text(Key::Mode) == "constant") {
      double value = node.real(Key::Value);
      if (std::isfinite(value)) classes.drafts[own].padding = {std::min(0.0, value), std::max(0.0, value)};
    }
    if (size_t operand = classes.of(node.inputs[0]); operand != kNoClass)
      merge(classes, operand, own);
    else
      classes.drafts[own].sources.push_back(node.inputs[0]);  // a constant: its codes are moved
  }
  return classes;
}

// An operand of a concat takes the result's type when nothing else reads it: rounding once beats rounding twice. If
// others read it, its noise for them grows by r^2 (r: the ratio of the scales) while the concat's falls from 1 + 1/r^2
// to 1: worth it up to r = 1.27.
bool should_join(const Context& c, const Node& node, Draft& from, Draft& to) {
  constexpr double kWorthwhile = 1.27;
  constexpr double kSlack = 0.25;  // a searched range clips: that of a part may reach beyond that of the whole
  Precision precision = precision_of(c, to);
  if (from.pinned || to.pinned || precision_of(c, from) != precision) return false;
  if (read_only_by(c, from, node.id)) return true;
  if (node.op != Op::Concat) return false;
  Range range = range_of(c, to), own = range_of(c, from);
  double ratio = activation_type(precision, {}, range).scale() / activation_type(precision, {}, own).scale();
  // The operand may be a maximum or a slice of what others read: those need their range.
  double slack = kSlack * (range.max - range.min);
  return own.min >= range.min - slack && own.max <= range.max + slack && ratio <= kWorthwhile;
}

void share_joins(const Context& c, Classes& classes) {
  for (NodeId id : c.graph.order()) {
    const Node& node = c.graph.node(id);
    if (policy_of(node) != Policy::Joins || c.borders.domains[id] != Domain::Quantized) continue;
    size_t own = classes.of(node.outputs[0]);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      size_t operand = classes.of(node.inputs[i]);
      if (static_cast<int>(i) == info(node.op).traits.selector || operand == kNoClass || operand == own) continue;
      if (!should_join(c, node, classes.drafts[operand], classes.drafts[own])) continue;
      Range range = joined(range_of(c, classes.drafts[own]), classes.drafts[operand].padding);
      merge(classes, own, operand);
      classes.drafts[own].range = range;
    }
  }
}

// What joins parts of very different ranges has 32 bits, and so has an input that it alone reads: the caller's numbers
// need not be rounded twice.
void pin_wide_joins(const Context& c, Classes& classes) {
  for (const auto& [id, scale] : c.borders.in_32_bits) {
    const Node& node = *c.graph.producer(id);
    const size_t own = classes.of(id);
    if (own == kNoClass || classes.drafts[own].pinned || c.borders.choices[node.id].by_scope) continue;
    const Type type = quantized(DType::I32, {}, scale, 0);
    classes.drafts[own].pinned = type;
    for (ValueId input : node.inputs) {
      const size_t operand = classes.of(input);
      if (operand == kNoClass || classes.drafts[operand].pinned || classes.drafts[operand].sources.size() != 1)
        continue;
      const bool given = !c.graph.producer(c.borders.measured_id(classes.drafts[operand].sources[0]));
      if (given && read_only_by(c, classes.drafts[operand], node.id)) classes.drafts[operand].pinned = type;
    }
  }
}

// Values that play one part in repeated layers: operands or results of layers with the same weights, as the steps of a
// recurrence are. With one type they have one set of scales in the file instead of one per step (10 bytes per channel),
// and one table per function. Joined as far as what was measured of no step gets coarser than by kCoarser. Each is a
// sample of the same thing: together they tell better than each alone how far others reach.
void share_part(const Context& c, Classes& classes, std::vector<size_t> parts) {
  constexpr double kCoarser = 1.27;
  auto scale = [&](const Draft& draft, Range range) {
    return activation_type(precision_of(c, draft), {}, range).scale();
  };
  std::erase_if(parts, [&](size_t at) { return at == kNoClass || classes.drafts[at].pinned; });
  std::sort(parts.begin(), parts.end());
  parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
  std::map<size_t, Range> seen;
  for (size_t at : parts) seen[at] = measured_range(c, classes.drafts[at]);
  auto own_scale = [&](size_t at) { return scale(classes.drafts[at], seen[at]); };
  std::stable_sort(parts.begin(), parts.end(), [&](size_t a, size_t b) { return own_scale(a) > own_scale(b); });
  while (!parts.empty()) {
    const size_t into = parts.front();
    std::vector<size_t> others;
    Range range = seen[into];
    double finest = own_scale(into);
    for (size_t at : std::span(parts).subspan(1)) {
      Draft &whole = classes.drafts[into], &part = classes.drafts[at];
      const Range both = joined(range, seen[at]);
      const double least = std::min(finest, own_scale(at));
      if (precision_of(c, part) != precision_of(c, whole) || scale(whole, both) > kCoarser * least) {
        others.push_back(at);
        continue;
      }
      range = both;
      finest = least;
      merge(classes, into, at);
      whole.range.reset();
    }
    parts = std::move(others);
  }
}

void share_repeated(const Context& c, Classes& classes) {
  std::map<ValueId, std::vector<const Node*>> layers;  // by weights
  for (NodeId id : c.graph.order()) {
    const Node& node = c.graph.node(id);
    if (is_layer(node.op) && c.borders.domains[id] == Domain::Quantized && c.graph.value(node.inputs[1]).constant)
      layers[node.inputs[1]].push_back(&node);
  }
  for (const auto& [weights, repeated] : layers) {
    if (repeated.size() < 2) continue;
    std::vector<size_t> operands, results;
    for (const Node* node : repeated) {
      operands.push_back(classes.of(node->inputs[0]));
      results.push_back(classes.of(node->outputs[0]));
    }
    share_part(c, classes, operands);
    share_part(c, classes, results);
  }
}

bool only_compared(const Context& c, const Draft& draft) {
  for (ValueId member : draft.members)
    for (const Use& use : c.graph.value(member).uses)
      if (use.node == kNone || c.graph.node(use.node).op != Op::Compare) return false;
  return true;
}

// What is only compared has the type of the other side, so that equal numbers have equal codes; if both are, one type.
void share_comparisons(const Context& c, Classes& classes) {
  for (NodeId id : c.graph.order()) {
    const Node& node = c.graph.node(id);
    if (node.op != Op::Compare) continue;
    size_t left = classes.of(node.inputs[0]), right = classes.of(node.inputs[1]);
    if (left == kNoClass || right == kNoClass || left == right) continue;
    Draft &a = classes.drafts[left], &b = classes.drafts[right];
    bool free_a = !a.pinned && only_compared(c, a), free_b = !b.pinned && only_compared(c, b);
    if (free_a && free_b) {
      Range range = joined(range_of(c, a), range_of(c, b));
      merge(classes, left, right);
      classes.drafts[left].range = range;
    } else if (free_a || free_b) {
      Draft &free = free_a ? a : b, &other = free_a ? b : a;
      free.pinned = type_of(c, other);
    }
  }
}

// A bilinear resize weighs codes by multiples of a power of two. When the result's scale is one of the operand's too,
// U85 only shifts the sums; otherwise they are written out in 32 bits and rescaled by an op of their own (64 x 64 x 32
// results: 78.0 against 6.4 k cycles).
void align_resizes(const Context& c, Classes& classes) {
  for (NodeId id : c.graph.order()) {
    const Node& node = c.graph.node(id);
    if (node.op != Op::Resize || c.borders.domains[id] != Domain::Quantized) continue;
    size_t operand = classes.of(node.inputs[0]), own = classes.of(node.outputs[0]);
    if (operand == kNoClass || own == kNoClass || operand == own) continue;
    Draft& from = classes.drafts[operand];
    if (from.pinned || !read_only_by(c, from, id)) continue;
    Type fine = type_of(c, from);
    const Type coarse = type_of(c, classes.drafts[own]);
    // What a slightly smaller range cuts off, the result's would cut off as well.
    constexpr double kNear = 0.9;
    const double ratio = coarse.scale() / fine.scale();
    const auto shift = ratio < 1 && ratio > kNear ? 0 : static_cast<int>(std::floor(std::log2(ratio)));
    if (fine.dtype != coarse.dtype || shift < 0 || shift > 7 || fine.zero_point() % (int64_t{1} << shift) != 0)
      continue;
    from.range = range_of(quantized(fine.dtype, {}, std::ldexp(coarse.scale(), -shift), fine.zero_point()));
  }
}

// A mask that is added to scores at run time: deep enough that any score falls out of the sum's range, rounding
// included, and no deeper.
void deepen_masks(const Context& c, Classes& classes) {
  constexpr double kDeeper = 1.05;
  const std::vector<bool>& hides = c.request.measured.hides;
  for (NodeId id : c.graph.order()) {
    const Node& node = c.graph.node(id);
    if (node.op != Op::Add || c.borders.domains[id] != Domain::Quantized) continue;
    for (ValueId input : node.inputs) {
      size_t operand = classes.of(input), own = classes.of(node.outputs[0]);
      ValueId from = c.borders.measured_origin(c.graph, input);
      if (operand == kNoClass || own == kNoClass || from >= hides.size() || !hides[from]) continue;
      Range sum = range_of(c, classes.drafts[own]);
      classes.drafts[operand].range = joined(range_of(c, classes.drafts[operand]), {kDeeper * (sum.min - sum.max), 0});
    }
  }
}

// A body's outputs take the cond's types where nothing else reads them.
void pin_outputs(const Context& c, Classes& classes) {
  const std::vector<Type>& types = c.request.output_types;
  for (size_t i = 0; i < types.size(); ++i) {
    size_t at = classes.of(c.graph.outputs()[i]);
    if (at == kNoClass || classes.drafts[at].pinned || !types[i].quantized()) continue;
    const std::vector<ValueId>& members = classes.drafts[at].members;
    bool only =
        std::all_of(members.begin(), members.end(), [&](ValueId v) { return c.graph.value(v).uses.size() == 1; });
    if (only) classes.drafts[at].pinned = types[i];
  }
}

}  // namespace

std::vector<TypeClass> choose_classes(const Graph& graph, const Borders& borders, const TypeRequest& request) {
  const Context c{graph, borders, request};
  Classes classes = group_by_movement(graph, borders);
  pin_wide_joins(c, classes);
  share_joins(c, classes);
  share_repeated(c, classes);
  share_comparisons(c, classes);
  pin_outputs(c, classes);
  deepen_masks(c, classes);
  if (request.options.shift_resizes) align_resizes(c, classes);
  // Ranges are searched side by side; each is a function of its class alone.
  parallel_for(classes.drafts.size(), 4, [&](size_t first, size_t last) {
    for (size_t i = first; i < last; ++i)
      if (!classes.drafts[i].members.empty() && !classes.drafts[i].pinned) range_of(c, classes.drafts[i]);
  });
  std::vector<TypeClass> chosen;
  for (Draft& draft : classes.drafts)
    if (!draft.members.empty())
      chosen.push_back({draft.members, draft.sources, type_of(c, draft), draft.pinned.has_value()});
  return chosen;
}

}  // namespace swoop
