// Padding by the data itself, and resizing, in forms that every core takes.
#include <algorithm>
#include <cmath>

#include "legalize/kernel.h"
#include "support/check.h"

namespace swoop {

namespace {

constexpr int64_t kMaxPieces = 512;  // of one concat; more cost too much

// pad(x, reflect | replicate | circular)  ->  slices of x beside x, axis by axis
bool pad_with_slices(Rewriter& rw, const Node& n) {
  std::string mode(n.text(Key::Mode));
  if (mode == "constant" || !on_integers(rw.graph(), n)) return false;
  const Ints padding = n.ints(Key::Padding);
  int64_t pieces = 0;
  for (int64_t p : padding) pieces += std::max<int64_t>(p, 0);
  if (pieces > kMaxPieces) return false;
  ValueId x = n.inputs[0];
  for (size_t i = 0; i < padding.size() / 2; ++i) {
    auto axis = static_cast<int64_t>(i);
    int64_t size = rw.type(x).shape[i], before = padding[2 * i], after = padding[2 * i + 1];
    if (before < 0 || after < 0) return false;
    auto one = [&](int64_t at) { return slice(rw, x, axis, at, at + 1); };
    std::vector<ValueId> parts;
    if (mode == "circular") {
      if (before > 0) parts.push_back(slice(rw, x, axis, size - before, size));
    } else {
      for (int64_t k = before; k > 0; --k) parts.push_back(one(mode == "reflect" ? k : 0));
    }
    parts.push_back(x);
    if (mode == "circular") {
      if (after > 0) parts.push_back(slice(rw, x, axis, 0, after));
    } else {
      for (int64_t k = 1; k <= after; ++k) parts.push_back(one(mode == "reflect" ? size - 1 - k : size - 1));
    }
    x = concat(rw, parts, axis);
  }
  rw.replace(n, x);
  return true;
}

// pad with negative amounts  ->  slices, then a pad
bool crop_pad(Rewriter& rw, const Node& n) {
  Ints padding = n.ints(Key::Padding);
  if (!on_integers(rw.graph(), n) || std::none_of(padding.begin(), padding.end(), [](int64_t p) { return p < 0; }))
    return false;
  ValueId x = n.inputs[0];
  for (size_t i = 0; i < padding.size() / 2; ++i) {
    int64_t size = rw.type(x).shape[i];
    x = slice(rw, x, static_cast<int64_t>(i), std::max<int64_t>(0, -padding[2 * i]),
              size - std::max<int64_t>(0, -padding[2 * i + 1]));
    padding[2 * i] = std::max<int64_t>(0, padding[2 * i]);
    padding[2 * i + 1] = std::max<int64_t>(0, padding[2 * i + 1]);
  }
  Attrs attrs = n.attrs;
  attrs.set(Key::Padding, padding);
  rw.replace(n, rw.make(Op::Pad, {x}, attrs, rw.type(n.outputs[0])));
  return true;
}

bool is_resize(Rewriter& rw, const Node& n, std::string_view mode) {
  return n.text(Key::Mode) == mode && !n.flag(Key::ChannelsLast) && rw.type(n.inputs[0]).rank() == 4 &&
         on_integers(rw.graph(), n);
}

// Whether the sizes alone say how a resize is spaced along an axis: the user gave no factor, or just theirs.
bool spaced_by_size(const Node& n, size_t i, int64_t in, int64_t out) {
  double scale = n.doubles(Key::Scales)[i];
  return scale <= 0 || scale * static_cast<double>(in) == static_cast<double>(out);
}
bool spaced_by_sizes(const Node& n, const Shape& in, const Shape& out) {
  return spaced_by_size(n, 0, in[2], out[2]) && spaced_by_size(n, 1, in[3], out[3]);
}

// Which input position nearest reads for each output, as PyTorch computes it.
std::vector<int64_t> nearest_positions(const Node& n, size_t i, int64_t in, int64_t out) {
  double scale = n.doubles(Key::Scales)[i];
  float ratio = scale > 0 ? static_cast<float>(1.0 / scale) : static_cast<float>(in) / static_cast<float>(out);
  std::vector<int64_t> positions;
  for (int64_t o = 0; o < out; ++o)
    positions.push_back(std::min(static_cast<int64_t>(std::floor(static_cast<float>(o) * ratio)), in - 1));
  return positions;
}

// resize nearest that the core refuses  ->  repeats, for whole factors; rows and columns picked one by one otherwise
bool repeat_nearest(Rewriter& rw, const Node& n) {
  if (!is_resize(rw, n, "nearest")) return false;
  const Type out = rw.type(n.outputs[0]);
  const Shape in = rw.type(n.inputs[0]).shape;
  bool whole = out.shape[2] % in[2] == 0 && out.shape[3] % in[3] == 0 && spaced_by_sizes(n, in, out.shape);
  if (whole && supports(rw.graph(), n, target_of(rw)).ok) return false;
  if (!whole && out.shape[2] + out.shape[3] > kMaxPieces) return false;
  ValueId x = to_last(rw, n.inputs[0]);
  for (size_t i = 2; i-- > 0;) {  // the width first: fewer bytes are repeated along the height
    auto axis = static_cast<int64_t>(1 + i);
    const Shape shape = rw.type(x).shape;
    int64_t from = shape[1 + i], to = out.shape[2 + i];
    const bool spaced = spaced_by_size(n, i, from, to);
    if (from == to && spaced) continue;
    if (to % from == 0 && spaced) {
      int64_t before = element_count(Shape(shape.begin(), shape.begin() + axis + 1));
      int64_t after = element_count(shape) / before;
      x = reshape(rw, x, {1, before, 1, after});
      x = rw.make(Op::Repeat, {x}, {{Key::Multiples, Ints{1, 1, to / from, 1}}});
      Shape wider = shape;
      wider[1 + i] = to;
      x = reshape(rw, x, wider);
      continue;
    }
    std::vector<ValueId> parts;
    for (int64_t at : nearest_positions(n, i, from, to)) parts.push_back(slice(rw, x, axis, at, at + 1));
    x = concat(rw, parts, axis);
  }
  x = to_first(rw, x);
  rw.replace(n, rw.type(x).quant == out.quant ? x : rw.make(Op::Quantize, {x}, {}, out));
  return true;
}

// Whether weights of 8 bits hold the phases of a bilinear resize by whole factors.
bool has_phases(const Node& n, const Shape& in, const Shape& out) {
  if (n.flag(Key::AlignCorners) || !spaced_by_sizes(n, in, out)) return false;
  if (out[2] % in[2] != 0 || out[3] % in[3] != 0) return false;
  return (2 * out[2] / in[2] - 1) * (2 * out[3] / in[3] - 1) <= 127;
}

// resize bilinear by a whole factor f, half-pixel centres, on a core without it  ->  the data with its border repeated,
// a depthwise conv per phase, phases interleaved as for a transposed conv. Weights are multiples of 1/(2f) along each
// axis, exact in 8 bits up to f = 5.
bool bilinear_by_phases(Rewriter& rw, const Node& n) {
  if (!is_resize(rw, n, "bilinear") || facts_of(rw).has_resize) return false;
  const Type out = rw.type(n.outputs[0]);
  const Shape in = rw.type(n.inputs[0]).shape;
  if (!has_phases(n, in, out.shape)) return false;
  std::array<int64_t, 2> factor = {out.shape[2] / in[2], out.shape[3] / in[3]};
  // Taps at -1, 0, 1 of phase r, in units of 1 / 2f: its centre is (2r + 1 - f) / 2f away from that of x[t].
  auto taps = [](int64_t f, int64_t r) {
    int64_t away = 2 * r + 1 - f;
    std::array<int64_t, 3> list = {std::max<int64_t>(0, -away), 2 * f - std::abs(away), std::max<int64_t>(0, away)};
    if (f == 1) list = {0, 2, 0};
    return list;
  };
  int64_t channels = in[1];
  Attrs edge{{Key::Padding, Ints{0, 0, 1, 1, 1, 1, 0, 0}}, {Key::Mode, std::string("replicate")}, {Key::Value, 0.0}};
  ValueId x = rw.make(Op::Pad, {to_last(rw, n.inputs[0])}, edge);
  Type weight = quantized(DType::I8, {channels, 3, 3, 1}, 1.0 / static_cast<double>(4 * factor[0] * factor[1]), 0);
  std::vector<ValueId> rows;
  for (int64_t r = 0; r < factor[0]; ++r) {
    std::vector<ValueId> columns;
    for (int64_t q = 0; q < factor[1]; ++q) {
      std::vector<int64_t> list;
      for (int64_t c = 0; c < channels; ++c)
        for (int64_t y : taps(factor[0], r))
          for (int64_t z : taps(factor[1], q)) list.push_back(y * z);
      columns.push_back(
          conv_last(rw, x, codes(rw, weight, list, "bilinear"), kNone, {{1, 1}, {0, 0, 0, 0}, channels}, out));
    }
    rows.push_back(concat(rw, columns, 3));
  }
  x = reshape(rw, concat(rw, rows, 2), {in[0], out.shape[2], out.shape[3], channels});
  rw.replace(n, to_first(rw, x));
  return true;
}

// What each element of the result takes of each element along an axis, in units of 1/127: the float kernel's answers to
// unit vectors. Each row adds up to 127, so that a plane of one number stays one.
constexpr int64_t kWholeTap = 127;
std::vector<int64_t> shares_of(const Node& n, size_t i, int64_t in, int64_t out) {
  Node line;
  line.op = Op::Resize;
  line.attrs = n.attrs;
  line.attrs.set(Key::Size, Ints{1, out});
  line.attrs.set(Key::Scales, Doubles{0, n.doubles(Key::Scales)[i]});
  Tensor units = make_tensor(DType::F32, {1, in, 1, in}), answers = make_tensor(DType::F32, {1, in, 1, out});
  for (int64_t k = 0; k < in * in; ++k) units.as<float>()[static_cast<size_t>(k)] = k / in == k % in;
  const Tensor* operand = &units;
  Result<void> done = info(Op::Resize).kernel(line, {&operand, 1}, {&answers, 1});
  CHECK(done.has_value(), "a resize of unit vectors fails");
  std::vector<int64_t> shares(static_cast<size_t>(in * out));
  for (int64_t o = 0; o < out; ++o) {
    int64_t* row = shares.data() + o * in;
    int64_t left = kWholeTap;
    for (int64_t k = 0; k < in; ++k) {
      row[k] = std::lround(answers.as<float>()[static_cast<size_t>(k * out + o)] * kWholeTap);
      left -= row[k];
    }
    *std::max_element(row, row + in) += left;
  }
  return shares;
}

// resize bilinear that the core has not, by any other factor  ->  a linear layer along each axis
bool bilinear_by_products(Rewriter& rw, const Node& n) {
  if (!is_resize(rw, n, "bilinear")) return false;
  const Type from = rw.type(n.inputs[0]), out = rw.type(n.outputs[0]);
  if (facts_of(rw).has_resize ? spaced_by_sizes(n, from.shape, out.shape) : has_phases(n, from.shape, out.shape))
    return false;
  constexpr int64_t kMostWeights = 1 << 20;
  for (size_t i = 2; i < 4; ++i)
    if (from.shape[i] * out.shape[i] > kMostWeights) return false;
  ValueId x = n.inputs[0];
  for (size_t i = 2; i-- > 0;) {  // the width first, then the height in its place
    int64_t in = from.shape[2 + i], to = out.shape[2 + i];
    Type weight = quantized(DType::I8, {to, in}, 1.0 / kWholeTap, 0);
    Shape shape = rw.type(x).shape;
    shape.back() = to;
    ValueId shares = codes(rw, weight, shares_of(n, i, in, to), "shares");
    x = rw.make(Op::Linear, {x, shares, kNone}, {}, with_shape(i == 1 ? mean_between(from) : out, shape));
    x = transpose(rw, x, {0, 1, 3, 2});
  }
  rw.replace(n, x);
  return true;
}

}  // namespace

std::span<const Rule> resample_rules() {
  constexpr ErrorBound kShares = {0, 4e-3};  // the shares of neighbours have 8 bits
  static const Rule kRules[] = {
      {"crop-pad", {Op::Pad}, crop_pad},
      {"pad-with-slices", {Op::Pad}, pad_with_slices},
      {"repeat-nearest", {Op::Resize}, repeat_nearest},
      {"bilinear-by-phases", {Op::Resize}, bilinear_by_phases, kShares},
      {"bilinear-by-products", {Op::Resize}, bilinear_by_products, kShares},
  };
  return kRules;
}

}  // namespace swoop
