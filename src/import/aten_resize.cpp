// Resampling. Nearest and linear stay one Resize, plane by plane. Every other separable interpolation, by any factor,
// is a product with a constant matrix along each axis: exact for constants, and a layer like any other for the NPU.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "import/aten.h"
#include "ops/ops.h"

namespace swoop {

namespace {

constexpr int64_t kMaxSide = 8192;  // of the matrix of an axis

struct Resampling {
  std::string_view kind;  // the row's detail
  bool align_corners = false;
  Doubles factors;  // per axis, as given by the user; 0 where PyTorch works them out from the sizes
};

// How far one element of the result is from the next, in elements of the input. In float, as PyTorch computes it.
float step_between(int64_t in, int64_t out, bool align_corners, double factor) {
  if (align_corners) return out > 1 ? static_cast<float>(in - 1) / static_cast<float>(out - 1) : 0.0f;
  return factor > 0 ? static_cast<float>(1.0 / factor) : static_cast<float>(in) / static_cast<float>(out);
}

// The kernels: how much a sample counts at a distance. Keys' cubic has a parameter; PyTorch's differs with
// antialiasing.
double cubic(double x, double a) {
  x = std::fabs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}
double tent(double x) { return std::max(0.0, 1 - std::fabs(x)); }

// What each element of the result takes of each element of the input: rows of `in` numbers.
std::vector<float> interpolation(std::string_view kind, int64_t in, int64_t out, float step) {
  std::vector<float> matrix(static_cast<size_t>(in * out), 0.0f);
  for (int64_t i = 0; i < out; ++i) {
    float* row = matrix.data() + i * in;
    auto at = static_cast<float>(i) + 0.5f;
    auto inside = [&](double x) { return static_cast<int64_t>(std::clamp<double>(x, 0, static_cast<double>(in - 1))); };
    if (kind == "nearest") {
      row[inside(static_cast<float>(i) * step)] = 1;
    } else if (kind == "exact") {
      row[inside(at * step)] = 1;
    } else if (kind == "cubic" || kind == "cubic corners") {
      double source = kind == "cubic" ? step * at - 0.5f : step * static_cast<float>(i);
      double first = std::floor(source);
      for (int tap = -1; tap <= 2; ++tap)
        row[inside(first + tap)] += static_cast<float>(cubic(source - first - tap, -0.75));
    } else {  // antialiased: the kernel is as wide as the step
      double wide = std::max(step, 1.0f), reach = (kind == "cubic aa" ? 2 : 1) * wide, centre = step * at;
      auto from = std::max<int64_t>(0, static_cast<int64_t>(centre - reach + 0.5));
      int64_t to = std::min<int64_t>(in, static_cast<int64_t>(centre + reach + 0.5));
      double sum = 0;
      auto weight = [&](int64_t j) {
        double x = (static_cast<double>(j) - centre + 0.5) / wide;
        return kind == "cubic aa" ? cubic(x, -0.5) : tent(x);
      };
      for (int64_t j = from; j < to; ++j) sum += weight(j);
      for (int64_t j = from; j < to; ++j) row[j] = static_cast<float>(weight(j) / sum);
    }
  }
  return matrix;
}

bool is_identity(const std::vector<float>& matrix, int64_t in, int64_t out) {
  for (int64_t i = 0; i < in * out; ++i)
    if (matrix[static_cast<size_t>(i)] != (i / in == i % in ? 1.0f : 0.0f)) return false;
  return in == out;
}

// x [N, C, spatial...] by a matrix per axis
ValueId by_matrices(Call& c, ValueId x, const Resampling& how) {
  const Shape out = c.result().shape;
  if (!is_float(c.dtype(x))) unsupported("resampling of integers");
  for (int64_t axis = c.rank(x) - 1; axis >= 2; --axis) {
    int64_t from = c.dim(x, axis), to = out[static_cast<size_t>(axis)];
    float step = step_between(from, to, how.align_corners, how.factors[static_cast<size_t>(axis) - 2]);
    bool corners = how.kind == "cubic" && how.align_corners;
    std::vector<float> matrix = interpolation(corners ? "cubic corners" : how.kind, from, to, step);
    if (is_identity(matrix, from, to)) continue;
    ValueId weight =
        c.filled(c.dtype(x), {to, from}, [&](int64_t i) { return double{matrix[static_cast<size_t>(i)]}; });
    x = c.swap(c.linear(c.swap(x, axis, c.rank(x) - 1), weight), axis, c.rank(x) - 1);
  }
  return x;
}

// One Resize of the plane [N, C, H, W]
ValueId resized_plane(Call& c, ValueId x, std::string_view mode, Ints size, bool align_corners, Doubles factors) {
  for (size_t i = 0; i < 2 && mode == "nearest"; ++i) {  // PyTorch does not look at the factor of these
    int64_t in = c.shape(x)[2 + i];
    if (size[i] == in || size[i] == 2 * in) factors[i] = 0;
  }
  if (Ints(c.shape(x).begin() + 2, c.shape(x).end()) == size && factors == Doubles{0, 0}) return x;
  return c.make(Op::Resize, {x},
                {{Key::Size, std::move(size)},
                 {Key::Mode, std::string(mode)},
                 {Key::AlignCorners, align_corners},
                 {Key::Scales, std::move(factors)}});
}

// A line [N, C, W] is a plane of height 1; a volume [N, C, D, H, W] is its planes, then its depth.
ValueId by_planes(Call& c, ValueId x, std::string_view mode, const Resampling& how) {
  const Shape in = c.shape(x), out = c.result().shape;
  const Doubles& f = how.factors;
  if (in.size() == 3)
    return c.reshape(resized_plane(c, c.unsqueeze(x, 2), mode, {1, out[2]}, how.align_corners, {0, f[0]}), out);
  if (in.size() == 4) return resized_plane(c, x, mode, {out[2], out[3]}, how.align_corners, {f[0], f[1]});
  x = c.reshape(x, {in[0], in[1] * in[2], in[3], in[4]});
  x = resized_plane(c, x, mode, {out[3], out[4]}, how.align_corners, {f[1], f[2]});
  int64_t plane = out[3] * out[4];
  x = c.reshape(x, {in[0], in[1], in[2], plane});
  return c.reshape(resized_plane(c, x, mode, {out[2], plane}, how.align_corners, {f[0], 0}), out);
}

// Whether rounding at the middle of an element, as nearest-exact does, chooses the same elements as at its start.
bool nearest_is_exact(const Shape& in, const Shape& out, const Resampling& how) {
  for (size_t axis = 2; axis < in.size(); ++axis) {
    float step = step_between(in[axis], out[axis], false, how.factors[axis - 2]);
    if (interpolation("nearest", in[axis], out[axis], step) != interpolation("exact", in[axis], out[axis], step))
      return false;
  }
  return true;
}

ValueId resample(Call& c, bool align_corners, Doubles factors) {
  ValueId x = c.tensor(0);
  const Shape &in = c.shape(x), &out = c.result().shape;
  if (in.size() < 3 || in.size() > 5 || out.size() != in.size() || element_count(in) == 0 || element_count(out) == 0)
    malformed("its input has {} dimensions", c.rank(x));
  if (out[0] != in[0] || out[1] != in[1]) malformed("it changes the batch or the channels");
  factors.resize(in.size() - 2, 0.0);
  Resampling how{c.detail(), align_corners, std::move(factors)};
  if (how.kind == "nearest" || how.kind == "bilinear") return by_planes(c, x, how.kind, how);
  for (size_t axis = 2; axis < in.size(); ++axis)
    if (in[axis] > kMaxSide || out[axis] > kMaxSide) unsupported("resampling of more than {} elements", kMaxSide);
  if (how.kind == "exact" && nearest_is_exact(in, out, how)) return by_planes(c, x, "nearest", how);
  return by_matrices(c, x, how);
}

Doubles factors_from(const Call& c, size_t first) {
  Doubles factors;
  for (size_t i = first; i < c.args.size(); ++i) factors.push_back(c.real_or_none(i).value_or(0));
  return factors;
}

Results resize_vec(Call& c) { return resample(c, false, c.none(2) ? Doubles{} : c.reals(2)); }
Results resize_aligned_vec(Call& c) { return resample(c, c.flag(2), c.none(3) ? Doubles{} : c.reals(3)); }
Results resize(Call& c) { return resample(c, false, factors_from(c, 2)); }
Results resize_aligned(Call& c) { return resample(c, c.flag(2), factors_from(c, 3)); }

constexpr std::string_view kVec = "input, output_size, scale_factors";
constexpr std::string_view kAlignedVec = "input, output_size, align_corners, scale_factors";
// theta [N, D, D + 1] times the place of each element, its axes from -1 to 1, the last one first; a one stands behind.
Results affine_grid(Call& c) {
  ValueId theta = c.tensor(0);
  const bool align_corners = c.flag(2);
  const Ints size = c.ints(1);
  const auto axes = static_cast<int64_t>(size.size()) - 2;
  if (axes < 2 || c.shape(theta) != Shape{size[0], axes, axes + 1} || element_count(size) <= 0)
    malformed("its matrices are {} for a size of {}", to_text(c.shape(theta)), to_text(Shape(size)));
  int64_t places = 1;
  for (int64_t axis = 0; axis < axes; ++axis) places *= size[static_cast<size_t>(axis) + 2];
  ValueId base = c.filled(c.dtype(theta), {places, axes + 1}, [&](int64_t i) {
    int64_t place = i / (axes + 1), column = i % (axes + 1);
    if (column == axes) return 1.0;
    for (int64_t skipped = 0; skipped < column; ++skipped)
      place /= size[size.size() - 1 - static_cast<size_t>(skipped)];
    const int64_t count = size[size.size() - 1 - static_cast<size_t>(column)];
    const auto steps = static_cast<double>(align_corners ? count - 1 : count);
    return count == 1 ? 0.0 : (2.0 * static_cast<double>(place % count) - static_cast<double>(count - 1)) / steps;
  });
  return c.reshape(c.swap(c.linear(theta, base), 1, 2), c.result().shape);
}

// -- grid_sample

// Where a grid's number from -1 to 1 lies among `size` elements, as PyTorch's three ways of padding have it.
double place_on_grid(double at, int64_t size, int64_t padding, bool align_corners) {
  const auto count = static_cast<double>(size);
  double place = align_corners ? (at + 1) / 2 * (count - 1) : ((at + 1) * count - 1) / 2;
  if (padding == 2) {  // reflected at both ends, as often as it takes
    const double low = align_corners ? 0 : -0.5, span = align_corners ? count - 1 : count;
    double away = span > 0 ? std::fmod(std::fabs(place - low), 2 * span) : 0;
    place = low + (away > span ? 2 * span - away : away);
  }
  return padding == 0 ? place : std::clamp(place, 0.0, count - 1);
}

struct Tap {
  int64_t place;
  double weight;
};
std::vector<Tap> taps_at(double place, int64_t size, bool nearest) {
  if (!(place > -2) || !(place < static_cast<double>(size) + 1)) return {};
  const double first = nearest ? std::nearbyint(place) : std::floor(place), part = nearest ? 0 : place - first;
  std::vector<Tap> taps;
  for (int64_t next = 0; next < 2; ++next) {
    const int64_t at = static_cast<int64_t>(first) + next;
    const double weight = next ? part : 1 - part;
    if (at >= 0 && at < size && weight != 0) taps.push_back({at, weight});
  }
  return taps;
}

// Nearest samples, reflections and large planes at places that are computed: the runtime samples.
ValueId sampled_by_runtime(Call& c) {
  Attrs attrs = {
      {Key::Target, std::string("aten::grid_sampler_2d")},
      {Key::Overload, std::string()},
      {Key::Args, Strings{"input=%0", "grid=%1", fmt::format("interpolation_mode={}", c.integer(2)),
                          fmt::format("padding_mode={}", c.integer(3)), fmt::format("align_corners={}", c.flag(4))}}};
  return c.graph.add_node(Op::Opaque, {c.tensor(0), c.tensor(1)}, {c.result()}, std::move(attrs), c.loc, c.name)
      .outputs[0];
}

// A sample of known places is a linear layer over the plane: few of its weights are not zero.
ValueId sampled_by_layer(Call& c, const Value& grid) {
  ValueId x = c.tensor(0);
  const int64_t batch = c.dim(x, 0), channels = c.dim(x, 1), height = c.dim(x, 2), width = c.dim(x, 3);
  const Shape out = c.result().shape;
  const int64_t places = out[2] * out[3], plane = height * width;
  std::vector<ValueId> samples;
  for (int64_t n = 0; n < batch; ++n) {
    std::vector<double> weights(static_cast<size_t>(places * plane), 0.0);
    for (int64_t i = 0; i < places; ++i) {
      auto at = [&](int64_t axis, int64_t size) {
        const double place = real_at(grid, (n * places + i) * 2 + axis);
        return taps_at(place_on_grid(place, size, c.integer(3), c.flag(4)), size, c.integer(2) == 1);
      };
      for (const Tap& row : at(1, height))
        for (const Tap& column : at(0, width))
          weights[static_cast<size_t>(i * plane + row.place * width + column.place)] = row.weight * column.weight;
    }
    ValueId weight = c.filled(c.dtype(x), {places, plane}, [&](int64_t i) { return weights[static_cast<size_t>(i)]; });
    samples.push_back(c.linear(c.reshape(c.slice(x, 0, n, n + 1), {1, channels, plane}), weight));
  }
  return c.reshape(samples.size() == 1 ? samples[0] : c.concat(std::move(samples), 0), out);
}

// What each place of the grid takes of each of `size` elements: the tent around the place, which is zero at all but two
// of them, and outside. Its two sides are cut before they meet, so that 8 bits tell steps of 1/255.
// [N, H, W, 2] -> [N, size, H * W], and so for volumes
ValueId taken_at_places(Call& c, int64_t column, int64_t size) {
  ValueId grid = c.tensor(1);
  const double middle = static_cast<double>(size - 1) / 2, reach = c.flag(4) ? middle : static_cast<double>(size) / 2;
  const double most = c.integer(3) == 1 ? middle : middle + 1;  // at the border, or beyond it
  const Shape shape = c.shape(grid);
  const int64_t places = element_count(shape) / shape[0] / shape.back();
  ValueId place = c.reshape(c.select(grid, c.rank(grid) - 1, column), {shape[0], 1, places});
  place = c.clamp(c.scaled(place, reach), -most, most);
  auto elements = [&](double offset) {
    return c.filled(c.dtype(grid), {1, size, 1}, [&](int64_t i) { return static_cast<double>(i) - middle + offset; });
  };
  ValueId up = c.clamp(c.sub(place, elements(-1)), 0, 1), down = c.clamp(c.sub(elements(1), place), 0, 1);
  return c.make(Op::Minimum, {up, down});
}

// Samples at places that are computed: each row by its columns, then the rows, then the planes of a volume.
ValueId sampled_by_tents(Call& c) {
  ValueId x = c.tensor(0);
  const Shape in = c.shape(x), out = c.result().shape;
  const int64_t places = element_count(out) / out[0] / out[1];
  int64_t left = element_count(in) / in[0] / in.back();  // lines for which there is a number per place
  ValueId rows = c.matmul(c.reshape(x, {in[0], left, in.back()}), taken_at_places(c, 0, in.back()));
  for (size_t axis = in.size() - 2; axis > 1; --axis) {
    const int64_t size = in[axis], column = static_cast<int64_t>(in.size() - 1 - axis);
    left /= size;
    ValueId share = c.reshape(taken_at_places(c, column, size), {in[0], 1, size, places});
    ValueId parts = c.mul(c.reshape(rows, {in[0], left, size, places}), share);
    rows = c.reduce(Op::Sum, parts, {2}, false);
  }
  return c.reshape(rows, out);
}

// Of a volume. The runtime has no kernel for it.
Results grid_sampler_3d(Call& c) {
  if (c.rank(c.tensor(0)) != 5 || c.rank(c.tensor(1)) != 5) malformed("it samples no volumes");
  if (c.integer(2) != 0 || c.integer(3) == 2)
    unsupported("a volume that is sampled at the nearest places or reflected");
  if (element_count(c.result().shape) == 0) unsupported("a volume without elements");
  return sampled_by_tents(c);
}

Results grid_sampler(Call& c) {
  constexpr int64_t kMostWeights = int64_t{1} << 20;   // of a layer
  constexpr int64_t kMostProducts = int64_t{1} << 20;  // U55-128 takes 2 cycles for each, the host a few per sample
  ValueId x = c.tensor(0);
  if (c.rank(x) == 5) return grid_sampler_3d(c);
  const Shape in = c.shape(x), out = c.result().shape;
  if (c.rank(c.tensor(1)) != 4 || c.shape(c.tensor(1)) != Shape{in[0], out[2], out[3], 2})
    malformed("its grid is {}", to_text(c.shape(c.tensor(1))));
  const int64_t places = out[0] * out[2] * out[3], plane = in[2] * in[3];
  if (c.integer(2) > 1 || c.type(x).quantized() || places == 0 || plane == 0 || in[1] == 0)
    return sampled_by_runtime(c);
  const ValueId known = c.known(c.tensor(1));
  if (known != kNone && plane <= kMostWeights / places) return sampled_by_layer(c, c.graph.value(known));
  const bool bends = c.integer(2) != 0 || c.integer(3) == 2;
  return bends || plane > kMostProducts / places / in[1] ? sampled_by_runtime(c) : sampled_by_tents(c);
}

constexpr std::string_view kGrid = "input, grid, interpolation_mode, padding_mode, align_corners";
constexpr std::string_view kLine = "self, output_size, scales=None";
constexpr std::string_view kPlane = "self, output_size, scales_h=None, scales_w=None";
constexpr std::string_view kVolume = "self, output_size, scales_d=None, scales_h=None, scales_w=None";
constexpr std::string_view kAlignedLine = "self, output_size, align_corners, scales=None";
constexpr std::string_view kAlignedPlane = "self, output_size, align_corners, scales_h=None, scales_w=None";
constexpr std::string_view kAlignedVolume =
    "self, output_size, align_corners, scales_d=None, scales_h=None, scales_w=None";

constexpr Row kResizeRows[] = {
    {"aten.upsample_nearest1d.vec", kVec, resize_vec, "nearest"},
    {"aten.upsample_nearest2d.vec", kVec, resize_vec, "nearest"},
    {"aten.upsample_nearest3d.vec", kVec, resize_vec, "nearest"},
    {"aten._upsample_nearest_exact1d.vec", kVec, resize_vec, "exact"},
    {"aten._upsample_nearest_exact2d.vec", kVec, resize_vec, "exact"},
    {"aten._upsample_nearest_exact3d.vec", kVec, resize_vec, "exact"},
    {"aten.upsample_linear1d.vec", kAlignedVec, resize_aligned_vec, "bilinear"},
    {"aten.upsample_bilinear2d.vec", kAlignedVec, resize_aligned_vec, "bilinear"},
    {"aten.upsample_trilinear3d.vec", kAlignedVec, resize_aligned_vec, "bilinear"},
    {"aten.upsample_bicubic2d.vec", kAlignedVec, resize_aligned_vec, "cubic"},
    {"aten._upsample_bilinear2d_aa.vec", kAlignedVec, resize_aligned_vec, "linear aa"},
    {"aten._upsample_bicubic2d_aa.vec", kAlignedVec, resize_aligned_vec, "cubic aa"},
    {"aten.upsample_nearest1d.default", kLine, resize, "nearest"},
    {"aten.upsample_nearest2d.default", kPlane, resize, "nearest"},
    {"aten.upsample_nearest3d.default", kVolume, resize, "nearest"},
    {"aten._upsample_nearest_exact1d.default", kLine, resize, "exact"},
    {"aten._upsample_nearest_exact2d.default", kPlane, resize, "exact"},
    {"aten._upsample_nearest_exact3d.default", kVolume, resize, "exact"},
    {"aten.upsample_linear1d.default", kAlignedLine, resize_aligned, "bilinear"},
    {"aten.upsample_bilinear2d.default", kAlignedPlane, resize_aligned, "bilinear"},
    {"aten.upsample_trilinear3d.default", kAlignedVolume, resize_aligned, "bilinear"},
    {"aten.upsample_bicubic2d.default", kAlignedPlane, resize_aligned, "cubic"},
    {"aten._upsample_bilinear2d_aa.default", kAlignedPlane, resize_aligned, "linear aa"},
    {"aten._upsample_bicubic2d_aa.default", kAlignedPlane, resize_aligned, "cubic aa"},
    {"aten.affine_grid_generator.default", "theta, size, align_corners", affine_grid},
    {"aten.grid_sampler.default", kGrid, grid_sampler},
    {"aten.grid_sampler_2d.default", kGrid, grid_sampler},
    {"aten.grid_sampler_3d.default", kGrid, grid_sampler_3d},
};

}  // namespace

std::span<const Row> resize_rows() { return kResizeRows; }

}  // namespace swoop
