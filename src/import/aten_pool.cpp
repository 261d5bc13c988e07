// Pooling.
#include <algorithm>

#include "import/aten.h"
#include "import/spatial.h"

namespace swoop {

namespace {

// The stride is the kernel's size when it is left out.
Ints stride_of(const Call& c, size_t index, const Ints& kernel) {
  Ints stride = c.ints(index);
  return stride.empty() ? kernel : c.ints(index, kernel.size());
}

// A pool on three dims is one on the last two, then one along the first: windows are boxes.
ValueId in_two_steps(Call& c, ValueId x, Op op, const Attrs& attrs) {
  Attrs plane = attrs, depth = attrs;
  for (Key key : {Key::Kernel, Key::Stride, Key::Dilation, Key::Padding, Key::Size}) {
    if (!attrs.find(key)) continue;
    const Ints& values = std::get<Ints>(*attrs.find(key));
    std::ptrdiff_t first = key == Key::Padding ? 2 : 1;
    plane.set(key, Ints(values.begin() + first, values.end()));
    Ints along(values.begin(), values.begin() + first);
    along.resize(2 * along.size(), key == Key::Padding ? 0 : 1);
    depth.set(key, std::move(along));
  }
  const Shape in = c.shape(x);
  ValueId y = c.make(op, {c.reshape(x, {in[0], in[1] * in[2], in[3], in[4]})}, plane);
  const int64_t rows = c.shape(y)[2], columns = c.shape(y)[3];
  y = c.reshape(y, {in[0], in[1], in[2], rows * columns});
  if (attrs.find(Key::Size)) depth.set(Key::Size, Ints{std::get<Ints>(*attrs.find(Key::Size))[0], rows * columns});
  if (attrs.find(Key::Divisor) && std::get<int64_t>(*attrs.find(Key::Divisor)) != 0)
    depth.set(Key::Divisor, int64_t{1});
  y = c.make(op, {y}, depth);
  return c.reshape(y, {in[0], in[1], c.shape(y)[2], rows, columns});
}

template <size_t n>
ValueId pooled(Call& c, Op op, const Attrs& attrs) {
  return batched(c, c.tensor(0), n,
                 [&](ValueId x) { return n == 3 ? in_two_steps(c, x, op, attrs) : c.make(op, {x}, attrs); });
}

template <size_t n>
ValueId max_pooled(Call& c) {
  Ints kernel = c.ints(1, n);
  return pooled<n>(c, Op::MaxPool,
                   {{Key::Kernel, kernel},
                    {Key::Stride, stride_of(c, 2, kernel)},
                    {Key::Padding, pairs(c.ints(3, n))},
                    {Key::Dilation, c.ints(4, n)},
                    {Key::CeilMode, c.flag(5)}});
}

template <size_t n>
Results max_pool(Call& c) {
  return max_pooled<n>(c);
}

template <size_t n>
ValueId positions(Call& c, ValueId from, const Ints& kernel, const Ints& stride, const Ints& padding,
                  const Ints& dilation) {
  const Shape& out = c.result(1).shape;
  return batched(c, from, n,
                 [&](ValueId x) { return positions_of_maxima(c, x, kernel, stride, padding, dilation, out); });
}

template <size_t n>
Results max_pool_with_indices(Call& c) {
  std::vector<ValueId> values = {max_pooled<n>(c), kNone};
  Ints kernel = c.ints(1, n);
  Ints stride = stride_of(c, 2, kernel);
  if (c.wants(1)) values[1] = positions<n>(c, c.tensor(0), kernel, stride, c.ints(3, n), c.ints(4, n));
  return values;
}

template <size_t n>
Results avg_pool(Call& c) {
  Ints kernel = c.ints(1, n);
  int64_t divisor = n > 1 ? c.integer(6, 0) : 0;
  return pooled<n>(c, Op::AvgPool,
                   {{Key::Kernel, kernel},
                    {Key::Stride, stride_of(c, 2, kernel)},
                    {Key::Padding, pairs(c.ints(3, n))},
                    {Key::CeilMode, c.flag(4)},
                    {Key::CountIncludePad, c.flag(5)},
                    {Key::Divisor, divisor}});
}

template <size_t n>
ValueId adaptive(Call& c, Op op) {
  if (n != 1) return pooled<n>(c, op, {{Key::Size, c.ints(1, n)}});
  ValueId x = c.tensor(0);  // [N, C, L]: the one dim is the width of a plane of height 1
  return batched(c, x, 1, [&](ValueId row) {
    ValueId y = c.make(op, {c.unsqueeze(row, 2)}, {{Key::Size, Ints{1, c.ints(1, 1)[0]}}});
    return c.reshape(y, {c.dim(y, 0), c.dim(y, 1), c.dim(y, 3)});
  });
}

template <size_t n>
Results adaptive_avg_pool(Call& c) {
  return adaptive<n>(c, Op::AdaptiveAvgPool);
}

// Adaptive windows that differ in size become as long as the longest by repeating their last element: of equal maxima
// the first counts, so a repeated one never does.
template <size_t n>
Results adaptive_max_pool(Call& c) {
  std::vector<ValueId> values = {adaptive<n>(c, Op::AdaptiveMaxPool), kNone};
  if (!c.wants(1)) return values;
  ValueId x = c.tensor(0);
  const Shape in = c.shape(x);
  const Ints sizes = c.ints(1, n);
  Ints kernel;
  std::vector<Ints> places(n);  // of the longer windows' elements in x, by dim
  int64_t count = 1;
  for (size_t d = 0; d < n; ++d) {
    const int64_t from = in[in.size() - n + d], to = sizes[d];
    if (to < 1 || from < 1) malformed("it makes {} of {} elements", to, from);
    auto start = [&](int64_t i) { return i * from / to; };
    auto end = [&](int64_t i) { return ((i + 1) * from + to - 1) / to; };
    int64_t longest = 0;
    for (int64_t i = 0; i < to; ++i) longest = std::max(longest, end(i) - start(i));
    for (int64_t i = 0; i < to; ++i)
      for (int64_t t = 0; t < longest; ++t) places[d].push_back(std::min(start(i) + t, end(i) - 1));
    kernel.push_back(longest);
    count *= to * longest;
    ValueId index = c.filled(DType::I32, {to * longest}, [&](int64_t i) { return places[d][static_cast<size_t>(i)]; });
    x = c.make(Op::Gather, {x, index}, {{Key::Axis, static_cast<int64_t>(in.size() - n + d)}});
  }
  ValueId among_longer = positions<n>(c, x, kernel, kernel, Ints(n, 0), Ints(n, 1));
  ValueId in_x = c.filled(DType::I64, {count}, [&](int64_t flat) {
    int64_t place = 0, stride = 1;
    for (size_t d = n; d-- > 0; stride *= in[in.size() - n + d]) {
      auto size = static_cast<int64_t>(places[d].size());
      place += places[d][static_cast<size_t>(flat % size)] * stride;
      flat /= size;
    }
    return place;
  });
  values[1] = c.make(Op::Gather, {in_x, among_longer}, {{Key::Axis, int64_t{0}}});
  return values;
}

constexpr std::string_view kMaxPool = "self, kernel_size, stride=[], padding=0, dilation=1, ceil_mode=False";

constexpr Row kPoolRows[] = {
    {"aten.max_pool1d.default", kMaxPool, max_pool<1>},
    {"aten.max_pool2d.default", kMaxPool, max_pool<2>},
    {"aten.max_pool3d.default", kMaxPool, max_pool<3>},
    {"aten.max_pool1d_with_indices.default", kMaxPool, max_pool_with_indices<1>},
    {"aten.max_pool2d_with_indices.default", kMaxPool, max_pool_with_indices<2>},
    {"aten.max_pool3d_with_indices.default", kMaxPool, max_pool_with_indices<3>},
    {"aten.avg_pool1d.default", "self, kernel_size, stride=[], padding=0, ceil_mode=False, count_include_pad=True",
     avg_pool<1>},
    {"aten.avg_pool2d.default",
     "self, kernel_size, stride=[], padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None",
     avg_pool<2>},
    {"aten.avg_pool3d.default",
     "self, kernel_size, stride=[], padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None",
     avg_pool<3>},
    {"aten.adaptive_avg_pool1d.default", "self, output_size", adaptive_avg_pool<1>},
    {"aten.adaptive_avg_pool2d.default", "self, output_size", adaptive_avg_pool<2>},
    {"aten._adaptive_avg_pool2d.default", "self, output_size", adaptive_avg_pool<2>},
    {"aten.adaptive_max_pool1d.default", "self, output_size", adaptive_max_pool<1>},
    {"aten.adaptive_max_pool2d.default", "self, output_size", adaptive_max_pool<2>},
    {"aten.adaptive_avg_pool3d.default", "self, output_size", adaptive_avg_pool<3>},
    {"aten._adaptive_avg_pool3d.default", "self, output_size", adaptive_avg_pool<3>},
    {"aten.adaptive_max_pool3d.default", "self, output_size", adaptive_max_pool<3>},
};

}  // namespace

std::span<const Row> pool_rows() { return kPoolRows; }

}  // namespace swoop
