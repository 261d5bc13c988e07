#include "quantize/quantize.h"

#include "accuracy/accuracy.h"
#include "quantize/borders.h"
#include "quantize/cheap.h"
#include "quantize/classes.h"
#include "quantize/complete.h"
#include "quantize/constants.h"
#include "quantize/equalize.h"
#include "quantize/search.h"
#include "quantize/weights_by_rate.h"
#include "support/timer.h"

namespace swoop {

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
void choose_types_of_bodies(Graph& graph, const Borders& borders, const TypeRequest& request, ChosenTypes& chosen) {
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
      ChosenTypes more = choose_types(body, inside);
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

ChosenTypes choose_types(Graph& graph, const TypeRequest& request) {
  Borders borders =
      place_borders(graph, request.options, request.measured, !request.output_types.empty(), request.carried);
  std::vector<TypeClass> classes = choose_classes(graph, borders, request);
  set_types(graph, classes);
  ChosenTypes chosen{report_values(graph, borders, classes, request), 0};
  chosen.bias_corrected = quantize_constants(graph, borders, request);
  choose_types_of_bodies(graph, borders, request, chosen);
  convert_outputs(graph, request.output_types);
  graph.erase_dead();
  return chosen;
}

namespace {

// Few samples can be judged by one of them, unless its state comes from the others.
bool can_leave_out(const Graph& graph, const Samples& samples) {
  if (samples.random || samples.inputs.size() < 2 || samples.inputs.size() >= kEnoughSamples) return false;
  for (size_t i = 0; i < graph.inputs().size(); ++i)
    if (graph.input_port(i).role == Port::Role::State) return false;
  return true;
}

// The last sample as a judge of ranges.
struct Judgement {
  std::optional<LeftOut> worst;  // of the outputs; absent: none is float
  double unseen_db = 0;          // of all outputs, the mean
};

// The last sample with ranges that it had a part in, and with those of the others.
Result<Judgement> judge(const Graph& prepared, const TypeRequest& request, const Measured& others, const Sample& sample,
                        std::span<const Tensor> exact) {
  Graph seen = clone(prepared), unseen = clone(prepared);
  choose_types(seen, request);
  choose_types(unseen, {.options = request.options,
                        .measured = others,
                        .raised = request.raised,
                        .room = request.room,
                        .weight_rate = request.weight_rate});
  TRY_ASSIGN(std::vector<Tensor> with, execute(seen, sample, {request.options.opaque}));
  TRY_ASSIGN(std::vector<Tensor> without, execute(unseen, sample, {request.options.opaque}));
  Judgement judgement;
  for (size_t i = 0; i < exact.size(); ++i) {
    if (exact[i].dtype != DType::F32) continue;
    auto db = [&](const Tensor& actual) { return sqnr_db(exact.subspan(i, 1), std::span(&actual, 1)); };
    LeftOut output{db(with[i]), db(without[i])};
    judgement.unseen_db += output.unseen_db / static_cast<double>(exact.size());
    if (!judgement.worst || output.loss_db() > judgement.worst->loss_db()) judgement.worst = output;
  }
  return judgement;
}

// Where the last sample does clearly worse with the ranges of the others, all ranges get more room, until it does not;
// but only as much as is a gain. Returns what becomes of it then.
Result<std::optional<LeftOut>> make_room(const Graph& prepared, TypeRequest& request, const Measured& others,
                                         const Sample& sample) {
  constexpr double kClearly = 1, kGain = 0.5;  // dB
  TRY_ASSIGN(std::vector<Tensor> exact, execute(prepared, sample, {request.options.opaque}));
  TRY_ASSIGN(Judgement best, judge(prepared, request, others, sample, exact));
  for (double room : {2.0, 4.0}) {
    if (!best.worst || best.worst->loss_db() <= kClearly) break;
    TypeRequest wider = request;
    wider.room = room;
    TRY_ASSIGN(Judgement judgement, judge(prepared, wider, others, sample, exact));
    if (judgement.unseen_db < best.unseen_db + kGain) continue;
    request.room = room;
    best = judgement;
  }
  return best.worst;
}

}  // namespace

Result<QuantizeReport> quantize(Graph& graph, const Samples& samples, const QuantizeOptions& options) {
  if (samples.inputs.empty()) return error("there are no samples to calibrate with");
  QuantizeReport report;
  report.samples = samples.inputs.size();
  report.uncalibrated = samples.random;
  report.method = options.method;
  Timer timer;
  std::optional<Measured> others;  // without the last sample
  std::optional<Measured>* without_last = can_leave_out(graph, samples) ? &others : nullptr;
  TRY_ASSIGN(Measured measured, calibrate(graph, samples, options.opaque, without_last));
  report.calibrate_seconds = timer.seconds();
  if (options.equalize) {
    report.equalized = equalize(graph, measured);
    if (report.equalized > 0) {
      TRY_ASSIGN(measured, calibrate(graph, samples, options.opaque, without_last));
    }
  }
  const Graph prepared = clone(graph);
  TypeRequest request{options, measured};
  if (options.int16_budget > 0) TRY(raise_what_is_cheap(prepared, samples, request, report));
  if (options.min_sqnr) {
    TRY_ASSIGN(request.raised, search_precision(graph, measured, samples, options, request.raised, report));
  }
  if (others) {
    TRY_ASSIGN(report.left_out, make_room(prepared, request, *others, samples.inputs.back()));
  }
  if (!request.weight_rate || options.min_sqnr || request.room != 1) {  // types that were not confirmed with it
    TRY_ASSIGN(report.smaller_weights, confirm_weight_rate(prepared, samples, request));
  }
  ChosenTypes chosen = choose_types(graph, request);
  report.values = std::move(chosen.values);
  report.bias_corrected = chosen.bias_corrected;
  report.warnings = doubts(prepared, measured, report);
  return report;
}

}  // namespace swoop
