#include "driver/overlay.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "support/json.h"

namespace swoop {

namespace {

// The adapters' names: of the graph of a .tosa file, and of nodes by their place in it.
constexpr std::string_view kTosaGraph = "main";
std::string tosa_node(int place) { return fmt::format("{}/op{}", kTosaGraph, place); }
std::string pte_node(const std::string& method, size_t place) { return fmt::format("{}_0_{}", method, place); }

Json graph_json(const std::map<std::string, int64_t>& cycles) {
  Json results = Json::object();
  for (const auto& [node, value] : cycles) results[node] = {{"value", value}};
  return {{"name", "cycles"},
          {"results", std::move(results)},
          {"gradient", {{{"stop", 0}, {"bgColor", "#ffffff"}}, {{"stop", 1}, {"bgColor", "#e0803a"}}}}};
}

// What regor added for an operator belongs to the one after it.
std::map<std::string, int64_t> of_operators(const Estimates& estimates) {
  std::map<std::string, int64_t> cycles;
  std::optional<int> place;
  for (auto layer = estimates.layers.rbegin(); layer != estimates.layers.rend(); ++layer) {
    if (layer->tosa_index) place = layer->tosa_index;
    if (place) cycles[tosa_node(*place)] += layer->cycles;
  }
  return cycles;
}

std::map<std::string, int64_t> of_calls(const ProgramMethod& method) {
  std::map<std::string, int64_t> cycles;
  for (size_t i = 0; i < method.instructions.size(); ++i) {
    for (size_t d = 0; d < method.delegates.size(); ++d) {
      if (!method.instructions[i].starts_with(fmt::format("delegate {}(", d))) continue;
      for (const auto& [key, text] : method.delegates[d].compile_specs)
        if (key == kEstimatesKey)
          if (const auto estimates = parse_estimates_text(text))
            cycles[pte_node(method.name, i)] = estimates->total_cycles;
    }
  }
  return cycles;
}

}  // namespace

std::string overlay_json(const Summary& summary, const ProgramInfo* program) {
  Json json = Json::object();
  if (summary.regions.size() == 1)
    json[std::string(kTosaGraph)] = graph_json(of_operators(summary.regions[0].estimates));
  if (program && !program->methods.empty()) json[program->methods[0].name] = graph_json(of_calls(program->methods[0]));
  return to_line(json);
}

}  // namespace swoop
