#include "quantize/quantize.h"

#include "quantize/borders.h"
#include "quantize/cheap.h"
#include "quantize/classes.h"
#include "quantize/complete.h"
#include "quantize/constants.h"
#include "quantize/equalize.h"
#include "quantize/known_constants.h"
#include "quantize/room.h"
#include "quantize/search.h"
#include "quantize/weights_by_rate.h"
#include "support/timer.h"

namespace swoop {

bool has_state(const Graph& graph) {
  for (size_t i = 0; i < graph.inputs().size(); ++i)
    if (graph.input_port(i).role == Port::Role::State) return true;
  return false;
}

bool needs_quantization(const Graph& graph) {
  for (NodeId at : graph.order()) {
    const Node& node = graph.node(at);
    for (const auto& body : node.bodies)
      if (needs_quantization(*body)) return true;
    if (policy_of(node) == Policy::KeepFloat) continue;
    for (ValueId id : node.op == Op::Compare ? node.inputs : node.outputs)
      if (is_plain_float(graph, id)) return true;
  }
  return false;
}

namespace {

void set_types(Graph& graph, const std::vector<TypeClass>& classes) {
  for (const TypeClass& c : classes) {
    for (ValueId member : c.members) {
      if (graph.type(member).quantized()) continue;
      Type type = c.type;
      type.shape = graph.type(member).shape;
      graph.value(member).type = std::move(type);
    }
  }
}

// A cond passes codes to its bodies and takes codes from them; other control flow passes floats.
void choose_types_of_bodies(Graph& graph, const Borders& borders, const TypeRequest& request, bool reports,
                            ChosenTypes& chosen) {
  for (NodeId id : graph.order()) {
    Node& node = graph.node(id);
    auto measured = request.measured.bodies.find(id);
    if (measured == request.measured.bodies.end()) continue;
    for (size_t b = 0; b < node.bodies.size(); ++b) {
      Graph& body = *node.bodies[b];
      TypeRequest inside{.options = request.options,
                         .measured = measured->second[b],
                         .raised = request.raised,
                         .path = fmt::format("{}{}/{}/", request.path, node.name, b),
                         .room = request.room};
      if (borders.domains[id] == Domain::Branch) {
        for (size_t i = 0; i < body.inputs().size(); ++i) {
          const Type& operand = graph.type(node.inputs[i + 1]);
          if (operand.quantized()) body.value(body.inputs()[i]).type = operand;
        }
        for (ValueId output : node.outputs) inside.output_types.push_back(graph.type(output));
      }
      const bool loops = node.op == Op::While || node.op == Op::Scan;
      if (loops && b + 1 == node.bodies.size()) inside.carried = static_cast<size_t>(node.integer(Key::Carried));
      ChosenTypes more = choose_types(body, inside, reports);
      std::move(more.values.begin(), more.values.end(), std::back_inserter(chosen.values));
      chosen.bias_corrected += more.bias_corrected;
    }
  }
}

// A body's outputs in the types of the cond's results.
void convert_outputs(Graph& graph, const std::vector<Type>& types) {
  for (size_t i = 0; i < types.size(); ++i) {
    ValueId output = graph.outputs()[i];
    if (!types[i].quantized() || graph.type(output) == types[i]) continue;
    if (graph.value(output).constant) {
      graph.set_output(i, quantize_constant(graph, output, types[i]));
      continue;
    }
    const Node* producer = graph.producer(output);
    Node& node = graph.add_node(Op::Quantize, {output}, {types[i]}, {}, producer ? producer->loc : kNone,
                                graph.value(output).name + "_q");
    graph.set_output(i, node.outputs[0]);
  }
}

}  // namespace

void note_least_variances(Graph& graph) {
  for (NodeId id : graph.order()) {
    Node& node = graph.node(id);
    for (const auto& body : node.bodies) note_least_variances(*body);
    const bool norm = node.op == Op::LayerNorm || node.op == Op::RmsNorm || node.op == Op::GroupNorm;
    if (norm && graph.type(node.inputs[0]).quantized() && graph.type(node.outputs[0]).quantized())
      node.attrs.set(Key::LeastVariance, row_variance(node, graph.type(node.inputs[0])).least);
  }
}

Graph typed(const Graph& prepared, const TypeRequest& request) {
  Graph graph = clone(prepared);
  choose_types(graph, request, false);
  return graph;
}

ChosenTypes choose_types(Graph& graph, const TypeRequest& request, bool reports) {
  Borders borders = place_borders(graph, request);
  std::vector<TypeClass> classes = choose_classes(graph, borders, request);
  set_types(graph, classes);
  ChosenTypes chosen;
  if (reports) chosen.values = report_values(graph, borders, classes, request);
  chosen.bias_corrected = quantize_constants(graph, borders, request);
  note_least_variances(graph);
  choose_types_of_bodies(graph, borders, request, reports, chosen);
  convert_outputs(graph, request.output_types);
  graph.erase_dead();
  return chosen;
}

Result<QuantizeReport> quantize(Graph& graph, const Samples& samples, const QuantizeOptions& options) {
  if (samples.inputs.empty()) return error("there are no samples to calibrate with");
  QuantizeReport report;
  report.samples = samples.inputs.size();
  report.uncalibrated = samples.random;
  report.method = options.method;
  Timer timer;
  std::optional<Measured> others;  // without the last sample
  std::optional<Measured>* without_last = can_leave_out(graph, samples) ? &others : nullptr;
  std::optional<Covariances> covariances(std::in_place, graph, options);
  TRY_ASSIGN(Measured measured, calibrate(graph, samples, options.opaque, without_last, &*covariances));
  report.calibrate_seconds = timer.seconds();
  if (options.equalize) {
    report.equalized = equalize(graph, measured);
    if (report.equalized > 0) {
      covariances.emplace(graph, options);
      TRY_ASSIGN(measured, calibrate(graph, samples, options.opaque, without_last, &*covariances));
    }
  }
  const Graph prepared = clone(graph);
  KnownConstants known(prepared, roundings_of(*covariances));
  covariances.reset();
  TypeRequest request{.options = options, .measured = measured, .raised = options.wide, .known = &known};
  if (others) {
    TypeRequest finest = request;  // which room is best is no matter of the weights
    finest.weight_rate = 0;
    TRY_ASSIGN(report.left_out, choose_room(prepared, samples, *others, finest));
    request.room = finest.room;
  }
  // With the ranges settled: what is compiled here to know its price is what ships, if it is affordable.
  if (options.int16_budget > 0) TRY(raise_what_is_cheap(prepared, samples, request, report));
  if (options.min_sqnr) {
    TRY_ASSIGN(request.raised, search_precision(prepared, request, samples, report));
  }
  const bool types_changed = !request.weight_rate || options.min_sqnr;
  if (options.weight_rate > 0 && types_changed) {
    TRY_ASSIGN(const Confirmed confirmed, confirm_weight_rate(prepared, samples, request));
    report.smaller_weights = confirmed.smaller;
  }
  ChosenTypes chosen = choose_types(graph, request);
  report.values = std::move(chosen.values);
  report.bias_corrected = chosen.bias_corrected;
  report.warnings = doubts(prepared, measured, report);
  if (report.equalized == 0) report.float_outputs = std::move(measured.first_outputs);
  return report;
}

}  // namespace swoop
