// The type of a class of values: its precision by what was asked for, its range by what was measured. Private to
// classes.cpp and class_type.cpp.
#pragma once

#include <optional>
#include <vector>

#include "quantize/borders.h"
#include "quantize/range.h"
#include "quantize/types.h"

namespace swoop {

// A class in the making.
struct Draft {
  std::vector<ValueId> members;  // none: it was merged into another
  std::vector<ValueId> sources;
  std::optional<Type> pinned;
  std::optional<Range> range;  // chosen when first asked for
  Range padding;               // reals that movement adds
};

struct Context {
  const Graph& graph;
  const Borders& borders;
  const TypeRequest& request;
};

Precision precision_of(const Context& context, const Draft& draft);
Range range_of(const Context& context, Draft& draft);
Range measured_range(const Context& context, const Draft& draft);  // from the least to the largest, no more
Type type_of(const Context& context, Draft& draft);

// Whether nothing but `node` (and the movement inside the class) reads the class.
bool read_only_by(const Context& context, const Draft& draft, NodeId node);

}  // namespace swoop
