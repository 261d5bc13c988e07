// Windows as tensors: unfold and im2col take them apart, col2im adds them up again, and a pool that is asked where its
// maxima were looks among them.
#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "import/aten.h"
#include "import/spatial.h"
#include "ops/ops.h"

namespace swoop {

namespace {

// Windows of `size` elements `dilation` apart, every `step`, `count` of them along one axis.
struct Windows {
  int64_t size = 1;
  int64_t step = 1;
  int64_t dilation = 1;
  int64_t count = 1;
  int64_t span() const { return (size - 1) * dilation + 1; }
  int64_t reach() const { return (count - 1) * step + span(); }  // elements they need
};

constexpr int64_t kMaxParts = 64;  // of a concat; more are gathered

Windows windows_of(int64_t length, int64_t size, int64_t step, int64_t dilation) {
  constexpr int64_t kMost = int64_t{1} << 31;
  if (size < 1 || step < 1 || dilation < 1 || size > kMost || step > kMost || dilation > kMost)
    malformed("its windows have {} elements every {}, {} apart", size, step, dilation);
  Windows w{size, step, dilation, 1};
  if (length < w.span()) malformed("a window of {} does not fit {} elements", w.span(), length);
  w.count = (length - w.span()) / step + 1;
  return w;
}

// The axis becomes two: position within the window, then the window. [..., count * step, ...] -> [..., size, count,
// ...]
ValueId taken_apart(Call& c, ValueId x, int64_t axis, const Windows& w) {
  Shape apart = c.shape(x);
  apart[static_cast<size_t>(axis)] = w.size;
  apart.insert(apart.begin() + axis + 1, w.count);
  if (w.step == w.size && w.dilation == 1) {  // side by side: nothing is repeated
    std::swap(apart[static_cast<size_t>(axis)], apart[static_cast<size_t>(axis) + 1]);
    return c.swap(c.reshape(c.slice(x, axis, 0, w.count * w.size), std::move(apart)), axis, axis + 1);
  }
  std::vector<ValueId> parts;
  if (w.size <= w.count && w.size <= kMaxParts) {  // one strided slice per position
    for (int64_t i = 0; i < w.size; ++i) {
      int64_t first = i * w.dilation;
      parts.push_back(c.unsqueeze(c.slice(x, axis, first, first + (w.count - 1) * w.step + 1, w.step), axis));
    }
    return c.concat(std::move(parts), axis);
  }
  if (w.count <= kMaxParts) {  // one slice per window
    for (int64_t i = 0; i < w.count; ++i)
      parts.push_back(c.unsqueeze(c.slice(x, axis, i * w.step, i * w.step + w.span(), w.dilation), axis + 1));
    return c.concat(std::move(parts), axis + 1);
  }
  ValueId index = c.filled(DType::I64, {w.size, w.count},
                           [&](int64_t i) { return i / w.count * w.dilation + i % w.count * w.step; });
  return c.make(Op::Gather, {x, index}, {{Key::Axis, axis}});
}

// [..., n, ...] -> [..., windows, ..., size]
Results unfold(Call& c) {
  ValueId x = c.tensor(0);
  if (c.rank(x) == 0) return c.reshape(x, c.result().shape);
  int64_t axis = c.axis(1, c.rank(x));
  ValueId apart = taken_apart(c, x, axis, windows_of(c.dim(x, axis), c.integer(2), c.integer(3), 1));
  Ints perm(static_cast<size_t>(c.rank(apart)));
  std::iota(perm.begin(), perm.end(), 0);
  std::rotate(perm.begin() + axis, perm.begin() + axis + 1, perm.end());
  return c.transpose(apart, std::move(perm));
}

// x[N, C, H, W] -> [N, C * kh * kw, windows]
Results im2col(Call& c) {
  Ints kernel = c.ints(1, 2), dilation = c.ints(2, 2), padding = c.ints(3, 2), stride = c.ints(4, 2);
  ValueId x = c.tensor(0);
  if (c.rank(x) == 3) x = c.unsqueeze(x, 0);
  if (c.rank(x) != 4) malformed("its input has {} dimensions", c.rank(x));
  for (size_t d = 0; d < 2; ++d) {
    auto axis = static_cast<int64_t>(2 + 2 * d);  // the first one has become two
    x = c.pad(x, axis, padding[d], padding[d], 0);
    x = taken_apart(c, x, axis, windows_of(c.dim(x, axis), kernel[d], stride[d], dilation[d]));
  }
  return c.reshape(c.transpose(x, {0, 1, 2, 4, 3, 5}), c.result().shape);
}

// The sum of windows along one axis as a matrix: element i of window j belongs to place i * dilation + j * step.
ValueId overlap(Call& c, DType dtype, int64_t length, int64_t padding, const Windows& w) {
  int64_t columns = w.size * w.count;
  return c.filled(dtype, {length, columns}, [&](int64_t i) {
    int64_t column = i % columns;
    return int64_t{column / w.count * w.dilation + column % w.count * w.step == i / columns + padding};
  });
}

// The inverse of taken_apart: [..., size, count, ...] -> [..., length, ...]. Windows side by side are only moved.
ValueId put_together(Call& c, ValueId x, int64_t axis, int64_t length, int64_t padding, const Windows& w) {
  const bool side_by_side = w.step == w.size && w.dilation == 1 && padding == 0;
  Shape joined = c.shape(x);
  joined.erase(joined.begin() + axis);
  joined[static_cast<size_t>(axis)] = w.size * w.count;
  if (side_by_side) {
    x = c.reshape(c.swap(x, axis, axis + 1), std::move(joined));
    return c.pad(x, axis, 0, length - w.size * w.count, 0);
  }
  const int64_t last = c.rank(x) - 2;
  x = c.swap(c.reshape(x, std::move(joined)), axis, last);
  return c.swap(c.linear(x, overlap(c, c.dtype(x), length, padding, w)), axis, last);
}

// [N, C * kh * kw, windows] -> [N, C, H, W], each place the sum of what the windows have there
Results col2im(Call& c) {
  Ints size = c.ints(1, 2), kernel = c.ints(2, 2), dilation = c.ints(3, 2), padding = c.ints(4, 2),
       stride = c.ints(5, 2);
  ValueId x = c.tensor(0);
  if (c.rank(x) == 2) x = c.unsqueeze(x, 0);
  if (c.rank(x) != 3) malformed("its input has {} dimensions", c.rank(x));
  Windows rows = windows_of(size[0] + 2 * padding[0], kernel[0], stride[0], dilation[0]);
  Windows columns = windows_of(size[1] + 2 * padding[1], kernel[1], stride[1], dilation[1]);
  int64_t channels = c.dim(x, 1) / (rows.size * columns.size);
  x = c.reshape(x, {c.dim(x, 0), channels, rows.size, columns.size, rows.count, columns.count});
  x = c.transpose(x, {0, 1, 2, 4, 3, 5});
  x = put_together(c, x, 4, size[1], padding[1], columns);
  x = put_together(c, x, 2, size[0], padding[0], rows);
  return c.reshape(x, c.result().shape);
}

// What a pool kept of its maxima's positions, where its windows lie side by side in the plane
struct Tiles {
  ValueId which;  // element of each window
  int64_t rows, columns;
};

// Positions that positions_of_maxima made for windows that do not overlap, in a plane of this height and width
std::optional<Tiles> tiles_of(const Call& c, ValueId positions, int64_t height, int64_t width) {
  const Node* sum = c.graph.producer(positions);
  const Node* chosen = sum && sum->op == Op::Add ? c.graph.producer(sum->inputs[0]) : nullptr;
  if (!chosen || chosen->op != Op::Gather) return std::nullopt;
  const Value &offsets = c.graph.value(chosen->inputs[0]), &starts = c.graph.value(sum->inputs[1]);
  if (!offsets.constant || !starts.constant || starts.type.rank() != 2) return std::nullopt;
  const int64_t down = starts.type.shape[0], along = starts.type.shape[1];
  if (c.rank(positions) != 4 || down < 1 || along < 1 || height < down || width < along) return std::nullopt;
  Tiles tiles{chosen->inputs[1], height / down, width / along};
  if (element_count(offsets.type.shape) != tiles.rows * tiles.columns) return std::nullopt;
  for (int64_t i = 0; i < down * along; ++i)
    if (static_cast<int64_t>(real_at(starts, i)) != i / along * tiles.rows * width + i % along * tiles.columns)
      return std::nullopt;
  for (int64_t i = 0; i < tiles.rows * tiles.columns; ++i)
    if (static_cast<int64_t>(real_at(offsets, i)) != i / tiles.columns * width + i % tiles.columns) return std::nullopt;
  return tiles;
}

// Each value in the element of its window that was the largest
ValueId unpooled(Call& c, ValueId x, const Tiles& tiles, const Shape& out) {
  const Shape in = c.shape(x);
  ValueId element = c.counted(tiles.rows * tiles.columns, c.dtype(tiles.which));
  ValueId chosen = c.compare("eq", c.unsqueeze(tiles.which, 4), element);
  ValueId windows = c.where(chosen, c.unsqueeze(x, 4), c.scalar(0, c.dtype(x)));
  windows = c.reshape(windows, {in[0] * in[1], in[2], in[3], tiles.rows, tiles.columns});
  const int64_t height = in[2] * tiles.rows, width = in[3] * tiles.columns;
  ValueId plane = c.reshape(c.transpose(windows, {0, 1, 3, 2, 4}), {in[0], in[1], height, width});
  return c.pad(c.pad(plane, 2, 0, out[2] - height, 0), 3, 0, out[3] - width, 0);
}

// The values at `positions` of planes (volumes) of the result, zero elsewhere
Results max_unpool(Call& c) {
  ValueId x = c.tensor(0);
  const Shape& out = c.result().shape;
  size_t leading = out.size() - c.ints(2).size();
  if (leading > out.size() || leading > c.shape(x).size()) malformed("its result has {} dimensions", out.size());
  if (out.size() == 4 && leading == 2 && c.shape(x) == c.shape(c.tensor(1)))
    if (std::optional<Tiles> tiles = tiles_of(c, c.tensor(1), out[2], out[3])) return unpooled(c, x, *tiles, out);
  Shape from(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(leading));
  Shape to = from;
  from.push_back(element_count(Shape(c.shape(x).begin() + static_cast<std::ptrdiff_t>(leading), c.shape(x).end())));
  to.push_back(element_count(Shape(out.begin() + static_cast<std::ptrdiff_t>(leading), out.end())));
  ValueId zeros = c.filled(c.dtype(x), to, [](int64_t) { return int64_t{0}; });
  ValueId scattered = c.make(Op::ScatterElements, {zeros, c.reshape(c.tensor(1), from), c.reshape(x, from)},
                             {{Key::Axis, static_cast<int64_t>(leading)}});
  return c.reshape(scattered, out);
}

// The windows of x[N, C, spatial...] with all positions of a window in one axis: [N, C, positions, windows...]
ValueId with_positions(Call& c, ValueId x, const std::vector<Windows>& windows) {
  auto n = static_cast<int64_t>(windows.size());
  for (int64_t d = 0; d < n; ++d) x = taken_apart(c, x, 2 + 2 * d, windows[static_cast<size_t>(d)]);
  Ints perm = {0, 1};
  for (int64_t d = 0; d < n; ++d) perm.push_back(2 + 2 * d);
  for (int64_t d = 0; d < n; ++d) perm.push_back(3 + 2 * d);
  x = c.transpose(x, std::move(perm));
  Shape shape(c.shape(x).begin(), c.shape(x).begin() + 2);
  int64_t positions = 1;
  for (const Windows& w : windows) positions *= w.size;
  shape.push_back(positions);
  for (const Windows& w : windows) shape.push_back(w.count);
  return c.reshape(x, std::move(shape));
}

}  // namespace

// Where in its plane each maximum is: where the window starts, and how far from there the largest element is.
ValueId positions_of_maxima(Call& c, ValueId x, const Ints& kernel, const Ints& stride, const Ints& padding,
                            const Ints& dilation, const Shape& out) {
  size_t n = kernel.size();
  const Shape in = c.shape(x);
  std::vector<Windows> windows;
  for (size_t d = 0; d < n; ++d) {
    Windows w{kernel[d], stride[d], dilation[d], out[out.size() - n + d]};
    if (w.size < 1 || w.step < 1 || w.dilation < 1 || w.count < 1 || padding[d] < 0) malformed("its windows are empty");
    int64_t after = std::max<int64_t>(0, w.reach() - in[d + 2] - padding[d]);
    x = c.pad(x, static_cast<int64_t>(d) + 2, padding[d], after, -std::numeric_limits<double>::infinity());
    windows.push_back(w);
  }
  ValueId which = c.make(Op::ArgMax, {with_positions(c, x, windows)}, {{Key::Axis, int64_t{2}}, {Key::Keepdim, false}});
  Shape window_counts, window_sizes;
  for (const Windows& w : windows) {
    window_counts.push_back(w.count);
    window_sizes.push_back(w.size);
  }
  // The index into the plane of the place that is `at[d]` elements along each dim.
  auto place = [&](int64_t flat, const Shape& counts, const Ints& steps, const Ints& starts) {
    int64_t index = 0, stride_here = 1;
    for (size_t d = n; d-- > 0;) {
      index += (flat % counts[d] * steps[d] - starts[d]) * stride_here;
      flat /= counts[d];
      stride_here *= in[d + 2];
    }
    return index;
  };
  ValueId starts =
      c.filled(DType::I64, window_counts, [&](int64_t i) { return place(i, window_counts, stride, padding); });
  ValueId offsets = c.filled(DType::I64, {element_count(window_sizes)},
                             [&](int64_t i) { return place(i, window_sizes, dilation, Ints(n, 0)); });
  return c.add(c.make(Op::Gather, {offsets, which}, {{Key::Axis, int64_t{0}}}), starts);
}

namespace {

constexpr Row kWindowRows[] = {
    {"aten.unfold.default", "self, dimension, size, step", unfold},
    {"aten.unfold_copy.default", "self, dimension, size, step", unfold},
    {"aten.im2col.default", "self, kernel_size, dilation, padding, stride", im2col},
    {"aten.col2im.default", "self, output_size, kernel_size, dilation, padding, stride", col2im},
    {"aten.max_unpool2d.default", "self, indices, output_size", max_unpool},
    {"aten.max_unpool3d.default", "self, indices, output_size, stride, padding", max_unpool},
};

}  // namespace

std::span<const Row> window_rows() { return kWindowRows; }

}  // namespace swoop
