#include "driver/json.h"

#include <nlohmann/json.hpp>

#include "report/report.h"

namespace swoop {

namespace {

Json figures_json(const ProgramFigures& figures) {
  Json json = {{"path", figures.path},
               {"npus", figures.npus},
               {"regions", figures.regions},
               {"npu_operations", figures.operations},
               {"host_ops", figures.kernels},
               {"other_delegates", figures.other_delegates},
               {"file_bytes", figures.file_bytes},
               {"weight_bytes", figures.weight_bytes},
               {"scratch_bytes", figures.scratch_bytes},
               {"planned_bytes", figures.planned_bytes}};
  for (const NamedEstimate& estimate : kEstimates) {
    if (figures.estimates)
      json[estimate.name] = (*figures.estimates).*estimate.value;
    else
      set_unknown(json, estimate.name, figures.estimates_why);
  }
  return json;
}

Json output_json(const OutputDifference& output) {
  Json json = {{"name", output.name}, {"equal", output.equal}};
  if (!output.incomparable.empty()) {
    json["incomparable"] = output.incomparable;
    return json;
  }
  json["elements"] = output.elements;
  json["different"] = output.different;
  set(json, "max_difference", Figure(output.max_difference, "an element is not finite"));
  if (output.sqnr_db)
    set(json, "sqnr_db", Figure(*output.sqnr_db, "an element is not finite"));
  else
    set_unknown(json, "sqnr_db", output.different == 0 ? "the outputs are equal" : "the output of a is all zeros");
  return json;
}

Figure decibels(const Noise& noise) {
  return noise.error == 0 ? Figure::none("equal") : Figure(noise.db(), "an element is not finite");
}

}  // namespace

void LayerReport::add_to(Json& object) const {
  Json layers = Json::array();
  for (const Row& row : rows_) {
    const MappedLayer& layer = layer_of(row);
    Json json = {{"region", row.stream}, {"name", layer.name},   {"op", layer.op},
                 {"dtype", layer.dtype}, {"shape", layer.shape}, {"source", layer.source}};
    if (layer.quant) {
      json["scale"] = layer.quant->first;
      json["zero_point"] = layer.quant->second;
    }
    if (layer.inside) json["inside"] = static_cast<size_t>(&row - rows_.data()) - row.layer + *layer.inside;
    if (row.ran && row.missing.empty()) {
      set(json, "min", Figure(row.min, "the layer has no elements"));
      set(json, "max", Figure(row.max, "the layer has no elements"));
    }
    if (!row.missing.empty()) json["missing"] = row.missing;
    if (!layer.value.empty()) json["value"] = layer.value;
    if (row.compared) {
      set(json, "sqnr_db", decibels(row.noise));
      set(json, "max_error", Figure(row.max_error, "an element is not finite"));
    }
    layers.push_back(std::move(json));
  }
  object["layers"] = std::move(layers);
  std::vector<Figure> outputs;
  for (const Noise& noise : outputs_) outputs.push_back(decibels(noise));
  set(object, "output_sqnr_db", outputs);
}

std::string to_json(const std::string& program, const NpzRunSummary& summary, const LayerReport* layers) {
  Json json = {{"schema", 1},
               {"swoop", kSwoopVersion},
               {"model", program},
               {"runs", summary.runs},
               {"milliseconds_per_run", summary.milliseconds_per_run},
               {"memory",
                {{"planned_bytes", summary.memory.planned_bytes},
                 {"method_bytes", summary.memory.method_bytes},
                 {"temp_bytes", summary.memory.temp_bytes}}}};
  if (layers) layers->add_to(json);
  return to_line(json);
}

std::string to_json(const Difference& difference) {
  Json outputs = Json::array();
  for (const OutputDifference& output : difference.outputs) outputs.push_back(output_json(output));
  return to_line({{"schema", 1},
                  {"swoop", kSwoopVersion},
                  {"a", figures_json(difference.a)},
                  {"b", figures_json(difference.b)},
                  {"outputs", std::move(outputs)},
                  {"broken", difference.broken}});
}

}  // namespace swoop
