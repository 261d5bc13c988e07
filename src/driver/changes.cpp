#include "driver/changes.h"

#include <algorithm>
#include <map>
#include <set>

#include "ops/ops.h"

namespace swoop {

namespace {

bool is_float_constant(const Graph& graph, ValueId id) {
  return id != kNone && graph.value(id).constant && graph.type(id).dtype == DType::F32 && !graph.type(id).quantized();
}

// `tensor` with `keep` of the indices of an axis from `first` on; beyond its end there are zeros.
Tensor cut(const Tensor& tensor, size_t axis, int64_t first, int64_t keep) {
  Shape shape = tensor.shape;
  const int64_t before = shape[axis];
  shape[axis] = keep;
  int64_t inner = 1, outer = 1;
  for (size_t i = 0; i < axis; ++i) outer *= shape[i];
  for (size_t i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
  Tensor result = make_tensor(DType::F32, shape);
  std::span<const float> from = tensor.as<float>();
  std::span<float> to = result.as<float>();
  std::fill(to.begin(), to.end(), 0.0f);
  const int64_t copied = std::min(keep, before - first) * inner;
  for (int64_t o = 0; o < outer; ++o)
    std::copy_n(from.begin() + (o * before + first) * inner, copied, to.begin() + o * keep * inner);
  return result;
}

// Operand `i` of the node becomes another constant.
void set_constant(Graph& graph, Node& node, size_t i, const Tensor& tensor) {
  const std::string name = graph.value(node.inputs[i]).name;
  graph.set_input(node, i, graph.add_constant({DType::F32, tensor.shape, {}}, graph.store(tensor.data), name));
}

// Whether every node's results have the shapes that its operands give.
bool shapes_agree(const Graph& graph) {
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op == Op::Opaque || !node.bodies.empty()) continue;
    const Result<std::vector<Type>> types = infer(graph, node);
    if (!types) return false;
    for (size_t i = 0; i < node.outputs.size(); ++i)
      if ((*types)[i].shape != graph.type(node.outputs[i]).shape) return false;
  }
  return true;
}

// Follows channels through the graph.
class ChannelChange {
 public:
  ChannelChange(Graph& graph, int64_t from, int64_t to) : graph_(graph), from_(from), to_(to) {}

  bool run(ValueId value, size_t axis) {
    if (!change(value, axis)) return false;
    while (!waiting_.empty()) {
      const NodeId id = *waiting_.begin();
      waiting_.erase(waiting_.begin());
      if (!visit(graph_.node(id))) return false;
    }
    return shapes_agree(graph_);
  }

 private:
  std::optional<size_t> axis_of(ValueId id) const {
    auto found = axes_.find(id);
    return found == axes_.end() ? std::nullopt : std::optional(found->second);
  }

  // Marks a value that a node computes, and all nodes around it.
  bool change(ValueId id, size_t axis) {
    if (std::optional<size_t> known = axis_of(id)) return *known == axis;
    Value& value = graph_.value(id);
    if (value.producer == kNone || axis >= value.type.shape.size() || value.type.shape[axis] != from_) return false;
    value.type.shape[axis] = to_;
    axes_[id] = axis;
    waiting_.insert(value.producer);
    for (const Use& use : value.uses) {
      if (use.node == kNone) return false;  // an output of the model
      waiting_.insert(use.node);
    }
    return true;
  }

  void resize(Node& node, size_t operand, size_t axis) {
    const ValueId id = node.inputs[operand];
    if (graph_.type(id).shape[axis] == from_)
      set_constant(graph_, node, operand, cut(to_tensor(graph_.value(id)), axis, 0, to_));
  }

