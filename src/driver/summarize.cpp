#include "driver/summarize.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "driver/layer_map.h"
#include "npu/npu.h"
#include "ops/ops.h"
#include "support/codes.h"

namespace swoop {

namespace {

std::vector<NodeSummary> nodes_of(const Graph& graph) {
  std::vector<NodeSummary> nodes;
  std::unordered_map<NodeId, size_t> place;  // never walked
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    place.emplace(id, nodes.size());
    NodeSummary& line = nodes.emplace_back();
    line.name = node.name;
    line.op = called(node);
    if (line.op == kRegionTarget) line.region = static_cast<size_t>(node.integer(Key::Region));
    for (ValueId input : node.inputs) {
      if (input == kNone) continue;
      auto producer = place.find(graph.value(input).producer);
      if (producer != place.end()) line.inputs.push_back(producer->second);
    }
  }
  return nodes;
}

RegionSummary summarize_region(const CompiledRegion& region, const Graph& graph) {
  RegionSummary summary;
  summary.name = graph.name;
  summary.tosa_ops = region.tosa.bodies[0].operators.size();
  summary.scratch_bytes = region.program.scratch_size;
  summary.nodes = nodes_of(graph);
  if (!region.program.estimates) return summary;
  summary.estimates = *region.program.estimates;
  std::unordered_map<std::string_view, const Loc*> loc_of_node;  // never walked
  for (NodeId id : graph.order())
    if (const Loc* loc = graph.loc(graph.node(id).loc)) loc_of_node.emplace(graph.node(id).name, loc);
  const std::vector<Layer>& layers = summary.estimates.layers;
  summary.layers.resize(layers.size());
  const std::vector<std::string_view> nodes = nodes_of_layers(region.tosa, layers);
  for (size_t l = 0; l < layers.size(); ++l) {
    LayerSummary& line = summary.layers[l];
    line.name = std::string(nodes[l]);
    line.op = layers[l].npu_op;
    line.cycles = layers[l].cycles;
    line.npu_cycles = layers[l].npu_cycles;
    line.macs = layers[l].macs;
    line.sram_bytes = layers[l].staging_bytes;
    auto loc = loc_of_node.find(nodes[l]);
    if (loc == loc_of_node.end()) continue;
    line.source = to_text(*loc->second);
    line.code = loc->second->code;
    line.module = loc->second->module_path;
  }
  return summary;
}

// Quantize, dequantize and casts: what a border does.
bool converts_numbers(std::string_view kernel) {
  return kernel.starts_with("quantized_decomposed::") || kernel.starts_with("dim_order_ops::_to_dim_order_copy");
}

std::vector<PortSummary> ports_of(const std::vector<ProgramTensor>& tensors) {
  std::vector<PortSummary> ports;
  for (const ProgramTensor& tensor : tensors)
    ports.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.bytes, tensor.scale, tensor.zero_point});
  return ports;
}

void add_method(Summary& s, const ProgramMethod& method) {
  for (const auto& [op, count] : method.kernel_calls) (converts_numbers(op) ? s.border_ops : s.host_ops)[op] = count;
  s.planned_bytes = method.planned_bytes;
  s.method_bytes = method.method_bytes;
  s.temp_bytes = method.temp_bytes;
  s.method = method.name;
  s.kernels = method.operators;
  s.inputs = ports_of(method.inputs);
  s.outputs = ports_of(method.outputs);
  for (size_t i = 0; i < s.outputs.size(); ++i)
    if (s.outputs[i].name.empty()) s.outputs[i].name = fmt::format("out{}", i);  // as `swoop run` calls them
}

// With --io int8 the border's scales are in the graph's own types. `user`: how many ports of the user's came before.
void add_scale(std::vector<PortSummary>& ports, size_t& user, const Port& port, const Type& type) {
  if (port.role != Port::Role::User || user == ports.size()) return;
  PortSummary& summary = ports[user++];
  if (!type.quantized()) return;
  summary.scale = type.scale();
  summary.zero_point = type.zero_point();
}

