// Transposes and reshapes by dims of size 1, in any order, are one thing: a permutation of the dims that are not 1.
// Seen so, they move past what does not care about the layout, until they meet their inverse.
#include <algorithm>

#include "legalize/compose.h"

namespace swoop {

namespace {

constexpr size_t kLongestChain = 8;

std::vector<size_t> wide_dims(const Shape& shape) {
  std::vector<size_t> dims;
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] != 1) dims.push_back(i);
  return dims;
}

// How a value comes from `source` by transposes and reshapes of ones: its k-th dim that is not 1 is the source's dim
// order[k].
struct Chain {
  ValueId source = kNone;
  std::vector<size_t> order;
  size_t length = 0;
};

Chain chain_of(Rewriter& rw, ValueId id) {
  Chain chain{id, wide_dims(rw.type(id).shape), 0};
  while (chain.length < kLongestChain) {
    const Node* move = rw.graph().producer(chain.source);
    if (!move || (move->op != Op::Transpose && move->op != Op::Reshape)) break;
    const Type &from = rw.type(move->inputs[0]), &to = rw.type(move->outputs[0]);
    if (from.quant != to.quant || from.dtype != to.dtype) break;
    if (move->op == Op::Transpose) {
      for (size_t& dim : chain.order) dim = static_cast<size_t>(move->ints(Key::Perm)[dim]);
    } else {
      std::vector<size_t> before = wide_dims(from.shape), after = wide_dims(to.shape);
      bool ones_only = before.size() == after.size();
      for (size_t i = 0; ones_only && i < before.size(); ++i) ones_only = from.shape[before[i]] == to.shape[after[i]];
      if (!ones_only) break;
      for (size_t& dim : chain.order)
        dim = before[static_cast<size_t>(std::find(after.begin(), after.end(), dim) - after.begin())];
    }
    chain.source = move->inputs[0];
    ++chain.length;
  }
  return chain;
}

// The order as ranks among the source's dims that are not 1: equal ranks and sizes are the same permutation.
std::vector<size_t> ranks(const Rewriter& rw, const Chain& chain) {
  std::vector<size_t> dims = wide_dims(rw.type(chain.source).shape), list;
  for (size_t dim : chain.order)
    list.push_back(static_cast<size_t>(std::find(dims.begin(), dims.end(), dim) - dims.begin()));
  return list;
}

// What the chain does, done to a value with the source's layout.
ValueId move_along(Rewriter& rw, const Chain& chain, ValueId x, const Shape& moved, const Shape& to) {
  Ints ones, perm;  // dims of the source that the chain does not name; they go where the result has ones, as far as
                    // there are any
  for (int64_t i = 0; i < rw.type(x).rank(); ++i)
    if (std::find(chain.order.begin(), chain.order.end(), static_cast<size_t>(i)) == chain.order.end())
      ones.push_back(i);
  size_t next = 0, next_one = 0;
  for (int64_t size : moved) {
    if (size != 1)
      perm.push_back(static_cast<int64_t>(chain.order[next++]));
    else if (next_one < ones.size())
      perm.push_back(ones[next_one++]);
  }
  perm.insert(perm.end(), ones.begin() + static_cast<std::ptrdiff_t>(next_one), ones.end());
  return reshape(rw, transpose(rw, x, perm), to);
}

// An operand that is broadcast: a constant, or something with a single dim that is not 1. Brought into the source's
// layout for nothing.
bool is_light(const Rewriter& rw, ValueId id, const Shape& out) {
  const Type& type = rw.type(id);
  if (type.quantized() && type.quant->per_channel()) return false;
  return rw.value(id).constant || (type.shape != out && wide_dims(type.shape).size() <= 1);
}

std::optional<ValueId> bring_back(Rewriter& rw, ValueId id, const Chain& chain, const Shape& out, bool try_only) {
  Shape shape = rw.type(id).shape;
  shape.insert(shape.begin(), out.size() - shape.size(), 1);
  std::vector<size_t> wide = wide_dims(out);
  Shape kept, target(rw.type(chain.source).shape.size(), 1);
  for (size_t k = 0; k < wide.size(); ++k) {
    kept.push_back(shape[wide[k]]);
    target[chain.order[k]] = shape[wide[k]];
  }
  if (element_count(kept) != element_count(shape)) return std::nullopt;  // it widens a dim of size 1
  if (try_only) return id;
  Ints perm;  // of the kept dims, into the source's order
  std::vector<size_t> sorted = chain.order;
  std::sort(sorted.begin(), sorted.end());
  for (size_t dim : sorted)
    perm.push_back(std::find(chain.order.begin(), chain.order.end(), dim) - chain.order.begin());
  ValueId x = reshape(rw, id, kept);
  if (kept.size() > 1) x = transpose(rw, x, perm);
  return reshape(rw, x, target);
}

