// Channel shuffles: reshape(transpose(reshape(x))) that swaps groups of channels, whole or a slice of it. Channels
// last, a transposition of the innermost axes costs up to 25 cycles per element on U85; a convolution can pick channels
// as it reads them.
#include <algorithm>
#include <numeric>

#include "legalize/kernel.h"

namespace swoop {

namespace {

struct Shuffle {
  ValueId x;
  std::vector<int64_t> source;  // channel i of the result is channel source[i] of x
};

std::optional<Shuffle> shuffle_of(Rewriter& rw, ValueId result) {
  const Node* top = rw.graph().producer(result);
  if (!top) return std::nullopt;
  if (top->op == Op::Slice) {
    if (top->integer(Key::Axis) != 1 || top->integer(Key::Step) != 1) return std::nullopt;
    std::optional<Shuffle> whole = shuffle_of(rw, top->inputs[0]);
    if (!whole) return std::nullopt;
    whole->source = {whole->source.begin() + top->integer(Key::Start), whole->source.begin() + top->integer(Key::End)};
    return whole;
  }
  const Node* turn = top->op == Op::Reshape ? rw.producer(*top, 0, Op::Transpose) : nullptr;
  const Node* split = turn ? rw.producer(*turn, 0, Op::Reshape) : nullptr;
  if (!split) return std::nullopt;
  const Type& type = rw.type(split->inputs[0]);
  const Shape& parts = rw.type(split->outputs[0]).shape;
  if (type != rw.type(result) || !type.quantized() || type.quant->per_channel() || type.rank() < 3) return std::nullopt;
  bool grouped = type.dtype == DType::I8 && parts.size() == type.shape.size() + 1 && parts[0] == type.shape[0] &&
                 parts[1] * parts[2] == type.shape[1] &&
                 std::equal(parts.begin() + 3, parts.end(), type.shape.begin() + 2);
  if (!grouped) return std::nullopt;
  Ints swapped(parts.size());
  std::iota(swapped.begin(), swapped.end(), 0);
  std::swap(swapped[1], swapped[2]);
  if (turn->ints(Key::Perm) != swapped) return std::nullopt;
  Shuffle shuffle{split->inputs[0], {}};
  for (int64_t i = 0; i < parts[2]; ++i)
    for (int64_t group = 0; group < parts[1]; ++group) shuffle.source.push_back(group * parts[2] + i);
  return shuffle;
}

bool is_plain_conv(const Rewriter& rw, const Node& n) {
  return n.op == Op::Conv && n.integer(Key::Groups) == 1 && !n.flag(Key::ChannelsLast) &&
         rw.type(n.inputs[1]).rank() == 4 && rw.value(n.inputs[1]).constant;
}

// conv(shuffle(x))  ->  conv(x) with its weights in x's order, zeros for channels that are not picked
bool shuffle_in_weights(Rewriter& rw, const Node& n) {
  std::optional<Shuffle> shuffle = is_plain_conv(rw, n) ? shuffle_of(rw, n.inputs[0]) : std::nullopt;
  std::optional<Kernel> kernel = shuffle ? kernel_of(rw, n) : std::nullopt;
  if (!kernel) return false;
  Kernel wide(kernel->outputs, kernel->height, kernel->width, rw.type(shuffle->x).shape[1], kernel->type);
  for (int64_t o = 0; o < kernel->outputs; ++o)
    for (int64_t y = 0; y < kernel->height; ++y)
      for (int64_t x = 0; x < kernel->width; ++x)
        for (int64_t i = 0; i < kernel->inputs; ++i)
          wide.at(o, y, x, shuffle->source[static_cast<size_t>(i)]) = kernel->at(o, y, x, i);
  ValueId weight = weights_first(rw, wide, rw.value(n.inputs[1]).name);
  rw.set_input(n, 0, shuffle->x);
  rw.set_input(n, 1, weight);
  return true;
}

// shuffle(x), or a slice of it, that others read than such convolutions  ->  a 1x1 conv that picks its channels
bool shuffle_by_conv(Rewriter& rw, const Node& n) {
  constexpr int64_t kMostChannels = 512;  // the weights have the square of it, nearly all zero
  std::optional<Shuffle> shuffle = shuffle_of(rw, n.outputs[0]);
  if (!shuffle) return false;
  bool needed = false;
  for (const Use& use : rw.value(n.outputs[0]).uses) {
    const Node* user = use.node == kNone ? nullptr : &rw.graph().node(use.node);
    bool sliced = user && user->op == Op::Slice && user->integer(Key::Axis) == 1 && user->integer(Key::Step) == 1;
    needed |= !sliced && !(user && is_plain_conv(rw, *user));
  }
  const Type out = rw.type(n.outputs[0]);
  int64_t channels = rw.type(shuffle->x).shape[1];
  if (!needed || channels > kMostChannels) return false;
  Shape shape(out.shape.size(), 1);
  shape[0] = out.shape[1];
  shape[1] = channels;
  std::vector<int64_t> picks(static_cast<size_t>(shape[0] * shape[1]), 0);
  for (size_t i = 0; i < shuffle->source.size(); ++i)
    picks[i * static_cast<size_t>(channels) + static_cast<size_t>(shuffle->source[i])] = 1;
  ValueId weight = codes(rw, quantized(DType::I8, shape, 1.0, 0), picks, "shuffle");
  Ints ones(out.shape.size() - 2, 1);
  Attrs attrs{
      {Key::Stride, ones}, {Key::Padding, Ints(2 * ones.size(), 0)}, {Key::Dilation, ones}, {Key::Groups, int64_t{1}}};
  rw.replace(n, rw.make(Op::Conv, {shuffle->x, weight, kNone}, attrs, out));
  return true;
}

// An image whose pixels come from groups of channels, [N, C * rows * columns, H, W] -> [N, C, H * rows, W * columns].
struct PixelShuffle {
  ValueId x;
  int64_t channels, rows, columns;
};

std::optional<PixelShuffle> pixel_shuffle_of(const Rewriter& rw, const Node& n) {
  const Node* turn = rw.producer(n, 0, Op::Transpose);
  const Node* split = turn ? rw.producer(*turn, 0, Op::Reshape) : nullptr;
  if (!split || turn->ints(Key::Perm) != Ints{0, 1, 4, 2, 5, 3}) return std::nullopt;
  const Shape &in = rw.type(split->inputs[0]).shape, &parts = rw.type(split->outputs[0]).shape;
  const Shape& out = rw.type(n.outputs[0]).shape;
  const bool images = in.size() == 4 && in[0] == parts[0] && in[2] == parts[4] && in[3] == parts[5];
  if (!images || out != Shape{in[0], parts[1], in[2] * parts[2], in[3] * parts[3]}) return std::nullopt;
  return PixelShuffle{split->inputs[0], parts[1], parts[2], parts[3]};
}

constexpr int64_t kMostPicks = 1 << 16;  // weights, nearly all zero
constexpr int64_t kFewPixels = 256;      // whose bytes take less than weights do

// pixel_shuffle(x)  ->  a 1x1 conv for each row of the pixels that one of x becomes, which picks its channels, and the
// rows side by side. 32 channels with four pixels each, 16 x 16, and the convolutions around it: 1,217 -> 186 kcycles
// on U85-256 and 699 -> 401 on U55-128, where transposes are a command per few bytes (file 556 -> 87 KB).
bool pixel_shuffle_by_conv(Rewriter& rw, const Node& n) {
  const Type out = rw.type(n.outputs[0]);
  const std::optional<PixelShuffle> shuffle = pixel_shuffle_of(rw, n);
  if (!shuffle || !computes_on_codes(rw, n) || out.quant->per_channel()) return false;
  const auto& [x, channels, rows, columns] = *shuffle;
  const Type in = rw.type(x);
  const int64_t inputs = in.shape[1], each = columns * channels;
  if (in.quant != out.quant || in.dtype == DType::I32 || rows == 1 || inputs * each > kMostPicks) return false;
  if (element_count(out.shape) < kFewPixels) return false;
  const One one = one_for(out);
  const ValueId last = to_last(rw, x);
  std::vector<ValueId> parts;
  for (int64_t row = 0; row < rows; ++row) {
    Kernel picks(each, 1, 1, inputs, one.weight);
    for (int64_t column = 0; column < columns; ++column)
      for (int64_t c = 0; c < channels; ++c)
        picks.at(column * channels + c, 0, 0, (c * rows + row) * columns + column) = one.code;
    parts.push_back(conv_last(rw, last, weights(rw, picks, "picks"), kNone, {}, out));
  }
  const ValueId pixels = concat(rw, std::move(parts), 2);
  const Shape image{out.shape[0], out.shape[2], out.shape[3], out.shape[1]};
  rw.replace(n, to_first(rw, reshape(rw, pixels, image)));
  return true;
}

// pixel_unshuffle(x), [N, C, H * rows, W * columns] -> [N, C * rows * columns, H, W]  ->  a conv whose steps are as
// wide as its window, which picks the pixels. Before a convolution, 3 x 32 x 32: 135 -> 9 kcycles on U85-256, 37 -> 14
// on U55-128.
bool pixel_unshuffle_by_conv(Rewriter& rw, const Node& n) {
  const Node* turn = rw.producer(n, 0, Op::Transpose);
  const Node* split = turn ? rw.producer(*turn, 0, Op::Reshape) : nullptr;
  if (!split || turn->ints(Key::Perm) != Ints{0, 1, 3, 5, 2, 4} || !computes_on_codes(rw, n)) return false;
  const Type in = rw.type(split->inputs[0]), out = rw.type(n.outputs[0]);
  const Shape parts = rw.type(split->outputs[0]).shape;
  const int64_t channels = parts[1], rows = parts[3], columns = parts[5], picked = channels * rows * columns;
  if (in.shape != Shape{parts[0], channels, parts[2] * rows, parts[4] * columns}) return false;
  if (out.shape != Shape{parts[0], picked, parts[2], parts[4]}) return false;
  if (in.quant != out.quant || in.quant->per_channel() || in.dtype == DType::I32) return false;
  const int64_t most = facts_of(rw).max_stride;
  if (rows > most || columns > most || picked * picked > kMostPicks || element_count(out.shape) < kFewPixels)
    return false;
  const One one = one_for(out);
  Kernel picks(picked, rows, columns, channels, one.weight);
  for (int64_t o = 0; o < picked; ++o) picks.at(o, o / columns % rows, o % columns, o / (rows * columns)) = one.code;
  const Placement steps{{rows, columns}, {0, 0, 0, 0}, 1};
  const ValueId x = to_last(rw, split->inputs[0]);
  rw.replace(n, to_first(rw, conv_last(rw, x, weights(rw, picks, "picks"), kNone, steps, out)));
  return true;
}

// concat of single elements, [..., n, 1] each  ->  concat of rows, [..., n], then a linear layer that puts each element
// in its place: elements that alternate (a rotary embedding's pairs) are copied byte by byte. A rotary embedding of
// 222 x 64 with the linear layer before it: 672 -> 577 kcycles on U55-128, 461 -> 355 on U85-256.
bool interleave_by_conv(Rewriter& rw, const Node& n) {
  constexpr int64_t kMostChannels = 256;  // as above
  constexpr int64_t kChannelsPerRow = 4;  // with fewer rows, the weights take longer than the bytes
  const Type out = rw.type(n.outputs[0]);
  const auto parts = static_cast<int64_t>(n.inputs.size());
  if (!computes_on_codes(rw, n) || out.rank() < 2 || n.integer(Key::Axis) != out.rank() - 1) return false;
  const int64_t length = out.shape[out.shape.size() - 2];
  if (out.shape.back() != parts || parts < 2 || length < 2 || parts * length > kMostChannels) return false;
  for (ValueId input : n.inputs)
    if (rw.type(input).dtype != out.dtype || rw.type(input).quant != out.quant) return false;
  const Shape row(out.shape.begin(), out.shape.end() - 1);
  if (element_count(row) / length * kChannelsPerRow < parts * length) return false;
  std::vector<ValueId> rows;
  for (ValueId input : n.inputs) rows.push_back(reshape(rw, input, row));
  ValueId x = concat(rw, std::move(rows), out.rank() - 2);
  std::vector<int64_t> places(static_cast<size_t>(parts * length * parts * length), 0);
  for (int64_t part = 0; part < parts; ++part)
    for (int64_t i = 0; i < length; ++i)
      places[static_cast<size_t>((i * parts + part) * parts * length + part * length + i)] = 1;
  ValueId weight = codes(rw, quantized(DType::I8, {parts * length, parts * length}, 1.0, 0), places, "places");
  ValueId y = rw.make(Op::Linear, {x, weight, kNone}, {}, with_shape(out, rw.type(x).shape));
  rw.replace(n, reshape(rw, y, out.shape));
  return true;
}

}  // namespace

std::span<const Rule> shuffle_rules() {
  static const Rule kRules[] = {
      {"shuffle-in-weights", {Op::Conv}, shuffle_in_weights},
      {"shuffle-by-conv", {Op::Reshape, Op::Slice}, shuffle_by_conv},
      {"pixel-shuffle-by-conv", {Op::Reshape}, pixel_shuffle_by_conv},
      {"pixel-unshuffle-by-conv", {Op::Reshape}, pixel_unshuffle_by_conv},
      {"interleave-by-conv", {Op::Concat}, interleave_by_conv},
  };
  return kRules;
}

}  // namespace swoop
