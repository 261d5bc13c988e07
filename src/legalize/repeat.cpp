// Repeats. regor takes them apart: into an operation for each part of a result of more than four dims (128 x 8 x 1 x 8
// x 14, 14 times: 9 s and 15 Mcycles on the U85, as one axis of three dims 0.1 s and 1.6), and into strided copies.
#include <algorithm>

#include "legalize/compose.h"

namespace swoop {

namespace {

// A repeat of one axis: what is before it, one new axis, and what is after it.
struct Runs {
  Shape before;
  int64_t times = 1;
  Shape after;
};

// Neighbours in one, as far as an axis goes.
void add_dim(Shape& shape, int64_t size, int64_t max_axis) {
  if (size == 1) return;
  if (!shape.empty() && shape.back() * size <= max_axis)
    shape.back() *= size;
  else
    shape.push_back(size);
}

// Axes of one element that are repeated side by side count as one. The last dim stays by itself: the cores compute it
// side by side. Absent: several axes are repeated.
std::optional<Runs> runs_of(const Shape& in, const Ints& multiples, int64_t max_axis) {
  Runs runs;
  Shape channels;
  bool ended = false;  // what follows is repeated as a whole
  for (size_t i = 0; i < in.size(); ++i) {
    const bool again = multiples[i] > 1;
    if (again && runs.times > 1 && (ended || in[i] != 1)) return std::nullopt;
    runs.times *= multiples[i];
    ended |= runs.times > 1 && in[i] != 1;
    if (runs.times == 1)
      add_dim(runs.before, in[i], max_axis);
    else
      add_dim(i + 1 == in.size() ? channels : runs.after, in[i], max_axis);
  }
  runs.after.insert(runs.after.end(), channels.begin(), channels.end());
  return runs;
}

// repeat along several axes  ->  along one after the other, from the last on: what is copied is small at first
bool repeat_one_axis(Rewriter& rw, const Node& n) {
  const Shape in = rw.type(n.inputs[0]).shape;
  const Ints multiples = n.ints(Key::Multiples);
  if (!on_integers(rw.graph(), n) || runs_of(in, multiples, facts_of(rw).max_axis)) return false;
  ValueId x = n.inputs[0];
  for (size_t i = in.size(); i-- > 0;) {
    if (multiples[i] == 1) continue;
    Ints one(in.size(), 1);
    one[i] = multiples[i];
    x = rw.make(Op::Repeat, {x}, {{Key::Multiples, one}});
  }
  rw.replace(n, x);
  return true;
}

// The number that no other one is below.
ValueId lowest(Rewriter& rw, const Type& type, const Shape& shape) {
  const int64_t of_width = -(int64_t{1} << (8 * byte_size(type.dtype) - 1));
  const std::vector<int64_t> values(static_cast<size_t>(element_count(shape)),
                                    type.quantized() ? type.quant->qmin : of_width);
  return codes(rw, with_shape(type, shape), values, "lowest");
}

// By a number, which may change the scale alone: nothing is left of it then.
bool is_scaled(const Rewriter& rw, const Node& n) {
  if (n.op != Op::Mul) return n.op == Op::Quantize;
  const auto is_number = [&](ValueId id) { return element_count(rw.type(id).shape) == 1; };
  return std::any_of(n.inputs.begin(), n.inputs.end(), is_number);
}

// A transpose reads it, in whatever shape and scale. regor lets the operation before write a value transposed, and an
// elementwise operation that repeats its operand then writes other numbers (the keys of Llama's attention).
bool is_turned(const Rewriter& rw, ValueId id) {
  const std::vector<Use>& uses = rw.value(id).uses;
  return std::any_of(uses.begin(), uses.end(), [&](const Use& use) {
    if (use.node == kNone) return false;
    const Node& reader = rw.graph().node(use.node);
    const bool same = reader.op == Op::Reshape || is_scaled(rw, reader);
    return reader.op == Op::Transpose || (same && is_turned(rw, reader.outputs[0]));
  });
}

// repeat along an axis, of more than four dims  ->  of four or fewer; or the maximum of what is repeated and of the
// lowest number there is, where an elementwise operation repeats for less than a copy does
bool repeat_runs(Rewriter& rw, const Node& n) {
  const Type out = rw.type(n.outputs[0]);
  const Type in = rw.type(n.inputs[0]);
  if (!on_integers(rw.graph(), n) || out.dtype == DType::Bool || element_count(out.shape) == 0) return false;
  std::optional<Runs> runs = runs_of(in.shape, n.ints(Key::Multiples), facts_of(rw).max_axis);
  constexpr size_t kDimsOfCores = 4;
  if (!runs || runs->times == 1 || runs->before.size() + 1 + runs->after.size() > kDimsOfCores) return false;
  constexpr int64_t kFew = 1024;  // of more in a row, copies cost no more
  const int64_t row = element_count(runs->after);
  const bool by_maximum =
      facts_of(rw).repeats_by_maximum && (!runs->before.empty() || row < kFew) && !is_turned(rw, n.outputs[0]);
  if (!by_maximum && in.shape.size() <= kDimsOfCores) return false;
  // Copies of short rows: the fewer the better. One copy of an image keeps its channels.
  if (!by_maximum && !runs->before.empty() && row <= facts_of(rw).max_axis) runs->after = {row};
  const auto with = [&](int64_t times) {
    Shape shape = runs->before;
    shape.push_back(times);
    shape.insert(shape.end(), runs->after.begin(), runs->after.end());
    return shape;
  };
  const Shape one = with(1), all = with(runs->times);
  Shape along(one.size(), 1);
  along[runs->before.size()] = runs->times;
  const ValueId x = reshape(rw, n.inputs[0], one);
  const ValueId y = by_maximum ? rw.make(Op::Maximum, {x, lowest(rw, in, along)}, {}, with_shape(out, all))
                               : rw.make(Op::Repeat, {x}, {{Key::Multiples, Ints(along)}}, with_shape(out, all));
  rw.replace(n, reshape(rw, y, out.shape));
  return true;
}

}  // namespace

std::span<const Rule> repeat_rules() {
  static const Rule kRules[] = {{"repeat-one-axis", {Op::Repeat}, repeat_one_axis},
                                {"repeat-runs", {Op::Repeat}, repeat_runs}};
  return kRules;
}

}  // namespace swoop
