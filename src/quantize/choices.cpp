#include "quantize/choices.h"

#include <fnmatch.h>

namespace swoop {

namespace {

bool matches(const std::string& pattern, std::string_view text) {
  return fnmatch(pattern.c_str(), std::string(text).c_str(), 0) == 0;
}

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
    case Scope::Kind::Op:
      return matches(scope.pattern, name_of(node.op)) ||
             (node.op == Op::Unary && matches(scope.pattern, node.text(Key::Fn)));
    case Scope::Kind::Node: return matches(scope.pattern, node.name);
  }
  return false;
}

}  // namespace

Choice choose(const Graph& graph, const Node& node, const QuantizeOptions& options) {
  Choice choice{options.precision, options.method};
  for (Scope::Kind kind : {Scope::Kind::Module, Scope::Kind::Op, Scope::Kind::Node}) {
    for (const Scope& scope : options.scopes) {
      if (scope.kind != kind || !fits(scope, graph, node)) continue;
      choice.precision = scope.precision.value_or(choice.precision);
      choice.by_scope |= scope.precision.has_value();
      choice.method = scope.method.value_or(choice.method);
    }
  }
  for (const std::string& pattern : options.keep_float)
    if (matches(pattern, node.name) || module_matches(pattern, module_of(graph, node)))
      choice.precision = Precision::Float;
  return choice;
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

Result<Precision> parse_precision(std::string_view text) {
  for (Precision precision : {Precision::Int8, Precision::Int16, Precision::Float})
    if (name_of(precision) == text) return precision;
  return error("precision \"{}\" is not known; it is int8, int16 or float", text);
}

Result<Method> parse_method(std::string_view text) {
  for (Method method : {Method::MinMax, Method::Percentile, Method::Histogram, Method::Mse})
    if (name_of(method) == text) return method;
  return error("calibration method \"{}\" is not known; it is minmax, percentile, histogram or mse", text);
}

}  // namespace swoop
