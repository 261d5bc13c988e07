#include "quantize/choices.h"

#include <algorithm>
#include <set>

#include "support/nearest.h"
#include "support/pattern.h"

namespace swoop {

namespace {

// A module's pattern also covers the modules inside it.
bool module_matches(const std::string& pattern, std::string_view path) {
  if (matches(pattern, path)) return true;
  for (size_t dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.', dot + 1))
    if (matches(pattern, path.substr(0, dot))) return true;
  return false;
}

std::string_view module_of(const Graph& graph, const Node& node) {
  const Loc* loc = graph.loc(node.loc);
  return loc ? std::string_view(loc->module_path) : std::string_view();
}

bool fits(const Scope& scope, const Graph& graph, const Node& node) {
  switch (scope.kind) {
    case Scope::Kind::Module: return module_matches(scope.pattern, module_of(graph, node));
    case Scope::Kind::Op: return matches(scope.pattern, name_of(node.op)) || matches(scope.pattern, called(node));
    case Scope::Kind::Node: return matches(scope.pattern, node.name);
  }
  return false;
}

void visit(const Graph& graph, const std::function<void(const Graph&, const Node&)>& see) {
  for (NodeId id : graph.order()) {
    see(graph, graph.node(id));
    for (const auto& body : graph.node(id).bodies) visit(*body, see);
  }
}

// What the patterns of each kind are compared with.
struct Names {
  std::set<std::string> nodes, ops, modules;

  explicit Names(const Graph& model) {
    visit(model, [&](const Graph& graph, const Node& node) {
      nodes.insert(node.name);
      ops.insert(called(node));
      std::string_view path = module_of(graph, node);
      for (size_t dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.', dot + 1))
        modules.insert(std::string(path.substr(0, dot)));
      if (!path.empty()) modules.insert(std::string(path));
    });
  }
};

// Where the node of the model with this name went: the node that now computes what it led to.
std::string fused_into(const std::string& name, const FollowingNodes& following, const std::set<std::string>& nodes) {
  auto at = following.find(name);
  for (size_t hops = 0; at != following.end() && hops < following.size(); ++hops) {
    if (nodes.contains(at->second)) return at->second;
    at = following.find(at->second);
  }
  return "";
}

Error matches_nothing(std::string_view what, const std::string& pattern, std::string_view kind,
                      std::vector<std::string> names) {
  return error("{} {}: no {} of this model has that name{}", what, pattern, kind, did_you_mean(pattern, names));
}

std::vector<std::string> listed(std::initializer_list<const std::set<std::string>*> sets) {
  std::vector<std::string> names;
  for (const std::set<std::string>* set : sets) names.insert(names.end(), set->begin(), set->end());
  return names;
}

}  // namespace

FollowingNodes following_nodes(const Graph& model) {
  FollowingNodes following;
  visit(model, [&](const Graph& graph, const Node& node) {
    std::string& next = following[node.name];
    for (ValueId output : node.outputs)
      for (const Use& use : graph.value(output).uses)
        if (next.empty() && use.node != kNone) next = graph.node(use.node).name;
  });
  return following;
}

Result<void> check_names(const Graph& model, const FollowingNodes& following, const QuantizeOptions& options) {
  if (options.keep_float.empty() && options.scopes.empty()) return {};
  const Names names(model);
  auto any = [](const std::set<std::string>& set, const std::string& pattern) {
    return std::any_of(set.begin(), set.end(), [&](const std::string& name) { return matches(pattern, name); });
  };
  auto check_fused = [&](std::string_view what, const std::string& pattern) -> Result<void> {
    if (std::string into = fused_into(pattern, following, names.nodes); !into.empty())
      return error("{} {}: this node was joined with {}: name that one", what, pattern, into);
    return {};
  };
  for (const std::string& pattern : options.keep_float) {
    if (any(names.nodes, pattern) || any(names.modules, pattern)) continue;
    TRY(check_fused("--keep-float", pattern));
    return matches_nothing("--keep-float", pattern, "node or module", listed({&names.nodes, &names.modules}));
  }
  for (const Scope& scope : options.scopes) {
    switch (scope.kind) {
      case Scope::Kind::Module:
        if (!any(names.modules, scope.pattern))
          return matches_nothing("[[module]]", scope.pattern, "module", listed({&names.modules}));
        break;
      case Scope::Kind::Op:
        if (!any(names.ops, scope.pattern))
          return matches_nothing("[[op]]", scope.pattern, "operator", listed({&names.ops}));
        break;
      case Scope::Kind::Node:
        if (any(names.nodes, scope.pattern)) break;
        TRY(check_fused("[[node]]", scope.pattern));
        return matches_nothing("[[node]]", scope.pattern, "node", listed({&names.nodes}));
    }
  }
  return {};
}

Choice choose(const Graph& graph, const Node& node, const QuantizeOptions& options) {
  Choice choice{options.precision, options.method, options.weight_bits};
  for (Scope::Kind kind : {Scope::Kind::Module, Scope::Kind::Op, Scope::Kind::Node}) {
    for (const Scope& scope : options.scopes) {
      if (scope.kind != kind || !fits(scope, graph, node)) continue;
      choice.precision = scope.precision.value_or(choice.precision);
      choice.by_scope |= scope.precision.has_value();
      choice.method = scope.method.value_or(choice.method);
      choice.weight_bits = scope.weight_bits.value_or(choice.weight_bits);
    }
  }
  for (const std::string& pattern : options.keep_float)
    if (matches(pattern, node.name) || module_matches(pattern, module_of(graph, node)))
      choice.precision = Precision::Float;
  return choice;
}

bool is_settled(const Graph& graph, ValueId value, const QuantizeOptions& options) {
  if (const Node* producer = graph.producer(value)) return choose(graph, *producer, options).by_scope;
  return std::ranges::any_of(graph.value(value).uses, [&](const Use& use) {
    return use.node != kNone && choose(graph, graph.node(use.node), options).by_scope;
  });
}

bool shares_type(const Node& node) { return policy_of(node) == Policy::SameAsInput; }

std::string_view name_of(Precision precision) {
  switch (precision) {
    case Precision::Int8: return "int8";
    case Precision::Int16: return "int16";
    case Precision::Float: return "float";
  }
  return "";
}

std::string_view name_of(Method method) {
  switch (method) {
    case Method::MinMax: return "minmax";
    case Method::Percentile: return "percentile";
    case Method::Histogram: return "histogram";
    case Method::Mse: return "mse";
  }
  return "";
}

namespace {
std::optional<Precision> precision_called(std::string_view text) {
  for (Precision precision : {Precision::Int8, Precision::Int16, Precision::Float})
    if (name_of(precision) == text) return precision;
  return std::nullopt;
}
}  // namespace

Result<Precision> parse_precision(std::string_view text) {
  if (const std::optional<Precision> precision = precision_called(text)) return *precision;
  return error("precision \"{}\" is not known; it is int8, int16 or float", text);
}

Result<void> set_precision(QuantizeOptions& options, std::string_view text) {
  const bool automatic = text == kAutoPrecision;
  const std::optional<Precision> precision = automatic ? Precision::Int8 : precision_called(text);
  if (!precision) return error("precision \"{}\" is not known; it is auto, int8, int16 or float", text);
  options.precision = *precision;
  options.int16_budget = automatic ? kNearlyFree : 0;
  return {};
}

Result<Method> parse_method(std::string_view text) {
  for (Method method : {Method::MinMax, Method::Percentile, Method::Histogram, Method::Mse})
    if (name_of(method) == text) return method;
  return error("calibration method \"{}\" is not known; it is minmax, percentile, histogram or mse", text);
}

}  // namespace swoop
