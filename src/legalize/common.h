// Small functions that the rules of this room share.
#pragma once

#include "legalize/legalize.h"
#include "limits/limits.h"

namespace swoop {

inline const NpuTarget& target_of(const Rewriter& rw) { return rw.context<NpuTarget>(); }
inline const NpuFacts& facts_of(const Rewriter& rw) { return target_of(rw).facts(); }

// What a layout means nothing to: each element by itself.
inline std::vector<Op> elementwise_ops() {
  return ops_where([](const OpInfo& op) { return op.traits.elementwise; });
}

// What works along some axes and leaves the others alone, in any layout. Not an argmax: the cores want its axis last.
inline std::vector<Op> axis_ops() {
  std::vector<Op> ops =
      ops_where([](const OpInfo& op) { return op.traits.reduction && op.policy != Policy::ReadsCodes; });
  ops.insert(ops.end(), {Op::Concat, Op::Slice, Op::Pad, Op::Flip});
  return ops;
}

// Whether it should run over the width even if a transpose must bring its axis there: a maximum over channels costs 4
// cycles per element, over the width 0.3 to 0.5, and any and all are maxima too. A sum over channels is a convolution.
inline bool wants_width(Op op) { return info(op).traits.reduction && op != Op::Sum && op != Op::Mean; }

// What a value is in another shape, or with `parts` a part of.
inline bool is_view(const Node* producer, bool parts) {
  return producer && (producer->op == Op::Reshape || (parts && producer->op == Op::Slice));
}
inline ValueId viewed(const Rewriter& rw, ValueId x, bool parts = false) {
  for (const Node* n = rw.graph().producer(x); is_view(n, parts); n = rw.graph().producer(x)) x = n->inputs[0];
  return x;
}

// Whether others read the value too, or what it is a view of.
inline bool is_shared(const Rewriter& rw, ValueId x, bool parts = false) {
  for (const Node* n = rw.graph().producer(x); is_view(n, parts); n = rw.graph().producer(x)) {
    if (!rw.used_once(x)) return true;
    x = n->inputs[0];
  }
  return !rw.used_once(x);
}

// An input of the model, as floats or as codes, in any shape: no operation of the NPU makes it.
inline bool enters(const Rewriter& rw, ValueId x) {
  x = viewed(rw, x);
  if (rw.value(x).constant) return false;
  const Node* producer = rw.graph().producer(x);
  return !producer || (producer->op == Op::Quantize && !rw.type(producer->inputs[0]).quantized());
}

inline int64_t byte_count(const Type& type) {
  return element_count(type.shape) * static_cast<int64_t>(byte_size(type.dtype));
}

inline bool fits_sram(const Rewriter& rw, const Type& type) {
  const int64_t room = target_of(rw).staging_bytes;
  return room == 0 || byte_count(type) <= room;
}

// Where it comes from is read from DRAM: an input, or part of what SRAM does not hold.
inline bool comes_from_dram(const Rewriter& rw, ValueId x) {
  if (target_of(rw).staging_bytes == 0) return false;
  x = viewed(rw, x, true);
  return enters(rw, x) || !fits_sram(rw, rw.type(x));
}

// The channels of an input that is an image.
constexpr int64_t kFewChannels = 4;

inline bool is_codes(const Type& type) {
  return type.quantized() && !type.quant->per_channel() && !is_float(type.dtype);
}

// The node's own result type with another shape.
inline Type with_shape(const Type& type, Shape shape) {
  Type result = type;
  result.shape = std::move(shape);
  return result;
}

// The clamp that a node has taken in, for the operator that takes its place.
inline Attrs clamp_of(const Node& n) {
  Attrs bounds;
  for (Key key : {Key::ActMin, Key::ActMax})
    if (const Attr* bound = n.attrs.find(key)) bounds.set(key, *bound);
  return bounds;
}

inline ValueId reshape(Rewriter& rw, ValueId x, const Shape& shape) {
  if (rw.type(x).shape == shape) return x;
  return rw.make(Op::Reshape, {x}, {{Key::Shape, Ints(shape)}});
}

inline ValueId transpose(Rewriter& rw, ValueId x, Ints perm) {
  return rw.make(Op::Transpose, {x}, {{Key::Perm, std::move(perm)}});
}

inline Shape permuted(const Shape& shape, const Ints& perm) {
  Shape result;
  for (int64_t axis : perm) result.push_back(shape[static_cast<size_t>(axis)]);
  return result;
}

}  // namespace swoop
