// Masks that come at run time. As a float tensor of 0 and minus infinity a mask has no range that 8 bits could hold, so
// every spelling becomes the one that quantizes well: the scores where the mask allows them, and a number far below
// them elsewhere. calibrate() knows that form and keeps room for it below the smallest score that counts.
#include <algorithm>
#include <cmath>

#include "clean/clean.h"
#include "clean/truths.h"

namespace swoop {

namespace {

// Stands for minus infinity: exp() of it is 0 in float too, and a row that is masked as a whole stays a number.
constexpr float kHidden = -1e9f;
constexpr float kSwallows = -1e8f;  // a sum of it and a score is this number, up to rounding

struct Choice {
  ValueId allowed;                 // boolean
  bool inverted;                   // true where something is hidden
  float hidden;                    // what stands there
  std::optional<Truth> made = {};  // in the place of `allowed`: has to be made of other booleans
};

// What a value is where a boolean is true, and where it is not.
struct TwoNumbers {
  ValueId truth;
  float yes, no;
};

// where(c, one number, another), or sums and products of numbers and a boolean, as in (1 - c) * -1e9
std::optional<TwoNumbers> two_numbers(const Rewriter& rw, ValueId id) {
  const Node* n = rw.graph().producer(id);
  if (!n || !is_plain_float(rw.type(id))) return std::nullopt;
  if (n->op == Op::Cast && rw.type(n->inputs[0]).dtype == DType::Bool) return TwoNumbers{n->inputs[0], 1, 0};
  if (n->op == Op::Where) {
    std::optional<float> yes = uniform_value(rw, n->inputs[1]), no = uniform_value(rw, n->inputs[2]);
    return yes && no ? std::optional(TwoNumbers{n->inputs[0], *yes, *no}) : std::nullopt;
  }
  if (n->op != Op::Mul && n->op != Op::Add && n->op != Op::Sub) return std::nullopt;
  const size_t known = uniform_value(rw, n->inputs[0]) ? 0 : 1;
  const std::optional<float> number = uniform_value(rw, n->inputs[known]);
  std::optional<TwoNumbers> of = number ? two_numbers(rw, n->inputs[1 - known]) : std::nullopt;
  if (!of || n->has(Key::ActMin) || n->has(Key::ActMax)) return std::nullopt;
  auto apply = [&](float x) {
    if (n->op == Op::Mul) return x * *number;
    if (n->op == Op::Add) return x + *number;
    return known == 0 ? *number - x : x - *number;
  };
  return TwoNumbers{of->truth, apply(of->yes), apply(of->no)};
}

// A float mask that is 0 where `allowed` says so and hides what it is added to elsewhere.
std::optional<Choice> choice_of(const Rewriter& rw, ValueId mask) {
  const std::optional<TwoNumbers> of = two_numbers(rw, mask);
  if (of && rw.type(of->truth).shape == rw.type(mask).shape) {
    if (of->yes == 0 && hides(of->no)) return Choice{of->truth, false, of->no};
    if (of->no == 0 && hides(of->yes)) return Choice{of->truth, true, of->yes};
  }
  if (of || rw.value(mask).constant) return std::nullopt;
  std::optional<PureMask> pure = pure_mask(rw, mask);
  if (!pure || pure->depth == 0) return std::nullopt;
  return Choice{kNone, false, pure->depth, negated(std::move(pure->hidden))};
}

ValueId hide(Rewriter& rw, ValueId scores, ValueId allowed, float depth = kHidden) {
  const float hidden = std::isfinite(depth) && depth <= kSwallows ? depth : kHidden;
  ValueId low = float_constant(rw, {}, {&hidden, 1}, "hidden");
  return rw.make(Op::Where, {allowed, scores, low});
}

// Scores in which a number stands where they are hidden.
struct HiddenScores {
  ValueId scores;
  Choice choice;
};

std::optional<HiddenScores> hidden_scores(const Rewriter& rw, ValueId id) {
  const Node* where = rw.graph().producer(id);
  if (!where || where->op != Op::Where || !is_plain_float(rw.type(id))) return std::nullopt;
  for (size_t low : {1, 2}) {
    const std::optional<float> depth = uniform_value(rw, where->inputs[low]);
    if (depth && hides(*depth)) return HiddenScores{where->inputs[3 - low], {where->inputs[0], low == 1, *depth}};
  }
  return std::nullopt;
}

ValueId allowed_by(Rewriter& rw, const Choice& choice, const Shape& shape) {
  if (choice.made) return make_truth(rw, *choice.made, shape);
  return choice.inverted ? rw.make(Op::LogicalNot, {choice.allowed}) : choice.allowed;
}

// movement(where(c, one number, another))  ->  where(movement(c), one number, another)
bool move_choice(Rewriter& rw, const Node& n) {
  const Node* where = rw.graph().producer(n.inputs[0]);
  if (n.inputs.size() != 1 || !where || where->op != Op::Where || !rw.used_once(n.inputs[0])) return false;
  const Type& type = rw.type(n.inputs[0]);
  if (!is_plain_float(type) || rw.type(where->inputs[0]).shape != type.shape) return false;
  std::optional<float> yes = uniform_value(rw, where->inputs[1]), no = uniform_value(rw, where->inputs[2]);
  if (!yes || !no) return false;
  ValueId allowed = rw.make(n.op, {where->inputs[0]}, n.attrs);
  ValueId one = float_constant(rw, {}, {&*yes, 1}, "chosen"), other = float_constant(rw, {}, {&*no, 1}, "otherwise");
  rw.replace(n, rw.make(Op::Where, {allowed, one, other}));
  return true;
}

// scores + where(c, 0, far below)  ->  where(c, scores, far below)
bool add_to_choice(Rewriter& rw, const Node& n) {
  if (!plain_floats(rw, n) || n.has(Key::ActMin) || n.has(Key::ActMax)) return false;
  const std::vector<Use>& uses = rw.value(n.outputs[0]).uses;
  const bool is_output = std::any_of(uses.begin(), uses.end(), [](const Use& use) { return use.node == kNone; });
  for (size_t i = 0; i < 2; ++i) {
    ValueId scores = n.inputs[1 - i];
    if (rw.type(scores).shape != rw.type(n.outputs[0]).shape) continue;
    std::optional<Choice> choice = choice_of(rw, n.inputs[i]);
    if (!choice || (is_output && choice->hidden > kSwallows)) continue;
    if (const auto mask = pure_mask(rw, scores); mask && mask->depth != 0) continue;  // both are added to scores
    rw.replace(n, hide(rw, scores, allowed_by(rw, *choice, rw.type(n.inputs[i]).shape), choice->hidden));
    return true;
  }
  return false;
}

// scores - mask * far above  ->  scores + mask * far below, and of a choice of two numbers likewise: masks are added
bool add_negated_mask(Rewriter& rw, const Node& n) {
  const Node* mask = rw.graph().producer(n.inputs[1]);
  if (!plain_floats(rw, n) || !mask || (mask->op != Op::Mul && mask->op != Op::Where)) return false;
  if (!plain_floats(rw, *mask) || mask->has(Key::ActMin) || mask->has(Key::ActMax)) return false;
  std::vector<size_t> numbers;
  bool deep = false;
  for (size_t i = mask->op == Op::Where ? 1 : 0; i < mask->inputs.size(); ++i)
    if (const std::optional<float> number = uniform_value(rw, mask->inputs[i])) {
      numbers.push_back(i);
      deep |= hides(-std::fabs(*number));
    }
  if (!deep || numbers.size() + 1 != mask->inputs.size()) return false;
  std::vector<ValueId> inputs = mask->inputs;
  for (size_t i : numbers) {
    const Shape shape = rw.type(inputs[i]).shape;
    const std::vector<float> negative(static_cast<size_t>(element_count(shape)), 0 - *uniform_value(rw, inputs[i]));
    inputs[i] = float_constant(rw, shape, negative, "negative");
  }
  rw.replace(n, rw.make(Op::Add, {n.inputs[0], rw.make(mask->op, inputs, mask->attrs)}, n.attrs));
  return true;
}

// argmax(where(c, scores, far below))  ->  argmax(where(c, scores, minus infinity)): that takes no room in the range of
// the scores, whoever else reads them
bool hide_from_argmax(Rewriter& rw, const Node& n) {
  const std::optional<HiddenScores> hidden = hidden_scores(rw, n.inputs[0]);
  if (!hidden || std::isinf(hidden->choice.hidden)) return false;
  const float nothing = -std::numeric_limits<float>::infinity();
  const ValueId low = float_constant(rw, {}, {&nothing, 1}, "hidden");
  const ValueId where = hidden->choice.inverted ? rw.make(Op::Where, {hidden->choice.allowed, low, hidden->scores})
                                                : rw.make(Op::Where, {hidden->choice.allowed, hidden->scores, low});
  rw.replace(n, rw.make(Op::ArgMax, {where}, n.attrs));
  return true;
}

// log_softmax(where(c, scores, far below))  ->  where(c, log_softmax(the same), far below): the log_softmax then needs
// no range for what is hidden. In a row that is hidden as a whole, all scores are the same and count.
bool hide_after_log_softmax(Rewriter& rw, const Node& n) {
  const std::optional<HiddenScores> hidden = hidden_scores(rw, n.inputs[0]);
  const Shape shape = rw.type(n.outputs[0]).shape;
  if (!hidden || std::isinf(hidden->choice.hidden) || rw.type(hidden->choice.allowed).shape != shape) return false;
  const std::vector<Use>& uses = rw.value(n.outputs[0]).uses;
  if (uses.size() == 1 && uses[0].node != kNone) {
    const std::optional<HiddenScores> after = hidden_scores(rw, rw.graph().node(uses[0].node).outputs[0]);
    if (after && after->scores == n.outputs[0] && after->choice.hidden == hidden->choice.hidden) return false;  // done
  }
  const ValueId allowed = allowed_by(rw, hidden->choice, shape);
  const ValueId some = rw.make(Op::Any, {allowed}, {{Key::Axes, Ints{n.integer(Key::Axis)}}, {Key::Keepdim, true}});
  const ValueId counts =
      rw.make(Op::Logical, {allowed, rw.make(Op::LogicalNot, {some})}, {{Key::Fn, std::string("or")}});
  const float depth = hidden->choice.hidden;
  rw.replace(n, rw.make(Op::Where, {counts, rw.make(Op::LogSoftmax, {n.inputs[0]}, n.attrs),
                                    float_constant(rw, {}, {&depth, 1}, "hidden")}));
  return true;
}

// A constant that is added to part `index` of a concat, and 0 to the other parts; kNone if it hides nothing there.
ValueId mask_of_joined(Rewriter& rw, const Node& concat, size_t index, ValueId mask) {
  const Type part = rw.type(concat.inputs[index]), out = rw.type(concat.outputs[0]);
  if (!is_float_constant(rw, mask) || rw.type(mask).rank() > part.rank()) return kNone;
  const auto axis = static_cast<size_t>(concat.integer(Key::Axis));
  Tensor from = to_tensor(rw.value(mask));
  std::span<const float> numbers = from.as<float>();
  if (std::none_of(numbers.begin(), numbers.end(), hides)) return kNone;
  Shape own = from.shape;
  own.insert(own.begin(), part.shape.size() - own.size(), 1);
  Shape wide = own;
  wide[axis] = out.shape[axis];
  size_t before = 0, inner = 1;
  for (size_t i = 0; i < index; ++i) before += static_cast<size_t>(rw.type(concat.inputs[i]).shape[axis]);
  for (size_t d = axis + 1; d < own.size(); ++d) inner *= static_cast<size_t>(own[d]);
  const auto length = static_cast<size_t>(part.shape[axis]), given = static_cast<size_t>(own[axis]);
  const auto all = static_cast<size_t>(wide[axis]);
  std::vector<float> padded(numbers.size() / given * all, 0.0f);
  for (size_t row = 0; row < numbers.size() / given / inner; ++row)
    for (size_t i = 0; i < length; ++i)
      for (size_t k = 0; k < inner; ++k)
        padded[(row * all + before + i) * inner + k] = numbers[(row * given + i % given) * inner + k];
  return float_constant(rw, wide, padded, rw.value(mask).name + "_joined");
}

// softmax(where(c, scores, minus infinity))  ->  softmax(where(c, scores, far below)): a row that is hidden as a whole
// stays numbers, which nobody sees who asks for such rows first
bool keep_numbers(Rewriter& rw, const Node& n) {
  const std::optional<HiddenScores> hidden = hidden_scores(rw, n.inputs[0]);
  if (!hidden || !std::isinf(hidden->choice.hidden)) return false;
  const ValueId low = float_constant(rw, {}, {&kHidden, 1}, "hidden");
  std::vector<ValueId> inputs = rw.graph().producer(n.inputs[0])->inputs;
  inputs[hidden->choice.inverted ? 1 : 2] = low;
  rw.replace(n, rw.make(n.op, {rw.make(Op::Where, inputs)}, n.attrs));
  return true;
}

// where(row, a number, where(c, scores, far below))  ->  where(c or row, where(row, a number, scores), far below):
// what hides comes last, so that it takes no room in a range
bool hide_last(Rewriter& rw, const Node& n) {
  if (!plain_floats(rw, n)) return false;
  for (size_t inner : {1, 2}) {
    const std::optional<float> number = uniform_value(rw, n.inputs[3 - inner]);
    const std::optional<HiddenScores> hidden = hidden_scores(rw, n.inputs[inner]);
    if (!number || hides(*number) || !hidden || !rw.used_once(n.inputs[inner])) continue;
    if (rw.type(n.inputs[inner]).shape != rw.type(n.outputs[0]).shape) continue;
    std::vector<ValueId> outside = rw.graph().producer(n.inputs[inner])->inputs, inside = n.inputs;
    const ValueId row = inner == 2 ? n.inputs[0] : rw.make(Op::LogicalNot, {n.inputs[0]});
    const ValueId seen = allowed_by(rw, hidden->choice, rw.type(hidden->choice.allowed).shape);
    inside[inner] = hidden->scores;
    outside[0] = rw.make(Op::Logical, {seen, row}, {{Key::Fn, std::string("or")}});
    outside[1] = rw.make(Op::Where, inside);
    outside[2] = float_constant(rw, {}, {&hidden->choice.hidden, 1}, "hidden");
    rw.replace(n, rw.make(Op::Where, outside));
    return true;
  }
  return false;
}

// concat(scores + mask, others)  ->  concat(scores, others) + mask: an attention with a sink takes the softmax of its
// scores and one number more
bool mask_joined_scores(Rewriter& rw, const Node& n) {
  if (!plain_floats(rw, n)) return false;
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    const Node* sum = rw.graph().producer(n.inputs[i]);
    if (!sum || sum->op != Op::Add || !rw.used_once(n.inputs[i])) continue;
    for (size_t side = 0; side < 2; ++side) {
      const ValueId scores = sum->inputs[side];
      if (rw.type(scores).shape != rw.type(n.inputs[i]).shape) continue;
      const ValueId mask = mask_of_joined(rw, n, i, sum->inputs[1 - side]);
      if (mask == kNone) continue;
      std::vector<ValueId> parts = n.inputs;
      parts[i] = scores;
      rw.replace(n, rw.make(Op::Add, {rw.make(Op::Concat, parts, n.attrs), mask}));
      return true;
    }
  }
  return false;
}

// concat(where(c, scores, far below), others)  ->  where(concat(c, true), concat(scores, others), far below)
bool choose_joined_scores(Rewriter& rw, const Node& n) {
  if (!plain_floats(rw, n)) return false;
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    const Node* where = rw.graph().producer(n.inputs[i]);
    const Type part = rw.type(n.inputs[i]);
    if (!where || where->op != Op::Where || !rw.used_once(n.inputs[i])) continue;
    for (size_t low = 1; low <= 2; ++low) {
      const ValueId scores = where->inputs[3 - low], hidden = where->inputs[low];
      const std::optional<float> depth = uniform_value(rw, hidden);
      if (!depth || !hides(*depth) || rw.type(scores).shape != part.shape) continue;
      if (rw.type(where->inputs[0]).shape != part.shape || rw.type(hidden).rank() > 0) continue;
      std::vector<ValueId> parts = n.inputs, choices;
      for (ValueId other : n.inputs) {
        const Shape shape = rw.type(other).shape;
        Buffer seen(static_cast<size_t>(element_count(shape)), std::byte{low == 2});
        choices.push_back(choices.size() == i ? where->inputs[0]
                                              : rw.constant({DType::Bool, shape, {}}, std::move(seen), "seen"));
      }
      parts[i] = scores;
      std::vector<ValueId> inputs(3, hidden);
      inputs[0] = rw.make(Op::Concat, choices, n.attrs);
      inputs[3 - low] = rw.make(Op::Concat, parts, n.attrs);
      rw.replace(n, rw.make(Op::Where, inputs));
      return true;
    }
  }
  return false;
}

