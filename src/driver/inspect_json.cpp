// What `swoop inspect --json` and `swoop accuracy --json` print.
#include <nlohmann/json.hpp>

#include "driver/json.h"
#include "report/report.h"
#include "support/json.h"

namespace swoop {

namespace {

constexpr double kEqualDb = 999;  // what accuracy/ calls equal

Json head_of(const std::string& path, const char* kind) {
  return {{"schema", 1}, {"swoop", kSwoopVersion}, {"file", path}, {"kind", kind}};
}

Json tensors_json(const std::vector<ProgramTensor>& tensors) {
  Json list = Json::array();
  for (const ProgramTensor& tensor : tensors) {
    Json& one = list.emplace_back(
        Json{{"name", tensor.name}, {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"bytes", tensor.bytes}});
    if (tensor.scale) one["scale"] = *tensor.scale;
    if (tensor.zero_point) one["zero_point"] = *tensor.zero_point;
  }
  return list;
}

Json ports_json(const Graph& graph, std::span<const ValueId> values, bool inputs) {
  Json list = Json::array();
  for (size_t i = 0; i < values.size(); ++i) {
    const Port& port = inputs ? graph.input_port(i) : graph.output_port(i);
    list.push_back(
        {{"name", port.name}, {"type", to_text(graph.type(values[i]))}, {"state", port.role != Port::Role::User}});
  }
  return list;
}

}  // namespace

std::string to_json(const std::string& model, const std::string& target, const AccuracyReport& report) {
  Json json = head_of(model, "accuracy");
  json["target"] = target;
  json["samples"] = report.samples;
  auto decibels = [](double db) {
    return db < kEqualDb ? Figure(db, "not finite") : Figure::none("it equals the float model's");
  };
  std::vector<Figure> outputs;
  std::vector<Figure> shares;
  for (const OutputNoise& output : report.outputs) {
    const std::optional<double> share = output.equal_share();
    outputs.push_back(share ? Figure::none("integers have no noise") : decibels(output.noise.db()));
    shares.push_back(share ? Figure(*share, "not finite") : Figure::none("of integers alone"));
  }
  set(json, "output_sqnr_db", outputs);
  set(json, "output_equal", shares);
  json["layers"] = Json::array();
  for (const LayerAccuracy& layer : report.layers) {
    Json& one = json["layers"].emplace_back(
        Json{{"name", layer.name}, {"op", layer.op}, {"source", layer.source}, {"type", layer.type}});
    set(one, "own_db", decibels(layer.own_db));
    set(one, "all_db", decibels(layer.sqnr_db));
    one["clipped"] = layer.clipped;
  }
  return to_line(json);
}

std::string to_json(const std::string& path, const Graph& graph) {
  Json json = head_of(path, "pt2");
  json["inputs"] = ports_json(graph, graph.inputs(), true);
  json["outputs"] = ports_json(graph, graph.outputs(), false);
  json["nodes"] = Json::array();
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const Loc* loc = graph.loc(node.loc);
    json["nodes"].push_back(
        {{"name", node.name}, {"op", name_of(node.op)}, {"source", loc ? to_text(*loc) : std::string()}});
  }
  return to_line(json);
}

std::string to_json(const std::string& path, const ProgramInfo& info) {
  Json json = head_of(path, "pte");
  json["file_bytes"] = info.file_bytes;
  json["methods"] = Json::array();
  for (const ProgramMethod& method : info.methods) {
    Json& one = json["methods"].emplace_back(Json{{"name", method.name},
                                                  {"planned_bytes", method.planned_bytes},
                                                  {"method_bytes", method.method_bytes},
                                                  {"temp_bytes", method.temp_bytes},
                                                  {"inputs", tensors_json(method.inputs)},
                                                  {"outputs", tensors_json(method.outputs)},
                                                  {"states", tensors_json(method.states)},
                                                  {"kernels", method.operators},
                                                  {"delegates", Json::array()},
                                                  {"instructions", method.instructions}});
    for (const ProgramDelegate& delegate : method.delegates)
      one["delegates"].push_back({{"id", delegate.id}, {"bytes", delegate.blob.size()}});
  }
  return to_line(json);
}

std::string to_json(const std::string& path, const tosa::Program& program) {
  Json json = head_of(path, "tosa");
  const tosa::Body& main = program.bodies.front();
  auto tensors = [&](const std::vector<tosa::TensorId>& ids) {
    Json list = Json::array();
    for (tosa::TensorId id : ids) {
      const tosa::Tensor& tensor = main.tensors[id];
      list.push_back({{"name", tensor.name}, {"dtype", tosa::name(tensor.dtype)}, {"shape", tensor.shape}});
    }
    return list;
  };
  json["inputs"] = tensors(main.inputs);
  json["outputs"] = tensors(main.outputs);
  json["operators"] = Json::array();
  for (const tosa::Operator& op : main.operators)
    json["operators"].push_back({{"op", tosa::name(op.op)}, {"location", op.location}});
  return to_line(json);
}

}  // namespace swoop
