#include "emit/emit.h"

#include "emit/graph_emitter.h"
#include "emit/memory_plan.h"
#include "emit/serialize.h"

namespace swoop {

CompileSpecs npu_compile_specs(std::string_view target, std::string_view system_config, std::string_view memory_mode,
                               std::string_view tosa_spec) {
  std::string flags = fmt::format("--accelerator-config={} --output-format=raw --system-config={} --memory-mode={}",
                                  target, system_config, memory_mode);
  return {{"tosa_spec", std::string(tosa_spec)},
          {"compile_flags", std::move(flags)},
          {"output_format", "vela"},
          {"preserve_io_quantization", "False"},
          {"target", std::string(target)}};
}

Result<Buffer> emit_pte(const Graph& graph, std::span<const Region> regions, const EmitOptions& options) {
  emit::PlanBuilder builder;
  emit::GraphEmitter emitter(builder, regions);
  TRY(emitter.emit_program(graph, options.input_names));
  emit::find_lifetimes(builder.plan);
  emit::place_storages(builder.plan);
  std::vector<Region> delegates;
  for (int region : emitter.used_regions()) delegates.push_back(regions[static_cast<size_t>(region)]);
  return emit::serialize(builder.plan, delegates, graph, options);
}

Result<void> host_supports(const Graph& graph, const Node& node) {
  emit::PlanBuilder builder;
  emit::GraphEmitter emitter(builder, {});
  return emitter.probe(graph, node);
}

}  // namespace swoop