  bool visit(Node& node) {
    const Traits& traits = info(node.op).traits;
    const ValueId x = node.inputs[0], y = node.outputs[0];
    if (traits.weights) return visit_layer(node);
    if (traits.elementwise) return visit_elementwise(node);
    const std::optional<size_t> in = axis_of(x), out = axis_of(y);
    if (node.op == Op::Transpose) {
      const Ints& perm = node.ints(Key::Perm);
      if (out) return change(x, static_cast<size_t>(perm[*out]));
      const auto at = std::find(perm.begin(), perm.end(), static_cast<int64_t>(*in));
      return change(y, static_cast<size_t>(at - perm.begin()));
    }
    if (traits.reduction) return visit_reduction(node, in, out);
    if (node.op == Op::Reshape) return visit_reshape(node, in, out);
    const bool pools =
        traits.window || node.op == Op::AdaptiveAvgPool || node.op == Op::AdaptiveMaxPool || node.op == Op::Resize;
    const bool normalises = node.op == Op::LayerNorm || node.op == Op::RmsNorm || node.op == Op::BatchNorm;
    const size_t axis = in ? *in : *out;
    if (pools && axis != 1) return false;
    if (normalises)
      for (size_t i = 1; i < node.inputs.size(); ++i)
        if (node.inputs[i] != kNone) {
          if (!is_float_constant(graph_, node.inputs[i]) || graph_.type(node.inputs[i]).rank() != 1) return false;
          resize(node, i, 0);
        }
    if (!pools && !normalises && node.op != Op::Softmax) return false;
    return change(x, axis) && change(y, axis);
  }

  bool visit_layer(Node& node) {
    const ValueId x = node.inputs[0], y = node.outputs[0];
    const bool linear = node.op == Op::Linear;
    const auto channels = [&](ValueId id) { return linear ? graph_.type(id).shape.size() - 1 : 1; };
    const std::optional<size_t> in = axis_of(x), out = axis_of(y);
    if (!is_float_constant(graph_, node.inputs[1]) || (in && *in != channels(x)) || (out && *out != channels(y)))
      return false;
    const int64_t groups = linear ? 1 : node.integer(Key::Groups);
    const bool depthwise = groups > 1 && (groups == from_ || groups == to_) && node.op == Op::Conv;
    if (groups > 1 && !depthwise) return false;
    if (depthwise && !(change(x, 1) && change(y, 1))) return false;
    const bool transposed = node.op == Op::ConvTranspose;
    if (depthwise || out) {
      resize(node, 1, transposed ? 1 : 0);
      if (node.inputs.size() > 2 && node.inputs[2] != kNone) {
        if (!is_float_constant(graph_, node.inputs[2])) return false;
        resize(node, 2, 0);
      }
    }
    if (depthwise)
      node.attrs.set(Key::Groups, to_);
    else if (in)
      resize(node, 1, transposed ? 0 : 1);
    return true;
  }

  // Operands are aligned at their last axis.
  bool visit_elementwise(Node& node) {
    const size_t rank = graph_.type(node.outputs[0]).shape.size();
    std::optional<size_t> from_end;
    for (ValueId id : {node.inputs[0], node.inputs.back(), node.outputs[0]})
      if (std::optional<size_t> axis = axis_of(id)) from_end = graph_.type(id).shape.size() - *axis;
    if (!from_end) return false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId id = node.inputs[i];
      const Shape& shape = graph_.type(id).shape;
      if (shape.size() < *from_end) continue;
      const size_t axis = shape.size() - *from_end;
      if (shape[axis] == 1) continue;
      if (is_float_constant(graph_, id))
        resize(node, i, axis);
      else if (!change(id, axis))
        return false;
    }
    return change(node.outputs[0], rank - *from_end);
  }

