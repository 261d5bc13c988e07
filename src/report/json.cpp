#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/report.h"

namespace swoop {

namespace {

// Objects and arrays with commas where they belong.
class JsonWriter {
 public:
  void open(char bracket) {
    comma();
    text_ += bracket;
    first_ = true;
  }
  void close(char bracket) {
    text_ += bracket;
    first_ = false;
  }
  void key(std::string_view name) {
    comma();
    text_ += json_string(name) + ": ";
    first_ = true;
  }
  void raw(std::string_view value) {
    comma();
    text_ += value;
  }
  void field(std::string_view name, std::string_view value) { member(name, json_string(value)); }
  void field(std::string_view name, const std::string& value) { member(name, json_string(value)); }
  void field(std::string_view name, const char* value) { member(name, json_string(value)); }
  void field(std::string_view name, double value) { member(name, number(value)); }
  void field(std::string_view name, int64_t value) { member(name, fmt::format("{}", value)); }
  void field(std::string_view name, uint64_t value) { member(name, fmt::format("{}", value)); }
  void field(std::string_view name, int value) { member(name, fmt::format("{}", value)); }
  void field(std::string_view name, bool value) { member(name, value ? "true" : "false"); }
  void unknown(std::string_view name, std::string_view why) {
    member(name, "null");
    field(std::string(name) + "_why", why);
  }
  static std::string number(double value) {
    if (!std::isfinite(value)) return "null";
    return fmt::format("{}", value);
  }
  std::string take() { return std::move(text_); }

 private:
  void comma() {
    if (!first_) text_ += ", ";
    first_ = false;
  }
  void member(std::string_view name, std::string_view value) {
    key(name);
    raw(value);
  }
  std::string text_;
  bool first_ = true;
};

void write_region(JsonWriter& json, const RegionSummary& region) {
  const Estimates& e = region.estimates;
  json.open('{');
  json.field("name", region.name);
  json.field("tosa_ops", static_cast<uint64_t>(region.tosa_ops));
  json.field("macs", e.macs);
  json.field("npu_cycles", e.npu_cycles);
  json.field("total_cycles", e.total_cycles);
  json.field("inference_ms", e.inference_ms);
  json.field("sram_bytes", e.sram_bytes());
  json.field("dram_bytes", e.dram_bytes());
  json.field("flash_bytes", e.flash_bytes());
  json.field("scratch_bytes", region.scratch_bytes);
  json.key("layers");
  json.open('[');
  for (const LayerSummary& layer : region.layers) {
    json.open('{');
    json.field("name", layer.name);
    json.field("op", layer.op);
    json.field("cycles", layer.cycles);
    json.field("macs", layer.macs);
    json.field("source", layer.source);
    json.close('}');
  }
  json.close(']');
  json.close('}');
}

void write_ports(JsonWriter& json, std::string_view name, const std::vector<PortSummary>& ports) {
  json.key(name);
  json.open('[');
  for (const PortSummary& port : ports) {
    json.open('{');
    json.field("name", port.name);
    json.field("dtype", port.dtype);
    json.key("shape");
    json.open('[');
    for (int64_t size : port.shape) json.raw(fmt::format("{}", size));
    json.close(']');
    if (port.scale) {
      json.field("scale", *port.scale);
      json.field("zero_point", *port.zero_point);
    } else {
      json.unknown("scale", "this value is not quantized");
      json.unknown("zero_point", "this value is not quantized");
    }
    json.close('}');
  }
  json.close(']');
}

void write_counts(JsonWriter& json, std::string_view name, const std::map<std::string, int>& counts) {
  json.key(name);
  json.open('{');
  for (const auto& [op, count] : counts) json.field(op, count);
  json.close('}');
}

void write_totals(JsonWriter& json, const Summary& s) {
  int64_t macs = 0, npu = 0, total = 0, sram = 0, flash = 0, dram = 0;
  double ms = 0;
  for (const RegionSummary& region : s.regions) {
    macs += region.estimates.macs;
    npu += region.estimates.npu_cycles;
    total += region.estimates.total_cycles;
    ms += region.estimates.inference_ms;
    sram = std::max(sram, region.estimates.sram_bytes());  // regions run one after the other in the same memory
    flash += region.estimates.flash_bytes();
    dram = std::max(dram, region.estimates.dram_bytes());
  }
  json.key("totals");
  json.open('{');
  json.field("macs", macs);
  json.field("npu_cycles", npu);
  json.field("total_cycles", total);
  json.field("inference_ms", ms);
  json.field("sram_bytes", sram);
  json.field("dram_bytes", dram);
  json.field("flash_bytes", flash);
  json.close('}');
}

}  // namespace

std::string json_string(std::string_view text) {
  std::string result = "\"";
  for (char c : text) {
    switch (c) {
      case '"': result += "\\\""; break;
      case '\\': result += "\\\\"; break;
      case '\n': result += "\\n"; break;
      case '\t': result += "\\t"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20)
          result += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        else
          result += c;
    }
  }
  return result + "\"";
}

