// Floats that are not quantized (yet): whether a rule meets them, and constants that it makes.
#pragma once

#include "rewriter/rewriter.h"

namespace swoop {

inline bool is_plain_float(const Type& type) { return is_float(type.dtype) && !type.quantized(); }

// The node gives floats.
inline bool plain_floats(const Rewriter& rw, const Node& n) { return is_plain_float(rw.type(n.outputs[0])); }

inline bool is_float_constant(const Rewriter& rw, ValueId id) {
  return id != kNone && rw.value(id).constant && is_plain_float(rw.type(id));
}

inline ValueId float_constant(Rewriter& rw, Shape shape, std::span<const float> values, std::string_view name) {
  Bytes bytes = std::as_bytes(values);
  return rw.constant({DType::F32, std::move(shape), {}}, Buffer(bytes.begin(), bytes.end()), name);
}

}  // namespace swoop
