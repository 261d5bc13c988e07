#include <algorithm>

#include "lower/lowering.h"

namespace swoop {

namespace {

std::vector<int32_t> narrow_ints(const Ints& values) { return {values.begin(), values.end()}; }

constexpr size_t kMaxParts = 64;  // TOSA 1.0, level 8K: MAX_TENSOR_LIST_SIZE

// [before, axis, after]
tosa::Shape around(const Shape& shape, int64_t axis) {
  auto at = shape.begin() + axis;
  return {static_cast<int32_t>(element_count(Shape(shape.begin(), at))), static_cast<int32_t>(*at),
          static_cast<int32_t>(element_count(Shape(at + 1, shape.end())))};
}

}  // namespace

// A slice that only slices read is part of them: one TOSA slice cuts all axes at once, and regor reads through one
// slice but copies for two.
bool Lowering::is_part_of_slice(const Node& n) const {
  if (n.op != Op::Slice || n.integer(Key::Step) != 1) return false;
  const auto& uses = graph_.value(n.outputs[0]).uses;
  return std::all_of(uses.begin(), uses.end(),
                     [&](const Use& use) { return use.node != kNone && graph_.node(use.node).op == Op::Slice; });
}

Result<tosa::TensorId> Lowering::slice(const Node& n) {
  std::vector<int32_t> start(out(n).shape.size(), 0);
  const Node* part = &n;
  while (true) {
    if (part->integer(Key::Step) != 1) return cannot(n, "it has a step");
    start[static_cast<size_t>(part->integer(Key::Axis))] += static_cast<int32_t>(part->integer(Key::Start));
    const Node* before = graph_.producer(part->inputs[0]);
    if (!before || !is_part_of_slice(*before)) break;
    part = before;
  }
  return b.slice(operand(part->inputs[0]), start, tosa_shape(out(n).shape));
}

Result<tosa::TensorId> Lowering::movement(const Node& n) {
  if (n.op == Op::Slice) return slice(n);
  Id x = operand(n.inputs[0]);
  const Type& from = in(n, 0);
  if (from.quant != out(n).quant && n.op != Op::Concat) return cannot(n, "it moves data and requantizes it at once");
  if (n.op == Op::Reshape) return b.reshape(x, tosa_shape(out(n).shape));
  if (n.op == Op::Transpose) return b.transpose(x, narrow_ints(n.ints(Key::Perm)));
  if (n.op == Op::Repeat) return b.tile(x, narrow_ints(n.ints(Key::Multiples)));
  if (n.op == Op::Flip) {
    if (n.ints(Key::Axes).size() != 1) return cannot(n, "it flips several axes");
    return b.reverse(x, static_cast<int32_t>(n.ints(Key::Axes)[0]));
  }
  if (n.op == Op::Concat) {
    std::vector<Id> parts;
    bool many = out(n).shape.size() > 4;  // regor unrolls them
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      if (in(n, i).quant != out(n).quant) return cannot(n, "its parts are quantized differently");
      Id part = operand(n.inputs[i]);
      parts.push_back(many ? b.reshape(part, around(in(n, i).shape, n.integer(Key::Axis))) : part);
    }
    int32_t axis = many ? 1 : static_cast<int32_t>(n.integer(Key::Axis));
    while (parts.size() > kMaxParts) {  // neighbours first
      std::vector<Id> joined;
      for (size_t i = 0; i < parts.size(); i += kMaxParts) {
        std::span<const Id> some = std::span(parts).subspan(i, std::min(kMaxParts, parts.size() - i));
        joined.push_back(some.size() == 1 ? some[0] : b.concat(some, axis));
      }
      parts = std::move(joined);
    }
    Id whole = b.concat(parts, axis);
    return many ? b.reshape(whole, tosa_shape(out(n).shape)) : whole;
  }
  if (n.op == Op::Pad) {
    if (n.text(Key::Mode) != "constant") return cannot(n, "its mode is not constant");
    int64_t value = static_cast<int64_t>(n.real(Key::Value));
    if (from.quantized())
      value = quantize_value(static_cast<float>(n.real(Key::Value)), from.scale(), from.zero_point(), from.quant->qmin,
                             from.quant->qmax);
    return b.pad(x, narrow_ints(n.ints(Key::Padding)), value);
  }
  if (n.op == Op::Gather) {
    const Type& index = in(n, 1);
    if (n.integer(Key::Axis) != 0 || index.dtype != DType::I32)
      return cannot(n, "it gathers along an inner axis or with wide indices");
    auto count = static_cast<int32_t>(element_count(index.shape));
    auto rows = static_cast<int32_t>(from.shape[0]);
    auto width = static_cast<int32_t>(element_count(from.shape) / from.shape[0]);
    Id gathered = b.gather(b.reshape(x, {1, rows, width}), b.reshape(operand(n.inputs[1]), {1, count}));
    return b.reshape(gathered, tosa_shape(out(n).shape));
  }
  return cannot(n, "it is no movement");
}

}  // namespace swoop
