#include <algorithm>
#include <cmath>
#include <numeric>

#include "clean/clean.h"
#include "clean/floats.h"

namespace swoop {

namespace {

// batch_norm(x) that found no layer to fold into  ->  depthwise 1x1 conv: one rounding, and one multiplication per
// element
bool batch_norm_to_conv(Rewriter& rw, const Node& n) {
  const Shape shape = rw.type(n.inputs[0]).shape;
  if (!plain_floats(rw, n) || shape.size() > 5) return false;
  std::optional<Affine> affine = batch_norm_affine(rw.graph(), n);
  if (!affine) return false;
  std::vector<float> gain(affine->gain.begin(), affine->gain.end());
  std::vector<float> offset(affine->offset.begin(), affine->offset.end());
  int64_t channels = shape[1];
  size_t spatial = std::max<size_t>(1, shape.size() - 2);
  ValueId x = n.inputs[0];
  if (shape.size() == 2) x = rw.make(Op::Reshape, {x}, {{Key::Shape, Ints{shape[0], channels, 1}}});
  Shape kernel(spatial + 2, 1);
  kernel[0] = channels;
  Attrs attrs{{Key::Stride, Ints(spatial, 1)},
              {Key::Padding, Ints(2 * spatial, 0)},
              {Key::Dilation, Ints(spatial, 1)},
              {Key::Groups, channels}};
  ValueId result = rw.make(Op::Conv,
                           {x, float_constant(rw, kernel, gain, n.name + "_gain"),
                            float_constant(rw, {channels}, offset, n.name + "_offset")},
                           attrs);
  if (shape.size() == 2) result = rw.make(Op::Reshape, {result}, {{Key::Shape, Ints(shape)}});
  rw.replace(n, result);
  return true;
}

// div(x, constant)  ->  mul(x, 1 / constant)
bool divide_by_multiplying(Rewriter& rw, const Node& n) {
  if (!plain_floats(rw, n) || n.has(Key::Mode) || !is_float_constant(rw, n.inputs[1])) return false;
  Tensor divisor = to_tensor(rw.value(n.inputs[1]));
  for (float& x : divisor.as<float>()) {
    x = 1.0f / x;
    if (!std::isfinite(x)) return false;
  }
  ValueId inverse = float_constant(rw, divisor.shape, divisor.as<float>(), rw.value(n.inputs[1]).name + "_inverse");
  rw.replace(n, rw.make(Op::Mul, {n.inputs[0], inverse}, n.attrs, rw.type(n.outputs[0])));
  return true;
}

// The matrix that operand i of a matmul is, and the other one at least: leading ones say nothing. Empty: it is none.
Shape matrix_shape(const Rewriter& rw, const Node& n, size_t i) {
  Shape shape = rw.type(n.inputs[i]).shape;
  if (rw.type(n.inputs[1 - i]).rank() < std::max<int>(2, static_cast<int>(shape.size()))) return {};
  while (shape.size() > 2 && shape[0] == 1) shape.erase(shape.begin());
  return shape.size() == 2 ? shape : Shape{};
}

// matmul(x, constant matrix)  ->  linear(x, transposed constant): weights get a scale per output channel
bool matmul_to_linear(Rewriter& rw, const Node& n) {
  if (!plain_floats(rw, n) || !is_float_constant(rw, n.inputs[1]) || rw.value(n.inputs[0]).constant) return false;
  const Shape shape = matrix_shape(rw, n, 1);
  if (shape.empty()) return false;
  Tensor matrix = to_tensor(rw.value(n.inputs[1]));
  std::span<const float> from = matrix.as<float>();
  std::vector<float> turned(from.size());
  auto rows = static_cast<size_t>(shape[0]);
  auto columns = static_cast<size_t>(shape[1]);
  for (size_t r = 0; r < rows; ++r)
    for (size_t c = 0; c < columns; ++c) turned[c * rows + r] = from[r * columns + c];
  ValueId weight = float_constant(rw, {shape[1], shape[0]}, turned, rw.value(n.inputs[1]).name + "_t");
  rw.replace(n, rw.make(Op::Linear, {n.inputs[0], weight, kNone}, n.attrs, rw.type(n.outputs[0])));
  return true;
}

// matmul(constant matrix, x)  ->  transpose(linear(transpose(x), constant)): a filter bank in front of a spectrum is a
// layer with weights. 40 x 201 on 98 columns: 3,165 -> 25 kcycles on U55-128, 28 -> 22 on U85-256.
bool left_matmul_to_linear(Rewriter& rw, const Node& n) {
  if (!plain_floats(rw, n) || !is_float_constant(rw, n.inputs[0]) || rw.value(n.inputs[1]).constant) return false;
  const Shape shape = matrix_shape(rw, n, 0);
  if (shape.empty()) return false;
  Tensor matrix = to_tensor(rw.value(n.inputs[0]));
  ValueId weight = float_constant(rw, shape, matrix.as<float>(), rw.value(n.inputs[0]).name);
  Ints swap(static_cast<size_t>(rw.type(n.inputs[1]).rank()));
  std::iota(swap.begin(), swap.end(), 0);
  std::swap(swap[swap.size() - 1], swap[swap.size() - 2]);
  ValueId columns = rw.make(Op::Transpose, {n.inputs[1]}, {{Key::Perm, swap}});
  ValueId product = rw.make(Op::Linear, {columns, weight, kNone}, n.attrs);
  rw.replace(n, rw.make(Op::Transpose, {product}, {{Key::Perm, swap}}));
  return true;
}

// matmul(x, the same constant matrix B times)  ->  matmul(x, that matrix): a linear layer on a value that is not
// contiguous, as recurrent layers with a batch have it, is exported as such a product
bool share_constant_matrix(Rewriter& rw, const Node& n) {
  const Shape b = rw.type(n.inputs[1]).shape;
  if (!plain_floats(rw, n) || !is_float_constant(rw, n.inputs[1]) || b.size() != 3 || b[0] < 2) return false;
  if (rw.type(n.inputs[0]).rank() != 3 || rw.type(n.inputs[0]).shape[0] != b[0]) return false;
  Tensor matrices = to_tensor(rw.value(n.inputs[1]));
  const std::span<const float> all = matrices.as<float>();
  const auto size = static_cast<size_t>(b[1] * b[2]);
  if (!std::equal(all.begin() + static_cast<std::ptrdiff_t>(size), all.end(), all.begin())) return false;
  rw.set_input(n, 1, float_constant(rw, {b[1], b[2]}, all.first(size), rw.value(n.inputs[1]).name));
  return true;
}

// matmul(x[B,M,K], constant[B,K,N])  ->  matmuls with one constant matrix each, side by side, which become linear
// layers. 6 matrices of 64 x 6 with 108 rows each: 319 -> 32 kcycles on U55-128.
bool split_constant_matmul(Rewriter& rw, const Node& n) {
  constexpr int64_t kMostMatrices = 32;
  const Type x = rw.type(n.inputs[0]), out = rw.type(n.outputs[0]);
  const Shape b = rw.type(n.inputs[1]).shape;
  if (!plain_floats(rw, n) || !is_float_constant(rw, n.inputs[1]) || rw.value(n.inputs[0]).constant) return false;
  if (b.size() != 3 || x.rank() != 3 || x.shape[0] != b[0] || b[0] < 2 || b[0] > kMostMatrices) return false;
  Tensor matrices = to_tensor(rw.value(n.inputs[1]));
  const auto size = static_cast<size_t>(b[1] * b[2]);
  std::vector<ValueId> parts;
  for (int64_t i = 0; i < b[0]; ++i) {
    Attrs one{{Key::Axis, int64_t{0}}, {Key::Start, i}, {Key::End, i + 1}, {Key::Step, int64_t{1}}};
    ValueId matrix = float_constant(rw, {b[1], b[2]}, matrices.as<float>().subspan(static_cast<size_t>(i) * size, size),
                                    fmt::format("{}_{}", rw.value(n.inputs[1]).name, i));
    parts.push_back(rw.make(Op::MatMul, {rw.make(Op::Slice, {n.inputs[0]}, one), matrix}, n.attrs));
  }
  rw.replace(n, rw.make(Op::Concat, parts, {{Key::Axis, int64_t{0}}}));
  return true;
}

// The exponent of each index along `axis` of the result, when the constant differs along that axis alone
std::optional<std::vector<float>> exponents_along(const Tensor& constant, size_t rank, size_t axis) {
  const size_t offset = rank - constant.shape.size();  // broadcast: the last axes are aligned
  for (size_t d = 0; d < constant.shape.size(); ++d)
    if (constant.shape[d] != 1 && offset + d != axis) return std::nullopt;
  std::span<const float> numbers = constant.as<float>();
  return std::vector<float>(numbers.begin(), numbers.end());
}

// pow(x, constants along one axis)  ->  a function of one value for each run of equal exponents, side by side: the
// learned compression of a spectrum's channels (PCEN) becomes tables
bool split_powers(Rewriter& rw, const Node& n) {
  constexpr size_t kMostParts = 64;
  const Type x = rw.type(n.inputs[0]), out = rw.type(n.outputs[0]);
  if (!plain_floats(rw, n) || !is_float_constant(rw, n.inputs[1]) || x.shape != out.shape) return false;
  Tensor constant = to_tensor(rw.value(n.inputs[1]));
  if (constant.as<float>().size() < 2 || constant.shape.size() > out.shape.size()) return false;
  for (size_t axis = 0; axis < out.shape.size(); ++axis) {
    auto exponents = exponents_along(constant, out.shape.size(), axis);
    if (!exponents) continue;
    std::vector<size_t> starts;
    for (size_t i = 0; i < exponents->size(); ++i)
      if (i == 0 || (*exponents)[i] != (*exponents)[i - 1]) starts.push_back(i);
    if (starts.size() > kMostParts) return false;
    std::vector<ValueId> parts;
    for (size_t i = 0; i < starts.size(); ++i) {
      const size_t end = i + 1 < starts.size() ? starts[i + 1] : exponents->size();
      Attrs run{{Key::Axis, static_cast<int64_t>(axis)},
                {Key::Start, static_cast<int64_t>(starts[i])},
                {Key::End, static_cast<int64_t>(end)},
                {Key::Step, int64_t{1}}};
      ValueId part = starts.size() == 1 ? n.inputs[0] : rw.make(Op::Slice, {n.inputs[0]}, run);
      Attrs power{{Key::Fn, std::string("pow")}, {Key::Alpha, double{(*exponents)[starts[i]]}}};
      parts.push_back(rw.make(Op::Unary, {part}, power));
    }
    rw.replace(n, parts.size() == 1 ? parts[0] : rw.make(Op::Concat, parts, {{Key::Axis, static_cast<int64_t>(axis)}}));
    return true;
  }
  return false;
}

// attention with a mask of 0 and minus infinity (or a number meant as such)  ->  with a boolean mask
bool mask_to_booleans(Rewriter& rw, const Node& n) {
  if (!plain_floats(rw, n) || n.inputs.size() < 4 || !is_float_constant(rw, n.inputs[3])) return false;
  Tensor mask = to_tensor(rw.value(n.inputs[3]));
  Buffer allowed;
  for (float x : mask.as<float>()) {
    if (x != 0.0f && !(x <= 2 * kMaskedBelow)) return false;
    allowed.push_back(std::byte{x == 0.0f});
  }
  rw.set_input(n, 3,
               rw.constant({DType::Bool, mask.shape, {}}, std::move(allowed), rw.value(n.inputs[3]).name + "_allowed"));
  return true;
}

const Rule kPrepareRules[] = {
    {"batch-norm-to-conv", {Op::BatchNorm}, batch_norm_to_conv},
    {"divide-by-multiplying", {Op::Div}, divide_by_multiplying},
    {"matmul-to-linear", {Op::MatMul}, matmul_to_linear},
    {"left-matmul-to-linear", {Op::MatMul}, left_matmul_to_linear},
    {"share-constant-matrix", {Op::MatMul}, share_constant_matrix},
    {"split-constant-matmul", {Op::MatMul}, split_constant_matmul},
    {"split-powers", {Op::Pow}, split_powers},
    {"mask-to-booleans", {Op::Attention}, mask_to_booleans},
};

}  // namespace

std::span<const Rule> prepare_rules() { return kPrepareRules; }

}  // namespace swoop
