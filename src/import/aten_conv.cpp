// Convolutions. Inputs without a batch get one and lose it again.
#include "import/aten.h"
#include "import/spatial.h"

namespace swoop {

namespace {

struct Window {
  Ints stride;
  Ints padding;  // a pair per spatial dim
  Ints dilation;
  int64_t groups = 1;
};

size_t spatial_dims(Call& c, ValueId weight) {
  if (c.rank(weight) < 3 || c.rank(weight) > 5) malformed("its weight has {} dimensions", c.rank(weight));
  return static_cast<size_t>(c.rank(weight)) - 2;
}

ValueId conv(Call& c, const Window& window) {
  ValueId weight = c.tensor(1);
  ValueId bias = c.tensor_or_none(2);
  return batched(c, c.tensor(0), spatial_dims(c, weight), [&](ValueId x) {
    return c.make(Op::Conv, {x, weight, bias},
                  {{Key::Stride, window.stride},
                   {Key::Padding, window.padding},
                   {Key::Dilation, window.dilation},
                   {Key::Groups, window.groups}});
  });
}

ValueId conv_transpose(Call& c, const Window& window, const Ints& output_padding) {
  ValueId weight = c.tensor(1);
  ValueId bias = c.tensor_or_none(2);
  return batched(c, c.tensor(0), spatial_dims(c, weight), [&](ValueId x) {
    return c.make(Op::ConvTranspose, {x, weight, bias},
                  {{Key::Stride, window.stride},
                   {Key::Padding, window.padding},
                   {Key::OutputPadding, output_padding},
                   {Key::Dilation, window.dilation},
                   {Key::Groups, window.groups}});
  });
}

Results conv_nd(Call& c) {
  size_t n = spatial_dims(c, c.tensor(1));
  return conv(c, {c.ints(3, n), pairs(c.ints(4, n)), c.ints(5, n), c.integer(6)});
}

// "same": as many zeros as keep the size; the odd one goes at the end.
Results conv_named_padding(Call& c) {
  ValueId weight = c.tensor(1);
  size_t n = spatial_dims(c, weight);
  Window window = {c.ints(3, n), Ints(2 * n, 0), c.ints(5, n), c.integer(6)};
  std::string_view name = c.text(4);
  if (name != "same" && name != "valid") malformed("its padding `{}` does not exist", name);
  for (size_t d = 0; d < n && name == "same"; ++d) {
    if (window.dilation[d] < 1 || window.dilation[d] > (1 << 20))
      malformed("its dilation {} makes no sense", window.dilation[d]);
    int64_t total = window.dilation[d] * (c.dim(weight, static_cast<int64_t>(d) + 2) - 1);
    window.padding[2 * d] = total / 2;
    window.padding[2 * d + 1] = total - total / 2;
  }
  return conv(c, window);
}

Results conv_transpose_nd(Call& c) {
  size_t n = spatial_dims(c, c.tensor(1));
  return conv_transpose(c, {c.ints(3, n), pairs(c.ints(4, n)), c.ints(7, n), c.integer(6)}, c.ints(5, n));
}

Results convolution(Call& c) {
  size_t n = spatial_dims(c, c.tensor(1));
  Window window = {c.ints(3, n), pairs(c.ints(4, n)), c.ints(5, n), c.integer(8)};
  return c.flag(6) ? conv_transpose(c, window, c.ints(7, n)) : conv(c, window);
}

constexpr std::string_view kConv = "input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1";
constexpr std::string_view kConvNamed = "input, weight, bias=None, stride=1, padding='valid', dilation=1, groups=1";
constexpr std::string_view kTransposed =
    "input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1";

constexpr Row kConvRows[] = {
    {"aten.conv1d.default", kConv, conv_nd},
    {"aten.conv2d.default", kConv, conv_nd},
    {"aten.conv3d.default", kConv, conv_nd},
    {"aten.conv1d.padding", kConvNamed, conv_named_padding},
    {"aten.conv2d.padding", kConvNamed, conv_named_padding},
    {"aten.conv3d.padding", kConvNamed, conv_named_padding},
    {"aten.conv_transpose1d.default", kTransposed, conv_transpose_nd},
    {"aten.conv_transpose2d.input", kTransposed, conv_transpose_nd},
    {"aten.conv_transpose3d.input", kTransposed, conv_transpose_nd},
    {"aten.convolution.default", "input, weight, bias, stride, padding, dilation, transposed, output_padding, groups",
     convolution},
    {"aten._convolution.default",
     "input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, benchmark, deterministic, "
     "cudnn_enabled, allow_tf32",
     convolution},
};

}  // namespace

std::span<const Row> conv_rows() { return kConvRows; }

}  // namespace swoop
