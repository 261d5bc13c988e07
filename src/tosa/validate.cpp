#include <unordered_set>

#include "tosa/infer.h"

namespace swoop::tosa {

namespace {

constexpr int kMaxNesting = 6;  // TOSA 1.0, level 8K: MAX_NESTING

Result<void> check_tensor(const Region& region, const Tensor& tensor) {
  if (!is_legal(tensor.shape)) {
    return error(
        "Tensor '{}' of region '{}' has shape {}: at most {} sizes, each at least 1, and fewer than 2^31 elements.",
        tensor.name, region.name, text(tensor.shape), kMaxRank);
  }
  if (!tensor.is_const) {
    if (tensor.data.empty()) return {};
    return error("Tensor '{}' of region '{}' has data but is no constant.", tensor.name, region.name);
  }
  size_t expected = static_cast<size_t>(element_count(tensor.shape)) * element_bytes(tensor.dtype);
  if (tensor.data.size() != expected) {
    return error("Constant '{}' of region '{}' has {} bytes of data; {}{} needs {}.", tensor.name, region.name,
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

Result<void> check_tensors(const Region& region) {
  std::unordered_set<std::string_view> names;
  names.reserve(region.tensors.size());
  for (const Tensor& tensor : region.tensors) {
    if (!tensor.name.empty() && !names.insert(tensor.name).second)
      return error("Two tensors of region '{}' are called '{}'.", region.name, tensor.name);
    TRY(check_tensor(region, tensor));
  }
  return {};
}

Result<void> check_operators(const Program& program, const Region& region) {
  size_t count = region.tensors.size();
  std::vector<bool> defined(count);
  for (TensorId id = 0; id < count; ++id) defined[id] = region.tensors[id].is_const;
  for (TensorId id : region.inputs) {
    if (id >= count) return error("Region '{}' has an input that does not exist.", region.name);
    if (defined[id])
      return error("Input '{}' of region '{}' is a constant or listed twice.", region.tensors[id].name, region.name);
    defined[id] = true;
  }
  for (const Operator& op : region.operators) {
    for (TensorId id : op.inputs) {
      if (id >= count) return error("{}: an input does not exist.", describe(region, op));
      if (!defined[id])
        return error("{}: input '{}' is used before it is made.", describe(region, op), region.tensors[id].name);
    }
    for (TensorId id : op.outputs)
      if (id >= count) return error("{}: an output does not exist.", describe(region, op));
    TRY_ASSIGN(Types types, infer(program, region, op));
    if (types.size() != op.outputs.size())
      return error("{}: it has {} outputs; it makes {}.", describe(region, op), op.outputs.size(), types.size());
    for (size_t i = 0; i < types.size(); ++i) {
      const Tensor& output = region.tensors[op.outputs[i]];
      if (defined[op.outputs[i]]) return error("{}: output '{}' is made twice.", describe(region, op), output.name);
      defined[op.outputs[i]] = true;
      if (types[i].dtype != output.dtype || types[i].shape != output.shape) {
        return error("{}: output '{}' is {}{}; the operator makes {}{}.", describe(region, op), output.name,
                     name(output.dtype), text(output.shape), name(types[i].dtype), text(types[i].shape));
      }
    }
  }
  for (TensorId id : region.outputs) {
    if (id >= count) return error("Region '{}' has an output that does not exist.", region.name);
    if (!defined[id]) return error("Output '{}' of region '{}' is never made.", region.tensors[id].name, region.name);
  }
  return {};
}

// Levels of regions below this one. depth[region]: -1 unseen, -2 on the path (a region that contains itself).
Result<int> nesting(const Program& program, RegionId id, std::vector<int>& depth) {
  if (depth[id] == -2) return error("Region '{}' contains itself.", program.regions[id].name);
  if (depth[id] >= 0) return depth[id];
  depth[id] = -2;
  int deepest = 0;
  for (const Operator& op : program.regions[id].operators) {
    std::array<RegionId, 2> bodies{};
    if (const auto* branch = std::get_if<CondIfAttributes>(&op.attributes))
      bodies = {branch->then_region, branch->else_region};
    else if (const auto* loop = std::get_if<WhileLoopAttributes>(&op.attributes))
      bodies = {loop->cond_region, loop->body_region};
    else
      continue;
    for (RegionId body : bodies) {
      if (body >= program.regions.size())
        return error("{}: a region it names does not exist.", describe(program.regions[id], op));
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
  if (program.regions.empty()) return error("The program has no region.");
  std::unordered_set<std::string_view> names;
  for (const Region& region : program.regions)
    if (!names.insert(region.name).second) return error("Two regions are called '{}'.", region.name);
  // Operators of control flow look into other regions, so the tensors and ids of all are checked first.
  for (const Region& region : program.regions) {
    TRY(check_tensors(region));
    for (std::span<const TensorId> list : {std::span(region.inputs), std::span(region.outputs)})
      for (TensorId id : list)
        if (id >= region.tensors.size())
          return error("Region '{}' has an input or output that does not exist.", region.name);
  }
  std::vector<int> depth(program.regions.size(), -1);
  TRY_ASSIGN(int levels, nesting(program, 0, depth));
  static_cast<void>(levels);
  for (const Region& region : program.regions) TRY(check_operators(program, region));
  return {};
}

}  // namespace swoop::tosa
