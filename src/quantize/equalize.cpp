#include "quantize/equalize.h"

#include <algorithm>
#include <cmath>

#include "quantize/layers.h"

namespace swoop {

namespace {

constexpr double kMaxFactor = 16;
// Channels within this ratio of the widest are left alone: they use their codes well enough, and filling the range to
// the brim for each would clip more of what the samples did not show (measured on the zoo: -0.9 dB).
constexpr double kTolerated = 4;
constexpr double kPower = 0.5;         // the weights that read a channel lose what its codes gain: meet in the middle
constexpr double kDepthwisePower = 1;  // a depthwise conv has a scale of its own for each channel and loses nothing

bool float_constant(const Graph& graph, ValueId id) {
  return id != kNone && graph.value(id).constant && is_float(graph.type(id).dtype) && !graph.type(id).quantized();
}

bool depthwise(const Graph& graph, const Node& node) {
  return node.op == Op::Conv && node.integer(Key::Groups) == graph.type(node.inputs[0]).shape[1] &&
         node.integer(Key::Groups) > 1;
}

// Scaling a channel behind the layer equals scaling its weights: true for all but upper clamps and clamps away from
// zero.
bool scalable(const Graph& graph, const Node& node) {
  if (node.has(Key::ActMax) || node.real(Key::ActMin, 0.0) != 0.0) return false;
  if (node.op == Op::LayerNorm || node.op == Op::RmsNorm) {
    bool last_axis = node.integer(Key::Axis) == graph.type(node.inputs[0]).rank() - 1;
    bool shift = node.inputs.size() < 3 || node.inputs[2] == kNone || float_constant(graph, node.inputs[2]);
    return last_axis && shift && node.inputs.size() > 1 && float_constant(graph, node.inputs[1]);
  }
  bool bias = node.inputs.size() < 3 || node.inputs[2] == kNone || float_constant(graph, node.inputs[2]);
  return is_layer(node.op) && bias && float_constant(graph, node.inputs[1]);
}

ValueId scaled(Graph& graph, ValueId id, const std::vector<double>& factors, auto channel_of) {
  Tensor tensor = to_tensor(graph.value(id));
  std::span<float> x = tensor.as<float>();
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(static_cast<double>(x[i]) *
                              factors[static_cast<size_t>(channel_of(static_cast<int64_t>(i)))]);
  return graph.add_constant({DType::F32, tensor.shape, {}}, graph.store(tensor.data), graph.value(id).name);
}

void scale_results(Graph& graph, Node& node, const std::vector<double>& factors) {
  auto same = [](int64_t i) { return i; };
  if (is_layer(node.op)) {
    WeightIndex index(node, graph.type(node.inputs[1]).shape);
    graph.set_input(node, 1, scaled(graph, node.inputs[1], factors, [&](int64_t i) { return index.output(i); }));
  } else {
    graph.set_input(node, 1, scaled(graph, node.inputs[1], factors, same));
  }
  if (node.inputs.size() > 2 && node.inputs[2] != kNone)
    graph.set_input(node, 2, scaled(graph, node.inputs[2], factors, same));
}

// The layers that read `value`, all along its channel axis; empty when anything else does.
std::vector<NodeId> readers(const Graph& graph, ValueId value, bool last_axis) {
  std::vector<NodeId> nodes;
  for (const Use& use : graph.value(value).uses) {
    if (use.node == kNone || use.index != 0) return {};
    const Node& node = graph.node(use.node);
    if (!is_layer(node.op) || !float_constant(graph, node.inputs[1])) return {};
    bool reads_last = node.op == Op::Linear;
    if (reads_last != last_axis && !(reads_last && graph.type(value).rank() == 2)) return {};
    nodes.push_back(use.node);
  }
  return nodes;
}

}  // namespace

size_t equalize(Graph& graph, const Measured& measured) {
  size_t count = 0;
  for (NodeId id : graph.order()) {
    Node& node = graph.node(id);
    if (node.outputs.size() != 1 || !scalable(graph, node)) continue;
    ValueId value = node.outputs[0];
    std::vector<NodeId> next = readers(graph, value, !is_layer(node.op) || node.op == Op::Linear);
    if (next.empty()) continue;
    auto channels = measured.channels.find({value, channels_at(graph.node(next[0]), graph.type(value).rank())});
    if (channels == measured.channels.end()) continue;
    const std::vector<float>& largest = channels->second.largest;
    float most = *std::max_element(largest.begin(), largest.end());
    if (most <= 0) continue;
    bool all_depthwise =
        std::all_of(next.begin(), next.end(), [&](NodeId reader) { return depthwise(graph, graph.node(reader)); });
    std::vector<double> factors, inverses;
    for (float size : largest) {
      double factor = size <= 0 ? 1.0
                                : std::pow(static_cast<double>(most) / static_cast<double>(size) / kTolerated,
                                           all_depthwise ? kDepthwisePower : kPower);
      factors.push_back(std::clamp(factor, 1.0, kMaxFactor));
      inverses.push_back(1.0 / factors.back());
    }
    if (std::all_of(factors.begin(), factors.end(), [](double f) { return f == 1.0; })) continue;
    scale_results(graph, node, factors);
    for (NodeId reader : next) {
      Node& user = graph.node(reader);
      WeightIndex index(user, graph.type(user.inputs[1]).shape);
      graph.set_input(user, 1, scaled(graph, user.inputs[1], inverses, [&](int64_t i) { return index.input(i); }));
    }
    ++count;
  }
  return count;
}

}  // namespace swoop
