// Look-up tables of 16 bits, where regor's chains of elementwise operations lose them.
#include <algorithm>

#include "legalize/compose.h"

namespace swoop {

namespace {

// It becomes a table of 16 bits, alone or among other operations.
bool has_wide_table(const Rewriter& rw, const Node& n) {
  if (n.op == Op::Div) return rw.type(n.outputs[0]).quantized();
  if (n.op != Op::Unary || !on_integers(rw.graph(), n)) return false;
  return rw.type(n.inputs[0]).dtype != DType::I8 || rw.type(n.outputs[0]).dtype != DType::I8;
}

// Whether the operations that make x, one after the other with no other reader, include such a table.
bool chained_to_table(Rewriter& rw, ValueId x) {
  const Node* n = rw.graph().producer(x);
  if (!n || !rw.used_once(x)) return false;
  if (has_wide_table(rw, *n)) return true;
  if (!info(n->op).traits.elementwise && n->op != Op::Reshape) return false;
  return std::any_of(n->inputs.begin(), n->inputs.end(),
                     [&](ValueId input) { return input != kNone && chained_to_table(rw, input); });
}

// table(elementwise(table(x)))  ->  a pool of 1x1 before the second table. regor 5.1.0 makes one chain of them where
// elementwise operations are chained, loads all tables of a chain before it runs, and has room for one of 16 bits: both
// would be looked up in the last. A chain ends at a pool.
bool part_tables(Rewriter& rw, const Node& n) {
  const Type type = rw.type(n.inputs[0]);
  if (!facts_of(rw).chains_elementwise || !has_wide_table(rw, n) || type.dtype == DType::I32) return false;
  if (!chained_to_table(rw, n.inputs[0])) return false;
  Shape flat = rows_shape(rw, element_count(type.shape) / type.shape.back(), type.shape.back());
  Attrs attrs{{Key::Kernel, Ints{1, 1}},
              {Key::Stride, Ints{1, 1}},
              {Key::Padding, Ints(4, 0)},
              {Key::Dilation, Ints{1, 1}},
              {Key::ChannelsLast, true}};
  ValueId pool = rw.make(Op::MaxPool, {reshape(rw, n.inputs[0], flat)}, attrs, with_shape(type, flat));
  rw.set_input(n, 0, reshape(rw, pool, type.shape));
  return true;
}

}  // namespace

std::span<const Rule> table_rules() {
  static const Rule kRules[] = {{"part-tables", {Op::Unary}, part_tables}};
  return kRules;
}

}  // namespace swoop