void add_scales(Summary& s, const Graph& graph) {
  size_t inputs = 0, outputs = 0;
  for (size_t i = 0; i < graph.inputs().size(); ++i)
    add_scale(s.inputs, inputs, graph.input_port(i), graph.type(graph.inputs()[i]));
  for (size_t i = 0; i < graph.outputs().size(); ++i)
    add_scale(s.outputs, outputs, graph.output_port(i), graph.type(graph.outputs()[i]));
}

void add_quantization(Summary& s, const QuantizeReport& report) {
  if (const Cheap& cheap = report.cheap; !cheap.candidates.empty()) {
    s.widened = {{}, std::llround(cheap.cost_before), std::llround(cheap.cost_after)};
    for (const Candidate& value : cheap.candidates) s.widened->values.push_back({value.name, value.op, value.source});
  }
  if (const std::optional<SmallerWeights>& weights = report.smaller_weights)
    s.smaller_weights = {std::llround(weights->bytes_before), std::llround(weights->bytes), weights->lost_db};
  if (report.uncalibrated)
    s.warnings.push_back(
        with_code("UNCALIBRATED: the ranges were measured on random data; use the program for dry runs only",
                  Code::Uncalibrated));
  s.warnings.insert(s.warnings.end(), report.warnings.begin(), report.warnings.end());
}

void add_wide_ports(Summary& s, std::string_view kind, const std::vector<PortSummary>& ports, PortNumbers numbers) {
  if (numbers == PortNumbers::Float) return;
  for (const PortSummary& port : ports)
    if (port.scale && (port.dtype == "int16" || port.dtype == "int32"))
      s.warnings.push_back(
          with_code(fmt::format("{} {} is {}: it has more bits than --io asks for", kind, port.name, port.dtype),
                    Code::WidePort));
}

std::string repaired_text(std::span<const NpuFault> repairs) {
  return with_code(fmt::format("repaired the NPU program in {} place{}, which costs a little time there; the "
                               "first: {}: {}",
                               repairs.size(), repairs.size() == 1 ? "" : "s", repairs[0].operation, repairs[0].what),
                   Code::Repaired);
}

}  // namespace

Summary summarize(const Graph& graph, const Pipeline& pipeline, const std::vector<CompiledRegion>& regions,
                  const ProgramInfo& info) {
  const CompileOptions& options = pipeline.options;
  Summary s;
  s.model = options.model;
  s.target = std::string(pipeline.target.name);
  s.system_config = system_config_name(pipeline.target, options.npu);
  s.memory_mode = memory_mode_name(pipeline.target, options.npu);
  s.max_sram = options.gates.max_sram;
  s.max_flash = options.gates.max_flash;
  s.nodes = nodes_of(graph);
  for (size_t i = 0; i < regions.size(); ++i) {
    s.regions.push_back(summarize_region(regions[i], *pipeline.partition.regions[i]));
    s.fast_bytes = std::max(s.fast_bytes, static_cast<int64_t>(regions[i].program.scratch_fast_size.value_or(0)));
  }
  for (const HostReason& host : pipeline.partition.host)
    s.host_nodes.push_back({host.node, host.op, host.rule, host.reason, to_text(host.loc), host.loc.code, host.advice});
  if (!info.methods.empty()) add_method(s, info.methods[0]);
  add_scales(s, graph);
  for (const auto& [value, verdict] : pipeline.verdicts)
    if (!verdict.host)
      s.warnings.push_back(with_code(fmt::format("a region was cut before {}: {}", value, verdict.reason), Code::Cut));
  for (const CompiledRegion& region : regions)
    if (!region.repairs.empty()) s.warnings.push_back(repaired_text(region.repairs));
  if (pipeline.quantized) add_quantization(s, *pipeline.quantized);
  if (pipeline.quantized && options.quantize.precision != Precision::Int16) {
    add_wide_ports(s, "input", s.inputs, options.ports.inputs);
    add_wide_ports(s, "output", s.outputs, options.ports.outputs);
  }
  return s;
}

}  // namespace swoop