// Zeros in rows that `allowed` hides as a whole.
ValueId clear_hidden_rows(Rewriter& rw, ValueId result, ValueId allowed) {
  int64_t last = rw.type(allowed).rank() - 1;
  ValueId some = rw.make(Op::Any, {allowed}, {{Key::Axes, Ints{last}}, {Key::Keepdim, true}});
  float nothing = 0;
  return rw.make(Op::Where, {some, result, float_constant(rw, {}, {&nothing, 1}, "nothing")});
}

// attention with a mask that comes at run time  ->  softmax(where(mask, q . k^T, far below)) . v, and zero where the
// mask says no or minus infinity to a whole row, as PyTorch's attention has it
bool open_masked_attention(Rewriter& rw, const Node& n) {
  if (!plain_floats(rw, n) || n.inputs.size() < 4 || n.inputs[3] == kNone) return false;
  ValueId q = n.inputs[0], k = n.inputs[1], v = n.inputs[2], mask = n.inputs[3];
  if (rw.value(mask).constant || n.flag(Key::Causal)) return false;
  Ints swap;
  for (int64_t i = 0; i < rw.type(k).rank(); ++i) swap.push_back(i);
  std::swap(swap[swap.size() - 1], swap[swap.size() - 2]);
  auto scale = static_cast<float>(n.real(Key::Scale));
  ValueId scaled = rw.make(Op::Mul, {q, float_constant(rw, {}, {&scale, 1}, n.name + "_scale")});
  ValueId scores = rw.make(Op::MatMul, {scaled, rw.make(Op::Transpose, {k}, {{Key::Perm, swap}})});
  ValueId allowed = kNone;
  bool clears = true;
  if (rw.type(mask).dtype == DType::Bool) {
    allowed = mask;
  } else if (std::optional<Choice> choice = choice_of(rw, mask)) {
    allowed = allowed_by(rw, *choice, rw.type(mask).shape);
    clears = std::isinf(choice->hidden);
  }
  scores = allowed == kNone ? rw.make(Op::Add, {scores, mask}) : hide(rw, scores, allowed);
  int64_t last = rw.type(scores).rank() - 1;
  ValueId result = rw.make(Op::MatMul, {rw.make(Op::Softmax, {scores}, {{Key::Axis, last}}), v});
  if (allowed != kNone && clears) result = clear_hidden_rows(rw, result, allowed);
  rw.replace(n, result);
  return true;
}

