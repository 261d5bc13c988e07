// Transposes that cost more than what else says the same.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "legalize/kernel.h"

namespace swoop {

namespace {

constexpr int64_t kMostPlanes = 8;         // with 12, a transpose costs less
constexpr int64_t kFewElements = 512;      // below that as well
constexpr int64_t kMostBytes = 320 << 10;  // most of the SRAM that regor keeps values in

bool only_moves(const Rewriter& rw, const Node& n) {
  const Type &in = rw.type(n.inputs[0]), &out = rw.type(n.outputs[0]);
  return on_integers(rw.graph(), n) && in.quant == out.quant && !(in.quantized() && in.quant->per_channel());
}

// [planes, pixels] -> [pixels, planes]: what a transpose comes to when its dims of size 1 are left out. No planes: it
// does something else.
struct Turn {
  int64_t planes = 0, pixels = 0;
};
Turn turn_of(const Shape& shape, const Ints& perm) {
  Ints wide;
  for (int64_t axis : perm)
    if (shape[static_cast<size_t>(axis)] != 1) wide.push_back(axis);
  if (wide.size() < 2 || wide.back() > wide.front() || !std::is_sorted(wide.begin(), wide.end() - 1)) return {};
  int64_t planes = shape[static_cast<size_t>(wide.back())];
  return {planes, element_count(shape) / planes};
}

// The same of each of several images, whose number comes first.
std::pair<int64_t, Turn> turns_of(const Shape& shape, const Ints& perm) {
  if (perm.size() < 3 || perm[0] != 0) return {1, turn_of(shape, perm)};
  Ints rest;
  for (size_t i = 1; i < perm.size(); ++i) rest.push_back(perm[i] - 1);
  return {shape[0], turn_of(Shape(shape.begin() + 1, shape.end()), rest)};
}

// Into how long pieces a plane is cut: as near to `best` as its size allows, but no shorter than half of it and no
// longer than 8 times; 0: not at all.
int64_t piece_of(int64_t pixels, int64_t best) {
  int64_t nearest = 0;
  for (int64_t size = std::max<int64_t>(best / 2, 2); size <= 8 * best; ++size)
    if (pixels % size == 0 && (nearest == 0 || std::abs(size - best) < std::abs(nearest - best))) nearest = size;
  return nearest;
}

// As many elements as are side by side in memory.
int64_t brick_of(const Rewriter& rw, const Type& type) {
  return facts_of(rw).brick / static_cast<int64_t>(byte_size(type.dtype));
}

// transpose of an input, [planes, pixels] -> [pixels, planes]  ->  a convolution that reads a piece of every plane at
// once, the pixels of a piece as channels, and writes each of them to its place. The weights are ones and zeros, so the
// codes stay. U85-256, planes of 64 x 64 in DRAM: 2 planes 80 -> 6 kcycles, 4 planes 80 -> 14, 8 planes 82 -> 40. Of
// several images, one after the other, each has its own rows of the convolution's result.
bool turn_planes_by_conv(Rewriter& rw, const Node& n) {
  const Type in = rw.type(n.inputs[0]), out = rw.type(n.outputs[0]);
  if (!facts_of(rw).slow_narrow_inputs || !enters(rw, n.inputs[0]) || !only_moves(rw, n)) return false;
  if (!computes_on_codes(rw, n)) return false;
  auto [images, turn] = turns_of(in.shape, n.ints(Key::Perm));
  auto [planes, pixels] = turn;
  if (planes == 0 || planes > kMostPlanes || planes * pixels < kFewElements) return false;
  if (images > 1 && planes > facts_of(rw).max_stride) return false;
  int64_t piece = piece_of(pixels, brick_of(rw, in));
  if (piece == 0 || pixels / piece > facts_of(rw).max_axis) return false;
  const One one = one_for(out);
  Kernel places(planes * piece, planes, 1, piece, one.weight);
  for (int64_t plane = 0; plane < planes; ++plane)
    for (int64_t i = 0; i < piece; ++i) places.at(i * planes + plane, plane, 0, i) = one.code;
  ValueId x = reshape(rw, n.inputs[0], {1, images * planes, pixels / piece, piece});
  const Placement each{{images > 1 ? planes : 1, 1}, {0, 0, 0, 0}, 1};
  rw.replace(n, reshape(rw, conv_last(rw, x, weights(rw, places, "places"), kNone, each, out), out.shape));
  return true;
}

// An input in rows of whole bricks, or as one row if only that fits, or in other pieces. Empty: there are none.
Shape bricks_of(const Rewriter& rw, const Type& type) {
  const int64_t brick = brick_of(rw, type);
  const int64_t all = element_count(type.shape), row = type.shape[2] * type.shape[3];
  if (row % brick == 0) return {1, all / row, row / brick, brick};
  if (all % brick == 0 && all / brick <= facts_of(rw).max_axis) return {1, 1, all / brick, brick};
  const int64_t piece = piece_of(row, 2 * brick);
  return piece == 0 ? Shape() : Shape{1, all / row, row / piece, piece};
}

// A copy of an input in SRAM, which a depthwise convolution with ones reads by bricks. None: it is too small or too
// large to pay.
std::optional<ValueId> fetched(Rewriter& rw, ValueId x) {
  const Type in = rw.type(x);
  if (!facts_of(rw).slow_narrow_inputs || in.rank() != 4 || !is_codes(in) || !enters(rw, x)) return std::nullopt;
  if (in.dtype != DType::I8 && in.dtype != DType::I16) return std::nullopt;
  const int64_t bytes = byte_count(in);
  if (bytes < kFewElements || bytes > kMostBytes) return std::nullopt;
  const Shape bricks = bricks_of(rw, in);
  if (bricks.empty()) return std::nullopt;
  const Placement each{{1, 1}, {0, 0, 0, 0}, bricks[3]};
  ValueId copy = conv_last(rw, reshape(rw, x, bricks), ones(rw, bricks[3], 1, 1, 1), kNone, each, in);
  return reshape(rw, copy, in.shape);
}

// conv of an input whose pixels are no whole bricks  ->  of a copy of it. U85-256, 96 x 96 x 3 in DRAM, 3x3 stride 2:
// 82 -> 22 kcycles; 64 x 64 x 24: 375 -> 133. One channel costs less as it is, and where others read the input too, a
// view of it is a copy already.
bool fetch_by_bricks(Rewriter& rw, const Node& n) {
  const Shape &in = rw.type(n.inputs[0]).shape, &out = rw.type(n.outputs[0]).shape;
  const int64_t brick = brick_of(rw, rw.type(n.inputs[0]));
  if (!rw.used_once(n.inputs[0]) || !n.flag(Key::ChannelsLast) || in.size() != 4 || in[3] == 1 || in[3] % brick == 0)
    return false;
  const Shape& kernel = rw.type(n.inputs[1]).shape;
  const bool once = kernel[1] * out[1] <= in[1] && kernel[2] * out[2] <= in[2];  // each pixel is read once
  std::optional<ValueId> copy = once && in[3] > brick ? std::nullopt : fetched(rw, n.inputs[0]);
  if (copy) rw.set_input(n, 0, *copy);
  return copy.has_value();
}

// concat of slices of an input, which folds a stride  ->  of slices of a copy of it. 16x16 stride 16 from 224 x 224 x 3
// on U85-256: 662 -> 181 kcycles.
bool fetch_before_slices(Rewriter& rw, const Node& n) {
  ValueId x = kNone;
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    const Node* part = rw.producer(n, i, Op::Slice);
    if (!part || (x != kNone && part->inputs[0] != x)) return false;
    x = part->inputs[0];
  }
  std::optional<ValueId> copy = fetched(rw, x);
  if (!copy) return false;
  std::vector<ValueId> parts;
  for (ValueId part : n.inputs) parts.push_back(rw.make(Op::Slice, {*copy}, rw.graph().producer(part)->attrs));
  rw.replace(n, concat(rw, std::move(parts), n.integer(Key::Axis)));
  return true;
}

// transpose of an input, [planes, pixels] -> [pixels, planes]  ->  with the pixels of a plane as a square. A row of
// them is turned in small blocks: 80 planes of 3000 on U85-256, 2,754 -> 123 kcycles.
bool square_planes(Rewriter& rw, const Node& n) {
  const Type in = rw.type(n.inputs[0]), out = rw.type(n.outputs[0]);
  if (!facts_of(rw).slow_narrow_inputs || !enters(rw, n.inputs[0]) || !only_moves(rw, n)) return false;
  auto [planes, pixels] = turn_of(in.shape, n.ints(Key::Perm));
  if (planes == 0 || planes * pixels < kFewElements) return false;
  const auto side = static_cast<int64_t>(std::sqrt(static_cast<double>(pixels)));
  const int64_t width = piece_of(pixels, side);
  const int64_t now = in.shape.back();
  if (width == 0 || width == now || (now >= side / 2 && now <= 2 * side)) return false;
  ValueId x = reshape(rw, n.inputs[0], {1, planes, pixels / width, width});
  rw.replace(n, reshape(rw, to_last(rw, x), out.shape));
  return true;
}

// No operation of the NPU reads it.
bool leaves(const Rewriter& rw, ValueId x) {
  const std::vector<Use>& uses = rw.value(x).uses;
  return std::all_of(uses.begin(), uses.end(), [&](const Use& use) {
    return use.node == kNone || rw.graph().node(use.node).op == Op::Dequantize;
  });
}

// transpose [pixels, channels] -> [channels, pixels] with many channels  ->  with the channels cut in pieces. As it is,
// U85 has the operation before it write each byte to its place: at the end, in DRAM, a conv of 3 x 3 x 512, 2,137 -> 18
// kcycles; of 16 x 16 x 128, 100 -> 37; an addition of 3 x 3 x 512, 38 -> 5; inside a network, a conv of 2 x 2 x 1280,
// 64,006 -> 120, a depthwise one of 2 x 2 x 768, 7,200 -> 20. 24 x 32768 in pieces of 8 takes 22,081, of 16 4,161, of
// 32 or 64 2,300; small ones take the same in pieces of 8 to 64.
bool cut_channels(Rewriter& rw, const Node& n) {
  constexpr int64_t kPiece = 32;
  const Type in = rw.type(n.inputs[0]), out = rw.type(n.outputs[0]);
  if (!facts_of(rw).fuses_transposes || enters(rw, n.inputs[0]) || !only_moves(rw, n)) return false;
  auto [channels, pixels] = turn_of(out.shape, inverse(n.ints(Key::Perm)));  // back
  const bool pays = leaves(rw, n.outputs[0]) ? 3 * channels > pixels : channels >= 8 * pixels;
  if (channels == 0 || !pays) return false;
  const int64_t piece = piece_of(channels, kPiece);
  if (piece == 0 || piece == channels) return false;
  ValueId x = reshape(rw, n.inputs[0], {1, pixels, channels / piece, piece});
  rw.replace(n, reshape(rw, to_last(rw, x), out.shape));
  return true;
}

// The two rules below are for cores that turn three axes at once: more are taken apart there, at 5 to 14 cycles per
// element.

// transpose of many axes, the last one staying  ->  two of fewer. One axis goes to where it stays beside the one that
// follows it in the result, and travels with it from there. Patches of 2 x 2 from 16 x 16 x 48 on U85-256: 141 -> 31
// kcycles, and 356 -> 25 back.
bool peel_transpose(Rewriter& rw, const Node& n) {
  if (!facts_of(rw).fuses_transposes || !only_moves(rw, n)) return false;
  auto [shape, perm] = fewest_dims(rw.type(n.inputs[0]).shape, n.ints(Key::Perm));
  const auto last = static_cast<int64_t>(perm.size()) - 1;
  if (perm.size() < 5 || perm.back() != last) return false;
  const int64_t peeled = std::min_element(shape.begin(), shape.end() - 1) - shape.begin();  // the fewest slices
  const int64_t next = *(std::find(perm.begin(), perm.end(), peeled) + 1);
  Ints first;
  for (int64_t axis = 0; axis <= last; ++axis) {
    if (axis == next) first.push_back(peeled);
    if (axis != peeled) first.push_back(axis);
  }
  Ints second;
  for (int64_t axis : perm) second.push_back(std::find(first.begin(), first.end(), axis) - first.begin());
  ValueId x = n.inputs[0];
  Shape from = shape;
  for (const Ints& step : {first, second}) {
    auto [fewest, order] = fewest_dims(from, step);
    x = transpose(rw, reshape(rw, x, fewest), order);
    from = permuted(from, step);
  }
  rw.replace(n, reshape(rw, x, rw.type(n.outputs[0]).shape));
  return true;
}

// transpose [X,A,B,Z] -> [X,B,A,Z]  ->  slices along the smaller of A and B, side by side where that axis goes. Windows
// of 7 x 7 from 28 x 28 x 192 on U85-256: 2,940 -> 265 kcycles; 4 heads of 12 from 4 x 64 x 48: 59 -> 17.
bool swap_by_slices(Rewriter& rw, const Node& n) {
  constexpr int64_t kMostSlices = 32, kLeastRun = 8;
  if (!facts_of(rw).fuses_transposes || !only_moves(rw, n)) return false;
  auto [shape, perm] = fewest_dims(rw.type(n.inputs[0]).shape, n.ints(Key::Perm));
  if (perm != Ints{0, 2, 1, 3} || shape[3] < kLeastRun) return false;
  const int64_t from = shape[1] <= shape[2] ? 1 : 2, to = 3 - from;
  const int64_t count = shape[static_cast<size_t>(from)];
  if (count > kMostSlices || *std::max_element(shape.begin(), shape.end()) > facts_of(rw).max_axis) return false;
  Shape part = permuted(shape, perm);
  part[static_cast<size_t>(to)] = 1;
  ValueId x = reshape(rw, n.inputs[0], shape);
  std::vector<ValueId> parts;
  for (int64_t i = 0; i < count; ++i) parts.push_back(reshape(rw, slice(rw, x, from, i, i + 1), part));
  rw.replace(n, reshape(rw, concat(rw, std::move(parts), to), rw.type(n.outputs[0]).shape));
  return true;
}

// Which axis to cut, and into how many pieces, so that no axis is too long for a core that turns them one by one: of
// more than three it joins some on the way.
struct Cut {
  size_t axis = 0;
  int64_t pieces = 1;
};
Cut cut_of(const Shape& shape, int64_t most) {
  const auto longest = static_cast<size_t>(std::max_element(shape.begin(), shape.end()) - shape.begin());
  if (shape[longest] > most) return {longest, (shape[longest] + most - 1) / most};
  if (shape.size() < 4) return {};
  Shape sorted = shape;
  std::sort(sorted.begin(), sorted.end());
  if (element_count(shape) / sorted[0] / sorted[1] <= most) return {};
  return {static_cast<size_t>(std::min_element(shape.begin(), shape.end()) - shape.begin()), sorted[0]};
}

// transpose with an axis of more than 65536, as it is or joined  ->  transposes of slices, side by side. regor throws
// at it on the cores that have no transposes of their own.
bool cut_long_transpose(Rewriter& rw, const Node& n) {
  constexpr int64_t kMostPieces = 64;  // each is a copy of its own
  const NpuFacts& facts = facts_of(rw);
  if (facts.fuses_transposes || !only_moves(rw, n)) return false;
  auto [shape, perm] = fewest_dims(rw.type(n.inputs[0]).shape, n.ints(Key::Perm));
  if (perm.size() < 2) return false;
  const auto [axis, pieces] = cut_of(shape, facts.max_axis);
  if (pieces == 1 || pieces > kMostPieces) return false;
  const auto from = static_cast<int64_t>(axis);
  const int64_t to = std::find(perm.begin(), perm.end(), from) - perm.begin();
  const int64_t length = shape[axis], piece = (length + pieces - 1) / pieces;
  ValueId x = reshape(rw, n.inputs[0], shape);
  std::vector<ValueId> parts;
  for (int64_t at = 0; at < length; at += piece)
    parts.push_back(transpose(rw, slice(rw, x, from, at, std::min(at + piece, length)), perm));
  rw.replace(n, reshape(rw, concat(rw, std::move(parts), to), rw.type(n.outputs[0]).shape));
  return true;
}

}  // namespace

std::span<const Rule> turn_rules() {
  static const Rule kRules[] = {
      {"turn-planes-by-conv", {Op::Transpose}, turn_planes_by_conv},
      {"fetch-by-bricks", {Op::Conv}, fetch_by_bricks},
      {"fetch-before-slices", {Op::Concat}, fetch_before_slices},
      {"square-planes", {Op::Transpose}, square_planes},
      {"cut-channels", {Op::Transpose}, cut_channels},
      {"peel-transpose", {Op::Transpose}, peel_transpose},
      {"swap-by-slices", {Op::Transpose}, swap_by_slices},
      {"cut-long-transpose", {Op::Transpose}, cut_long_transpose},
  };
  return kRules;
}

}  // namespace swoop
