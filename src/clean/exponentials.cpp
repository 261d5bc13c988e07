// Softmax and logarithms of sums of exponentials that a model spells out. Of exp(x) alone, 8 bits keep the largest few
// numbers of all rows, and where a mask has added -1e9 to x, nothing of x; as one operator they have an integer form
// that knows of masks.
#include <algorithm>
#include <cmath>

#include "clean/clean.h"
#include "clean/floats.h"

namespace swoop {

namespace {

// Without what only puts axes of size 1 back: x.sum(1).unsqueeze(1) is x.sum(1, keepdim=True)
const Node* reduction(const Rewriter& rw, ValueId id, Op op) {
  const Node* n = rw.graph().producer(id);
  const Node* reshape = n && n->op == Op::Reshape ? n : nullptr;
  if (reshape) n = rw.graph().producer(reshape->inputs[0]);
  if (!n || n->op != op) return nullptr;
  Shape kept = rw.type(n->inputs[0]).shape;
  for (int64_t axis : n->ints(Key::Axes)) kept[static_cast<size_t>(axis)] = 1;
  return rw.type(id).shape == kept ? n : nullptr;
}

const Node* function(const Rewriter& rw, ValueId id, std::string_view name) {
  const Node* n = rw.graph().producer(id);
  return n && n->op == Op::Unary && n->text(Key::Fn) == name ? n : nullptr;
}

// x in x - m, where m is x's largest number along the axes
std::optional<ValueId> below_its_maximum(const Rewriter& rw, ValueId id, const Ints& axes) {
  const Node* sub = rw.graph().producer(id);
  if (!sub || sub->op != Op::Sub || sub->has(Key::ActMin) || sub->has(Key::ActMax)) return std::nullopt;
  const Node* largest = reduction(rw, sub->inputs[1], Op::ReduceMax);
  const bool own = largest && largest->inputs[0] == sub->inputs[0] && largest->ints(Key::Axes) == axes;
  return own ? std::optional(sub->inputs[0]) : std::nullopt;
}

// The sum in sum + eps: of exponentials whose largest is 1, so small a number is nothing.
ValueId without_eps(const Rewriter& rw, ValueId id) {
  constexpr float kNothing = 1e-5f;
  const Node* add = rw.graph().producer(id);
  if (!add || add->op != Op::Add || rw.type(add->inputs[0]) != rw.type(id)) return id;
  const Value& eps = rw.value(add->inputs[1]);
  if (!eps.constant || eps.type.dtype != DType::F32 || element_count(eps.type.shape) != 1) return id;
  return std::fabs(to_tensor(eps).as<float>()[0]) <= kNothing ? add->inputs[0] : id;
}

// exp(x) / sum(exp(x)), with or without x's maximum taken off  ->  softmax(x)
bool recognise_softmax(Rewriter& rw, const Node& n) {
  const Type type = rw.type(n.outputs[0]);
  if (type.dtype != DType::F32 || type.quantized() || n.has(Key::Mode) || n.has(Key::ActMin) || n.has(Key::ActMax))
    return false;
  const Node* exp = function(rw, n.inputs[0], "exp");
  const ValueId total = without_eps(rw, n.inputs[1]);
  const Node* sum = reduction(rw, total, Op::Sum);
  if (!exp || !sum || sum->inputs[0] != n.inputs[0] || sum->ints(Key::Axes).size() != 1) return false;
  const Ints axes = sum->ints(Key::Axes);
  const std::optional<ValueId> whole = below_its_maximum(rw, exp->inputs[0], axes);
  if (total != n.inputs[1] && !whole) return false;
  rw.replace(n, rw.make(Op::Softmax, {whole.value_or(exp->inputs[0])}, {{Key::Axis, axes[0]}}));
  return true;
}

// log(sum(exp(x)))  ->  m + log(sum(exp(x - m))), m being x's maximum
bool log_below_maximum(Rewriter& rw, const Node& n) {
  const Type type = rw.type(n.outputs[0]);
  const Node* sum = rw.producer(n, 0, Op::Sum);
  if (n.text(Key::Fn) != "log" || type.dtype != DType::F32 || type.quantized() || !sum) return false;
  const Node* exp = function(rw, sum->inputs[0], "exp");
  const Ints axes = sum->ints(Key::Axes);
  if (!exp || axes.empty() || below_its_maximum(rw, exp->inputs[0], axes)) return false;
  const ValueId x = exp->inputs[0];
  const Attrs kept{{Key::Axes, axes}, {Key::Keepdim, true}};
  const ValueId largest = rw.make(Op::ReduceMax, {x}, kept);
  const ValueId below = rw.make(Op::Unary, {rw.make(Op::Sub, {x, largest})}, {{Key::Fn, std::string("exp")}});
  const ValueId log = rw.make(Op::Unary, {rw.make(Op::Sum, {below}, kept)}, n.attrs);
  rw.replace(n, rw.make(Op::Reshape, {rw.make(Op::Add, {log, largest})}, {{Key::Shape, Ints(type.shape)}}));
  return true;
}

}  // namespace

std::span<const Rule> exponential_rules() {
  static const Rule kRules[] = {
      {"recognise-softmax", {Op::Div}, recognise_softmax},
      {"log-below-maximum", {Op::Unary}, log_below_maximum},
  };
  return kRules;
}

}  // namespace swoop
