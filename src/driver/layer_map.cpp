#include "driver/layer_map.h"

#include <algorithm>
#include <unordered_map>

namespace swoop {

namespace {

class LayerMapper {
 public:
  LayerMapper(const tosa::Program& tosa, const NpuProgram& program) : tosa_(tosa), program_(program) {}

  LayerMap run(const Graph& region) {
    add_layers(region);
    add_operations();
    prefer_what_is_reshaped();
    say_where_the_others_are();
    return std::move(map_);
  }

 private:
  static constexpr uint32_t kUnknown = ~uint32_t{0};

  void add_layers(const Graph& graph) {
    std::unordered_map<ValueId, uint32_t> layers;  // never walked
    for (NodeId id : graph.order()) {
      const Node& node = graph.node(id);
      for (const auto& body : node.bodies) add_layers(*body);
      for (ValueId output : node.outputs) {
        auto index = static_cast<uint32_t>(map_.layers.size());
        layers[output] = index;
        // Two bodies may have a value of one name each; then the name says nothing.
        auto [entry, fresh] = layer_of_name_.try_emplace(graph.value(output).name, index);
        if (!fresh) entry->second = kUnknown;
        map_.layers.push_back(describe(graph, node, output));
        consumers_.emplace_back();
        reshaped_.push_back(kUnknown);
        for (ValueId input : node.inputs) {
          auto producer = layers.find(input);
          if (producer == layers.end()) continue;
          consumers_[producer->second].push_back(index);
          if (node.op == Op::Reshape) reshaped_[index] = producer->second;
        }
      }
    }
  }

  static MappedLayer describe(const Graph& graph, const Node& node, ValueId output) {
    const Value& value = graph.value(output);
    MappedLayer layer;
    layer.name = node.name;
    layer.op = called(node);
    if (const Loc* loc = graph.loc(node.loc)) layer.source = to_text(*loc);
    layer.dtype = name_of(value.type.dtype);
    layer.shape = value.type.shape;
    if (value.type.quantized() && !value.type.quant->per_channel())
      layer.quant.emplace(value.type.scale(), value.type.zero_point());
    // A change of scale is the same value once more.
    const std::optional<Origin>& origin =
        value.origin || node.op != Op::Quantize ? value.origin : graph.value(node.inputs[0]).origin;
    if (!origin) return layer;
    layer.value = origin->name;
    for (const Origin::Move& move : origin->moves) layer.moves.push_back({move.op == Op::Transpose, move.to});
    return layer;
  }

  void add_operations() {
    if (!program_.estimates) return;
    uint32_t next = kUnknown;  // what regor adds for an operation belongs to the one after it
    for (auto it = program_.layer_of_operation.rbegin(); it != program_.layer_of_operation.rend(); ++it) {
      const std::string& tensor = program_.estimates->layers[it->layer].name;
      auto named = layer_of_name_.find(tensor);
      bool result = named != layer_of_name_.end() && named->second != kUnknown;
      if (result)
        next = named->second;
      else if (uint32_t layer = layer_needing(tensor); layer != kUnknown)
        next = layer;
      if (next != kUnknown) map_.operations.push_back({it->position, next, result});
    }
    std::reverse(map_.operations.begin(), map_.operations.end());
  }

  // The layer that a tensor inside a node's lowering leads to.
  uint32_t layer_needing(const std::string& name) const {
    for (const tosa::Body& body : tosa_.bodies) {
      std::string_view wanted = name;
      bool inner = false;
      for (const tosa::Operator& op : body.operators) {
        auto is_wanted = [&](tosa::TensorId id) { return body.tensors[id].name == wanted; };
        if (std::any_of(op.outputs.begin(), op.outputs.end(), is_wanted)) inner = true;
        if (!inner || !std::any_of(op.inputs.begin(), op.inputs.end(), is_wanted)) continue;
        wanted = body.tensors[op.outputs[0]].name;
        auto named = layer_of_name_.find(std::string(wanted));
        if (named != layer_of_name_.end()) return named->second;
      }
    }
    return kUnknown;
  }

  std::vector<bool> written_layers() const {
    std::vector<bool> written(map_.layers.size(), false);
    for (const StreamOperation& operation : map_.operations)
      if (operation.result) written[operation.layer] = true;
    return written;
  }

  // conv -> reshape: regor calls what the conv writes by the name of the reshape. The conv is the layer.
  void prefer_what_is_reshaped() {
    const std::vector<bool> written = written_layers();
    for (StreamOperation& operation : map_.operations)
      while (operation.result && reshaped_[operation.layer] != kUnknown && !written[reshaped_[operation.layer]])
        operation.layer = reshaped_[operation.layer];
  }

  // A layer that nothing writes is computed in the nearest later layer that is written, or is a reshape of one.
  void say_where_the_others_are() {
    const std::vector<bool> written = written_layers();
    for (size_t i = map_.layers.size(); i-- > 0;) {  // consumers come later
      if (written[i]) continue;
      std::optional<uint32_t>& inside = map_.layers[i].inside;
      for (uint32_t consumer : consumers_[i])
        if (!inside) inside = written[consumer] ? consumer : map_.layers[consumer].inside;
      for (uint32_t from = reshaped_[i]; !inside && from != kUnknown; from = reshaped_[from])
        if (written[from]) inside = from;
    }
  }

  const tosa::Program& tosa_;
  const NpuProgram& program_;
  LayerMap map_;
  std::unordered_map<std::string, uint32_t>
      layer_of_name_;  // by the name of the value, which is that of its TOSA tensor; never walked
  std::vector<std::vector<uint32_t>> consumers_;  // by layer
  std::vector<uint32_t> reshaped_;                // by layer: what it is a reshape of
};

}  // namespace

LayerMap make_layer_map(const Graph& region, const tosa::Program& tosa, const NpuProgram& program) {
  return LayerMapper(tosa, program).run(region);
}

// A layer is named by the TOSA tensor it writes; the operator that writes it carries the node's name. regor calls a
// tensor that it made itself "#74": that layer is a part of the node whose tensor comes next.
std::vector<std::string_view> nodes_of_layers(const tosa::Program& tosa, std::span<const Layer> layers) {
  std::unordered_map<std::string_view, std::string_view> node_of_tensor;  // never walked
  for (const tosa::Body& body : tosa.bodies)
    for (const tosa::Operator& op : body.operators)
      for (tosa::TensorId output : op.outputs) node_of_tensor.emplace(body.tensors[output].name, op.location);
  std::vector<std::string_view> nodes(layers.size());
  std::string_view node = tosa.bodies[0].operators.back().location;
  for (size_t l = layers.size(); l-- > 0;) {
    if (auto made_by = node_of_tensor.find(layers[l].name); made_by != node_of_tensor.end()) node = made_by->second;
    nodes[l] = node;
  }
  return nodes;
}

}  // namespace swoop
