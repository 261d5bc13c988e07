#include "clean/truths.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace swoop {

namespace {

using Kind = Truth::Kind;
constexpr int kDeepest = 16;  // nodes between a value and what its booleans come from
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

Truth never() { return {}; }
Truth always() { return {.kind = Kind::Always}; }

Truth given(const Rewriter& rw, ValueId id) {
  Truth truth{.kind = Kind::Given, .shape = rw.type(id).shape, .id = id};
  const Value& value = rw.value(id);
  if (!value.constant) return truth;
  truth.kind = Kind::Known;
  for (std::byte b : value.data) truth.known.push_back(b != std::byte{0});
  return truth;
}

template <typename Is>
Truth known(const Value& constant, Is is) {
  Truth truth{.kind = Kind::Known, .shape = constant.type.shape};
  const Tensor tensor = to_tensor(constant);
  for (float x : tensor.as<float>()) truth.known.push_back(is(x));
  const auto count = std::ranges::count(truth.known, uint8_t{1});
  if (count == 0) return never();
  return count == static_cast<int64_t>(truth.known.size()) ? always() : truth;
}

Shape joined(const Shape& a, const Shape& b) {
  Shape shape = a.size() < b.size() ? b : a;
  const Shape& other = a.size() < b.size() ? a : b;
  const size_t before = shape.size() - other.size();
  for (size_t i = 0; i < other.size(); ++i) shape[before + i] = std::max(shape[before + i], other[i]);
  return shape;
}

Truth both(Truth a, Truth b) {
  if (a.kind == Kind::Never || b.kind == Kind::Always) return a;
  if (b.kind == Kind::Never || a.kind == Kind::Always) return b;
  Shape shape = joined(a.shape, b.shape);
  return {.kind = Kind::And, .shape = std::move(shape), .of = {std::move(a), std::move(b)}};
}

Truth either(Truth a, Truth b) {
  if (a.kind == Kind::Never || b.kind == Kind::Always) return b;
  if (b.kind == Kind::Never || a.kind == Kind::Always) return a;
  Shape shape = joined(a.shape, b.shape);
  return {.kind = Kind::Or, .shape = std::move(shape), .of = {std::move(a), std::move(b)}};
}

Truth chosen(const Rewriter& rw, const Node& where, Truth yes, Truth no) {
  const Truth condition = given(rw, where.inputs[0]);
  return either(both(condition, std::move(yes)), both(negated(condition), std::move(no)));
}

bool moves_alone(const Node& node) {
  return node.op == Op::Reshape || node.op == Op::Transpose || node.op == Op::Expand || node.op == Op::Slice ||
         node.op == Op::Repeat || node.op == Op::Flip;
}

Truth moved(const Rewriter& rw, const Node& node, Truth truth) {
  if (truth.kind == Kind::Never || truth.kind == Kind::Always) return truth;
  return {.kind = Kind::Moved, .shape = rw.type(node.outputs[0]).shape, .node = &node, .of = {std::move(truth)}};
}

// Whether the value is added to what a softmax sees: then it may be a mask, and hold minus infinity.
bool is_added_before_softmax(const Rewriter& rw, ValueId id, bool added, int deep = 0) {
  for (const Use& use : rw.value(id).uses) {
    if (use.node == kNone || deep == kDeepest) continue;
    const Node& node = rw.graph().node(use.node);
    if (node.op == Op::Attention && use.index == 3) return true;
    if (added && (node.op == Op::Softmax || node.op == Op::LogSoftmax)) return true;
    const bool adds = node.op == Op::Add;
    if (!adds && !moves_alone(node) && node.op != Op::Where && node.op != Op::Cast) continue;
    if (is_added_before_softmax(rw, node.outputs[0], added || adds, deep + 1)) return true;
  }
  return false;
}

class Lowest {
 public:
  explicit Lowest(const Rewriter& rw) : rw_(rw) {}

  Truth of(ValueId id, int deep = 0) const {
    const Type& type = rw_.type(id);
    if (!is_plain_float(type) || deep == kDeepest) return never();
    if (rw_.value(id).constant) return known(rw_.value(id), [](float x) { return x == kMinusInfinity; });
    const Node* node = rw_.graph().producer(id);
    if (node) return of_node(*node, deep + 1);
    const bool mask = is_added_before_softmax(rw_, id, false);
    return mask ? Truth{.kind = Kind::Lowest, .shape = type.shape, .id = id} : never();
  }

 private:
  Truth of_node(const Node& node, int deep) const {
    if (node.has(Key::ActMin)) return never();
    if (moves_alone(node)) return moved(rw_, node, of(node.inputs[0], deep));
    const Op op = node.op;
    if (op == Op::Where) return chosen(rw_, node, of(node.inputs[1], deep), of(node.inputs[2], deep));
    if (op == Op::Add) return either(of(node.inputs[0], deep), of(node.inputs[1], deep));
    if (op == Op::Sub || op == Op::Cast) return of(node.inputs[0], deep);
    if (op == Op::Mul || op == Op::Div) return of_scaled(node, deep);
    return op == Op::Unary ? of_logarithm(node) : never();
  }

