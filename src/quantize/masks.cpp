#include "quantize/masks.h"

#include <algorithm>
#include <cmath>

#include "quantize/calibrate.h"

namespace swoop {

namespace {

constexpr float kHidesBelow = 2 * kMaskedBelow;  // what a mask must reach, so that no score lifts it to one that counts

// The sum that a softmax, or a search for the largest, sees next; null: it sees something else, or the caller sees what
// is hidden.
const Node* sum_before(const Graph& graph, const Node& node) {
  if (node.op != Op::Softmax && node.op != Op::LogSoftmax && node.op != Op::ArgMax) return nullptr;
  const Node* sum = graph.producer(origin(graph, node.inputs[0]));
  if (!sum || (sum->op != Op::Add && sum->op != Op::Where)) return nullptr;
  const auto is_output = [](const Use& use) { return use.node == kNone; };
  return node.op == Op::ArgMax && std::ranges::any_of(graph.value(sum->outputs[0]).uses, is_output) ? nullptr : sum;
}

const Node* inner_sum(const Graph& graph, ValueId id) {
  const Node* node = graph.producer(id);
  return node && node->op == Op::Add ? node : nullptr;
}

// The sum's operands that come at run time. A mask may be added to a mask, or to scores that are masked already.
void add_operands(const Graph& graph, const Node& sum, int levels, std::set<ValueId>& found) {
  found.insert(sum.outputs[0]);
  for (ValueId input : sum.inputs) {
    ValueId id = origin(graph, input);
    if (graph.value(id).constant || !is_float(graph.type(id).dtype) || graph.type(id).quantized()) continue;
    found.insert(id);
    if (const Node* inner = inner_sum(graph, id); inner && levels > 0) add_operands(graph, *inner, levels - 1, found);
  }
}

// A log_softmax of which nothing is read but what is not hidden: `clean` makes these.
bool hidden_again(const Graph& graph, const Node& node) {
  if (node.op != Op::LogSoftmax) return false;
  const std::vector<Use>& uses = graph.value(node.outputs[0]).uses;
  return uses.size() == 1 && uses[0].node != kNone && graph.node(uses[0].node).op == Op::Where;
}

bool is_zero(const Statistics& s) { return !s.empty() && s.min == 0 && s.max == 0; }

// A mask that hid nothing in the samples shows what it is by how deep its values may be, or as an input of zeros.
bool may_hide(const Graph& graph, const Measured& measured, ValueId id) {
  if (measured.depths.at(id).hides()) return true;
  const Statistics& s = measured.values[id];
  if (!is_zero(measured.depths.at(id).above)) return false;
  return graph.producer(id) ? !s.empty() && s.min <= kHidesBelow : true;
}

void settle_sum(const Graph& graph, const Node& sum, Measured& measured) {
  auto leave = [&](ValueId id) {
    const Statistics& above = measured.depths.at(id).above;
    if (!above.empty()) measured.values[id] = above;
  };
  for (ValueId input : sum.inputs) {
    ValueId id = origin(graph, input);
    if (!measured.depths.contains(id) || !may_hide(graph, measured, id)) continue;
    measured.masked[sum.outputs[0]] = true;
    leave(sum.outputs[0]);
    const Statistics& above = measured.depths.at(id).above;
    if (const Node* inner = inner_sum(graph, id); inner && above.min < above.max) {
      measured.masked[id] = true;  // scores that are masked already
      leave(id);
      settle_sum(graph, *inner, measured);
    } else {
      measured.hides[id] = true;
      leave(id);
    }
  }
}

}  // namespace

std::vector<bool> masked_scores(const Graph& graph) {
  std::vector<bool> masked(graph.value_slots());
  auto holds_mask = [&](ValueId id) {
    const Value& value = graph.value(id);
    if (!value.constant || !is_float(value.type.dtype)) return false;
    Tensor tensor = to_tensor(value);
    std::span<const float> x = tensor.as<float>();
    return std::any_of(x.begin(), x.end(), [](float v) { return v <= kHidesBelow; });
  };
  for (NodeId id = graph.first(); id != kNone; id = graph.node(id).next) {
    const Node* sum = sum_before(graph, graph.node(id));
    if (!sum) continue;
    for (size_t i = sum->op == Op::Where ? 1 : 0; i < sum->inputs.size(); ++i)
      masked[sum->outputs[0]] = masked[sum->outputs[0]] || holds_mask(sum->inputs[i]);
    if (hidden_again(graph, graph.node(id))) masked[graph.node(id).outputs[0]] = masked[sum->outputs[0]];
  }
  return masked;
}

std::set<ValueId> possible_masks(const Graph& graph) {
  constexpr int kLevels = 2;
  std::set<ValueId> found;
  for (NodeId id = graph.first(); id != kNone; id = graph.node(id).next) {
    const Node* sum = sum_before(graph, graph.node(id));
    if (sum && sum->op == Op::Add) add_operands(graph, *sum, kLevels, found);
  }
  return found;
}

void Depths::add(std::span<const float> values) {
  above.add(values, kMaskedBelow);
  for (float x : values) {
    deep |= x <= kHidesBelow;
    between |= x > kHidesBelow && x < kMaskedBelow;
  }
}

void settle_masks(const Graph& graph, Measured& measured) {
  for (NodeId id = graph.first(); id != kNone; id = graph.node(id).next) {
    const Node* sum = sum_before(graph, graph.node(id));
    if (sum && sum->op == Op::Add) settle_sum(graph, *sum, measured);
  }
}

}  // namespace swoop
