#include <algorithm>
#include <cmath>
#include <limits>

#include "emit/host.h"
#include "support/check.h"

namespace swoop::emit {

namespace {

// Ops here see x as [N,C,s...]. The kernels know one or two spatial dims (pooling: two); a missing one is added as a 1.
struct Window {
  size_t dims = 0;  // spatial
  Ints before, after;
};

Window window_of(const HostCall& call) {
  Window window;
  window.dims = call.x().shape.size() - 2;
  Ints pads = call.node.has(Key::Padding) ? call.node.ints(Key::Padding) : Ints(2 * window.dims, 0);
  CHECK(pads.size() == 2 * window.dims, "node {}: padding has {} entries", call.node.name, pads.size());
  for (size_t d = 0; d < window.dims; ++d) {
    window.before.push_back(pads[2 * d]);
    window.after.push_back(pads[2 * d + 1]);
  }
  return window;
}

Ints or_ones(const Node& node, Key key, size_t count) { return node.has(key) ? node.ints(key) : Ints(count, 1); }

Shape spatially_padded(const Shape& shape, const Window& window) {
  Shape padded = shape;
  for (size_t d = 0; d < window.dims; ++d) padded[2 + d] += window.before[d] + window.after[d];
  return padded;
}

// constant_pad_nd lists pairs from the last dim backwards.
int pad_spatial(PlanBuilder& b, int x, const Window& window, double value) {
  Ints pads;
  for (size_t d = window.dims; d-- > 0;) {
    pads.push_back(window.before[d]);
    pads.push_back(window.after[d]);
  }
  int out = b.planned(b.tensor(x).dtype, spatially_padded(b.tensor(x).shape, window));
  b.kernel("aten::constant_pad_nd.out", {x, b.integers(pads), b.scalar(b.tensor(x).dtype, value)}, {out});
  return out;
}

Shape with_height(Shape shape) {  // [N,C,L] -> [N,C,1,L]
  shape.insert(shape.begin() + 2, 1);
  return shape;
}

Ints two(Ints values, int64_t lead) {
  if (values.size() == 1) values.insert(values.begin(), lead);
  return values;
}

}  // namespace

Result<void> emit_conv(HostCall& call) {
  PlanBuilder& b = call.b;
  const Node& node = call.node;
  Window window = window_of(call);
  if (window.dims > 2)
    return no_kernel(call.graph, node,
                     "the runtime convolves over one or two dimensions only; split the 3-D convolution in the model");
  int x = call.in[0];
  if (window.before != window.after) {  // the kernel pads both sides alike
    x = pad_spatial(b, x, window, 0.0);
    window.before.assign(window.dims, 0);
  }
  b.kernel("aten::convolution.out",
           {x, call.in[1], b.or_null(call.input(2)), b.integers(or_ones(node, Key::Stride, window.dims)),
            b.integers(window.before), b.integers(or_ones(node, Key::Dilation, window.dims)), b.boolean(false),
            b.integers(Ints(window.dims, 0)), b.integer(node.integer(Key::Groups))},
           {call.out});
  return {};
}

// Uneven padding is cut off the unpadded result.
Result<void> emit_conv_transpose(HostCall& call) {
  PlanBuilder& b = call.b;
  const Node& node = call.node;
  Window window = window_of(call);
  if (window.dims > 2)
    return no_kernel(call.graph, node,
                     "the runtime convolves over one or two dimensions only; split the 3-D convolution in the model");
  Ints stride = or_ones(node, Key::Stride, window.dims);
  Ints dilation = or_ones(node, Key::Dilation, window.dims);
  Ints extra = node.has(Key::OutputPadding) ? node.ints(Key::OutputPadding) : Ints(window.dims, 0);
  bool even = window.before == window.after;
  int result = call.out;
  if (!even) {
    Shape full = b.tensor(call.out).shape;
    for (size_t d = 0; d < window.dims; ++d) full[2 + d] += window.before[d] + window.after[d];
    result = b.planned(b.tensor(call.out).dtype, full);
  }
  b.kernel("aten::convolution.out",
           {call.in[0], call.in[1], b.or_null(call.input(2)), b.integers(stride),
            b.integers(even ? window.before : Ints(window.dims, 0)), b.integers(dilation), b.boolean(true),
            b.integers(extra), b.integer(node.integer(Key::Groups))},
           {result});
  for (size_t d = 0; !even && d < window.dims; ++d) {
    Shape cut = b.tensor(result).shape;
    cut[2 + d] -= window.before[d] + window.after[d];
    int next = d + 1 == window.dims ? call.out : b.planned(b.tensor(call.out).dtype, cut);
    b.kernel("aten::slice_copy.Tensor_out",
             {result, b.integer(static_cast<int64_t>(2 + d)), b.integer(window.before[d]),
              b.integer(window.before[d] + cut[2 + d]), b.integer(1)},
             {next});
    result = next;
  }
  return {};
}

namespace {

// A pooling kernel on [N,C,H,W]; 1-D inputs are seen with height 1.
struct Pool {
  int x, out;
  Ints kernel, stride, padding;
};

Result<Pool> pool_of(HostCall& call, double pad_value, bool may_pad) {
  PlanBuilder& b = call.b;
  const Node& node = call.node;
  Window window = window_of(call);
  if (window.dims < 1 || window.dims > 2)
    return no_kernel(call.graph, node, "the runtime pools over one or two dimensions only");
  Ints kernel = node.ints(Key::Kernel);
  Pool pool{call.in[0], call.out, two(kernel, 1), two(or_ones(node, Key::Stride, window.dims), 1), {}};
  bool fits = window.before == window.after;
  for (size_t d = 0; d < window.dims; ++d) fits = fits && 2 * window.before[d] <= kernel[d];  // a limit of the kernels
  if (!fits) {
    if (!may_pad)
      return no_kernel(call.graph, node,
                       "the runtime cannot leave uneven padding out of an average; pad the input explicitly");
    pool.x = pad_spatial(b, pool.x, window, pad_value);
    window.before.assign(window.dims, 0);
  }
  pool.padding = two(window.before, 0);
  if (window.dims == 1) {
    pool.x = b.alias(pool.x, with_height(b.tensor(pool.x).shape));
    pool.out = b.alias(pool.out, with_height(b.tensor(pool.out).shape));
  }
  return pool;
}

}  // namespace

Result<void> emit_max_pool(HostCall& call) {
  PlanBuilder& b = call.b;
  DType dtype = call.x().dtype;
  double lowest = is_float(dtype) ? -std::numeric_limits<double>::infinity() : static_cast<double>(dtype_min(dtype));
  TRY_ASSIGN(Pool pool, pool_of(call, lowest, true));
  int indices = b.planned(DType::I64, b.tensor(pool.out).shape);
  b.kernel("aten::max_pool2d_with_indices.out",
           {pool.x, b.integers(pool.kernel), b.integers(pool.stride), b.integers(pool.padding),
            b.integers(two(or_ones(call.node, Key::Dilation, call.x().shape.size() - 2), 1)),
            b.boolean(call.node.flag(Key::CeilMode))},
           {pool.out, indices});
  return {};
}

Result<void> emit_avg_pool(HostCall& call) {
  PlanBuilder& b = call.b;
  bool include = call.node.flag(Key::CountIncludePad);
  int64_t divisor = call.node.integer(Key::Divisor);
  TRY_ASSIGN(Pool pool, pool_of(call, 0.0, include || divisor != 0));
  b.kernel("aten::avg_pool2d.out",
           {pool.x, b.integers(pool.kernel), b.integers(pool.stride), b.integers(pool.padding),
            b.boolean(call.node.flag(Key::CeilMode)), b.boolean(include), divisor == 0 ? b.null() : b.integer(divisor)},
           {pool.out});
  return {};
}

namespace {

// Windows of different sizes along one axis: window i is [floor(i * n / size), ceil((i + 1) * n / size)), as PyTorch
// has it.
int adaptive_max_axis(PlanBuilder& b, int x, size_t axis, int64_t size, int out) {
  Shape shape = b.tensor(x).shape;
  int64_t length = shape[axis];
  DType dtype = b.tensor(x).dtype;
  int dim = b.integer(static_cast<int64_t>(axis));
  std::vector<int> rows;
  for (int64_t i = 0; i < size; ++i) {
    int64_t start = i * length / size;
    int64_t end = ((i + 1) * length + size - 1) / size;
    Shape part = shape;
    part[axis] = end - start;
    int window = b.planned(dtype, part);
    b.kernel("aten::slice_copy.Tensor_out", {x, dim, b.integer(start), b.integer(end), b.integer(1)}, {window});
    part[axis] = 1;
    rows.push_back(b.planned(dtype, part));
    b.kernel("aten::amax.out", {window, b.integers({static_cast<int64_t>(axis)}), b.boolean(true)}, {rows.back()});
  }
  shape[axis] = size;
  if (out == kAbsent) out = b.planned(dtype, shape);
  b.kernel("aten::cat.out", {b.tensors(rows), dim}, {out});
  return out;
}

}  // namespace

Result<void> emit_adaptive_pool(HostCall& call) {
  PlanBuilder& b = call.b;
  Ints size = two(call.node.ints(Key::Size), 1);
  int x = call.in[0];
  int out = call.out;
  if (call.x().shape.size() == 3) {
    x = b.alias(x, with_height(b.tensor(x).shape));
    out = b.alias(out, with_height(b.tensor(out).shape));
  }
  if (size.size() != 2) return no_kernel(call.graph, call.node, "the runtime pools over one or two dimensions only");
  if (call.node.op == Op::AdaptiveAvgPool) {
    b.kernel("aten::_adaptive_avg_pool2d.out", {x, b.integers(size)}, {out});
    return {};
  }
  Ints kernel;
  for (size_t d = 0; d < 2; ++d) kernel.push_back(b.tensor(x).shape[2 + d] / std::max<int64_t>(size[d], 1));
  if (kernel[0] * size[0] != b.tensor(x).shape[2] || kernel[1] * size[1] != b.tensor(x).shape[3]) {
    adaptive_max_axis(b, adaptive_max_axis(b, x, 2, size[0], kAbsent), 3, size[1], out);
    return {};
  }
  int indices = b.planned(DType::I64, b.tensor(out).shape);
  b.kernel("aten::max_pool2d_with_indices.out",
           {x, b.integers(kernel), b.integers(kernel), b.integers({0, 0}), b.integers({1, 1}), b.boolean(false)},
           {out, indices});
  return {};
}

Result<void> emit_resize(HostCall& call) {
  PlanBuilder& b = call.b;
  const Node& node = call.node;
  const Doubles& scales = node.doubles(Key::Scales);
  bool by_scale = scales.size() == 2 && scales[0] > 0 && scales[1] > 0;
  // The kernel takes either the size or the factors, and derives one from the other.
  const Shape& out = b.tensor(call.out).shape;
  for (size_t d = 0; by_scale && d < 2; ++d)
    by_scale = static_cast<int64_t>(static_cast<double>(call.x().shape[2 + d]) * scales[d]) == out[2 + d];
  int size = by_scale ? b.null() : b.integers({out[2], out[3]});
  int factors = by_scale ? b.reals(scales) : b.null();
  if (node.text(Key::Mode) == "nearest")
    b.kernel("aten::upsample_nearest2d.vec_out", {call.in[0], size, factors}, {call.out});
  else if (node.text(Key::Mode) == "bilinear")
    b.kernel("aten::upsample_bilinear2d.vec_out", {call.in[0], size, b.boolean(node.flag(Key::AlignCorners)), factors},
             {call.out});
  else
    return no_kernel(call.graph, node, "the runtime resizes by nearest neighbour or bilinearly only");
  return {};
}

namespace {

// Circular padding of one axis: the end, the whole, the beginning.
int wrap_axis(PlanBuilder& b, int x, size_t axis, int64_t before, int64_t after, int out) {
  Shape shape = b.tensor(x).shape;
  int64_t length = shape[axis];
  auto part = [&](int64_t start, int64_t end) {
    Shape piece = shape;
    piece[axis] = end - start;
    int value = b.planned(b.tensor(x).dtype, piece);
    b.kernel("aten::slice_copy.Tensor_out",
             {x, b.integer(static_cast<int64_t>(axis)), b.integer(start), b.integer(end), b.integer(1)}, {value});
    return value;
  };
  std::vector<int> pieces;
  if (before > 0) pieces.push_back(part(length - before, length));
  pieces.push_back(x);
  if (after > 0) pieces.push_back(part(0, after));
  Shape whole = shape;
  whole[axis] += before + after;
  if (out == kAbsent) out = b.planned(b.tensor(x).dtype, whole);
  b.kernel("aten::cat.out", {b.tensors(pieces), b.integer(static_cast<int64_t>(axis))}, {out});
  return out;
}

}  // namespace

Result<void> emit_pad(HostCall& call) {
  PlanBuilder& b = call.b;
  const Node& node = call.node;
  const Ints& pairs = node.ints(Key::Padding);
  size_t rank = call.x().shape.size();
  std::string_view mode = node.text(Key::Mode);
  if (mode == "constant") {
    Ints pads;
    for (size_t d = rank; d-- > 0;) pads.insert(pads.end(), {pairs[2 * d], pairs[2 * d + 1]});
    double value = node.real(Key::Value);
    const Type& type = call.graph.type(node.inputs[0]);
    if (type.quantized()) {  // a real value, among codes
      const Quant& quant = *type.quant;
      double code = std::nearbyint(value / quant.scale[0]) + static_cast<double>(quant.zero_point[0]);
      value = std::clamp(code, static_cast<double>(quant.qmin), static_cast<double>(quant.qmax));
    }
    b.kernel("aten::constant_pad_nd.out", {call.in[0], b.integers(pads), b.scalar(call.x().dtype, value)}, {call.out});
    return {};
  }
  if (mode == "circular") {
    std::vector<size_t> axes;
    for (size_t d = 0; d < rank; ++d)
      if (pairs[2 * d] != 0 || pairs[2 * d + 1] != 0) axes.push_back(d);
    int x = call.in[0];
    for (size_t i = 0; i < axes.size(); ++i)
      x = wrap_axis(b, x, axes[i], pairs[2 * axes[i]], pairs[2 * axes[i] + 1],
                    i + 1 == axes.size() ? call.out : kAbsent);
    if (axes.empty()) b.copy(x, call.out);
    return {};
  }
  // reflection_padKd and replication_padKd work on the last K dims of a tensor with one or two more.
  size_t first = 0;
  while (first < rank && pairs[2 * first] == 0 && pairs[2 * first + 1] == 0) ++first;
  size_t dims = std::max<size_t>(rank - first, 1);
  if (dims > 3)
    return no_kernel(call.graph, node, "the runtime pads by reflection or replication over three dimensions at most");
  Ints pads;
  for (size_t d = rank; d-- > rank - dims;) pads.insert(pads.end(), {pairs[2 * d], pairs[2 * d + 1]});
  auto folded = [&](const Shape& shape) {  // [lead, last dims...]
    Shape result{1};
    for (size_t d = 0; d < rank; ++d) {
      if (d < rank - dims)
        result[0] *= shape[d];
      else
        result.push_back(shape[d]);
    }
    return result;
  };
  std::string kernel = fmt::format("aten::{}_pad{}d.out", mode == "reflect" ? "reflection" : "replication", dims);
  b.kernel(kernel, {b.alias(call.in[0], folded(call.x().shape)), b.integers(pads)},
           {b.alias(call.out, folded(b.tensor(call.out).shape))});
  return {};
}

}  // namespace swoop::emit