  // The channels stay an axis of their own: [1,C,1,1] to [1,C], say.
  bool visit_reshape(Node& node, std::optional<size_t> in, std::optional<size_t> out) {
    const ValueId x = node.inputs[0], y = node.outputs[0];
    const auto count_before = [&](ValueId id, size_t axis) {
      const Shape& shape = graph_.type(id).shape;
      return element_count(Shape(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(axis)));
    };
    const ValueId known = in ? x : y, other = in ? y : x;
    const size_t axis = in ? *in : *out;
    for (size_t i = 0; i < graph_.type(other).shape.size(); ++i) {
      const int64_t size = graph_.type(other).shape[i];
      if ((size != from_ && axis_of(other) != i) || count_before(other, i) != count_before(known, axis)) continue;
      if (!change(other, i)) return false;
      node.attrs.set(Key::Shape, Ints(graph_.type(y).shape));
      return true;
    }
    return false;
  }

  bool visit_reduction(Node& node, std::optional<size_t> in, std::optional<size_t> out) {
    if (!node.has(Key::Axes)) return false;
    const Ints& axes = node.ints(Key::Axes);
    const auto reduced = [&](size_t axis) {
      return std::find(axes.begin(), axes.end(), static_cast<int64_t>(axis)) != axes.end();
    };
    const auto result_axis = [&](size_t axis) {
      size_t place = axis;
      for (size_t i = 0; i < axis && !node.flag(Key::Keepdim); ++i) place -= reduced(i);
      return place;
    };
    for (size_t axis = 0; axis < graph_.type(node.inputs[0]).shape.size(); ++axis) {
      if (in ? axis != *in : reduced(axis) || result_axis(axis) != *out) continue;
      if (reduced(axis)) return true;  // there are more or fewer of them, nothing else
      return change(node.inputs[0], axis) && change(node.outputs[0], result_axis(axis));
    }
    return false;
  }

  Graph& graph_;
  int64_t from_, to_;
  std::map<ValueId, size_t> axes_;  // of changed values: where the channels are
  std::set<NodeId> waiting_;
};

std::string source_of(const Graph& graph, const Node& node) {
  const Loc* loc = graph.loc(node.loc);
  return loc ? to_text(*loc) : "";
}

// Layers whose channels leave a block of the NPU partly empty.
void add_channels(const Graph& graph, std::vector<Change>& changes) {
  constexpr int64_t kBlock = 16;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!info(node.op).traits.weights || (node.op != Op::Linear && node.integer(Key::Groups) > 1)) continue;
    const ValueId result = node.outputs[0];
    const Shape& shape = graph.type(result).shape;
    const int64_t channels = node.op == Op::Linear ? shape.back() : shape[1];
    if (channels % kBlock == 0) continue;
    for (int64_t other : {channels / kBlock * kBlock, (channels / kBlock + 1) * kBlock})
      if (other > 0)
        changes.push_back({fmt::format("{} output channels instead of {}", other, channels),
                           node.name,
                           source_of(graph, node),
                           {result},
                           [result, other](Graph& copy) { return resize_channels(copy, result, other); }});
  }
}

// A window of 3 in the middle of a larger one, with as much less padding.
bool shrink_kernel(Graph& graph, NodeId id) {
  constexpr int64_t kSmall = 3;
  Node& node = graph.node(id);
  if (!is_float_constant(graph, node.inputs[1])) return false;
  Tensor weights = to_tensor(graph.value(node.inputs[1]));
  Ints padding = node.ints(Key::Padding);
  for (size_t d = 2; d < weights.shape.size(); ++d) {
    const int64_t size = weights.shape[d];
    if (size <= kSmall || size % 2 == 0) continue;
    const int64_t less = (size - kSmall) / 2;
    for (size_t side : {2 * (d - 2), 2 * (d - 2) + 1})
      if ((padding[side] -= less * node.ints(Key::Dilation)[d - 2]) < 0) return false;
    weights = cut(weights, d, less, kSmall);
  }
  set_constant(graph, node, 1, weights);
  node.attrs.set(Key::Padding, padding);
  return shapes_agree(graph);
}

