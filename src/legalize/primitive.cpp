#include <algorithm>

#include "legalize/compose.h"

namespace swoop {

namespace {

// a reduction without keepdim  ->  keepdim, then a reshape: lower/ does one axis after the other. What has no form on
// the NPU stays as it is.
bool keep_reduced_dims(Rewriter& rw, const Node& n) {
  if (n.flag(Key::Keepdim) || !has_npu_form(n.op, target_of(rw).family) || !on_integers(rw.graph(), n)) return false;
  const Type out = rw.type(n.outputs[0]);
  Shape kept = rw.type(n.inputs[0]).shape;
  if (n.has(Key::Axes)) {
    for (int64_t axis : n.ints(Key::Axes)) kept[static_cast<size_t>(axis)] = 1;
  } else {
    kept[static_cast<size_t>(n.integer(Key::Axis))] = 1;
  }
  Attrs attrs = n.attrs;
  attrs.set(Key::Keepdim, true);
  rw.replace(n, reshape(rw, rw.make(n.op, n.inputs, attrs, with_shape(out, kept)), out.shape));
  return true;
}

// expand  ->  repeat
bool expand_to_repeat(Rewriter& rw, const Node& n) {
  if (!on_integers(rw.graph(), n)) return false;
  const Shape& in = rw.type(n.inputs[0]).shape;
  const Type& out = rw.type(n.outputs[0]);
  Ints multiples;
  for (size_t i = 0; i < in.size(); ++i) multiples.push_back(in[i] == 0 ? 1 : out.shape[i] / in[i]);
  rw.replace(n, rw.make(Op::Repeat, n.inputs, {{Key::Multiples, multiples}}, out));
  return true;
}

// movement that also changes the quantization  ->  movement, then a requantize
bool split_requantize(Rewriter& rw, const Node& n) {
  if (!on_integers(rw.graph(), n)) return false;
  const Type& in = rw.type(n.inputs[0]);
  const Type out = rw.type(n.outputs[0]);
  if (!in.quantized() || !out.quantized() || in.quant == out.quant || in.quant->per_channel()) return false;
  Type moved = in;
  moved.shape = out.shape;
  rw.replace(n, rw.make(Op::Quantize, {rw.make(n.op, n.inputs, n.attrs, moved)}, {}, out));
  return true;
}

// quantize(cast of booleans or small integers to float)  ->  cast to the quantized type: a camera's bytes are codes
// already
bool cast_to_codes(Rewriter& rw, const Node& n) {
  const Node* cast = rw.producer(n, 0, Op::Cast);
  if (!cast) return false;
  const Type& from = rw.type(cast->inputs[0]);
  bool small =
      from.dtype == DType::Bool || from.dtype == DType::U8 || from.dtype == DType::I8 || from.dtype == DType::I16;
  if (from.quantized() || !small) return false;
  rw.replace(n, rw.make(Op::Cast, cast->inputs, cast->attrs, rw.type(n.outputs[0])));
  return true;
}

// concat or scatter of differently quantized parts  ->  each part requantized first
bool requantize_parts(Rewriter& rw, const Node& n) {
  const Type& out = rw.type(n.outputs[0]);
  if (!is_codes(out)) return false;
  bool changed = false;
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    Type part = rw.type(n.inputs[i]);
    if (!is_codes(part) || (part.quant == out.quant && part.dtype == out.dtype)) continue;
    part.quant = out.quant;
    part.dtype = out.dtype;
    rw.set_input(n, i, rw.make(Op::Quantize, {n.inputs[i]}, {}, part));
    changed = true;
  }
  return changed;
}

// quantize(x repeated or resized to more elements)  ->  the same of quantize(x). 6 x 6 x 128 to 12 x 12 on U55-128, for
// a concat: 21 -> 5 kcycles.
bool requantize_before_growth(Rewriter& rw, const Node& n) {
  const Node* growth = rw.graph().producer(n.inputs[0]);
  if (!growth || !rw.used_once(n.inputs[0]) || !computes_on_codes(rw, n)) return false;
  const bool copies = growth->op == Op::Repeat || (growth->op == Op::Resize && growth->text(Key::Mode) == "nearest");
  if (!copies) return false;
  const Type from = rw.type(growth->inputs[0]), grown = rw.type(n.inputs[0]), out = rw.type(n.outputs[0]);
  if (from.quant != grown.quant || from.dtype != out.dtype) return false;
  if (element_count(from.shape) >= element_count(out.shape)) return false;
  ValueId x = rw.make(Op::Quantize, {growth->inputs[0]}, n.attrs, with_shape(out, from.shape));
  rw.replace(n, rw.make(growth->op, {x}, growth->attrs, out));
  return true;
}

// slice with a step  ->  pad to whole steps, reshape [.., U, step, ..], slice 0, reshape
bool unstep_slice(Rewriter& rw, const Node& n) {
  int64_t step = n.integer(Key::Step);
  if (step == 1 || !on_integers(rw.graph(), n)) return false;
  auto axis = static_cast<size_t>(n.integer(Key::Axis));
  int64_t start = n.integer(Key::Start);
  const Type out = rw.type(n.outputs[0]);
  int64_t count = out.shape[axis];
  Shape shape = rw.type(n.inputs[0]).shape;
  int64_t available = shape[axis] - start;
  int64_t needed = count * step;
  ValueId x = n.inputs[0];
  int64_t end = std::min(shape[axis], start + needed);
  if (start != 0 || end != shape[axis])
    x = rw.make(Op::Slice, {x},
                {{Key::Axis, n.integer(Key::Axis)}, {Key::Start, start}, {Key::End, end}, {Key::Step, int64_t{1}}});
  if (needed > available) {
    Ints padding(2 * shape.size(), 0);
    padding[2 * axis + 1] = needed - available;
    x = rw.make(Op::Pad, {x}, {{Key::Padding, padding}, {Key::Mode, std::string("constant")}, {Key::Value, 0.0}});
  }
  Shape stepped = rw.type(x).shape;
  stepped[axis] = count;
  stepped.insert(stepped.begin() + static_cast<std::ptrdiff_t>(axis) + 1, step);
  x = reshape(rw, x, stepped);
  x = rw.make(Op::Slice, {x},
              {{Key::Axis, static_cast<int64_t>(axis + 1)},
               {Key::Start, int64_t{0}},
               {Key::End, int64_t{1}},
               {Key::Step, int64_t{1}}});
  rw.replace(n, reshape(rw, x, out.shape));
  return true;
}

// flip of several axes  ->  one after the other
bool flip_one_axis(Rewriter& rw, const Node& n) {
  const Ints axes = n.ints(Key::Axes);
  if (axes.size() < 2 || !on_integers(rw.graph(), n)) return false;
  ValueId x = n.inputs[0];
  for (int64_t axis : axes) x = rw.make(Op::Flip, {x}, {{Key::Axes, Ints{axis}}});
  rw.replace(n, x);
  return true;
}

// elementwise operands of lower rank  ->  the result's rank, with leading ones, as TOSA wants it
bool match_ranks(Rewriter& rw, const Node& n) {
  if (!on_integers(rw.graph(), n)) return false;
  auto rank = static_cast<size_t>(rw.type(n.outputs[0]).rank());
  bool changed = false;
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    Shape shape = rw.type(n.inputs[i]).shape;
    if (shape.size() >= rank || (rw.type(n.inputs[i]).quantized() && rw.type(n.inputs[i]).quant->per_channel()))
      continue;
    shape.insert(shape.begin(), rank - shape.size(), 1);
    rw.set_input(n, i, reshape(rw, n.inputs[i], shape));
    changed = true;
  }
  return changed;
}

// an index result of 64 bits used as such by the host stays; the NPU's argmax gives 32 bits: left to the partitioner's
// host side.

}  // namespace

std::span<const Rule> primitive_rules() {
  static const Rule kRules[] = {
      {"split-requantize",
       ops_where([](const OpInfo& op) { return op.traits.movement && op.policy == Policy::SameAsInput; }),
       split_requantize},
      {"cast-to-codes", {Op::Quantize}, cast_to_codes},
      {"requantize-parts", {Op::Concat, Op::ScatterElements}, requantize_parts},
      {"requantize-before-growth", {Op::Quantize}, requantize_before_growth},
      {"keep-reduced-dims", ops_where([](const OpInfo& op) { return op.traits.reduction; }), keep_reduced_dims},
      {"expand-to-repeat", {Op::Expand}, expand_to_repeat},
      {"unstep-slice", {Op::Slice}, unstep_slice},
      {"flip-one-axis", {Op::Flip}, flip_one_axis},
      {"match-ranks", ops_where([](const OpInfo& op) { return op.traits.elementwise && op.max_inputs > 1; }),
       match_ranks},
  };
  return kRules;
}

}  // namespace swoop