// attention with a constant mask that hides whole rows  ->  zeros in those rows, which see everything before
bool clear_constant_rows(Rewriter& rw, const Node& n) {
  if (!plain_floats(rw, n) || n.inputs.size() < 4 || n.inputs[3] == kNone || n.flag(Key::Causal)) return false;
  if (!rw.value(n.inputs[3]).constant || rw.type(n.inputs[3]).rank() < 2) return false;
  const Type type = rw.type(n.inputs[3]);
  const std::string name = rw.value(n.inputs[3]).name;
  Tensor open = to_tensor(rw.value(n.inputs[3]));
  const bool truths = type.dtype == DType::Bool;
  auto hidden = [&](size_t i) {
    return truths ? open.as<uint8_t>()[i] == 0 : open.as<float>()[i] == -std::numeric_limits<float>::infinity();
  };
  const auto length = static_cast<size_t>(type.shape.back());
  const size_t rows = length == 0 ? 0 : static_cast<size_t>(element_count(type.shape)) / length;
  Shape shape = type.shape;
  shape.back() = 1;
  Tensor some = make_tensor(DType::Bool, shape);
  bool clears = false;
  for (size_t row = 0; row < rows; ++row) {
    size_t seen = 0;
    for (size_t i = row * length; i < (row + 1) * length; ++i) seen += !hidden(i);
    some.as<uint8_t>()[row] = seen > 0;
    clears |= seen == 0;
    for (size_t i = row * length; i < (row + 1) * length && seen == 0; ++i)
      truths ? open.as<uint8_t>()[i] = 1 : open.as<float>()[i] = 0;
  }
  if (!clears) return false;
  std::vector<ValueId> inputs = n.inputs;
  inputs[3] = rw.constant(type, std::move(open.data), name + "_open");
  ValueId result = rw.make(Op::Attention, inputs, n.attrs);
  ValueId seen = rw.constant({DType::Bool, shape, {}}, std::move(some.data), name + "_rows");
  float nothing = 0;
  rw.replace(n, rw.make(Op::Where, {seen, result, float_constant(rw, {}, {&nothing, 1}, "nothing")}));
  return true;
}

const Rule kMaskRules[] = {
    {"move-choice", {Op::Reshape, Op::Expand, Op::Transpose, Op::Slice}, move_choice},
    {"add-to-choice", {Op::Add}, add_to_choice},
    {"add-negated-mask", {Op::Sub}, add_negated_mask},
    {"hide-from-argmax", {Op::ArgMax}, hide_from_argmax},
    {"hide-last", {Op::Where}, hide_last},
    {"keep-numbers", {Op::Softmax}, keep_numbers},
    {"hide-after-log-softmax", {Op::LogSoftmax}, hide_after_log_softmax},
    {"mask-joined-scores", {Op::Concat}, mask_joined_scores},
    {"choose-joined-scores", {Op::Concat}, choose_joined_scores},
    {"clear-constant-rows", {Op::Attention}, clear_constant_rows},
    {"open-masked-attention", {Op::Attention}, open_masked_attention},
};

}  // namespace

std::span<const Rule> mask_rules() { return kMaskRules; }

}  // namespace swoop
