#include "support/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "report/report.h"

namespace swoop {

namespace {

constexpr double kEqualDb = 999;  // what accuracy/ calls equal

Json nodes_json(const std::vector<NodeSummary>& nodes) {
  Json list = Json::array();
  for (const NodeSummary& node : nodes) {
    Json& json = list.emplace_back(Json{{"name", node.name}, {"op", node.op}, {"inputs", node.inputs}});
    if (node.region) json["region"] = *node.region;
  }
  return list;
}

Json memories_json(const Estimates& e) {
  Json list = Json::array();
  for (size_t i = 0; i < kNpuMemoryCount; ++i)
    if (const std::optional<MemoryEstimate>& memory = e.memories[i])
      list.push_back({{"name", memory_name(static_cast<NpuMemory>(i))},
                      {"bytes_used", memory->bytes_used},
                      {"traffic_bytes", memory->total_bytes},
                      {"access_cycles", memory->access_cycles}});
  return list;
}

Json region_json(const RegionSummary& region) {
  const Estimates& e = region.estimates;
  Json layers = Json::array();
  for (const LayerSummary& layer : region.layers)
    layers.push_back({{"name", layer.name},
                      {"op", layer.op},
                      {"cycles", layer.cycles},
                      {"npu_cycles", layer.npu_cycles},
                      {"macs", layer.macs},
                      {"sram_bytes", layer.sram_bytes},
                      {"source", layer.source},
                      {"code", layer.code},
                      {"module", layer.module}});
  Json json{{"name", region.name},
            {"tosa_ops", region.tosa_ops},
            {"macs", e.macs},
            {"npu_cycles", e.npu_cycles},
            {"total_cycles", e.total_cycles},
            {"inference_ms", e.inference_ms},
            {"sram_bytes", e.sram_bytes()},
            {"dram_bytes", e.dram_bytes()},
            {"flash_bytes", e.flash_bytes()},
            {"scratch_bytes", region.scratch_bytes},
            {"sram_limit_bytes", e.arena_cache_size},
            {"weight_bytes", e.original_weight_bytes},
            {"encoded_weight_bytes", e.encoded_weight_bytes},
            {"computed_products", e.products},
            {"memories", memories_json(e)},
            {"layers", std::move(layers)},
            {"nodes", nodes_json(region.nodes)}};
  auto set_weights = [&](const char* key, const std::optional<WeightsInSram>& weights, const char* why) {
    if (weights)
      json[key] = {
          {"bytes", weights->bytes}, {"operations", weights->operations}, {"cycles_before", weights->cycles_before}};
    else
      set_unknown(json, key, why);
  };
  set_weights(
      "kept_weights", e.kept,
      "none that several operations read are worth the SRAM, or --plain-stream or --optimise Size leaves them where "
      "they are");
  set_weights("weights_ahead", e.ahead,
              "none save cycles when they are fetched earlier, or --plain-stream or --optimise Size leaves them where "
              "they are");
  return json;
}

Json totals_json(const Summary& s) {
  const Totals totals = totals_of(s);
  return {{"macs", totals.macs},
          {"npu_cycles", totals.npu_cycles},
          {"total_cycles", totals.total_cycles},
          {"inference_ms", totals.inference_ms},
          {"sram_bytes", totals.sram_bytes},
          {"dram_bytes", totals.dram_bytes},
          {"flash_bytes", totals.flash_bytes}};
}

Json ports_json(const std::vector<PortSummary>& ports) {
  Json list = Json::array();
  for (const PortSummary& port : ports) {
    Json& json = list.emplace_back(
        Json{{"name", port.name}, {"dtype", port.dtype}, {"shape", port.shape}, {"bytes", port.bytes}});
    if (port.scale) {
      json["scale"] = *port.scale;
      json["zero_point"] = *port.zero_point;
    } else {
      set_unknown(json, "scale", "this value is not quantized");
      set_unknown(json, "zero_point", "this value is not quantized");
    }
  }
  return list;
}

// Every stage of the contract has its entry; one that did not run says why.
Json milliseconds_json(const Summary& s, double Elapsed::*kind) {
  Json json;
  for (const char* stage :
       {"import", "clean", "quantize", "legalize", "partition", "lower", "npu", "emit", "verify", "total"}) {
    auto found = std::ranges::find(s.times, stage, &std::pair<std::string, Elapsed>::first);
    if (found != s.times.end())
      json[stage] = found->second.*kind;
    else
      set_unknown(json, stage, "this stage did not run");
  }
  return json;
}

Json comparison_json(const BuildComparison& comparison) {
  Json lines = Json::array();
  for (const BuildComparison::Line& line : comparison.lines) {
    Json& one = lines.emplace_back(Json{{"name", line.name}});
    for (const auto& [when, figure] : {std::pair("before", line.before), std::pair("now", line.now)}) {
      if (figure)
        one[when] = *figure;
      else
        set_unknown(one, when, "the file does not carry it");
    }
  }
  return {{"path", comparison.path}, {"lines", std::move(lines)}};
}

Json sweep_json(const std::vector<SweepPoint>& points) {
  Json list = Json::array();
  for (const SweepPoint& point : points) {
    Json& json =
        list.emplace_back(Json{{"target", point.target}, {"memory_mode", point.memory_mode}, {"fits", point.fits()}});
    if (!point.why.empty()) json["why"] = point.why;
    if (!point.built) continue;
    json["system_config"] = point.system_config;
    json["inference_ms"] = point.totals.inference_ms;
    json["total_cycles"] = point.totals.total_cycles;
    json["sram_bytes"] = point.totals.sram_bytes;
    json["dram_bytes"] = point.totals.dram_bytes;
    json["flash_bytes"] = point.totals.flash_bytes;
    json["pte_bytes"] = point.pte_bytes;
    json["regions"] = point.regions;
    json["host_ops"] = point.host_ops;
    set(json, "sqnr_db",
        point.sqnr_db ? Figure(*point.sqnr_db, "the file computes what the float model does")
                      : Figure::none("not compared with a float model"));
    json["front"] = point.front;
  }
  return list;
}

Json board_json(const BoardFit& board) {
  Json memories = Json::array();
  for (const MemoryFit& memory : board.memories) {
    Json& one = memories.emplace_back(Json{{"name", memory.memory}, {"needed_bytes", memory.needed}});
    const char* why = "no public source was found";
    if (memory.there)
      one["bytes"] = *memory.there;
    else
      set_unknown(one, "bytes", why);
    if (const std::optional<bool> fits = memory.fits())
      one["fits"] = *fits;
    else
      set_unknown(one, "fits", why);
    one["sources"] = memory.sources;
  }
  return {{"name", board.board}, {"text", board.text}, {"memories", std::move(memories)}};
}

Json accuracy_json(const AccuracySummary& accuracy) {
  Json json = {{"samples", accuracy.samples},
               {"samples_given", accuracy.given},
               {"samples_kind", accuracy.samples == 0 ? "random"
                                : accuracy.test       ? "test"
                                                      : "calibration"}};
  if (accuracy.bit_exact)
    json["bit_exact"] = *accuracy.bit_exact;
  else
    set_unknown(json, "bit_exact", "the file was not run");
  std::vector<Figure> sqnr, max_error, equal;
  const Figure of_integers = Figure::none("this output is not float: see equal");
  for (const OutputAccuracy& output : accuracy.outputs) {
    sqnr.push_back(output.equal            ? of_integers
                   : output.max_error == 0 ? Figure::none("the output equals the float model's")
                                           : Figure(output.sqnr_db, "an element is not finite"));
    max_error.push_back(output.equal ? of_integers : Figure(output.max_error, "an element is not finite"));
    equal.push_back(output.equal ? Figure(*output.equal, "") : Figure::none("this output is float: see sqnr_db"));
  }
  set(json, "sqnr_db", sqnr);
  set(json, "max_error", max_error);
  set(json, "equal", equal);
  json["layers_compared"] = accuracy.layers;
  if (accuracy.left_out)
    json["left_out"] = {{"seen_db", accuracy.left_out->first}, {"unseen_db", accuracy.left_out->second}};
  else
    set_unknown(json, "left_out", "needs 2 to 15 samples, not random, of a float model without state");
  json["parts"] = Json::array();
  for (const PartAccuracy& part : accuracy.parts) {
    Json& one = json["parts"].emplace_back(Json{{"output", part.output}, {"name", part.name}, {"source", part.source}});
    set(one, "sqnr_db", Figure(part.sqnr_db, "it equals the float model's"));
    one["flat"] = part.flat;
    one["flat_channels"] = part.flat_channels;
    if (part.worst_channel) {
      one["worst_channel"] = part.worst_channel->first;
      set(one, "worst_channel_db", Figure(part.worst_channel->second, "it equals the float model's"));
    }
  }
  if (accuracy.by_layer.empty()) {
    set_unknown(json, "layers", "needs --report, and a float model with samples");
  } else {
    const char* equal_why = "the layer equals the float model's";
    for (const LayerNoise& layer : accuracy.by_layer) {
      Json& line = json["layers"].emplace_back(Json{{"name", layer.name}, {"op", layer.op}, {"source", layer.source}});
      auto decibels = [&](double db) { return db < kEqualDb ? Figure(db, "not finite") : Figure::none(equal_why); };
      set(line, "own_db", decibels(layer.own_db));
      set(line, "all_db", decibels(layer.all_db));
      line["clipped"] = layer.clipped;
    }
  }
  if (const std::optional<LabelAccuracy>& labels = accuracy.labels) {
    auto beside = [](const std::optional<double>& share) {
      return share ? Figure(*share, "") : Figure::none("there is no float model to compare with");
    };
    Json& counted = json["labels"] = {{"count", labels->labels}, {"top1", labels->top1}, {"top5", labels->top5}};
    set(counted, "float_top1", beside(labels->float_top1));
    set(counted, "float_top5", beside(labels->float_top5));
  } else {
    set_unknown(json, "labels", "no --test file with labels was given");
  }
  return json;
}

Json widened_json(const WidenedSummary& widened) {
  Json values = Json::array();
  for (const WidenedSummary::Value& value : widened.values)
    values.push_back({{"name", value.name}, {"op", value.op}, {"source", value.source}});
  return {{"values", values}, {"cycles_before", widened.cycles_before}, {"cycles", widened.cycles}};
}

Json search_json(const std::vector<SearchPoint>& points) {
  Json list = Json::array();
  for (const SearchPoint& point : points) {
    Json& json = list.emplace_back(Json{{"how", point.what}, {"built", point.built}});
    if (!point.why.empty()) json["why"] = point.why;
    if (!point.built) continue;
    json["front"] = point.front;
    json["written"] = point.written;
    json["total_cycles"] = point.totals.total_cycles;
    json["sram_bytes"] = point.totals.sram_bytes;
    json["flash_bytes"] = point.totals.flash_bytes;
    json["pte_bytes"] = point.pte_bytes;
    set(json, "sqnr_db", point.sqnr_db ? Figure(*point.sqnr_db, "not finite") : Figure::none("it was not measured"));
  }
  return list;
}

}  // namespace

std::string to_json(const std::vector<SweepPoint>& points) { return to_line(Json{{"rows", sweep_json(points)}}); }

std::string to_json(const Summary& s) {
  Json json = {{"schema", 1},
               {"swoop", kSwoopVersion},
               {"model", s.model},
               {"output", s.output},
               {"target", s.target},
               {"system_config", s.system_config},
               {"memory_mode", s.memory_mode},
               {"milliseconds", milliseconds_json(s, &Elapsed::wall_ms)},
               {"processor_milliseconds", milliseconds_json(s, &Elapsed::processor_ms)},
               {"delegates", s.regions.size()},
               {"host_ops", s.host_ops},
               {"border_ops", s.border_ops},
               {"host_reasons", Json::array()},
               {"pte_bytes", s.pte_bytes},
               {"regions", Json::array()},
               {"totals", totals_json(s)},
               {"memory",
                {{"planned_bytes", s.planned_bytes},
                 {"method_bytes", s.method_bytes},
                 {"temp_bytes", s.temp_bytes},
                 {"fast_bytes", s.fast_bytes}}},
               {"kernels", s.kernels}};
  for (const HostNodeSummary& node : s.host_nodes)
    json["host_reasons"].push_back({{"node", node.node},
                                    {"op", node.op},
                                    {"rule", node.rule},
                                    {"reason", node.reason},
                                    {"source", node.source},
                                    {"code", node.code},
                                    {"advice", node.advice}});
  for (const RegionSummary& region : s.regions) json["regions"].push_back(region_json(region));
  json["nodes"] = nodes_json(s.nodes);
  Json& limits = json["limits"] = Json::object();
  auto limit = [&](const char* name, const std::optional<int64_t>& bytes, const char* flag) {
    if (bytes)
      limits[name] = *bytes;
    else
      set_unknown(limits, name, std::string(flag) + " was not given");
  };
  limit("sram_bytes", s.max_sram, "--max-sram");
  limit("flash_bytes", s.max_flash, "--max-flash");
  if (s.comparison)
    json["comparison"] = comparison_json(*s.comparison);
  else
    set_unknown(json, "comparison", "--compare was not given");
  if (!s.sweep.empty()) json["sweep"] = sweep_json(s.sweep);
  if (!s.search.empty()) json["search"] = search_json(s.search);
  if (s.widened)
    json["int16"] = widened_json(*s.widened);
  else
    set_unknown(json, "int16", "nothing has int16 just because that is nearly free");
  if (s.smaller_weights)
    json["smaller_weights"] = {{"bytes_before", s.smaller_weights->bytes_before},
                               {"bytes", s.smaller_weights->bytes},
                               {"lost_db", s.smaller_weights->lost_db}};
  else
    set_unknown(json, "smaller_weights", "no weights have coarser steps than their largest ones ask for");
  if (s.tosa_bytes) json["tosa_bytes"] = *s.tosa_bytes;
  if (s.board)
    json["board"] = board_json(*s.board);
  else
    set_unknown(json, "board", "--board was not given");
  if (s.accuracy)
    json["accuracy"] = accuracy_json(*s.accuracy);
  else
    set_unknown(json, "accuracy", s.accuracy_why);
  json["inputs"] = ports_json(s.inputs);
  json["outputs"] = ports_json(s.outputs);
  json["warnings"] = s.warnings;
  json["text"] = to_text(s);
  return to_line(json);
}

}  // namespace swoop
