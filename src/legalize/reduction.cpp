// Sums and means, once the layout is settled: dims side by side become one, and a sum of rows is a convolution with
// ones.
#include <algorithm>
#include <optional>

#include "legalize/compose.h"
#include "legalize/kernel.h"

namespace swoop {

namespace {

int64_t product(const Shape& shape, size_t first, size_t last) {
  int64_t count = 1;
  for (size_t i = first; i < last; ++i) count *= shape[i];
  return count;
}

// The reduced dims as one: [before, length, after]. None when others are between them; dims of size 1 do not count.
struct Block {
  size_t first, last;
  int64_t before, length, after;
};
std::optional<Block> block_of(const Shape& shape, const Ints& axes) {
  Block block{shape.size(), 0, 1, 1, 1};
  for (int64_t axis : axes) {
    auto a = static_cast<size_t>(axis);
    if (a >= shape.size() || shape[a] == 1) continue;  // a number alone has no axis 0
    block.first = std::min(block.first, a);
    block.last = std::max(block.last, a);
  }
  if (block.first > block.last) return std::nullopt;
  for (size_t i = block.first; i <= block.last; ++i)
    if (shape[i] != 1 && std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) == axes.end())
      return std::nullopt;
  block.before = product(shape, 0, block.first);
  block.length = product(shape, block.first, block.last + 1);
  block.after = product(shape, block.last + 1, shape.size());
  return block;
}

int64_t largest_divisor(int64_t number, int64_t most) {
  int64_t divisor = std::min(number, most);
  while (number % divisor != 0) --divisor;
  return divisor;
}

// A view of x in another shape costs: a copy when others read x too, and bricks that a table may want to write.
bool view_costs(Rewriter& rw, ValueId x) {
  const Node* producer = rw.graph().producer(x);
  return !rw.used_once(x) || (facts_of(rw).tables_want_bricks && producer && producer->op == Op::Unary);
}

// regor stores a sum of rows that a table reads in bricks, and writes it turned, for which they are too small: it
// overwrites what is stored after it (docs/regor-defects.md, table_of_a_sum_and_a_slice).
bool overruns_bricks(Rewriter& rw, const Node& n, const Block& block) {
  constexpr int64_t kMost = 1 << 14;  // elements, of which a copy costs little
  const DType dtype = rw.type(n.outputs[0]).dtype;
  if (!facts_of(rw).fuses_transposes || block.length * block.after > kMost) return false;
  if (dtype != DType::I8 && dtype != DType::I16) return false;
  const std::vector<Use>& uses = rw.value(n.outputs[0]).uses;
  return std::any_of(uses.begin(), uses.end(),
                     [&](const Use& use) { return use.node != kNone && rw.graph().node(use.node).op == Op::Unary; });
}

// The rows of [1,height,W,C] added up, over `divisor`.
ValueId sum_rows(Rewriter& rw, ValueId x, double divisor, Type type, const Node* clamp_from = nullptr) {
  const Shape shape = rw.type(x).shape;
  ValueId kernel = ones(rw, shape[3], shape[1], 1, divisor);
  return conv_last(rw, x, kernel, kNone, {{1, 1}, {0, 0, 0, 0}, shape[3]}, std::move(type), clamp_from);
}

// sum or mean along the outermost dim of [L, inner]  ->  a depthwise conv of height L with ones over [1, L, inner / c,
// c]. For a plane that has no such view, its rows are added up first. Few channels c, because each has a scale of 10
// bytes to be read (10 cycles on U55, 24 on U85). A plane of 9 x 1280 costs 1.3 k cycles on U85-256, where AVG_POOL2D
// takes 3.2 k and a depthwise conv of 1280 channels 31 k. The rescale carries 1/L, so nothing is rounded to the
// operand's steps.
bool sum_by_conv(Rewriter& rw, const Node& n) {
  if (!n.flag(Key::Keepdim) || !computes_on_codes(rw, n)) return false;
  const Shape in = rw.type(n.inputs[0]).shape;
  std::optional<Block> block = block_of(in, n.ints(Key::Axes));
  if (!block || block->before != 1 || block->after == 1) return false;  // a sum over channels is cheap
  bool plane = block->first != block->last;
  const NpuFacts& facts = facts_of(rw);
  const bool must = !plane && overruns_bricks(rw, n, *block);
  constexpr int64_t kSmallPlane = 49, kShortRow = 128;
  if (facts.fuses_transposes && !plane && !must && block->after < kShortRow && !rw.producer(n, 0, Op::Conv))
    return false;  // other producers write short rows transposed, at no cost
  int64_t depth = facts.channels_at_once;
  bool shared = !must && view_costs(rw, n.inputs[0]), uneven = !must && block->after % depth != 0;
  if (!shared && uneven && block->length <= kSmallPlane) return false;
  bool rows_first = shared || uneven;
  if (rows_first && (!plane || in.size() != 4 || block->last != 2 || in[1] > facts.max_conv_height)) return false;

  Ints heights;
  int64_t most = block->length > facts.max_conv_height ? facts.first_sum_height : facts.max_conv_height;
  for (int64_t rest = rows_first ? in[2] : block->length; rest > 1; rest /= heights.back()) {
    heights.push_back(largest_divisor(rest, most));
    if (heights.back() == 1) return false;  // a large prime
  }
  int64_t rest = rows_first ? in[2] : block->length;
  int64_t channels = largest_divisor(block->after, depth);
  int64_t width = block->after / channels;
  if (rest / heights[0] * width > facts.max_axis) return false;

  const Type out = rw.type(n.outputs[0]);
  ValueId x = n.inputs[0];
  if (rows_first) x = sum_rows(rw, x, static_cast<double>(in[1]), mean_between(rw.type(x), in[1]));
  for (int64_t height : heights) {
    rest /= height;
    x = reshape(rw, x, {1, height, rest * width, channels});
    if (rest > 1) {
      x = sum_rows(rw, x, static_cast<double>(height), mean_between(rw.type(x), height));
    } else {
      double all = n.op == Op::Sum ? static_cast<double>(block->length) : 1.0;
      x = sum_rows(rw, x, static_cast<double>(height) / all, out, &n);
    }
  }
  rw.replace(n, reshape(rw, x, out.shape));
  return true;
}

// The sum of the slices of [before, length, after] along its second dim, in a type that holds it. Of an odd number, the
// last slice waits.
ValueId added_up(Rewriter& rw, ValueId x, const Type& wide) {
  ValueId waits = kNone;
  const auto add = [&](ValueId a, ValueId b) {
    return rw.make(Op::Add, {a, b}, {}, with_shape(wide, rw.type(a).shape));
  };
  for (int64_t length = rw.type(x).shape[1]; length > 1; length /= 2) {
    if (length % 2 == 1) {
      const ValueId last = slice(rw, x, 1, length - 1, length);
      waits = waits == kNone ? last : add(waits, last);
    }
    const ValueId first = slice(rw, x, 1, 0, length / 2);  // named: compilers differ in which argument they make first
    x = add(first, slice(rw, x, 1, length / 2, length / 2 * 2));
  }
  return waits == kNone ? x : add(x, waits);
}

// sum or mean of a few rows  ->  of slices, added up by halves. U85-256: 16 x 8 x 256 165 -> 28 kcycles, 8 rows of
// 1,000 155 -> 8.
bool sum_by_adding(Rewriter& rw, const Node& n) {
  constexpr int64_t kMost = 32;  // of more, the additions are no longer few
  if (!facts_of(rw).fuses_transposes || !n.flag(Key::Keepdim) || !computes_on_codes(rw, n)) return false;
  const Type in = rw.type(n.inputs[0]), out = rw.type(n.outputs[0]);
  const std::optional<Block> block = block_of(in.shape, n.ints(Key::Axes));
  if (!block || block->after == 1 || block->length > kMost) return false;
  if (in.dtype != DType::I8 && in.dtype != DType::I16) return false;
  const Type wide = in.dtype == DType::I8 ? i16_type({}, in.scale()) : i32_type({}, in.scale());
  const Shape sums = {block->before, 1, block->after};
  ValueId x = added_up(rw, reshape(rw, n.inputs[0], {block->before, block->length, block->after}), wide);
  if (n.op == Op::Mean) {
    const double share = 1.0 / static_cast<double>(block->length);
    x = rw.make(Op::Mul, {x, scalar(rw, wide.dtype, 3, 1, share)}, clamp_of(n), with_shape(out, sums));
  } else {
    x = rw.make(Op::Quantize, {x}, clamp_of(n), with_shape(out, sums));
  }
  rw.replace(n, reshape(rw, x, out.shape));
  return true;
}

// sum or mean over dims side by side  ->  over one: [before, all of them, after]. lower/ makes a sum per dim.
bool merge_reduced_dims(Rewriter& rw, const Node& n) {
  if (!n.flag(Key::Keepdim) || n.ints(Key::Axes).size() == 1 || !on_integers(rw.graph(), n)) return false;
  const Type out = rw.type(n.outputs[0]);
  std::optional<Block> block = block_of(rw.type(n.inputs[0]).shape, n.ints(Key::Axes));
  if (!block || block->length > facts_of(rw).max_axis) return false;
  Shape merged = {block->before, block->length};
  if (block->after != 1) merged.push_back(block->after);
  Attrs attrs = n.attrs;
  attrs.set(Key::Axes, Ints{1});
  ValueId x = reshape(rw, n.inputs[0], merged);
  merged[1] = 1;
  rw.replace(n, reshape(rw, rw.make(n.op, {x}, attrs, with_shape(out, merged)), out.shape));
  return true;
}

// sum or mean over a dim that is longer than an axis of the core  ->  over two dims
bool split_reduced_dim(Rewriter& rw, const Node& n) {
  if (!n.flag(Key::Keepdim) || n.ints(Key::Axes).size() != 1 || !on_integers(rw.graph(), n)) return false;
  const int64_t most = facts_of(rw).max_axis;
  const Type out = rw.type(n.outputs[0]);
  const Shape shape = rw.type(n.inputs[0]).shape;
  auto axis = static_cast<size_t>(n.ints(Key::Axes)[0]);
  if (axis >= shape.size() || shape[axis] <= most) return false;
  const int64_t inner = largest_divisor(shape[axis], most), outer = shape[axis] / inner;
  if (outer > most) return false;  // a large prime
  Shape split = {product(shape, 0, axis), outer, inner, product(shape, axis + 1, shape.size())};
  Attrs attrs = n.attrs;
  attrs.set(Key::Axes, Ints{1, 2});
  ValueId sum = rw.make(n.op, {reshape(rw, n.inputs[0], split)}, attrs, with_shape(out, {split[0], 1, 1, split[3]}));
  rw.replace(n, reshape(rw, sum, out.shape));
  return true;
}

// sum or mean of rows that are longer than an axis of the core  ->  of pieces of them, side by side. Cores without
// transposes of their own turn the rows to add them up.
bool cut_summed_rows(Rewriter& rw, const Node& n) {
  const NpuFacts& facts = facts_of(rw);
  if (facts.fuses_transposes || !n.flag(Key::Keepdim) || !on_integers(rw.graph(), n)) return false;
  const Type out = rw.type(n.outputs[0]);
  std::optional<Block> block = block_of(rw.type(n.inputs[0]).shape, n.ints(Key::Axes));
  if (!block || block->after <= facts.max_axis) return false;
  const int64_t pieces = (block->after + facts.max_axis - 1) / facts.max_axis;
  const int64_t piece = (block->after + pieces - 1) / pieces;
  Attrs attrs = n.attrs;
  attrs.set(Key::Axes, Ints{1});
  ValueId x = reshape(rw, n.inputs[0], {block->before, block->length, block->after});
  std::vector<ValueId> parts;
  for (int64_t at = 0; at < block->after; at += piece) {
    ValueId part = slice(rw, x, 2, at, std::min(at + piece, block->after));
    parts.push_back(rw.make(n.op, {part}, attrs, with_shape(out, {block->before, 1, rw.type(part).shape[2]})));
  }
  rw.replace(n, reshape(rw, concat(rw, std::move(parts), 2), out.shape));
  return true;
}

}  // namespace

std::span<const Rule> reduction_rules() {
  static const Rule kRules[] = {
      {"sum-by-conv", {Op::Sum, Op::Mean}, sum_by_conv},
      {"sum-by-adding", {Op::Sum, Op::Mean}, sum_by_adding},  // after sum-by-conv, which costs less where it fits
      {"merge-reduced-dims", {Op::Sum, Op::Mean}, merge_reduced_dims},  // after sum-by-conv, which looks for a plane
      {"split-reduced-dim", {Op::Sum, Op::Mean}, split_reduced_dim},
      {"cut-summed-rows", {Op::Sum, Op::Mean}, cut_summed_rows},
  };
  return kRules;
}

}  // namespace swoop
