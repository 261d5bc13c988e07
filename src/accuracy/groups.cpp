#include <algorithm>
#include <cmath>

#include "accuracy/accuracy.h"
#include "support/check.h"

namespace swoop {

namespace {

// Which value, and which channel of it, each element of an output comes from: numbers of channels, moved by the kernels
// that move the elements.
class Labels {
 public:
  struct Leaf {
    ValueId value = kNone;
    size_t first = 0;  // number of its channels
    size_t count = 1;
  };

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

  const std::vector<Leaf>& leaves() const { return leaves_; }

 private:
  // A pad adds elements of its own, and an index that comes at run time may choose any.
  bool is_moved(const Node& node) const {
    const Traits& traits = info(node.op).traits;
    if (node.outputs.size() != 1 || node.op == Op::Pad || (node.op != Op::Concat && !traits.movement)) return false;
    if (node.inputs.size() == 1 || node.op == Op::Concat) return true;
    return node.inputs.size() == 2 && traits.selector == 1 && graph_.value(node.inputs[1]).constant;
  }

  Tensor leaf(ValueId id) {
    const Shape& shape = graph_.type(id).shape;
    const std::optional<size_t> axis = units_axis(graph_, id);
    auto known = std::find_if(leaves_.begin(), leaves_.end(), [&](const Leaf& leaf) { return leaf.value == id; });
    if (known == leaves_.end()) {
      const size_t first = leaves_.empty() ? 0 : leaves_.back().first + leaves_.back().count;
      known = leaves_.insert(known, {id, first, axis ? static_cast<size_t>(shape[*axis]) : 1});
    }
    size_t inner = 1;  // elements of a channel in a row
    for (size_t d = axis ? *axis + 1 : shape.size(); d < shape.size(); ++d) inner *= static_cast<size_t>(shape[d]);
    Tensor tensor = make_tensor(DType::F32, shape);
    std::span<float> labels = tensor.as<float>();
    for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<float>(known->first + i / inner % known->count);
    return tensor;
  }

  const Graph& graph_;
  std::vector<Leaf> leaves_;
};

}  // namespace

std::optional<size_t> units_axis(const Graph& graph, ValueId id) {
  const Node* node = graph.producer(id);
  if (!node || !info(node->op).traits.weights || bounds_of(*node) != kAllReals) return std::nullopt;
  return static_cast<size_t>(channels_at(*node, graph.type(id).rank()));
}

Result<OutputGroups> OutputGroups::of(const Graph& reference) {
  OutputGroups groups;
  for (ValueId id : reference.outputs()) {
    Output& output = groups.outputs_.emplace_back();
    if (!is_float(reference.type(id).dtype) || reference.type(id).quantized()) continue;
    Labels labels(reference);
    TRY_ASSIGN(Tensor label_of, labels.of(id));
    for (float label : label_of.as<float>()) output.channel_of.push_back(static_cast<uint32_t>(label));
    for (const Labels::Leaf& leaf : labels.leaves()) {
      const Node* producer = reference.producer(leaf.value);
      const Loc* loc = producer ? reference.loc(producer->loc) : nullptr;
      output.groups.push_back({reference.value(leaf.value).name, loc ? to_text(*loc) : "", leaf.first, leaf.count});
      output.channels.resize(leaf.first + leaf.count);
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
  for (size_t i = 0; i < o.channel_of.size(); ++i) {
    Channel& channel = o.channels[o.channel_of[i]];
    if (!std::isfinite(r[i])) continue;
    channel.noise.add(r[i], a[i]);
    channel.expected.add(r[i]);
    channel.actual.add(a[i]);
  }
}

GroupAccuracy OutputGroups::accuracy_of(size_t number, const Output& output, const Group& group) {
  GroupAccuracy accuracy{.output = number, .name = group.name, .source = group.source};
  std::span<const Channel> channels = std::span(output.channels).subspan(group.first, group.count);
  Channel all;
  for (const Channel& channel : channels) {
    all.noise.signal += channel.noise.signal;
    all.noise.error += channel.noise.error;
    all.expected.add(channel.expected);
    all.actual.add(channel.actual);
  }
  accuracy.sqnr_db = all.noise.db();
  // What moves by less than a step of 8 bits, as a sigmoid that is 0.9996 to 1, is as near as 8 bits come to it.
  const auto hardly = [](const Extent& extent) { return extent.size() * 0x1p-8f; };
  accuracy.flat = all.expected.moved() > hardly(all.expected) && !all.actual.moves();
  if (group.count == 1) return accuracy;
  // Where the group's figure says the same, as in a network that lost it on the way, the figure is enough.
  constexpr double kHidden = 10;  // dB
  // Sums of floats as large as the group's own are off by as much as this.
  const float rounding = all.expected.size() * 0x1p-20f;
  for (size_t c = 0; c < channels.size(); ++c) {
    const Channel& channel = channels[c];
    const bool flat =
        channel.expected.moved() > std::max(rounding, hardly(channel.expected)) && !channel.actual.moves();
    if (flat && channel.noise.db() + kHidden < accuracy.sqnr_db) accuracy.flat_channels.push_back(c);
    if (channel.noise.signal > 0 && (!accuracy.worst_channel || channel.noise.db() < accuracy.worst_channel->second))
      accuracy.worst_channel = {c, channel.noise.db()};
  }
  return accuracy;
}

std::vector<GroupAccuracy> OutputGroups::worst_first() const {
  std::vector<GroupAccuracy> list;
  for (size_t i = 0; i < outputs_.size(); ++i)
    for (const Group& group : outputs_[i].groups) list.push_back(accuracy_of(i, outputs_[i], group));
  std::stable_sort(list.begin(), list.end(), [](const GroupAccuracy& a, const GroupAccuracy& b) {
    return std::pair(!a.flat, a.sqnr_db) < std::pair(!b.flat, b.sqnr_db);
  });
  return list;
}

}  // namespace swoop
