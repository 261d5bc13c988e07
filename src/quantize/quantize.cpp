#include "quantize/quantize.h"

#include <algorithm>

#include "quantize/assign.h"
#include "quantize/equalize.h"
#include "quantize/search.h"
#include "support/timer.h"

namespace swoop {

bool needs_quantization(const Graph& graph) {
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    for (const auto& body : node.bodies)
      if (needs_quantization(*body)) return true;
    if (policy_of(node) == Policy::KeepFloat) continue;
    for (ValueId output : node.outputs)
      if (is_float(graph.type(output).dtype) && !graph.type(output).quantized()) return true;
  }
  return false;
}

Result<QuantizeReport> quantize(Graph& graph, const Samples& samples, const QuantizeOptions& options) {
  if (samples.inputs.empty()) return error("there are no samples to calibrate with");
  QuantizeReport report;
  report.samples = samples.inputs.size();
  report.uncalibrated = samples.random;
  report.method = options.method;
  Timer timer;
  TRY_ASSIGN(Measured measured, calibrate(graph, samples, options.opaque));
  report.calibrate_seconds = timer.seconds();
  if (options.equalize) {
    report.equalized = equalize(graph, measured);
    if (report.equalized > 0) {
      TRY_ASSIGN(measured, calibrate(graph, samples, options.opaque));
    }
  }
  Assignment assignment{
      .options = options, .raised = {}, .values = &report.values, .bias_corrected = &report.bias_corrected};
  if (options.min_sqnr) {
    TRY_ASSIGN(assignment.raised, search_precision(graph, measured, samples, options, report));
  }
  TypeAssigner(graph, measured, assignment).run();
  return report;
}

}  // namespace swoop
