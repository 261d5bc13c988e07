#include "quantize/classes.h"
#include "quantize/range.h"

namespace swoop {

std::vector<ValueReport> report_values(const Graph& graph, const Borders& borders,
                                       const std::vector<TypeClass>& classes, const TypeRequest& request) {
  static const Statistics kNotMeasured;
  const std::vector<Statistics>& measured = request.measured.values;
  std::vector<ValueReport> values;
  for (const TypeClass& c : classes) {
    if (c.pinned && request.output_types.empty()) continue;
    for (ValueId source : c.sources) {
      ValueId id = borders.measured_id(source);
      const Value& value = graph.value(id);
      if (value.constant) continue;
      ValueId from = borders.measured_origin(graph, id);
      const Statistics& statistics = from < measured.size() ? measured[from] : kNotMeasured;
      const Node* producer = graph.producer(id);
      const Loc* loc = producer ? graph.loc(producer->loc) : nullptr;
      Range range = range_of(c.type);
      Type shown = c.type;
      shown.shape = value.type.shape;
      values.push_back(
          {.name = request.path + value.name,
           .node = producer ? producer->name : "",
           .op = producer ? std::string(name_of(producer->op)) : "input",
           .source = loc ? to_text(*loc) : "",
           .type = to_text(shown),
           .min = statistics.empty() ? 0.0 : static_cast<double>(statistics.min),
           .max = statistics.empty() ? 0.0 : static_cast<double>(statistics.max),
           .clipped = statistics.share_outside(range.min - c.type.scale() / 2, range.max + c.type.scale() / 2)});
    }
  }
  return values;
}

std::string to_text(const QuantizeReport& report) {
  std::string text = fmt::format(
      "quantized with {} sample{}, method {}{}\n", report.samples, report.samples == 1 ? "" : "s",
      name_of(report.method), report.uncalibrated ? "; UNCALIBRATED: the samples are random, so are the ranges" : "");
  if (report.equalized) text += fmt::format("{} pairs of layers equalized\n", report.equalized);
  if (report.bias_corrected) text += fmt::format("{} biases corrected\n", report.bias_corrected);
  if (!report.cheap.candidates.empty()) {
    const size_t count = report.cheap.candidates.size();
    text += fmt::format("{} value{} at int16 because that is nearly free; cost {:.0f} -> {:.0f}\n", count,
                        count == 1 ? "" : "s", report.cheap.cost_before, report.cheap.cost_after);
    for (const Candidate& value : report.cheap.candidates)
      text +=
          fmt::format("  int16: {:<30} {:<16} {:<22} cost {:+.0f}\n", value.name, value.op, value.source, value.cost);
  }
  if (report.smaller_weights)
    text += fmt::format("weights about {:.0f} % smaller for {:.2f} dB\n",
                        100 * (1 - report.smaller_weights->bytes / report.smaller_weights->bytes_before),
                        report.smaller_weights->lost_db);
  if (report.wanted_sqnr) {
    bool met = *report.sqnr_db >= *report.wanted_sqnr;
    text += fmt::format("{:.1f} dB wanted of each output, {:.1f} dB {} with {} layer{} at int16\n", *report.wanted_sqnr,
                        *report.sqnr_db, met ? "forecast" : "is as far as it goes", report.raised,
                        report.raised == 1 ? "" : "s");
    for (const Candidate& layer : report.raised_layers())
      text += fmt::format("  int16: {:<30} {:<16} {:<22} {:+.2f} dB alone, cost {:+.0f}\n", layer.name, layer.op,
                          layer.source, layer.gain_db, layer.cost);
  }
  text += fmt::format("{:<34} {:<16} {:<22} {:>12} {:>12} {:>9}  {}\n", "value", "op", "source", "min", "max",
                      "clipped", "type");
  for (const ValueReport& value : report.values)
    text += fmt::format("{:<34} {:<16} {:<22} {:>12.5g} {:>12.5g} {:>8.3f}%  {}\n", value.name, value.op, value.source,
                        value.min, value.max, 100 * value.clipped, value.type);
  return text;
}

}  // namespace swoop
