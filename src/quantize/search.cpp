#include "quantize/search.h"

#include <algorithm>
#include <cmath>

#include "quantize/candidates.h"
#include "quantize/layers.h"
#include "quantize/range.h"
#include "quantize/trials.h"

namespace swoop {

namespace {

// The outputs of a quantized graph against the float graph's.
struct Figures {
  double worst_db = std::numeric_limits<double>::infinity();  // of the float outputs; the others have no ratio
  double noise = 0;                                           // over signal, of all float outputs together
};

class Search {
 public:
  Search(const Graph& prepared, const TypeRequest& request, const Trials& trials)
      : prepared_(prepared), request_(request), trials_(trials), options_(request.options) {}

  Graph quantized(const std::set<std::string>& raised) const {
    TypeRequest wider = request_;
    wider.raised = raised;
    return typed(prepared_, wider);
  }

  Result<Figures> figures(const Graph& graph, size_t samples = Trials::kSamples) const {
    TRY_ASSIGN(const std::vector<Noise> noise, trials_.noise(graph, samples));
    Figures figures;
    for (size_t o = 0; o < noise.size(); ++o) {
      if (!trials_.counts(o)) continue;
      figures.worst_db = std::min(figures.worst_db, noise[o].db());
      figures.noise += std::pow(10, -noise[o].db() / 10);
    }
    return figures;
  }

  Result<Ranking> rank(Graph& base) const {
    std::optional<Cost> priced = options_.cost ? options_.cost(base) : std::nullopt;
    const Cost price = priced ? std::move(*priced) : estimate_cost(base);
    TRY_ASSIGN(const Figures before, figures(base, 1));
    Ranking ranking{{}, price.value};
    for (ValueId id : choices(base, prepared_)) {
      Candidate candidate = describe(prepared_, value_in_float(base, id));
      const std::vector<ValueId> members = moved_from(base, id);
      candidate.cost = cost_of_width(base, members, price);
      TRY_ASSIGN(const Figures after, figures_with_wide(base, members));
      const double gain = 10 * std::log10(before.noise / after.noise);
      candidate.gain_db = std::isfinite(gain) ? gain : 0;
      ranking.candidates.push_back(std::move(candidate));
    }
    // Gain per cost; what gains nothing alone comes last, in its order, since noise that adds up hides single
    // contributions.
    const double unit = std::max(1.0, price.value) * 1e-4;
    auto worth = [&](const Candidate& c) { return c.gain_db / (std::max(c.cost, 0.0) + unit); };
    std::stable_sort(ranking.candidates.begin(), ranking.candidates.end(),
                     [&](const Candidate& a, const Candidate& b) { return worth(a) > worth(b); });
    add_bodies(base, prepared_, "", ranking.candidates);
    return ranking;
  }

 private:
  // Inside control flow nothing is measured: one sample need not get there. It comes after all else.
  static void add_bodies(const Graph& base, const Graph& prepared, const std::string& path,
                         std::vector<Candidate>& list) {
    for (NodeId id : base.order()) {
      const Node& node = base.node(id);
      for (size_t b = 0; b < node.bodies.size(); ++b) {
        const Graph &typed = *node.bodies[b], &body = *prepared.node(id).bodies[b];
        const std::string inside = fmt::format("{}{}/{}/", path, node.name, b);
        for (ValueId choice : choices(typed, body)) {
          Candidate candidate = describe(body, value_in_float(typed, choice));
          candidate.name = inside + candidate.name;
          list.push_back(std::move(candidate));
        }
        add_bodies(typed, body, inside, list);
      }
    }
  }

  // Only the types of `members` change, and change back: choosing all types again would take longer than the run.
  Result<Figures> figures_with_wide(Graph& base, const std::vector<ValueId>& members) const {
    std::vector<Type> before;
    for (ValueId id : members) {
      Type& type = base.value(id).type;
      before.push_back(type);
      if (!type.quant->per_channel()) type = activation_type(Precision::Int16, type.shape, range_of(type));
    }
    Result<Figures> result = figures(base, 1);
    for (size_t i = 0; i < members.size(); ++i) base.value(members[i]).type = std::move(before[i]);
    return result;
  }

  const Graph& prepared_;
  const TypeRequest& request_;
  const Trials& trials_;
  const QuantizeOptions& options_;
};

double work_of(const Graph& graph, const Node& node) {
  const auto elements = static_cast<double>(element_count(graph.type(node.outputs[0]).shape));
  if (is_layer(node.op)) {
    const Shape& weight = graph.type(node.inputs[1]).shape;
    const double per_element =
        static_cast<double>(element_count(weight)) / static_cast<double>(std::max<int64_t>(1, weight[0]));
    if (node.op == Op::ConvTranspose)
      return static_cast<double>(element_count(graph.type(node.inputs[0]).shape)) * per_element;
    return elements * per_element;
  }
  if (node.op == Op::MatMul) return elements * static_cast<double>(graph.type(node.inputs[0]).shape.back());
  if (node.op == Op::Attention) {
    const Shape& keys = graph.type(node.inputs[1]).shape;
    return 2 * elements * static_cast<double>(keys[keys.size() - 2]);
  }
  return elements;
}

}  // namespace

const std::string& name_in_model(const Value& value) { return value.origin ? value.origin->name : value.name; }

Cost estimate_cost(const Graph& graph) {
  Cost cost;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    for (const auto& body : node.bodies) cost.value += estimate_cost(*body).value;
    if (node.outputs.empty()) continue;
    const double work = work_of(graph, node);
    const bool wide = !node.inputs.empty() && node.inputs[0] != kNone && graph.type(node.inputs[0]).dtype == DType::I16;
    cost.value += wide ? 2 * work : work;
    if (!wide) cost.wide[name_in_model(graph.value(node.outputs[0]))] += work;
  }
  return cost;
}

Result<std::set<std::string>> search_precision(const Graph& prepared, const TypeRequest& request,
                                               const Samples& samples, QuantizeReport& report) {
  const QuantizeOptions& options = request.options;
  const std::set<std::string>& raised = request.raised;
  const Trials trials(prepared, samples, request.measured, options.opaque);
  const Search search(prepared, request, trials);
  const double wanted = *options.min_sqnr;
  report.wanted_sqnr = wanted;
  if (options.ranking) {
    report.ranking = *options.ranking;
  } else {
    Graph base = search.quantized(raised);
    TRY_ASSIGN(const Figures figures, search.figures(base));
    report.sqnr_db = figures.worst_db;
    if (figures.worst_db >= wanted) return raised;
    TRY_ASSIGN(report.ranking, search.rank(base));
  }
  const std::vector<Candidate>& candidates = report.ranking->candidates;
  auto first = [&](size_t count) {
    std::set<std::string> names = raised;
    for (size_t i = 0; i < count; ++i) names.insert(candidates[i].name);
    return names;
  };
  // More of them are better, on the whole: `few` is too few; `enough` is all of them, or was seen to be enough.
  size_t few = 0;
  size_t enough = candidates.size();
  double reached = 0;
  bool seen = false;
  while (few + 1 < enough) {
    const size_t middle = (few + enough) / 2;
    TRY_ASSIGN(const Figures figures, search.figures(search.quantized(first(middle))));
    (figures.worst_db >= wanted ? enough : few) = middle;
    if (enough != middle) continue;
    reached = figures.worst_db;
    seen = true;
  }
  if (!seen) {
    TRY_ASSIGN(const Figures figures, search.figures(search.quantized(first(enough))));
    reached = figures.worst_db;
  }
  report.sqnr_db = reached;
  report.raised = enough;
  return first(enough);
}

}  // namespace swoop
