#include "driver/cost.h"

#include <algorithm>

#include "driver/layer_map.h"
#include "lower/lower.h"
#include "npu/npu.h"
#include "support/check.h"

namespace swoop {

namespace {

// The value of the model that each node computes, or takes part in computing: what rules made up belongs to the value
// that comes next.
std::map<std::string_view, std::string> values_of_nodes(const Graph& region) {
  std::map<std::string_view, std::string> values;
  std::vector<std::string_view> made_up;
  for (NodeId id : region.order()) {
    const Node& node = region.node(id);
    made_up.push_back(node.name);
    if (node.outputs.empty() || !region.value(node.outputs[0]).origin) continue;
    for (std::string_view name : made_up) values[name] = name_in_model(region.value(node.outputs[0]));
    made_up.clear();
  }
  return values;
}

}  // namespace

std::optional<Cost> npu_cost(const Graph& quantized, const Pipeline& pipeline) {
  Graph graph = clone(quantized);
  Pipeline rest{.options = pipeline.options, .target = pipeline.target};
  if (!run_steps(graph, rest, "ports", kPartition)) return std::nullopt;
  set_check_context("quantize");  // which goes on
  Cost cost;
  for (const auto& region : rest.partition.regions) {
    Result<tosa::Program> program = lower(*region);
    if (!program) return std::nullopt;
    avoid_defects(*program, pipeline.target);
    Result<NpuProgram> code = compile_npu(tosa::write(*program), pipeline.target, pipeline.options.npu, region->name);
    if (!code) return std::nullopt;
    CHECK(code->estimates, "regor gave no estimates for {}", region->name);
    cost.value += static_cast<double>(code->estimates->total_cycles);
    const std::vector<Layer>& layers = code->estimates->layers;
    const std::vector<std::string_view> nodes = nodes_of_layers(*program, layers);
    const std::map<std::string_view, std::string> values = values_of_nodes(*region);
    for (size_t i = 0; i < layers.size(); ++i)
      if (auto value = values.find(nodes[i]); value != values.end())
        cost.wide[value->second] +=
            static_cast<double>(std::max(layers[i].cycles, 2 * layers[i].npu_cycles) - layers[i].cycles);
  }
  return cost;
}

}  // namespace swoop