std::string to_json(const Summary& s) {
  JsonWriter json;
  json.open('{');
  json.field("schema", 1);
  json.field("swoop", kSwoopVersion);
  json.field("model", s.model);
  json.field("output", s.output);
  json.field("target", s.target);
  json.field("system_config", s.system_config);
  json.field("memory_mode", s.memory_mode);
  json.key("milliseconds");
  json.open('{');
  // Every stage of the contract has its entry; one that did not run says why.
  for (std::string_view stage :
       {"import", "clean", "quantize", "legalize", "partition", "lower", "npu", "emit", "verify", "total"}) {
    auto found = std::find_if(s.milliseconds.begin(), s.milliseconds.end(),
                              [&](const auto& entry) { return entry.first == stage; });
    if (found != s.milliseconds.end())
      json.field(stage, found->second);
    else
      json.unknown(stage, "this stage did not run");
  }
  json.close('}');
  json.field("delegates", static_cast<uint64_t>(s.regions.size()));
  write_counts(json, "host_ops", s.host_ops);
  write_counts(json, "border_ops", s.border_ops);
  json.key("host_reasons");
  json.open('[');
  for (const HostNodeSummary& node : s.host_nodes) {
    json.open('{');
    json.field("node", node.node);
    json.field("op", node.op);
    json.field("rule", node.rule);
    json.field("reason", node.reason);
    json.field("source", node.source);
    json.field("advice", node.advice);
    json.close('}');
  }
  json.close(']');
  json.field("pte_bytes", s.pte_bytes);
  json.key("regions");
  json.open('[');
  for (const RegionSummary& region : s.regions) write_region(json, region);
  json.close(']');
  write_totals(json, s);
  json.key("memory");
  json.open('{');
  json.field("planned_bytes", s.planned_bytes);
  json.field("method_bytes", s.method_bytes);
  json.field("temp_bytes", s.temp_bytes);
  json.close('}');
  if (s.accuracy) {
    json.key("accuracy");
    json.open('{');
    json.field("samples", static_cast<uint64_t>(s.accuracy->samples));
    if (s.accuracy->bit_exact)
      json.field("bit_exact", *s.accuracy->bit_exact);
    else
      json.unknown("bit_exact", "the file was not run");
    auto list = [&](std::string_view key, auto value) {
      json.key(key);
      json.open('[');
      for (const OutputAccuracy& output : s.accuracy->outputs) {
        std::optional<double> figure = value(output);
        json.raw(figure ? JsonWriter::number(*figure) : "null");
      }
      json.close(']');
    };
    using Figure = std::optional<double>;
    list("sqnr_db", [](const OutputAccuracy& o) { return o.equal ? Figure() : o.sqnr_db; });
    list("max_error", [](const OutputAccuracy& o) { return o.equal ? Figure() : o.max_error; });
    list("equal", [](const OutputAccuracy& o) { return o.equal; });
    json.close('}');
  } else {
    json.unknown("accuracy", s.accuracy_why);
  }
  write_ports(json, "inputs", s.inputs);
  write_ports(json, "outputs", s.outputs);
  json.key("warnings");
  json.open('[');
  for (const std::string& warning : s.warnings) json.raw(json_string(warning));
  json.close(']');
  json.close('}');
  return json.take() + "\n";
}

}  // namespace swoop