  // Times, or over, a positive number
  Truth of_scaled(const Node& node, int deep) const {
    const auto positive = [&](size_t i) { return uniform_value(rw_, node.inputs[i]).value_or(0) > 0; };
    if (positive(1)) return of(node.inputs[0], deep);
    return node.op == Op::Mul && positive(0) ? of(node.inputs[1], deep) : never();
  }

  // log of a boolean as a number
  Truth of_logarithm(const Node& node) const {
    const Node* cast = rw_.producer(node, 0, Op::Cast);
    const bool is = node.text(Key::Fn) == "log" && cast && rw_.type(cast->inputs[0]).dtype == DType::Bool;
    return is ? negated(given(rw_, cast->inputs[0])) : never();
  }

  const Rewriter& rw_;
};

// Softmax of a row that is minus infinity throughout is no number, nor is anything computed from it.
class NoNumbers {
 public:
  explicit NoNumbers(const Rewriter& rw) : rw_(rw) {}

  Truth of(ValueId id, int deep = 0) const {
    const Node* node = rw_.graph().producer(id);
    if (!node || !is_plain_float(rw_.type(id)) || deep == kDeepest) return never();
    if (moves_alone(*node)) return moved(rw_, *node, of(node->inputs[0], deep + 1));
    const Op op = node->op;
    if (op == Op::Softmax || op == Op::LogSoftmax) return of_softmax(*node);
    if (op == Op::Where) return chosen(rw_, *node, of(node->inputs[1], deep + 1), of(node->inputs[2], deep + 1));
    if (op == Op::Add || op == Op::Sub || op == Op::Mul || op == Op::Div)
      return either(of(node->inputs[0], deep + 1), of(node->inputs[1], deep + 1));
    if (op == Op::Clamp || op == Op::Cast) return of(node->inputs[0], deep + 1);
    return op == Op::MatMul ? of_product(*node, deep + 1) : never();
  }

 private:
  Truth of_softmax(const Node& node) const {
    Truth hidden = Lowest(rw_).of(node.inputs[0]);
    if (hidden.kind == Kind::Never || hidden.kind == Kind::Always) return hidden;
    Shape shape = rw_.type(node.inputs[0]).shape;
    shape[static_cast<size_t>(node.integer(Key::Axis))] = 1;
    return {.kind = Kind::All, .shape = std::move(shape), .node = &node, .of = {std::move(hidden)}};
  }

  // A row of the first matrix makes a row of the product.
  Truth of_product(const Node& node, int deep) const {
    Truth rows = of(node.inputs[0], deep);
    if (rows.kind == Kind::Never || rows.kind == Kind::Always) return rows;
    if (!rows.shape.empty() && rows.shape.back() == 1) return rows;
    Shape shape = rw_.type(node.inputs[0]).shape;
    shape.back() = 1;
    return {.kind = Kind::Any, .shape = std::move(shape), .node = &node, .of = {std::move(rows)}};
  }

  const Rewriter& rw_;
};

class Pure {
 public:
  explicit Pure(const Rewriter& rw) : rw_(rw) {}

  std::optional<PureMask> of(ValueId id, int deep = 0) const {
    if (!is_plain_float(rw_.type(id)) || deep == kDeepest) return std::nullopt;
    if (rw_.value(id).constant) return of_constant(id);
    const Node* node = rw_.graph().producer(id);
    if (!node || node->has(Key::ActMin) || node->has(Key::ActMax)) return std::nullopt;
    if (moves_alone(*node)) {
      std::optional<PureMask> mask = of(node->inputs[0], deep + 1);
      if (mask) mask->hidden = moved(rw_, *node, std::move(mask->hidden));
      return mask;
    }
    if (node->op != Op::Where && node->op != Op::Add) return std::nullopt;
    const bool where = node->op == Op::Where;
    std::optional<PureMask> a = of(node->inputs[where ? 1 : 0], deep + 1);
    std::optional<PureMask> b = of(node->inputs[where ? 2 : 1], deep + 1);
    if (!a || !b) return std::nullopt;
    const std::optional<float> depth = common_depth(*a, *b, !where);
    if (!depth) return std::nullopt;
    return PureMask{where ? chosen(rw_, *node, std::move(a->hidden), std::move(b->hidden))
                          : either(std::move(a->hidden), std::move(b->hidden)),
                    *depth};
  }

