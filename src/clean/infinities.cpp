// Comparisons that ask for minus infinity, or for what is no number. Codes hold neither, so the answer comes from the
// masks that put infinities there: exports spell out a softmax that gives zeros where all of a row is masked as
// where(all(scores == -inf), 0, softmax(scores)), models as nan_to_num(softmax(scores)). These rules run before masks
// get the form that quantizes, in which nothing is infinite any more.
#include <algorithm>
#include <cmath>

#include "clean/clean.h"
#include "clean/truths.h"

namespace swoop {

namespace {

// b fn a, said as a fn' b
std::string mirrored(const std::string& fn) {
  if (fn == "lt") return "gt";
  if (fn == "gt") return "lt";
  if (fn == "le") return "ge";
  return fn == "ge" ? "le" : fn;
}

void become(Rewriter& rw, const Node& n, const Truth& truth) {
  rw.replace(n, make_truth(rw, truth, rw.type(n.outputs[0]).shape));
}

// scores == -inf, abs(scores) == inf  ->  what the booleans of their masks say, where there are such
bool compare_lowest(Rewriter& rw, const Node& n) {
  for (size_t side : {1, 0}) {
    const std::optional<float> bound = uniform_value(rw, n.inputs[side]);
    if (!bound || !std::isinf(*bound)) continue;
    const std::string fn = side == 1 ? n.text(Key::Fn) : mirrored(n.text(Key::Fn));
    ValueId x = n.inputs[1 - side];
    if (*bound > 0) {
      const Node* size = rw.producer(n, 1 - side, Op::Unary);
      if (!size || size->text(Key::Fn) != "abs") return false;
      x = size->inputs[0];
    }
    const bool is = fn == "eq" || fn == (*bound < 0 ? "le" : "ge");
    const bool is_not = fn == "ne" || fn == (*bound < 0 ? "gt" : "lt");
    const Truth truth = lowest_in(rw, x);
    const bool as_it_is = truth.kind == Truth::Kind::Lowest && side == 1 && fn == "eq" && *bound < 0;
    if (truth.kind == Truth::Kind::Never || as_it_is || (!is && !is_not)) return false;
    become(rw, n, is ? truth : negated(truth));
    return true;
  }
  return false;
}

// softmax(scores) != softmax(scores), which asks for NaN  ->  whether the masks hide all of a row
bool compare_no_number(Rewriter& rw, const Node& n) {
  const std::string& fn = n.text(Key::Fn);
  if (n.inputs[0] != n.inputs[1] || (fn != "eq" && fn != "ne")) return false;
  const Truth truth = no_numbers_in(rw, n.inputs[0]);
  if (truth.kind == Truth::Kind::Never) return false;
  become(rw, n, fn == "ne" ? truth : negated(truth));
  return true;
}

bool holds(const std::string& fn, float a, float b) {
  if (fn == "eq") return a == b;
  if (fn == "ne") return a != b;
  if (fn == "lt") return a < b;
  if (fn == "le") return a <= b;
  return fn == "gt" ? a > b : a >= b;
}

// (0 or far below, a constant) + (integers or booleans) fn number  ->  (integers or booleans) fn number, and what is
// known of the rest: one type for both would lose the integers
bool compare_beyond(Rewriter& rw, const Node& n) {
  constexpr float kBeyond = -1e30f, kNear = 1e20f;
  const Node* sum = rw.producer(n, 0, Op::Add);
  const std::optional<float> number = uniform_value(rw, n.inputs[1]);
  if (!sum || !number || !(std::fabs(*number) < kNear) || !plain_floats(rw, *sum)) return false;
  for (size_t i : {0, 1}) {
    const Node* cast = rw.producer(*sum, 1 - i, Op::Cast);
    const std::optional<PureMask> mask = pure_mask(rw, sum->inputs[i]);
    if (!cast || is_float(rw.type(cast->inputs[0]).dtype)) continue;
    if (!rw.value(sum->inputs[i]).constant || !mask || !(mask->depth <= kBeyond)) continue;
    const Shape shape = rw.type(n.outputs[0]).shape;
    const bool there = holds(n.text(Key::Fn), mask->depth, *number);
    const ValueId known = make_truth(rw, there ? mask->hidden : negated(mask->hidden), shape);
    const ValueId rest = rw.make(Op::Compare, {sum->inputs[1 - i], n.inputs[1]}, n.attrs);
    rw.replace(n, rw.make(Op::Logical, {known, rest}, {{Key::Fn, std::string(there ? "or" : "and")}}));
    return true;
  }
  return false;
}

// float(boolean) fn number  ->  the boolean, or not
bool compare_boolean(Rewriter& rw, const Node& n) {
  const Node* cast = rw.producer(n, 0, Op::Cast);
  const std::optional<float> number = uniform_value(rw, n.inputs[1]);
  if (!cast || !number || rw.type(cast->inputs[0]).dtype != DType::Bool) return false;
  const bool yes = holds(n.text(Key::Fn), 1, *number), no = holds(n.text(Key::Fn), 0, *number);
  const Truth truth{.kind = Truth::Kind::Given, .shape = rw.type(cast->inputs[0]).shape, .id = cast->inputs[0]};
  const Truth same{.kind = yes ? Truth::Kind::Always : Truth::Kind::Never};
  become(rw, n, yes == no ? same : yes ? truth : negated(truth));
  return true;
}

const Rule kInfinityRules[] = {
    {"compare-lowest", {Op::Compare}, compare_lowest},
    {"compare-no-number", {Op::Compare}, compare_no_number},
    {"compare-beyond", {Op::Compare}, compare_beyond},
    {"compare-boolean", {Op::Compare}, compare_boolean},
};

}  // namespace

std::span<const Rule> infinity_rules() { return kInfinityRules; }

}  // namespace swoop
