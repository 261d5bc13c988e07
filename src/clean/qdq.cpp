#include <algorithm>

#include "clean/clean.h"

namespace swoop {

namespace {

// Whether the op computes on what its operands' types say. A kernel of the runtime reads real floats, control flow
// hands them on, and a dequantize makes them.
bool computes_on_types(const OpInfo& op) { return !op.traits.bodies && op.op != Op::Opaque && op.op != Op::Dequantize; }

bool unsigned_codes(const Type& type) { return type.quantized() && type.dtype == DType::U8; }

// quantize to uint8  ->  quantize to int8, then to uint8 for readers that need the uint8 codes. The NPU computes on
// signed codes.
bool sign_quantize(Rewriter& rw, const Node& n) {
  const Type type = rw.type(n.outputs[0]);
  if (!unsigned_codes(type) || rw.type(n.inputs[0]).quantized()) return false;
  rw.replace(n, rw.make(Op::Quantize, {rw.make(Op::Quantize, n.inputs, n.attrs, signed_twin(type))}, {}, type));
  return true;
}

// dequantize from uint8  ->  from int8: the int8 codes it was made of, a constant 128 lower, or else one more quantize
bool sign_dequantize(Rewriter& rw, const Node& n) {
  const Value& codes = rw.value(n.inputs[0]);
  if (!unsigned_codes(codes.type)) return false;
  const Type type = signed_twin(codes.type);
  if (codes.constant) {
    Buffer shifted(codes.data.begin(), codes.data.end());
    for (std::byte& code : shifted) code ^= std::byte{0x80};
    rw.set_input(n, 0, rw.constant(type, std::move(shifted), codes.name));
    return true;
  }
  const Node* quantize = rw.producer(n, 0, Op::Quantize);
  bool was_signed = quantize && rw.type(quantize->inputs[0]) == type;
  rw.set_input(n, 0, was_signed ? quantize->inputs[0] : rw.make(Op::Quantize, {n.inputs[0]}, {}, type));
  return true;
}

// op(dequantize(q))  ->  op(q)
bool absorb_dequantize(Rewriter& rw, const Node& n) {
  bool changed = false;
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    const Node* dequantize = rw.producer(n, i, Op::Dequantize);
    if (dequantize && !unsigned_codes(rw.type(dequantize->inputs[0]))) {
      rw.set_input(n, i, dequantize->inputs[0]);
      changed = true;
    }
  }
  return changed;
}

// quantize(constant)  ->  the quantized constant
bool quantize_constant(Rewriter& rw, const Node& n) {
  const Value& value = rw.value(n.inputs[0]);
  if (!value.constant || value.type.quantized()) return false;
  rw.replace(n, rw.quantized_constant(n.inputs[0], rw.type(n.outputs[0])));
  return true;
}

// quantize(op(x))  ->  op(x) with the quantized type, when every user of the float result quantizes it the same way.
// Users that quantize it differently get a copy of the op each: computing twice is exact, requantizing would round
// twice.
bool absorb_quantize(Rewriter& rw, const Node& n) {
  const Graph& graph = rw.graph();
  const Node* op = graph.producer(n.inputs[0]);
  if (!op || !computes_on_types(info(op->op)) || op->op == Op::Quantize || op->outputs.size() != 1) return false;
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

bool picks(Policy policy) { return policy == Policy::SameAsInput || policy == Policy::Joins; }

// Whether the node only picks elements of its operands, so that its result needs no other codes than theirs. Zero has a
// code.
bool picks_elements(const Node& n) {
  if (n.op == Op::Clamp) return n.real(Key::Min, 0.0) == 0.0 && !n.has(Key::Max);  // relu
  bool fills = n.op == Op::Pad && n.text(Key::Mode) == "constant" && n.real(Key::Value) != 0.0;
  return picks(policy_of(n)) && !fills;
}

// move(q) with a float result, left by quantizers that annotate only computing ops  ->  dequantize(move(q) with q's
// type)
bool carry_quantization(Rewriter& rw, const Node& n) {
  int selector = info(n.op).traits.selector;
  const Type& in = rw.type(n.inputs[selector == 0 ? 1 : 0]);
  Type out = rw.type(n.outputs[0]);
  if (!in.quantized() || in.quant->per_channel() || out.dtype != DType::F32 || !picks_elements(n)) return false;
  for (size_t i = 0; i < n.inputs.size(); ++i)
    if (static_cast<int>(i) != selector && rw.type(n.inputs[i]).quant != in.quant) return false;
  out.dtype = in.dtype;
  out.quant = in.quant;
  ValueId moved = rw.make(n.op, n.inputs, n.attrs, out);
  rw.replace(n, rw.make(Op::Dequantize, {moved}));
  return true;
}

// conv, linear with quantized operands and a float bias  ->  the bias in units of the accumulator
bool quantize_bias(Rewriter& rw, const Node& n) {
  if (n.inputs.size() < 3 || n.inputs[2] == kNone) return false;
  const Value& bias = rw.value(n.inputs[2]);
  const Type& x = rw.type(n.inputs[0]);
  const Type& w = rw.type(n.inputs[1]);
  if (!bias.constant || bias.type.dtype != DType::F32 || !x.quantized() || x.quant->per_channel() || !w.quantized())
    return false;
  Type type{DType::I32, bias.type.shape, Quant{{}, {}, -1, dtype_min(DType::I32), dtype_max(DType::I32)}};
  for (double scale : w.quant->scale) {
    type.quant->scale.push_back(x.scale() * scale);
    type.quant->zero_point.push_back(0);
  }
  if (w.quant->per_channel()) {
    if (static_cast<int64_t>(w.quant->scale.size()) != type.shape[0]) return false;
    type.quant->axis = 0;
  }
  rw.set_input(n, 2, rw.quantized_constant(n.inputs[2], type));
  return true;
}

// quantize(q) with q already of that type  ->  q
bool drop_requantize(Rewriter& rw, const Node& n) {
  if (rw.type(n.inputs[0]) != rw.type(n.outputs[0])) return false;
  rw.replace(n, n.inputs[0]);
  return true;
}

}  // namespace

std::span<const Rule> qdq_rules() {
  static const Rule kRules[] = {
      {"sign-quantize", {Op::Quantize}, sign_quantize},
      {"sign-dequantize", {Op::Dequantize}, sign_dequantize},
      {"absorb-dequantize", ops_where(computes_on_types), absorb_dequantize},
      {"quantize-constant", {Op::Quantize}, quantize_constant},
      {"drop-requantize", {Op::Quantize}, drop_requantize},
      {"absorb-quantize", {Op::Quantize}, absorb_quantize},
      {"quantize-bias", ops_where([](const OpInfo& op) { return op.traits.weights; }), quantize_bias},
  };
  return kRules;
}

std::span<const Rule> carry_rules() {
  static const Rule kCarry[] = {
      {"carry-quantization", ops_where([](const OpInfo& op) { return picks(op.policy) || op.op == Op::Clamp; }),
       carry_quantization},
  };
  return kCarry;
}

}  // namespace swoop