// elementwise(moved x, moved y)  ->  move(elementwise(x, y)), when both were moved in the same way
bool sink_moves_past_elementwise(Rewriter& rw, const Node& n) {
  if (!on_integers(rw.graph(), n)) return false;
  const Type out = rw.type(n.outputs[0]);
  if (out.quantized() && out.quant->per_channel()) return false;
  std::optional<Chain> first;
  std::vector<Chain> chains(n.inputs.size());
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    if (rw.type(n.inputs[i]).rank() > out.rank()) return false;
    if (is_light(rw, n.inputs[i], out.shape)) continue;
    if (rw.type(n.inputs[i]).shape != out.shape) return false;
    chains[i] = chain_of(rw, n.inputs[i]);
    if (chains[i].length == 0) return false;
    if (!first) first = chains[i];
    if (ranks(rw, chains[i]) != ranks(rw, *first)) return false;
  }
  if (!first || first->source == n.outputs[0]) return false;
  for (size_t i = 0; i < n.inputs.size(); ++i)
    if (chains[i].length == 0 && !bring_back(rw, n.inputs[i], *first, out.shape, true)) return false;
  const Shape shape = rw.type(first->source).shape;
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < n.inputs.size(); ++i)
    inputs.push_back(chains[i].length > 0 ? reshape(rw, chains[i].source, shape)
                                          : *bring_back(rw, n.inputs[i], *first, out.shape, false));
  rw.replace(n, move_along(rw, *first, rw.make(n.op, inputs, n.attrs, with_shape(out, shape)), out.shape, out.shape));
  return true;
}

// op(moved x) along an axis that is not of size 1  ->  move(op(x) along the axis where it came from)
bool sink_moves_past_axis_op(Rewriter& rw, const Node& n) {
  if (!on_integers(rw.graph(), n) || (info(n.op).traits.reduction && !n.flag(Key::Keepdim))) return false;
  const Type out = rw.type(n.outputs[0]);
  Ints axes = n.has(Key::Axes) ? n.ints(Key::Axes) : n.has(Key::Axis) ? Ints{n.integer(Key::Axis)} : Ints{};
  if (n.op == Op::Pad)
    for (int64_t i = 0; i < out.rank(); ++i)
      if (n.ints(Key::Padding)[static_cast<size_t>(2 * i)] != 0 ||
          n.ints(Key::Padding)[static_cast<size_t>(2 * i + 1)] != 0)
        axes.push_back(i);
  std::vector<Chain> chains;
  for (ValueId input : n.inputs) {
    Chain chain = chain_of(rw, input);
    if (chain.length == 0 || rw.type(input).rank() != out.rank()) return false;
    for (int64_t axis : axes)
      if (rw.type(input).shape[static_cast<size_t>(axis)] == 1) return false;
    if (!chains.empty() && (ranks(rw, chain) != ranks(rw, chains[0]) ||
                            wide_dims(rw.type(input).shape) != wide_dims(rw.type(n.inputs[0]).shape)))
      return false;
    chains.push_back(chain);
  }
  // When operands have different layouts, the largest stays as it is; the others keep a reshape.
  const Chain& first = *std::max_element(chains.begin(), chains.end(), [&](const Chain& a, const Chain& b) {
    return element_count(rw.type(a.source).shape) < element_count(rw.type(b.source).shape);
  });
  std::vector<size_t> wide = wide_dims(rw.type(n.inputs[0]).shape);
  auto moved = [&](int64_t axis) {
    size_t k = static_cast<size_t>(std::find(wide.begin(), wide.end(), static_cast<size_t>(axis)) - wide.begin());
    return static_cast<int64_t>(first.order[k]);
  };
  int rank = rw.type(first.source).rank();
  if (wants_width(n.op))
    for (int64_t axis : axes)
      if (moved(axis) == rank - 1) return false;
  Shape shape = rw.type(first.source).shape;
  Attrs attrs = n.attrs;
  Ints there;
  for (int64_t axis : axes) {
    there.push_back(moved(axis));
    shape[static_cast<size_t>(moved(axis))] = out.shape[static_cast<size_t>(axis)];
  }
  std::sort(there.begin(), there.end());
  if (n.has(Key::Axis)) attrs.set(Key::Axis, there[0]);
  if (n.has(Key::Axes)) attrs.set(Key::Axes, there);
  if (n.op == Op::Pad) {
    Ints padding(static_cast<size_t>(2 * rank), 0);
    for (int64_t axis : axes)
      for (int64_t side = 0; side < 2; ++side)
        padding[static_cast<size_t>(2 * moved(axis) + side)] =
            n.ints(Key::Padding)[static_cast<size_t>(2 * axis + side)];
    attrs.set(Key::Padding, padding);
  }
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < chains.size(); ++i) {
    Shape part = rw.type(first.source).shape;
    for (int64_t axis : axes)
      part[static_cast<size_t>(moved(axis))] = rw.type(n.inputs[i]).shape[static_cast<size_t>(axis)];
    inputs.push_back(reshape(rw, chains[i].source, part));
  }
  ValueId x = rw.make(n.op, inputs, attrs, with_shape(out, shape));
  // The result may have ones where the operand had none: the moves are those of the operand's dims.
  rw.replace(n, move_along(rw, first, x, rw.type(n.inputs[0]).shape, out.shape));
  return true;
}

}  // namespace

std::span<const Rule> sinking_rules() {
  static const Rule kRules[] = {
      {"sink-moves-past-elementwise", elementwise_ops(), sink_moves_past_elementwise},
      {"sink-moves-past-axis-op", axis_ops(), sink_moves_past_axis_op},
  };
  return kRules;
}

}  // namespace swoop
