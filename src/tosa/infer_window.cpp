// Rules of the operators that slide a window, and of MATMUL.
#include <algorithm>

#include "support/check.h"
#include "tosa/infer.h"

namespace swoop::tosa {

namespace {

// TOSA 1.0, level 8K.
constexpr int64_t kMaxKernel = 8192;
constexpr int64_t kMaxStride = 8192;
constexpr int64_t kMaxScale = 256;

// How many windows fit; the specification wants them to fit exactly.
Result<int32_t> window_count(const Operands& x, std::string_view axis, int64_t room, int32_t stride) {
  if (room < 0) return x.fail("the kernel is larger than the padded input along {}", axis);
  if (room % stride != 0) {
    return x.fail(
        "windows do not fit exactly along {}: {} is not a multiple of stride {} (reduce the padding or slice the "
        "input)",
        axis, room, stride);
  }
  return static_cast<int32_t>(room / stride + 1);
}

// Types and zero points common to all convolutions; gives the type of the result.
Result<DType> check_convolution(const Operands& x, int rank, int32_t channels_out) {
  TRY(x.need_type(0, {DType::I8, DType::I16}));
  TRY(x.need_type(1, {DType::I8, DType::I4}));
  TRY(x.need_rank(0, rank, rank));
  DType input = x.in(0).dtype;
  DType weight = x.in(1).dtype;
  if (input == DType::I16 && weight == DType::I4) return x.fail("i16 activations need i8 weights, not i4");
  DType result = input == DType::I8 ? DType::I32 : DType::I48;
  TRY(x.need_type(2, {result}));
  TRY(x.need_rank(2, 1, 1));
  if (x.in(2).shape[0] != channels_out && x.in(2).shape[0] != 1)
    return x.fail("bias '{}' has {} values for {} channels", x.in(2).name, x.in(2).shape[0], channels_out);
  TRY_ASSIGN(int64_t input_zp, x.zero_point(3, input));
  TRY_ASSIGN(int64_t weight_zp, x.zero_point(4, weight));
  if (input != DType::I8 && input_zp != 0)
    return x.fail("the zero point of i16 activations is {}; it must be 0", input_zp);
  if (weight != DType::I8 && weight_zp != 0)
    return x.fail("the zero point of i4 weights is {}; it must be 0", weight_zp);
  return result;
}

// CONV2D and CONV3D: weight [OC, spatial..., IC].
Result<Types> infer_conv(const Operands& x, std::span<const int32_t> pad, std::span<const int32_t> stride,
                         std::span<const int32_t> dilation) {
  size_t spatial = stride.size();
  TRY(x.need_rank(1, static_cast<int>(spatial) + 2, static_cast<int>(spatial) + 2));
  const Shape& weight = x.in(1).shape;
  TRY_ASSIGN(DType result, check_convolution(x, static_cast<int>(spatial) + 2, weight[0]));
  const Shape& input = x.in(0).shape;
  if (input.back() != weight.back())
    return x.fail("'{}' has {} channels and its weight '{}' {}", x.in(0).name, input.back(), x.in(1).name,
                  weight.back());
  TRY(x.need_limits("padding", pad, 0, kMaxKernel));
  TRY(x.need_limits("stride", stride, 1, kMaxStride));
  TRY(x.need_limits("dilation", dilation, 1, kMaxKernel));
  constexpr std::array<std::string_view, 3> kAxes{"depth", "height", "width"};
  Shape shape{input[0]};
  for (size_t d = 0; d < spatial; ++d) {
    if (int64_t{dilation[d]} * weight[d + 1] > kMaxKernel)
      return x.fail("dilation times kernel is over {}", kMaxKernel);
    int64_t room = int64_t{input[d + 1]} - 1 + pad[2 * d] + pad[2 * d + 1] - (int64_t{weight[d + 1]} - 1) * dilation[d];
    TRY_ASSIGN(int32_t count, window_count(x, kAxes[d + 3 - spatial], room, stride[d]));
    shape.push_back(count);
  }
  shape.push_back(weight[0]);
  return Types{{result, std::move(shape)}};
}

Result<Types> infer_depthwise(const Operands& x) {
  const auto& a = x.attributes<Conv2dAttributes>();
  TRY(x.need_rank(1, 4, 4));
  const Shape& weight = x.in(1).shape;
  int64_t channels_out = int64_t{weight[2]} * weight[3];
  if (channels_out > INT32_MAX) return x.fail("the weight's shape {} is too large", text(weight));
  TRY_ASSIGN(DType result, check_convolution(x, 4, static_cast<int32_t>(channels_out)));
  const Shape& input = x.in(0).shape;
  if (input[3] != weight[2])
    return x.fail("'{}' has {} channels and its weight '{}' {}", x.in(0).name, input[3], x.in(1).name, weight[2]);
  TRY(x.need_limits("padding", a.pad, 0, kMaxKernel));
  TRY(x.need_limits("stride", a.stride, 1, kMaxStride));
  TRY(x.need_limits("dilation", a.dilation, 1, kMaxKernel));
  Shape shape{input[0]};
  for (size_t d = 0; d < 2; ++d) {
    if (int64_t{a.dilation[d]} * weight[d] > kMaxKernel) return x.fail("dilation times kernel is over {}", kMaxKernel);
    int64_t room =
        int64_t{input[d + 1]} - 1 + a.pad[2 * d] + a.pad[2 * d + 1] - (int64_t{weight[d]} - 1) * a.dilation[d];
    TRY_ASSIGN(int32_t count, window_count(x, d == 0 ? "height" : "width", room, a.stride[d]));
    shape.push_back(count);
  }
  shape.push_back(static_cast<int32_t>(channels_out));
  return Types{{result, std::move(shape)}};
}

Result<Types> infer_transpose_conv(const Operands& x) {
  const auto& a = x.attributes<TransposeConv2dAttributes>();
  TRY(x.need_rank(1, 4, 4));
  const Shape& weight = x.in(1).shape;
  TRY_ASSIGN(DType result, check_convolution(x, 4, weight[0]));
  const Shape& input = x.in(0).shape;
  if (input[3] != weight[3])
    return x.fail("'{}' has {} channels and its weight '{}' {}", x.in(0).name, input[3], x.in(1).name, weight[3]);
  TRY(x.need_limits("stride", a.stride, 1, kMaxStride));
  Shape shape{input[0]};
  for (size_t d = 0; d < 2; ++d) {
    if (weight[d + 1] > kMaxKernel) return x.fail("the kernel is over {}", kMaxKernel);
    TRY(x.need_limits("output padding", std::span(a.out_pad).subspan(2 * d, 2), 1 - int64_t{weight[d + 1]},
                      kMaxKernel));
    int64_t size = (int64_t{input[d + 1]} - 1) * a.stride[d] + a.out_pad[2 * d] + a.out_pad[2 * d + 1] + weight[d + 1];
    if (size < 1 || size > INT32_MAX) return x.fail("the result would have {} rows or columns", size);
    shape.push_back(static_cast<int32_t>(size));
  }
  shape.push_back(weight[0]);
  return Types{{result, std::move(shape)}};
}

Result<Types> infer_pool(const Operands& x) {
  const auto& a = x.attributes<PoolAttributes>();
  TRY(x.need_type(0, {DType::I8, DType::I16}));
  TRY(x.need_rank(0, 4, 4));
  if (x.op.op == Op::AvgPool2d) {
    for (size_t i : {1, 2}) {
      TRY_ASSIGN(int64_t zp, x.zero_point(i, x.in(0).dtype));
      if (x.in(0).dtype != DType::I8 && zp != 0) return x.fail("the zero point of i16 is {}; it must be 0", zp);
    }
  }
  TRY(x.need_limits("kernel", a.kernel, 1, kMaxKernel));
  TRY(x.need_limits("stride", a.stride, 1, kMaxStride));
  const Shape& input = x.in(0).shape;
  Shape shape{input[0]};
  for (size_t d = 0; d < 2; ++d) {
    TRY(x.need_limits("padding", std::span(a.pad).subspan(2 * d, 2), 0, int64_t{a.kernel[d]} - 1));
    int64_t room = int64_t{input[d + 1]} + a.pad[2 * d] + a.pad[2 * d + 1] - a.kernel[d];
    TRY_ASSIGN(int32_t count, window_count(x, d == 0 ? "height" : "width", room, a.stride[d]));
    shape.push_back(count);
  }
  shape.push_back(input[3]);
  return Types{{x.in(0).dtype, std::move(shape)}};
}

Result<Types> infer_resize(const Operands& x) {
  const auto& a = x.attributes<ResizeAttributes>();
  TRY(x.need_type(0, {DType::I8, DType::I16}));
  TRY(x.need_rank(0, 4, 4));
  const Shape& input = x.in(0).shape;
  Shape shape{input[0]};
  for (size_t d = 0; d < 2; ++d) {
    int64_t n = a.scale[2 * d];
    int64_t m = a.scale[2 * d + 1];
    if (n <= 0 || m <= 0 || n > (1 << 11) || m >= 16 * n || n > kMaxScale * m)
      return x.fail("the scale {}/{} is outside what TOSA allows", n, m);
    if (a.offset[d] < -n || a.offset[d] >= 16 * n)
      return x.fail("the offset {} is outside [{}, {})", a.offset[d], -n, 16 * n);
    if (a.border[d] < -16 * n || a.border[d] >= n)
      return x.fail("the border {} is outside [{}, {})", a.border[d], -16 * n, n);
    int64_t room = (int64_t{input[d + 1]} - 1) * n - a.offset[d] + a.border[d];
    if (room < 0 || room % m != 0) return x.fail("the output size is not whole: {} is not a multiple of {}", room, m);
    int64_t size = room / m + 1;
    if (size >= 16384 || input[d + 1] >= 16384) return x.fail("a side is 16384 or larger");
    shape.push_back(static_cast<int32_t>(size));
  }
  shape.push_back(input[3]);
  DType result = x.in(0).dtype;
  if (a.mode == ResizeMode::Bilinear) result = result == DType::I8 ? DType::I32 : DType::I48;
  return Types{{result, std::move(shape)}};
}

Result<Types> infer_matmul(const Operands& x) {
  TRY(x.need_type(0, {DType::I8, DType::I16}));
  TRY(x.need_type(1, {x.in(0).dtype}));
  TRY(x.need_rank(0, 3, 3));
  TRY(x.need_rank(1, 3, 3));
  const Shape& a = x.in(0).shape;
  const Shape& b = x.in(1).shape;
  if (a[0] != b[0] || a[2] != b[1]) return x.fail("{} and {} cannot be multiplied", text(a), text(b));
  for (size_t i : {2, 3}) {
    TRY_ASSIGN(int64_t zp, x.zero_point(i, x.in(0).dtype));
    if (x.in(0).dtype != DType::I8 && zp != 0) return x.fail("the zero point of i16 is {}; it must be 0", zp);
  }
  return Types{{x.in(0).dtype == DType::I8 ? DType::I32 : DType::I48, {a[0], a[1], b[2]}}};
}

}  // namespace

Result<Types> infer_window(const Operands& x) {
  if (x.op.op == Op::Conv2d) {
    const auto& a = x.attributes<Conv2dAttributes>();
    return infer_conv(x, a.pad, a.stride, a.dilation);
  }
  if (x.op.op == Op::Conv3d) {
    const auto& a = x.attributes<Conv3dAttributes>();
    return infer_conv(x, a.pad, a.stride, a.dilation);
  }
  if (x.op.op == Op::DepthwiseConv2d) return infer_depthwise(x);
  if (x.op.op == Op::TransposeConv2d) return infer_transpose_conv(x);
  if (x.op.op == Op::Resize) return infer_resize(x);
  if (x.op.op == Op::Matmul) return infer_matmul(x);
  CHECK(x.op.op == Op::AvgPool2d || x.op.op == Op::MaxPool2d, "no rule for {}", name(x.op.op));
  return infer_pool(x);
}

}  // namespace swoop::tosa
