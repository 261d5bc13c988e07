// Control flow: bodies become graphs inside their node, closed over nothing. torch.export passes weights into bodies as
// operands; here constants (and their Dequantize) move into the bodies, where later rooms can see and fold them.
#include <algorithm>

#include "import/importer.h"
#include "ops/ops.h"

namespace swoop {

namespace {

constexpr int kMaxDepth = 32;  // of bodies within bodies

// Depth is shared by nested importers; leaving by exception must count too.
struct Deeper {
  explicit Deeper(int& depth_) : depth(depth_) {
    if (++depth > kMaxDepth) {
      --depth;
      malformed("control flow is nested more than {} levels deep", kMaxDepth);
    }
  }
  ~Deeper() { --depth; }
  int& depth;
};

Json graph_of(Json argument) {
  std::optional<Json> graph = find(argument, "as_graph");
  if (!graph) malformed("control flow has no graph where its body should be");
  return *graph;
}

Type without_first_dim(Type type) {
  if (type.shape.empty()) malformed("control flow runs over the first axis of a tensor that has none");
  type.shape.erase(type.shape.begin());
  return type;
}

}  // namespace

std::vector<Json> GraphImporter::control_arguments(const Fields& node) const {
  std::vector<Json> list;
  for (Json input : node.inputs) list.push_back(member(input, "arg"));
  return list;
}

std::vector<GraphImporter::Operand> GraphImporter::operands(Json argument) {
  ArgValue value = read_argument(argument);
  std::vector<Operand> list;
  if (const auto* tensors = std::get_if<std::vector<TensorArg>>(&value)) {
    for (const TensorArg& arg : *tensors) {
      if (!arg.binding) malformed("control flow gets None as an operand");
      if (arg.binding->complex) malformed("control flow gets complex numbers; hand in torch.view_as_real() of them");
      list.push_back({arg.binding, false});
    }
  } else if (const Ints* empty = std::get_if<Ints>(&value); !empty || !empty->empty()) {
    unsupported("control flow with operands that are not tensors");
  }
  return list;
}

// A weight that nobody writes to, or the Dequantize of one.
bool GraphImporter::bakeable(const Binding& binding) {
  if (scope.constant(binding)) return true;
  if (binding.storage == kNone || !binding.path.empty() || scope.storage(binding).version != 0) return false;
  ValueId value = scope.storage(binding).value;
  if (value == kNone) return false;
  if (graph_.value(value).constant) return true;
  const Node* producer = graph_.producer(value);
  return producer && producer->op == Op::Dequantize && graph_.value(producer->inputs[0]).constant;
}

std::unique_ptr<Graph> GraphImporter::import_body(Json argument, const std::vector<Operand>& operands,
                                                  const std::vector<bool>& scanned) {
  Deeper deeper(program_.depth);
  Json holder = graph_of(argument);
  Json definition = member(holder, "graph");
  auto body = std::make_unique<Graph>();
  body->name = as_text(member(holder, "name"), "name");
  GraphImporter inner(program_, *body, definition, true);
  JsonArray inputs = as_array(member(definition, "inputs"), "inputs");
  if (inputs.size() != operands.size())
    malformed("a body takes {} operands but gets {}", inputs.size(), operands.size());
  size_t i = 0;
  for (Json input : inputs) {
    const Operand& operand = operands[i];
    std::optional<Json> tensor = find(input, "as_tensor");
    if (!tensor) malformed("a body takes an operand that is not a tensor");
    std::string_view name = as_text(member(*tensor, "name"), "name");
    ValueId outer = scope.read(*operand.binding, call_);
    Type type = scanned[i] ? without_first_dim(graph_.type(outer)) : graph_.type(outer);
    if (!operand.baked) {
      std::string text(name);
      inner.scope.bind_value(name, body->add_input(std::move(type), text, {Port::Role::User, text, {}}));
    } else {
      const Node* dequantize = graph_.producer(outer);
      const Value& constant = graph_.value(dequantize ? dequantize->inputs[0] : outer);
      ValueId made = body->add_constant(constant.type, constant.data, constant.name);
      if (dequantize) made = body->add_node(Op::Dequantize, {made}, {type}, {}, kNone, dequantize->name).outputs[0];
      inner.scope.bind_value(name, made);
      scope.storage(*operand.binding).baked = true;
    }
    ++i;
  }
  inner.import_nodes();
  for (Json output : as_array(member(definition, "outputs"), "outputs")) {
    std::optional<Json> tensor = find(output, "as_tensor");
    if (!tensor) malformed("a body gives a result that is not a tensor");
    std::string_view name = as_text(member(*tensor, "name"), "name");
    body->add_output(inner.read(name), {Port::Role::User, std::string(name), {}});
  }
  return body;
}

// The body's nodes where they stand, and what they give. Arguments that are not tensors are nullopt.
std::vector<Binding> GraphImporter::inlined(Json body, const std::vector<std::optional<Binding>>& arguments) {
  Deeper deeper(program_.depth);
  Json definition = member(graph_of(body), "graph");
  Scope::Names names;
  std::vector<Json> inputs;
  for (Json input : as_array(member(definition, "inputs"), "inputs")) inputs.push_back(input);
  if (inputs.size() != arguments.size())
    malformed("a body takes {} operands but gets {}", inputs.size(), arguments.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::optional<Json> tensor = find(inputs[i], "as_tensor");
    if (!tensor) continue;
    if (!arguments[i]) malformed("a body takes a tensor where it gets something else");
    names.emplace(as_text(member(*tensor, "name"), "name"), *arguments[i]);
  }
  Scope::Names outer_names = scope.exchange_names(std::move(names));
  auto outer_metas = std::exchange(metas_, {});
  auto outer_used = std::exchange(used_, {});
  Json outer_definition = std::exchange(definition_, definition);
  load_metas();
  import_nodes();
  std::vector<Binding> results;
  for (Json output : as_array(member(definition, "outputs"), "outputs")) {
    std::optional<Json> tensor = find(output, "as_tensor");
    if (!tensor) malformed("a body gives a result that is not a tensor");
    results.push_back(scope.get(as_text(member(*tensor, "name"), "name")));
  }
  definition_ = outer_definition;
  metas_ = std::move(outer_metas);
  used_ = std::move(outer_used);
  scope.exchange_names(std::move(outer_names));
  return results;
}

void GraphImporter::bind_inlined(const Outputs& outputs, const std::vector<Binding>& results) {
  if (results.size() != outputs.names.size())
    malformed("a body gives {} results where {} are used", results.size(), outputs.names.size());
  for (size_t i = 0; i < results.size(); ++i) scope.bind_alias(outputs.names[i], results[i]);
}

// with torch.no_grad() and the like, or a branch that is known to be taken: the body's nodes belong where they stand.
void GraphImporter::import_inline(const Fields& node, Json body, const std::vector<std::optional<Binding>>& arguments) {
  Outputs outputs = read_outputs(node);
  bind_inlined(outputs, inlined(body, arguments));
}

// A loop of few steps, their number known, as its steps one after the other. False: it stays a loop, and what was tried
// is dead.
bool GraphImporter::unroll(const Fields& node, Op op, const std::vector<Json>& bodies,
                           const std::vector<std::vector<Operand>>& groups) {
  constexpr int64_t kMostSteps = 32, kMostNodes = 512;
  int64_t nodes = 1;
  for (Json body : bodies)
    nodes += static_cast<int64_t>(as_array(member(member(graph_of(body), "graph"), "nodes"), "nodes").size());
  const int64_t most = std::min(kMostSteps, kMostNodes / nodes);
  const Outputs outputs = read_outputs(node);
  const LocId loc = call_.loc;
  const std::string name = outputs.names.empty() ? call_.name : std::string(outputs.names[0]);

  const std::vector<Operand> none;
  const std::vector<Operand>& scanned = op == Op::Map ? groups[0] : op == Op::Scan ? groups[1] : none;
  std::vector<Binding> carried;
  if (op != Op::Map)
    for (const Operand& operand : groups[0]) carried.push_back(*operand.binding);
  auto arguments = [&](int64_t step) {
    call_.start(loc, name);
    std::vector<std::optional<Binding>> list(carried.begin(), carried.end());
    for (const Operand& operand : scanned)
      list.emplace_back(scope.unnamed(call_.select(scope.read(*operand.binding, call_), 0, step)));
    for (const Operand& operand : groups.back()) list.emplace_back(*operand.binding);
    return list;
  };
  // Another step, or none; nullopt where only the device will know.
  auto goes_on = [&](int64_t step) -> std::optional<bool> {
    if (op != Op::While)
      return scanned.empty() ? std::nullopt
                             : std::optional(step < call_.dim(scope.read(*scanned[0].binding, call_), 0));
    std::vector<Binding> condition = inlined(bodies[0], arguments(step));
    if (condition.size() != 1) malformed("the condition of a loop gives {} results", condition.size());
    std::optional<double> known = call_.known_number(scope.read(condition[0], call_));
    return known ? std::optional(*known != 0) : std::nullopt;
  };
  std::vector<std::vector<ValueId>> rows;  // of each result that every step adds one to
  for (int64_t step = 0;; ++step) {
    const std::optional<bool> more = goes_on(step);
    call_.start(loc, name);
    if (!more || (*more && step == most) || (!*more && step == 0)) return false;
    if (!*more) break;
    std::vector<Binding> results = inlined(bodies.back(), arguments(step));
    call_.start(loc, name);
    if (results.size() < carried.size())
      malformed("a loop carries {} values and gives {}", carried.size(), results.size());
    rows.resize(results.size() - carried.size());
    for (size_t i = 0; i < rows.size(); ++i)
      rows[i].push_back(call_.unsqueeze(scope.read(results[carried.size() + i], call_), 0));
    results.resize(carried.size());
    for (Binding& one : results) {  // a counter
      ValueId value = scope.read(one, call_);
      ValueId constant = op == Op::While && call_.rank(value) == 0 ? call_.known(value) : kNone;
      if (constant != kNone) one = scope.unnamed(constant);
    }
    carried = std::move(results);
  }
  std::vector<Binding> results;
  for (Binding& one : carried) results.push_back(scope.unnamed(scope.read(one, call_)));
  for (std::vector<ValueId>& parts : rows) results.push_back(scope.unnamed(call_.concat(std::move(parts), 0)));
  bind_inlined(outputs, results);
  return true;
}

// A condition that is a Python flag, or a tensor computed from constants alone
std::optional<bool> GraphImporter::known_condition(Json argument) {
  ArgValue predicate = read_argument(argument);
  if (const bool* flag = std::get_if<bool>(&predicate)) return *flag;
  const TensorArg* tensor = std::get_if<TensorArg>(&predicate);
  if (!tensor || !tensor->binding) malformed("the condition of cond is not a tensor");
  std::optional<double> known = call_.known_number(scope.read(*tensor->binding, call_));
  return known ? std::optional(*known != 0) : std::nullopt;
}

void GraphImporter::import_control(const Fields& node, std::string_view target) {
  std::string_view kind = target.substr(target.find('.') + 1);
  std::vector<Json> args = control_arguments(node);
  auto need = [&](size_t count) {
    if (args.size() < count) malformed("{} has {} arguments and needs {}", kind, args.size(), count);
  };
  if (kind == "wrap_with_set_grad_enabled" || kind == "wrap_with_autocast") {
    size_t body = 0;
    while (body < args.size() && !find(args[body], "as_graph")) ++body;
    need(body + 1);
    std::vector<std::optional<Binding>> arguments;
    for (size_t i = body + 1; i < args.size(); ++i) {
      ArgValue value = read_argument(args[i]);
      const TensorArg* tensor = std::get_if<TensorArg>(&value);
      arguments.push_back(tensor && tensor->binding ? std::optional(*tensor->binding) : std::nullopt);
    }
    return import_inline(node, args[body], arguments);
  }
  Op op = kind == "cond"         ? Op::Cond
          : kind == "while_loop" ? Op::While
          : kind == "map_impl"   ? Op::Map
          : kind == "scan"       ? Op::Scan
                                 : Op::Opaque;
  if (op == Op::Opaque) malformed("the control flow `{}` is not supported; cond, while_loop, map and scan are", kind);

  // Where the bodies and the groups of operands stand: cond(p, f, g, xs), while(f, g, xs, ys), map(f, xs, ys), scan(f,
  // xs, ys, zs).
  std::vector<ValueId> inputs;
  std::vector<Json> bodies;
  std::vector<std::vector<Operand>> groups;
  need(op == Op::Map ? 3 : 4);
  if (op == Op::Cond) {
    std::optional<bool> known = known_condition(args[0]);
    if (known) {
      std::vector<std::optional<Binding>> arguments;
      for (const Operand& operand : operands(args[3])) arguments.emplace_back(*operand.binding);
      return import_inline(node, args[*known ? 1 : 2], arguments);
    }
    ArgValue predicate = read_argument(args[0]);
    const TensorArg* tensor = std::get_if<TensorArg>(&predicate);
    inputs.push_back(scope.read(*tensor->binding, call_));
  }
  for (size_t i = op == Op::Cond ? 1 : 0; i < args.size(); ++i) {
    if (find(args[i], "as_graph"))
      bodies.push_back(args[i]);
    else
      groups.push_back(operands(args[i]));
  }
  size_t wanted_bodies = op == Op::Cond || op == Op::While ? 2 : 1;
  size_t wanted_groups = op == Op::Cond ? 1 : op == Op::Scan ? 3 : 2;
  if (bodies.size() != wanted_bodies || groups.size() != wanted_groups)
    malformed("{} has an unexpected set of arguments", kind);
  if (op != Op::Cond && unroll(node, op, bodies, groups)) return;

  // Only the last group is the same in every run of the body, so only its constants may move in.
  for (Operand& operand : groups.back()) operand.baked = bakeable(*operand.binding);
  std::vector<Operand> all;
  std::vector<bool> scanned;
  for (size_t g = 0; g < groups.size(); ++g)
    for (const Operand& operand : groups[g]) {
      all.push_back(operand);
      scanned.push_back((op == Op::Map && g == 0) || (op == Op::Scan && g == 1));
      if (!operand.baked) inputs.push_back(scope.read(*operand.binding, call_));
    }
  std::vector<std::unique_ptr<Graph>> made;
  for (Json body : bodies) made.push_back(import_body(body, all, scanned));
  Attrs attrs;
  if (op != Op::Cond) attrs.set(Key::Carried, static_cast<int64_t>(groups[0].size()));
  if (op == Op::Scan) attrs.set(Key::Scanned, static_cast<int64_t>(groups[1].size()));
  Outputs outputs = read_outputs(node);
  if (call_.name.empty() && !outputs.names.empty()) call_.name = outputs.names[0];
  std::vector<ValueId> values = call_.make_all(op, std::move(inputs), std::move(attrs), std::move(made));
  call_.args.clear();
  bind_results(call_, Program::Target{}, outputs, std::move(values));
}

}  // namespace swoop