void add_kernels(const Graph& graph, std::vector<Change>& changes) {
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op != Op::Conv) continue;
    const Shape& weights = graph.type(node.inputs[1]).shape;
    const int64_t largest = *std::max_element(weights.begin() + 2, weights.end());
    if (largest > 3)
      changes.push_back({fmt::format("a kernel of 3 instead of {}", largest),
                         node.name,
                         source_of(graph, node),
                         {node.outputs[0]},
                         [id](Graph& copy) { return shrink_kernel(copy, id); }});
  }
}

// The nodes that `is` names, all in one change.
void add_all(const Graph& graph, std::vector<Change>& changes, const std::string& what,
             const std::function<bool(const Node&)>& is, const std::function<void(Graph&, Node&)>& replace) {
  Change change;
  size_t count = 0;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!is(node)) continue;
    if (count++ == 0) {
      change.node = node.name;
      change.source = source_of(graph, node);
    }
    change.values.push_back(node.outputs[0]);
  }
  if (count == 0) return;
  change.what = count == 1 ? what : fmt::format("{}, in {} places", what, count);
  change.change = [is, replace](Graph& copy) {
    for (NodeId id : copy.order())
      if (is(copy.node(id))) replace(copy, copy.node(id));
    copy.erase_dead();
    return shapes_agree(copy);
  };
  changes.push_back(std::move(change));
}

void replace_node(Graph& graph, Node& node, Op op, std::vector<ValueId> inputs, Attrs attrs) {
  const ValueId before = node.outputs[0];
  Node& other = graph.add_node(op, std::move(inputs), {graph.type(before)}, std::move(attrs), node.loc,
                               graph.unique_name(node.name), node.id);
  graph.value(other.outputs[0]).origin = graph.value(before).origin;
  graph.replace_all_uses(before, other.outputs[0]);
}

void add_cheaper_operators(const Graph& graph, std::vector<Change>& changes) {
  for (std::string_view fn : {"gelu", "gelu_tanh", "silu", "mish", "softplus", "hardswish", "elu", "selu", "celu"})
    add_all(
        graph, changes, fmt::format("relu instead of {}", fn),
        [fn](const Node& node) { return node.op == Op::Unary && node.text(Key::Fn) == fn; },
        [](Graph& copy, Node& node) {
          replace_node(copy, node, Op::Clamp, {node.inputs[0]}, {{Key::Min, 0.0}});
        });
  add_all(
      graph, changes, "RMSNorm instead of LayerNorm", [](const Node& node) { return node.op == Op::LayerNorm; },
      [](Graph& copy, Node& node) {
        std::vector<ValueId> inputs(node.inputs.begin(),
                                    node.inputs.begin() + std::min<std::ptrdiff_t>(2, std::ssize(node.inputs)));
        replace_node(copy, node, Op::RmsNorm, std::move(inputs),
                     {{Key::Axis, node.integer(Key::Axis)}, {Key::Eps, node.real(Key::Eps)}});
      });
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const Node* node = graph.producer(graph.outputs()[i]);
    if (!node || (node->op != Op::Softmax && node->op != Op::LogSoftmax)) continue;
    changes.push_back({fmt::format("no {} at the output: the largest element stays the largest", called(*node)),
                       node->name,
                       source_of(graph, *node),
                       {graph.outputs()[i]},
                       [i](Graph& copy) {
                         copy.set_output(i, copy.producer(copy.outputs()[i])->inputs[0]);
                         copy.erase_dead();
                         return true;
                       }});
  }
}

}  // namespace

bool resize_channels(Graph& graph, ValueId result, int64_t channels) {
  const bool linear = graph.producer(result)->op == Op::Linear;
  const Shape& shape = graph.type(result).shape;
  const size_t axis = linear ? shape.size() - 1 : 1;
  return ChannelChange(graph, shape[axis], channels).run(result, axis);
}

std::vector<Change> possible_changes(const Graph& graph) {
  std::vector<Change> changes;
  add_channels(graph, changes);
  add_kernels(graph, changes);
  add_cheaper_operators(graph, changes);
  return changes;
}

}  // namespace swoop
