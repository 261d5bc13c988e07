#include "ops/ops.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ops/infer.h"
#include "ops/kernels.h"
#include "ops/rows.h"
#include "support/check.h"
#include "support/clones.h"

namespace swoop {

namespace {

using Table = std::array<const OpInfo*, kOpCount>;

Table join_rows() {
  Table table{};
  auto add = [&](std::span<const OpInfo> rows) {
    for (const OpInfo& row : rows) {
      CHECK(!table[static_cast<size_t>(row.op)], "operator {} has two rows", name_of(row.op));
      table[static_cast<size_t>(row.op)] = &row;
    }
  };
  add(kTypeOps);
  add(kConvOps);
  add(kPoolOps);
  add(kElementwiseOps);
  add(kReduceOps);
  add(kNormOps);
  add(kMovementOps);
  add(kControlOps);
  return table;
}

SWOOP_CLONES void clamp_run(float* x, size_t count, float low, float high) {
  for (size_t i = 0; i < count; ++i) {
    const float capped = x[i] > high ? high : x[i];  // NaN stays
    x[i] = x[i] < low ? low : capped;
  }
}

void clamp_results(const Node& node, Tensor& result) {
  if (result.dtype != DType::F32 || (!node.has(Key::ActMin) && !node.has(Key::ActMax))) return;
  auto low = static_cast<float>(real_or(node, Key::ActMin, -INFINITY));
  auto high = static_cast<float>(real_or(node, Key::ActMax, INFINITY));
  std::span<float> values = result.as<float>();
  clamp_run(values.data(), values.size(), low, high);
}

}  // namespace

const OpInfo& info(Op op) {
  static const Table table = join_rows();
  return *table[static_cast<size_t>(op)];
}

std::vector<Op> ops_where(bool (*fits)(const OpInfo&)) {
  std::vector<Op> ops;
  for (int i = 0; i < kOpCount; ++i)
    if (fits(info(static_cast<Op>(i)))) ops.push_back(static_cast<Op>(i));
  return ops;
}

Policy policy_of(const Node& node) {
  bool computes = node.op == Op::Resize && node.text(Key::Mode) != "nearest";
  return computes ? Policy::OwnRange : info(node.op).policy;
}

Range bounds_of(const Node& node) {
  Range bounds = info(node.op).bounds;
  if (node.op == Op::Clamp) bounds = {real_or(node, Key::Min, -kInfinity), real_or(node, Key::Max, kInfinity)};
  const UnaryFunction* function = node.op == Op::Unary ? unary_function(node.text(Key::Fn)) : nullptr;
  if (function) bounds = function->range(real_or(node, Key::Alpha, 0), real_or(node, Key::Beta, 0));
  return {std::max(bounds.min, real_or(node, Key::ActMin, -kInfinity)),
          std::min(bounds.max, real_or(node, Key::ActMax, kInfinity))};
}

Result<std::vector<Type>> infer(const Graph& graph, const Node& node) {
  const OpInfo& row = info(node.op);
  auto count = static_cast<int>(node.inputs.size());
  if (count < row.min_inputs || (row.max_inputs >= 0 && count > row.max_inputs))
    return error("{} takes {} to {} operands, not {}", name_of(node.op), row.min_inputs, row.max_inputs, count);
  // Optional operands are the last ones; batch_norm's scale and offset and what an opaque kernel takes are the
  // exceptions.
  for (int i = 0; i < std::max(row.min_inputs, row.max_inputs < 0 ? count : 0); ++i) {
    bool optional = node.op == Op::Opaque || (node.op == Op::BatchNorm && (i == 1 || i == 2));
    if (!optional && !has_input(node, static_cast<size_t>(i)))
      return error("{} lacks its operand {}", name_of(node.op), i);
  }
  TRY_ASSIGN(std::vector<Type> types, row.infer(graph, node));
  const bool bounded = node.has(Key::ActMin) || node.has(Key::ActMax);
  if (bounded && !types[0].quantized() && !is_float(types[0].dtype))
    return error("{} of {} takes no bounds in: integers are clamped by a node of their own", name_of(node.op),
                 name_of(types[0].dtype));
  return types;
}

Result<void> evaluate(const Node& node, std::span<const Tensor* const> inputs, std::span<Tensor> results) {
  const OpInfo& row = info(node.op);
  if (!row.kernel) return error("{} cannot be computed in float", node.text(Key::Target, name_of(node.op)));
  TRY(row.kernel(node, inputs, results));
  if (row.traits.fuses_clamp) clamp_results(node, results[0]);
  return {};
}

std::string called(const Node& node) {
  if (node.op == Op::Unary) return node.text(Key::Fn);
  if (node.op == Op::Opaque) return node.text(Key::Target);
  return std::string(name_of(node.op));
}

}  // namespace swoop
