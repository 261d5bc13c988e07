#include <algorithm>

#include "clean/clean.h"

namespace swoop {

namespace {

// Ops that read their operands through a kernel of the runtime and so need real floats.
bool reads_floats(Op op) {
  return op == Op::Opaque || op == Op::Dequantize || op == Op::Cond || op == Op::While || op == Op::Map || op == Op::Scan;
}

std::vector<Op> ops_on_types() {
  std::vector<Op> ops;
  for (int i = 0; i < kOpCount; ++i)
    if (!reads_floats(static_cast<Op>(i))) ops.push_back(static_cast<Op>(i));
  return ops;
}

// op(dequantize(q))  ->  op(q)
bool absorb_dequantize(Rewriter& rw, Node& n) {
  bool changed = false;
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    if (Node* dequantize = rw.producer(n, i, Op::Dequantize)) {
      rw.set_input(n, i, dequantize->inputs[0]);
      changed = true;
    }
  }
  return changed;
}

// quantize(constant)  ->  the quantized constant
bool quantize_constant(Rewriter& rw, Node& n) {
  const Value& value = rw.value(n.inputs[0]);
  if (!value.constant || value.type.quantized()) return false;
  rw.replace(n, swoop::quantize_constant(rw.graph(), n.inputs[0], rw.type(n.outputs[0])));
  return true;
}

// quantize(op(x))  ->  op(x) with the quantized type, when every user of the float result quantizes it the same way.
// Users that quantize it differently get a copy of the op each: computing twice is exact, requantizing would round twice.
bool absorb_quantize(Rewriter& rw, Node& n) {
  Graph& graph = rw.graph();
  Node* op = graph.producer(n.inputs[0]);
  if (!op || reads_floats(op->op) || op->op == Op::Quantize || op->outputs.size() != 1) return false;
  ValueId result = op->outputs[0];
  if (rw.type(result).quantized()) return false;
  const Type wanted = rw.type(n.outputs[0]);
  bool all_quantize = true;
  bool all_same = true;
  for (const Use& use : rw.value(result).uses) {
    const Node* user = use.node == kNone ? nullptr : &graph.node(use.node);
    bool quantizes = user && user->op == Op::Quantize;
    all_quantize &= quantizes;
    all_same &= quantizes && rw.type(user->outputs[0]) == wanted;
  }
  if (!all_quantize) return false;
  if (!all_same) {
    rw.replace(n, rw.make(op->op, op->inputs, op->attrs, wanted));
    return true;
  }
  rw.set_type(result, wanted);
  rw.replace(n, result);
  return true;
}

// dequantize(quantize(x)) on the way to a kernel of the host: the rounding stays, so both stay. Nothing to do here.

// quantize(q) with q already of that type  ->  q
bool drop_requantize(Rewriter& rw, Node& n) {
  if (rw.type(n.inputs[0]) != rw.type(n.outputs[0])) return false;
  rw.replace(n, n.inputs[0]);
  return true;
}

const Rule kRules[] = {
    {"absorb-dequantize", ops_on_types(), absorb_dequantize},
    {"quantize-constant", {Op::Quantize}, quantize_constant},
    {"drop-requantize", {Op::Quantize}, drop_requantize},
    {"absorb-quantize", {Op::Quantize}, absorb_quantize},
};

}  // namespace

std::span<const Rule> qdq_rules() { return kRules; }

}  // namespace swoop
