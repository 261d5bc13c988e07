// The second step of choosing types: which values share one, and what it is.
//
// Values that data movement makes from one another form a class. Operands of a concat join the class of its result
// where rounding once is better than rounding twice. The operands of layers with the same weights, and their results,
// join where their ranges are alike. Each class gets one type, from what was measured of its sources; the operand of a
// bilinear resize gets steps that are a power of two finer than the result's.
#pragma once

#include <vector>

#include "quantize/borders.h"
#include "quantize/types.h"

namespace swoop {

struct TypeClass {
  std::vector<ValueId> members;
  std::vector<ValueId> sources;  // members that no movement makes, and constants that are moved
  Type type;                     // without a shape
  bool pinned = false;           // the type was there before
};

std::vector<TypeClass> choose_classes(const Graph& graph, const Borders& borders, const TypeRequest& request);

// What each source was measured as and what became of it, for the user. In report.cpp.
std::vector<ValueReport> report_values(const Graph& graph, const Borders& borders,
                                       const std::vector<TypeClass>& classes, const TypeRequest& request);

}  // namespace swoop
