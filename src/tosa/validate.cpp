#include <unordered_set>

#include "tosa/infer.h"

namespace swoop::tosa {

namespace {

constexpr int kMaxNesting = 6;  // TOSA 1.0, level 8K: MAX_NESTING

Result<void> check_tensor(const Body& body, const Tensor& tensor) {
  if (!is_legal(tensor.shape)) {
    return error(
        "Tensor '{}' of body '{}' has shape {}: at most {} sizes, each at least 1, and fewer than 2^31 elements.",
        tensor.name, body.name, text(tensor.shape), kMaxRank);
  }
  if (!tensor.is_const) {
    if (tensor.data.empty()) return {};
    return error("Tensor '{}' of body '{}' has data but is no constant.", tensor.name, body.name);
  }
  size_t expected = static_cast<size_t>(element_count(tensor.shape)) * element_bytes(tensor.dtype);
  if (tensor.data.size() != expected) {
    return error("Constant '{}' of body '{}' has {} bytes of data; {}{} needs {}.", tensor.name, body.name,
                 tensor.data.size(), name(tensor.dtype), text(tensor.shape), expected);
  }
  for (size_t i = 0; tensor.dtype == DType::Bool && i < expected; ++i)
    if (tensor.data[i] > std::byte{1})
      return error("Constant '{}' is bool and holds another value than 0 and 1.", tensor.name);
  for (size_t i = 0;
       (tensor.dtype == DType::I4 || tensor.dtype == DType::I48) && i < expected / element_bytes(tensor.dtype); ++i) {
    int64_t value = read_element(tensor, i);
    int64_t limit = tensor.dtype == DType::I4 ? 8 : int64_t{1} << 47;
    // TOSA 1.0: i4 is symmetric, -8 is not a value of it.
    if (value >= limit || value < (tensor.dtype == DType::I4 ? 1 - limit : -limit))
      return error("Constant '{}' holds {}, which {} cannot.", tensor.name, value, name(tensor.dtype));
  }
  return {};
}

Result<void> check_tensors(const Body& body) {
  std::unordered_set<std::string_view> names;
  names.reserve(body.tensors.size());
  for (const Tensor& tensor : body.tensors) {
    if (!tensor.name.empty() && !names.insert(tensor.name).second)
      return error("Two tensors of body '{}' are called '{}'.", body.name, tensor.name);
    TRY(check_tensor(body, tensor));
  }
  return {};
}

Result<void> check_operators(const Program& program, const Body& body) {
  size_t count = body.tensors.size();
  std::vector<bool> defined(count);
  for (TensorId id = 0; id < count; ++id) defined[id] = body.tensors[id].is_const;
  for (TensorId id : body.inputs) {
    if (id >= count) return error("Body '{}' has an input that does not exist.", body.name);
    if (defined[id])
      return error("Input '{}' of body '{}' is a constant or listed twice.", body.tensors[id].name, body.name);
    defined[id] = true;
  }
  for (const Operator& op : body.operators) {
    for (TensorId id : op.inputs) {
      if (id >= count) return error("{}: an input does not exist.", describe(body, op));
      if (!defined[id])
        return error("{}: input '{}' is used before it is made.", describe(body, op), body.tensors[id].name);
    }
    for (TensorId id : op.outputs)
      if (id >= count) return error("{}: an output does not exist.", describe(body, op));
    TRY_ASSIGN(Types types, infer(program, body, op));
    if (types.size() != op.outputs.size())
      return error("{}: it has {} outputs; it makes {}.", describe(body, op), op.outputs.size(), types.size());
    for (size_t i = 0; i < types.size(); ++i) {
      const Tensor& output = body.tensors[op.outputs[i]];
      if (defined[op.outputs[i]]) return error("{}: output '{}' is made twice.", describe(body, op), output.name);
      defined[op.outputs[i]] = true;
      if (types[i].dtype != output.dtype || types[i].shape != output.shape) {
        return error("{}: output '{}' is {}{}; the operator makes {}{}.", describe(body, op), output.name,
                     name(output.dtype), text(output.shape), name(types[i].dtype), text(types[i].shape));
      }
    }
  }
  for (TensorId id : body.outputs) {
    if (id >= count) return error("Body '{}' has an output that does not exist.", body.name);
    if (!defined[id]) return error("Output '{}' of body '{}' is never made.", body.tensors[id].name, body.name);
  }
  return {};
}

// Levels of bodies below this one. depth[body]: -1 unseen, -2 on the path (a body that contains itself).
Result<int> nesting(const Program& program, BodyId id, std::vector<int>& depth) {
  if (depth[id] == -2) return error("Body '{}' contains itself.", program.bodies[id].name);
  if (depth[id] >= 0) return depth[id];
  depth[id] = -2;
  int deepest = 0;
  for (const Operator& op : program.bodies[id].operators) {
    std::array<BodyId, 2> bodies{};
    if (const auto* branch = std::get_if<CondIfAttributes>(&op.attributes))
      bodies = {branch->then_body, branch->else_body};
    else if (const auto* loop = std::get_if<WhileLoopAttributes>(&op.attributes))
      bodies = {loop->cond_body, loop->loop_body};
    else
      continue;
    for (BodyId body : bodies) {
      if (body >= program.bodies.size())
        return error("{}: a body it names does not exist.", describe(program.bodies[id], op));
      TRY_ASSIGN(int below, nesting(program, body, depth));
      deepest = std::max(deepest, below + 1);
      if (deepest > kMaxNesting) return error("Control flow is nested more than {} levels deep.", kMaxNesting);
    }
  }
  depth[id] = deepest;
  return deepest;
}

}  // namespace

Result<void> validate(const Program& program) {
  if (program.bodies.empty()) return error("The program has no body.");
  std::unordered_set<std::string_view> names;
  for (const Body& body : program.bodies)
    if (!names.insert(body.name).second) return error("Two bodies are called '{}'.", body.name);
  // Operators of control flow look into other bodies, so the tensors and ids of all are checked first.
  for (const Body& body : program.bodies) {
    TRY(check_tensors(body));
    for (std::span<const TensorId> list : {std::span(body.inputs), std::span(body.outputs)})
      for (TensorId id : list)
        if (id >= body.tensors.size()) return error("Body '{}' has an input or output that does not exist.", body.name);
  }
  std::vector<int> depth(program.bodies.size(), -1);
  TRY_ASSIGN(int levels, nesting(program, 0, depth));
  static_cast<void>(levels);
  for (const Body& body : program.bodies) TRY(check_operators(program, body));
  return {};
}

}  // namespace swoop::tosa
