// Control flow, which takes its results from its bodies, and opaque host nodes, which keep the types they came with.
#include "ops/infer.h"
#include "ops/rows.h"

namespace swoop {

namespace {

Result<void> check_bodies(const Node& node, size_t count) {
  if (node.bodies.size() != count)
    return error("{} needs {} bodies, and has {}", name_of(node.op), count, node.bodies.size());
  return {};
}

// What enters and leaves a body may be quantized differently on both sides; shape and real dtype must agree.
Result<void> check_matches(const Node& node, const Type& given, const Type& wanted, std::string_view what) {
  if (given.shape != wanted.shape || real_dtype(given) != real_dtype(wanted))
    return error("{} {} is {}, but its body has {}", name_of(node.op), what, to_text(given), to_text(wanted));
  return {};
}

Result<void> check_operands(const Graph& graph, const Node& node, const Graph& body, size_t first_input,
                            size_t first_scanned, size_t scanned) {
  size_t count = node.inputs.size() - first_input;
  if (body.inputs().size() != count)
    return error("{} gives {} operands to a body with {} inputs", name_of(node.op), count, body.inputs().size());
  for (size_t i = 0; i < count; ++i) {
    Type given = in_type(graph, node, first_input + i);
    if (i >= first_scanned && i < first_scanned + scanned) given.shape.erase(given.shape.begin());
    TRY(check_matches(node, given, body.type(body.inputs()[i]), "operand"));
  }
  return {};
}

Result<Types> infer_cond(const Graph& graph, const Node& node) {
  TRY(check_bodies(node, 2));
  const Type& predicate = in_type(graph, node, 0);
  if (predicate.dtype != DType::Bool || element_count(predicate.shape) != 1)
    return error("cond needs a single bool as predicate, not {}", to_text(predicate));
  const Graph& yes = *node.bodies[0];
  const Graph& no = *node.bodies[1];
  TRY(check_operands(graph, node, yes, 1, 0, 0));
  TRY(check_operands(graph, node, no, 1, 0, 0));
  if (yes.outputs().size() != no.outputs().size())
    return error("cond has branches with {} and {} results", yes.outputs().size(), no.outputs().size());
  Types types;
  for (size_t i = 0; i < yes.outputs().size(); ++i) {
    const Type& type = yes.type(yes.outputs()[i]);
    TRY(check_matches(node, type, no.type(no.outputs()[i]), "result"));
    types.push_back(type);
  }
  return types;
}

Result<size_t> count_attr(const Node& node, Key key, size_t most) {
  TRY_ASSIGN(int64_t count, integer_attr(node, key));
  if (count < 0 || static_cast<uint64_t>(count) > most)
    return error("{} has {} operands and {}={}", name_of(node.op), node.inputs.size(), name_of(key), count);
  return static_cast<size_t>(count);
}

Result<Types> infer_while(const Graph& graph, const Node& node) {
  TRY(check_bodies(node, 2));
  TRY_ASSIGN(size_t carried, count_attr(node, Key::Carried, node.inputs.size()));
  const Graph& condition = *node.bodies[0];
  const Graph& body = *node.bodies[1];
  TRY(check_operands(graph, node, condition, 0, 0, 0));
  TRY(check_operands(graph, node, body, 0, 0, 0));
  if (condition.outputs().size() != 1 || condition.type(condition.outputs()[0]).dtype != DType::Bool ||
      element_count(condition.type(condition.outputs()[0]).shape) != 1)
    return error("while needs a condition that gives a single bool");
  if (body.outputs().size() != carried)
    return error("while carries {} values, but its body gives {}", carried, body.outputs().size());
  Types types;
  for (size_t i = 0; i < carried; ++i) {
    const Type& type = body.type(body.outputs()[i]);
    TRY(check_matches(node, in_type(graph, node, i), type, "carried value"));
    types.push_back(type);
  }
  return types;
}

// The common leading size of the scanned operands.
Result<int64_t> steps_of(const Graph& graph, const Node& node, size_t first, size_t count) {
  int64_t steps = 0;
  for (size_t i = first; i < first + count; ++i) {
    const Type& x = in_type(graph, node, i);
    if (x.rank() < 1 || (i > first && x.shape[0] != steps))
      return error("{} steps over operands whose first sizes differ: {}", name_of(node.op), to_text(x));
    steps = x.shape[0];
  }
  if (count == 0) return error("{} needs at least one operand to step over", name_of(node.op));
  return steps;
}

Result<Types> stacked(const Node& node, const Graph& body, size_t first, int64_t steps, Types types) {
  for (size_t i = first; i < body.outputs().size(); ++i) {
    Type type = body.type(body.outputs()[i]);
    type.shape.insert(type.shape.begin(), steps);
    if (type.quantized() && type.quant->per_channel()) ++type.quant->axis;
    TRY(check_shape(node, type.shape));
    types.push_back(std::move(type));
  }
  return types;
}

Result<Types> infer_map(const Graph& graph, const Node& node) {
  TRY(check_bodies(node, 1));
  TRY_ASSIGN(size_t mapped, count_attr(node, Key::Carried, node.inputs.size()));
  TRY_ASSIGN(int64_t steps, steps_of(graph, node, 0, mapped));
  TRY(check_operands(graph, node, *node.bodies[0], 0, 0, mapped));
  return stacked(node, *node.bodies[0], 0, steps, {});
}

Result<Types> infer_scan(const Graph& graph, const Node& node) {
  TRY(check_bodies(node, 1));
  const Graph& body = *node.bodies[0];
  TRY_ASSIGN(size_t carried, count_attr(node, Key::Carried, node.inputs.size()));
  TRY_ASSIGN(size_t scanned, count_attr(node, Key::Scanned, node.inputs.size() - carried));
  TRY_ASSIGN(int64_t steps, steps_of(graph, node, carried, scanned));
  TRY(check_operands(graph, node, body, 0, carried, scanned));
  if (body.outputs().size() < carried)
    return error("scan carries {} values, but its body gives {}", carried, body.outputs().size());
  Types types;
  for (size_t i = 0; i < carried; ++i) {
    const Type& type = body.type(body.outputs()[i]);
    TRY(check_matches(node, in_type(graph, node, i), type, "carried value"));
    types.push_back(type);
  }
  return stacked(node, body, carried, steps, std::move(types));
}

Result<Types> infer_opaque(const Graph& graph, const Node& node) {
  Types types;
  for (ValueId output : node.outputs) types.push_back(graph.type(output));
  return types;
}

constexpr Traits kControl = {.bodies = true};

}  // namespace

// Bodies are executed by execute(), which alone knows how to run a graph.
const OpInfo kControlOps[] = {
    {Op::Cond, Policy::KeepFloat, kControl, 1, -1, infer_cond, nullptr},
    {Op::While, Policy::KeepFloat, kControl, 0, -1, infer_while, nullptr},
    {Op::Map, Policy::KeepFloat, kControl, 1, -1, infer_map, nullptr},
    {Op::Scan, Policy::KeepFloat, kControl, 1, -1, infer_scan, nullptr},
    {Op::Opaque, Policy::KeepFloat, {}, 0, -1, infer_opaque, nullptr},
};

}  // namespace swoop
