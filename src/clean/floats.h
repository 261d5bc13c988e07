// Float constants that rules make.
#pragma once

#include "rewriter/rewriter.h"

namespace swoop {

inline ValueId float_constant(Rewriter& rw, Shape shape, std::span<const float> values, std::string_view name) {
  Bytes bytes = std::as_bytes(values);
  return rw.constant({DType::F32, std::move(shape), {}}, Buffer(bytes.begin(), bytes.end()), name);
}

}  // namespace swoop
