// Multiply-accumulate: convolutions, linear, matmul.
#include "ops/infer.h"
#include "ops/ref.h"
#include "ops/rows.h"
#include "ops/window.h"

namespace swoop {

namespace {

Result<DType> float_operands(const Node& node, const Type& a, const Type& b) {
  if (!is_float(real_dtype(a)) || !is_float(real_dtype(b)))
    return error("{} works on floats, not on {} and {}", name_of(node.op), to_text(a), to_text(b));
  return promote(a, b);
}

Result<void> check_bias(const Graph& graph, const Node& node, int64_t channels) {
  if (!has_input(node, 2)) return {};
  const Type& bias = in_type(graph, node, 2);
  if (bias.shape != Shape{channels} || !is_float(real_dtype(bias)))
    return error("{} with {} output channels has a bias {}", name_of(node.op), channels, to_text(bias));
  return {};
}

Result<int64_t> group_count(const Node& node) {
  TRY_ASSIGN(int64_t groups, integer_attr(node, Key::Groups));
  if (groups < 1) return error("{} with {} groups", name_of(node.op), groups);
  return groups;
}

Result<Types> infer_conv(const Graph& graph, const Node& node) {
  const Type& x = in_type(graph, node, 0);
  const Type& w = in_type(graph, node, 1);
  TRY_ASSIGN(DType dtype, float_operands(node, x, w));
  TRY_ASSIGN(Layout layout, layout_of(node, x.shape, 1, 3));
  if (w.rank() != x.rank())
    return error("conv of {} has weights {}: they need as many dims as the input", to_text(x.shape), to_text(w.shape));
  TRY_ASSIGN(Layout weights, layout_of(node, w.shape, 1, 3));  // [O,C/g,k...]: O sits where a batch would
  TRY_ASSIGN(int64_t groups, group_count(node));
  if (weights.channels > kMaxElements / groups || weights.channels * groups != layout.channels ||
      weights.batch % groups != 0)
    return error("conv of {} with {} groups cannot have weights {}: input channels are {}, weights take {} per group",
                 to_text(x.shape), groups, to_text(w.shape), layout.channels, weights.channels);
  TRY(check_bias(graph, node, weights.batch));
  TRY_ASSIGN(Windows windows, windows_of(node, layout.space, weights.space));
  TRY(count_windows(node, windows, false));
  layout.channels = weights.batch;
  layout.space = windows.out;
  return one(node, dtype, shape_of(layout));
}

// Weights are [C,O/g,k...] as in PyTorch, and [O,k...,C/g] with channels_last.
Result<Types> infer_conv_transpose(const Graph& graph, const Node& node) {
  const Type& x = in_type(graph, node, 0);
  const Type& w = in_type(graph, node, 1);
  TRY_ASSIGN(DType dtype, float_operands(node, x, w));
  TRY_ASSIGN(Layout layout, layout_of(node, x.shape, 1, 3));
  if (w.rank() != x.rank())
    return error("conv_transpose of {} has weights {}: they need as many dims as the input", to_text(x.shape),
                 to_text(w.shape));
  TRY_ASSIGN(Layout weights, layout_of(node, w.shape, 1, 3));
  TRY_ASSIGN(int64_t groups, group_count(node));
  int64_t per_group = weights.channels;
  if (per_group > kMaxElements / groups) return error("conv_transpose with {} groups is too large", groups);
  int64_t in_channels = layout.channels_last ? per_group * groups : weights.batch;
  int64_t out_channels = layout.channels_last ? weights.batch : per_group * groups;
  if (in_channels != layout.channels || in_channels % groups != 0 || out_channels % groups != 0)
    return error("conv_transpose of {} with {} groups cannot have weights {}", to_text(x.shape), groups,
                 to_text(w.shape));
  TRY(check_bias(graph, node, out_channels));
  TRY_ASSIGN(Windows windows, windows_of(node, layout.space, weights.space));
  auto dims = static_cast<int64_t>(layout.space.size());
  Ints none(layout.space.size(), 0);
  const Ints* extra = &none;
  if (node.has(Key::OutputPadding)) {
    TRY_ASSIGN(extra, ints_attr(node, Key::OutputPadding, dims));
  }
  for (size_t i = 0; i < layout.space.size(); ++i) {
    int64_t reach = windows.dilation[i] * (windows.kernel[i] - 1) + 1;
    int64_t more = (*extra)[i];
    if (more < 0 || (more >= windows.stride[i] && more >= windows.dilation[i]))
      return error("conv_transpose has output_padding {}, which must be smaller than stride {} or dilation {}",
                   to_text(*extra), to_text(windows.stride), to_text(windows.dilation));
    int64_t size = (layout.space[i] - 1) * windows.stride[i] - windows.before[i] - windows.after[i] + reach + more;
    if (size < 1 || layout.space[i] < 1)
      return error("conv_transpose of {} with kernel {} and padding leaves no output in space", to_text(x.shape),
                   to_text(windows.kernel));
    layout.space[i] = size;
  }
  layout.channels = out_channels;
  return one(node, dtype, shape_of(layout));
}

Result<Types> infer_linear(const Graph& graph, const Node& node) {
  const Type& x = in_type(graph, node, 0);
  const Type& w = in_type(graph, node, 1);
  TRY_ASSIGN(DType dtype, float_operands(node, x, w));
  if (x.rank() < 1 || w.rank() != 2 || x.shape.back() != w.shape[1])
    return error("linear of {} cannot have weights {}: the last size of the input is the second of the weights",
                 to_text(x.shape), to_text(w.shape));
  TRY(check_bias(graph, node, w.shape[0]));
  Shape shape = x.shape;
  shape.back() = w.shape[0];
  return one(node, dtype, std::move(shape));
}

Result<Types> infer_matmul(const Graph& graph, const Node& node) {
  const Type& a = in_type(graph, node, 0);
  const Type& b = in_type(graph, node, 1);
  DType dtype = promote(a, b);
  if (dtype == DType::Bool) return error("matmul works on numbers, not on bool");
  if (a.rank() < 2 || b.rank() < 2 || a.shape.back() != b.shape[b.shape.size() - 2])
    return error("matmul of {} by {}: the last size of the first is the one before last of the second",
                 to_text(a.shape), to_text(b.shape));
  TRY_ASSIGN(Shape shape,
             broadcast(node, Shape(a.shape.begin(), a.shape.end() - 2), Shape(b.shape.begin(), b.shape.end() - 2)));
  shape.push_back(a.shape[a.shape.size() - 2]);
  shape.push_back(b.shape.back());
  return one(node, dtype, std::move(shape));
}

constexpr Traits kConv = {.window = true, .channels = true, .weights = true, .fuses_clamp = true};
constexpr Traits kConvTranspose = {.channels = true, .weights = true, .fuses_clamp = true};

}  // namespace

const OpInfo kConvOps[] = {
    {Op::Conv, Policy::OwnRange, kConv, 2, 3, infer_conv, ref_conv},
    {Op::ConvTranspose, Policy::OwnRange, kConvTranspose, 2, 3, infer_conv_transpose, ref_conv_transpose},
    {Op::Linear, Policy::OwnRange, {.weights = true, .fuses_clamp = true}, 2, 3, infer_linear, ref_linear},
    {Op::MatMul, Policy::OwnRange, {.fuses_clamp = true}, 2, 2, infer_matmul, ref_matmul},
};

}  // namespace swoop