 private:
  std::optional<PureMask> of_constant(ValueId id) const {
    const Tensor tensor = to_tensor(rw_.value(id));
    float depth = 0;
    for (float x : tensor.as<float>()) {
      if (x == 0) continue;
      if (!hides(x) || (depth != 0 && x != depth)) return std::nullopt;
      depth = x;
    }
    return PureMask{known(rw_.value(id), [](float x) { return x != 0; }), depth};
  }

  // In a row that is hidden as a whole, softmax sees how deep each element is: only minus infinity stays what it is
  // where two of them are added.
  static std::optional<float> common_depth(const PureMask& a, const PureMask& b, bool added) {
    if (a.depth == 0 || b.depth == 0) return a.depth + b.depth;
    if (a.depth != b.depth || (added && !std::isinf(a.depth))) return std::nullopt;
    return a.depth;
  }

  const Rewriter& rw_;
};

ValueId constant_truth(Rewriter& rw, Shape shape, std::span<const uint8_t> values) {
  const Bytes bytes = std::as_bytes(values);
  return rw.constant({DType::Bool, std::move(shape), {}}, Buffer(bytes.begin(), bytes.end()), "truth");
}

ValueId as_shape(Rewriter& rw, ValueId id, const Shape& shape) {
  Shape own = rw.type(id).shape;
  if (own.size() < shape.size()) {
    own.insert(own.begin(), shape.size() - own.size(), 1);
    id = rw.make(Op::Reshape, {id}, {{Key::Shape, Ints(own.begin(), own.end())}});
  }
  return own == shape ? id : rw.make(Op::Expand, {id}, {{Key::Shape, Ints(shape.begin(), shape.end())}});
}

ValueId made(Rewriter& rw, const Truth& truth) {
  const auto operand = [&](size_t i) { return made(rw, truth.of[i]); };
  const auto full = [&] { return as_shape(rw, operand(0), rw.type(truth.node->inputs[0]).shape); };
  const auto logical = [&](const char* fn) {
    return rw.make(Op::Logical, {operand(0), operand(1)}, {{Key::Fn, std::string(fn)}});
  };
  switch (truth.kind) {
    case Kind::Never: return constant_truth(rw, {}, std::vector<uint8_t>{0});
    case Kind::Always: return constant_truth(rw, {}, std::vector<uint8_t>{1});
    case Kind::Known: return constant_truth(rw, truth.shape, truth.known);
    case Kind::Given: return truth.id;
    case Kind::Lowest: {
      const ValueId lowest = float_constant(rw, {}, {&kMinusInfinity, 1}, "lowest");
      return rw.make(Op::Compare, {truth.id, lowest}, {{Key::Fn, std::string("eq")}});
    }
    case Kind::Not: return rw.make(Op::LogicalNot, {operand(0)});
    case Kind::And: return logical("and");
    case Kind::Or: return logical("or");
    case Kind::Moved: return rw.make(truth.node->op, {full()}, truth.node->attrs);
    case Kind::All:
      return rw.make(Op::All, {full()}, {{Key::Axes, Ints{truth.node->integer(Key::Axis)}}, {Key::Keepdim, true}});
    case Kind::Any:
      return rw.make(Op::Any, {full()},
                     {{Key::Axes, Ints{static_cast<int64_t>(truth.shape.size()) - 1}}, {Key::Keepdim, true}});
  }
  return kNone;
}

}  // namespace

Truth negated(Truth truth) {
  if (truth.kind == Kind::Never) return always();
  if (truth.kind == Kind::Always) return never();
  if (truth.kind == Kind::Not) {
    Truth inner = std::move(truth.of[0]);
    return inner;
  }
  if (truth.kind == Kind::Known) {
    for (uint8_t& x : truth.known) x = x == 0;
    return truth;
  }
  Shape shape = truth.shape;
  return {.kind = Kind::Not, .shape = std::move(shape), .of = {std::move(truth)}};
}

Truth lowest_in(const Rewriter& rw, ValueId id) { return Lowest(rw).of(id); }
Truth no_numbers_in(const Rewriter& rw, ValueId id) { return NoNumbers(rw).of(id); }
std::optional<PureMask> pure_mask(const Rewriter& rw, ValueId id) { return Pure(rw).of(id); }
ValueId make_truth(Rewriter& rw, const Truth& truth, const Shape& shape) {
  return as_shape(rw, made(rw, truth), shape);
}

std::optional<float> uniform_value(const Rewriter& rw, ValueId id) {
  if (!is_float_constant(rw, id)) return std::nullopt;
  Tensor tensor = to_tensor(rw.value(id));
  std::span<const float> x = tensor.as<float>();
  if (x.empty()) return std::nullopt;
  for (float one : x)
    if (one != x[0]) return std::nullopt;
  return x[0];
}

bool hides(float x) { return x <= 2 * kMaskedBelow; }

}  // namespace swoop
