#include <algorithm>
#include <cmath>

#include "accuracy/accuracy.h"
#include "support/check.h"

namespace swoop {

namespace {

// Which value each element of an output comes from: numbers of values, moved by the kernels that move the elements.
class Labels {
 public:
  explicit Labels(const Graph& graph) : graph_(graph) {}

  Result<Tensor> of(ValueId id) {
    const Node* node = graph_.producer(id);
    if (!node || !is_moved(*node)) return leaf(id);
    std::vector<Tensor> tensors;
    tensors.reserve(node->inputs.size());
    std::vector<const Tensor*> operands;
    for (ValueId input : node->inputs) {
      bool selects = static_cast<int>(operands.size()) == info(node->op).traits.selector;
      if (selects) {
        tensors.push_back(to_tensor(graph_.value(input)));
      } else {
        TRY_ASSIGN(Tensor labels, of(input));
        tensors.push_back(std::move(labels));
      }
      operands.push_back(&tensors.back());
    }
    std::vector<Tensor> results;
    results.push_back(make_tensor(DType::F32, graph_.type(id).shape));
    TRY(evaluate(*node, operands, results));
    return std::move(results[0]);
  }

  const std::vector<ValueId>& leaves() const { return leaves_; }

 private:
  // A pad adds elements of its own, and an index that comes at run time may choose any.
  bool is_moved(const Node& node) const {
    const Traits& traits = info(node.op).traits;
    if (node.outputs.size() != 1 || node.op == Op::Pad || (node.op != Op::Concat && !traits.movement)) return false;
    if (node.inputs.size() == 1 || node.op == Op::Concat) return true;
    return node.inputs.size() == 2 && traits.selector == 1 && graph_.value(node.inputs[1]).constant;
  }

  Tensor leaf(ValueId id) {
    auto at = std::find(leaves_.begin(), leaves_.end(), id);
    auto label = static_cast<float>(at - leaves_.begin());
    if (at == leaves_.end()) leaves_.push_back(id);
    Tensor tensor = make_tensor(DType::F32, graph_.type(id).shape);
    std::fill(tensor.as<float>().begin(), tensor.as<float>().end(), label);
    return tensor;
  }

  const Graph& graph_;
  std::vector<ValueId> leaves_;
};

}  // namespace

Result<OutputGroups> OutputGroups::of(const Graph& reference) {
  OutputGroups groups;
  for (ValueId id : reference.outputs()) {
    Output& output = groups.outputs_.emplace_back();
    if (!is_float(reference.type(id).dtype) || reference.type(id).quantized()) continue;
    Labels labels(reference);
    TRY_ASSIGN(Tensor label_of, labels.of(id));
    for (float label : label_of.as<float>()) output.group_of.push_back(static_cast<uint32_t>(label));
    for (ValueId leaf : labels.leaves()) {
      const Node* producer = reference.producer(leaf);
      const Loc* loc = producer ? reference.loc(producer->loc) : nullptr;
      output.groups.push_back({reference.value(leaf).name, loc ? to_text(*loc) : "", {}, {}, {}});
    }
  }
  return groups;
}

void OutputGroups::add(size_t output, const Tensor& expected, const Tensor& actual) {
  CHECK(output < outputs_.size() && expected.shape == actual.shape, "an output is {} instead of {}",
        to_text(actual.shape), to_text(expected.shape));
  if (expected.dtype != DType::F32 || actual.dtype != DType::F32) return;
  Output& o = outputs_[output];
  std::span<const float> r = expected.as<float>(), a = actual.as<float>();
  for (size_t i = 0; i < o.group_of.size(); ++i) {
    Group& group = o.groups[o.group_of[i]];
    if (!std::isfinite(r[i])) continue;
    group.noise.add(r[i], a[i]);
    group.expected.add(r[i]);
    group.actual.add(a[i]);
  }
}

std::vector<GroupAccuracy> OutputGroups::worst_first() const {
  std::vector<GroupAccuracy> list;
  for (size_t i = 0; i < outputs_.size(); ++i)
    for (const Group& group : outputs_[i].groups)
      list.push_back({.output = i,
                      .name = group.name,
                      .source = group.source,
                      .sqnr_db = group.noise.db(),
                      .flat = group.expected.moves() && !group.actual.moves()});
  std::stable_sort(list.begin(), list.end(), [](const GroupAccuracy& a, const GroupAccuracy& b) {
    return std::pair(!a.flat, a.sqnr_db) < std::pair(!b.flat, b.sqnr_db);
  });
  return list;
}

}  // namespace swoop
