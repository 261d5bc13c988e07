// Data movement within one tensor: shapes, permutations, padding, repetition, and what moves nothing at all. Most of
// PyTorch's names here are a Reshape to the shape that the exporter has already worked out.
#include <algorithm>
#include <numeric>

#include "import/aten.h"
#include "support/codes.h"

namespace swoop {

namespace {

Results to_result_shape(Call& c) { return c.reshape(c.tensor(0), c.result().shape); }
Results expand_to_result(Call& c) { return c.expand(c.tensor(0), c.result().shape); }
Results same(Call& c) { return c.tensor(0); }
Results cast_to_result(Call& c) { return c.cast(c.tensor(0), c.result().dtype); }

Ints identity(int rank) {
  Ints perm(static_cast<size_t>(rank));
  std::iota(perm.begin(), perm.end(), 0);
  return perm;
}

Results permute(Call& c) {
  ValueId x = c.tensor(0);
  Ints perm = c.ints(1);
  for (int64_t& axis : perm) axis = normalised_axis(axis, c.rank(x));
  return c.transpose(x, std::move(perm));
}

Results transpose(Call& c) {
  ValueId x = c.tensor(0);
  int64_t a = c.axis(1, c.rank(x));
  return c.swap(x, a, c.axis(2, c.rank(x)));
}

Results swap_last(Call& c) {
  ValueId x = c.tensor(0);
  if (c.rank(x) < 2) return x;
  return c.swap(x, c.rank(x) - 2, c.rank(x) - 1);
}

Results reverse_axes(Call& c) {
  ValueId x = c.tensor(0);
  Ints perm = identity(c.rank(x));
  std::reverse(perm.begin(), perm.end());
  return c.transpose(x, std::move(perm));
}

// The named axes go to their destinations, the others keep their order around them.
Results movedim(Call& c) {
  ValueId x = c.tensor(0);
  int rank = c.rank(x);
  Ints from = c.ints(1);
  Ints to = c.ints(2);
  if (from.size() != to.size()) malformed("it moves {} axes to {} places", from.size(), to.size());
  Ints perm(static_cast<size_t>(rank), -1);
  std::vector<bool> moved(static_cast<size_t>(rank), false);
  if (rank == 0) return x;
  for (size_t i = 0; i < from.size(); ++i) {
    auto source = static_cast<size_t>(normalised_axis(from[i], rank));
    auto place = static_cast<size_t>(normalised_axis(to[i], rank));
    if (moved[source] || perm[place] >= 0) malformed("it names an axis twice");
    moved[source] = true;
    perm[place] = static_cast<int64_t>(source);
  }
  int64_t next = 0;
  for (int64_t& axis : perm) {
    if (axis >= 0) continue;
    while (moved[static_cast<size_t>(next)]) ++next;
    axis = next++;
  }
  return c.transpose(x, std::move(perm));
}

// In training mode it would draw random numbers. On average it changes nothing, and in evaluation nothing at all.
ValueId without_dropout(Call& c) {
  if (!c.none(2) && c.flag(2) && c.real(1) != 0)
    c.warning =
        with_code("dropout is in training mode and is left out; call model.eval() before export", Code::Dropout);
  return c.tensor(0);
}

Results dropout(Call& c) { return without_dropout(c); }

Results native_dropout(Call& c) {
  if (c.wants(1)) unsupported("the mask of a dropout is used");
  return std::vector<ValueId>{without_dropout(c), kNone};
}

// [N, C*r*r, H, W] -> [N, C, H*r, W*r]
Results pixel_shuffle(Call& c) {
  ValueId x = c.tensor(0);
  int64_t r = c.integer(1);
  if (c.rank(x) < 3) malformed("it needs channels, height and width");
  if (r <= 0 || r > 4096) malformed("its factor {} makes no sense", r);
  Shape shape = c.shape(x);
  size_t n = shape.size() - 3;
  int64_t channels = shape[n], height = shape[n + 1], width = shape[n + 2];
  Shape split(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(n));
  split.insert(split.end(), {channels / (r * r), r, r, height, width});
  Ints perm = identity(static_cast<int>(n));
  auto b = static_cast<int64_t>(n);
  perm.insert(perm.end(), {b, b + 3, b + 1, b + 4, b + 2});
  return c.reshape(c.transpose(c.reshape(x, std::move(split)), std::move(perm)), c.result().shape);
}

Results pixel_unshuffle(Call& c) {
  ValueId x = c.tensor(0);
  int64_t r = c.integer(1);
  if (c.rank(x) < 3) malformed("it needs channels, height and width");
  if (r <= 0 || r > 4096) malformed("its factor {} makes no sense", r);
  Shape shape = c.shape(x);
  size_t n = shape.size() - 3;
  int64_t channels = shape[n], height = shape[n + 1], width = shape[n + 2];
  Shape split(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(n));
  split.insert(split.end(), {channels, height / r, r, width / r, r});
  Ints perm = identity(static_cast<int>(n));
  auto b = static_cast<int64_t>(n);
  perm.insert(perm.end(), {b, b + 2, b + 4, b + 1, b + 3});
  return c.reshape(c.transpose(c.reshape(x, std::move(split)), std::move(perm)), c.result().shape);
}

Results channel_shuffle(Call& c) {
  ValueId x = c.tensor(0);
  int64_t groups = c.integer(1);
  Shape shape = c.shape(x);
  if (shape.size() < 2 || groups <= 0 || shape[1] % groups != 0)
    malformed("its channels cannot be split into {} groups", groups);
  Shape split = shape;
  split[1] = groups;
  split.insert(split.begin() + 2, shape[1] / groups);
  return c.reshape(c.swap(c.reshape(x, std::move(split)), 1, 2), std::move(shape));
}

// x[k:] + x[:k] along each axis; without axes over the flattened tensor
Results roll(Call& c) {
  ValueId x = c.tensor(0);
  Shape shape = c.shape(x);
  Ints shifts = c.ints(1);
  Ints dims = c.ints(2);
  if (dims.empty()) {
    x = c.reshape(x, {element_count(shape)});
    dims = {0};
  }
  if (shifts.size() != dims.size()) malformed("it has {} shifts for {} axes", shifts.size(), dims.size());
  for (size_t i = 0; i < dims.size(); ++i) {
    int64_t axis = normalised_axis(dims[i], c.rank(x));
    int64_t size = c.rank(x) == 0 ? 1 : c.dim(x, axis);
    if (size == 0) continue;
    int64_t shift = shifts[i] % size;
    if (shift < 0) shift += size;
    if (shift != 0) x = c.concat({c.slice(x, axis, size - shift, size), c.slice(x, axis, 0, size - shift)}, axis);
  }
  return c.reshape(x, std::move(shape));
}

Results flip(Call& c) {
  ValueId x = c.tensor(0);
  Ints axes = c.ints(1);
  if (axes.empty() || c.rank(x) == 0) return x;
  return c.make(Op::Flip, {x}, {{Key::Axes, c.axes(1, c.rank(x))}});
}

// A quarter turn from the first axis towards the second, k times
Results rot90(Call& c) {
  ValueId x = c.tensor(0);
  Ints axes = c.ints(2, 2);
  for (int64_t& axis : axes) axis = normalised_axis(axis, c.rank(x));
  if (axes[0] == axes[1] || c.rank(x) < 2) malformed("it needs two different axes");
  auto flipped = [&](Ints over) { return c.make(Op::Flip, {x}, {{Key::Axes, std::move(over)}}); };
  switch (((c.integer(1) % 4) + 4) % 4) {
    case 1: return c.swap(flipped({axes[1]}), axes[0], axes[1]);
    case 2: return flipped({std::min(axes[0], axes[1]), std::max(axes[0], axes[1])});
    case 3: return c.swap(flipped({axes[0]}), axes[0], axes[1]);
    default: return x;
  }
}

template <int64_t axis>
Results flip_axis(Call& c) {
  ValueId x = c.tensor(0);
  c.dim(x, axis);
  return c.make(Op::Flip, {x}, {{Key::Axes, Ints{axis}}});
}

// x[1:] - x[:-1], n times
Results diff(Call& c) {
  ValueId x = c.tensor(0);
  int64_t axis = c.axis(2, c.rank(x));
  std::vector<ValueId> parts;
  if (!c.none(3)) parts.push_back(c.cast(c.tensor(3), c.dtype(x)));
  parts.push_back(x);
  if (!c.none(4)) parts.push_back(c.cast(c.tensor(4), c.dtype(x)));
  x = c.concat(std::move(parts), axis);
  int64_t times = std::min(c.integer(1), c.dim(x, axis));
  for (int64_t i = 0; i < times; ++i) {
    int64_t size = c.dim(x, axis);
    ValueId next = c.slice(x, axis, std::min<int64_t>(1, size), size),
            here = c.slice(x, axis, 0, std::max<int64_t>(0, size - 1));
    x = c.dtype(x) == DType::Bool ? c.make(Op::Logical, {next, here}, {{Key::Fn, std::string("xor")}})
                                  : c.sub(next, here);
  }
  return x;
}

// How steep x is along an axis, `step` being the distance of neighbours: from both sides, at the ends from one.
ValueId slope(Call& c, ValueId x, int64_t axis, double step, int64_t edge_order) {
  const int64_t n = c.dim(x, axis);
  if (n < edge_order + 1) malformed("it needs {} elements along axis {}", edge_order + 1, axis);
  auto at = [&](int64_t i) { return c.slice(x, axis, i, i + 1); };
  auto end = [&](int64_t first, int64_t towards) {
    ValueId near = c.scaled(c.sub(at(first + towards), at(first)), static_cast<double>(towards) / step);
    if (edge_order == 1) return near;
    ValueId wide = c.sub(at(first + 2 * towards), at(first));
    return c.sub(c.scaled(near, 2), c.scaled(wide, static_cast<double>(towards) / (2 * step)));
  };
  std::vector<ValueId> parts = {end(0, 1)};
  if (n > 2) parts.push_back(c.scaled(c.sub(c.slice(x, axis, 2, n), c.slice(x, axis, 0, n - 2)), 1 / (2 * step)));
  parts.push_back(end(n - 1, -1));
  return c.concat(std::move(parts), axis);
}

// One result per axis. The argument before the axes, where there is one, holds the distances.
template <size_t axes_at>
Results gradient(Call& c) {
  ValueId x = c.tensor(0);
  if (!is_float(c.dtype(x))) x = c.cast(x, DType::F32);
  Ints axes;
  if (!c.none(axes_at)) axes = c.ints(axes_at);
  for (int64_t& axis : axes) axis = normalised_axis(axis, c.rank(x));
  for (int64_t d = 0; d < c.rank(x) && c.none(axes_at); ++d) axes.push_back(d);
  Doubles distances = axes_at == 1 || c.none(1) ? Doubles{1} : c.reals(1);
  if (distances.size() == 1) distances.resize(axes.size(), distances[0]);
  if (distances.size() != axes.size()) malformed("it has {} distances for {} axes", distances.size(), axes.size());
  std::vector<ValueId> slopes;
  for (size_t i = 0; i < axes.size(); ++i) slopes.push_back(slope(c, x, axes[i], distances[i], c.integer(axes_at + 1)));
  return slopes;
}

std::vector<ValueId> all_tensors(Call& c) {
  std::vector<ValueId> list = c.tensors(0);
  for (ValueId x : list)
    if (x == kNone) malformed("one of its tensors is None");
  return list;
}

// One axis per tensor, each repeated along the axes of the others
std::vector<ValueId> grid(Call& c, const std::vector<ValueId>& lines) {
  Shape shape;
  for (ValueId x : lines) shape.push_back(element_count(c.shape(x)));
  std::vector<ValueId> list;
  for (size_t i = 0; i < lines.size(); ++i) {
    Shape along(shape.size(), 1);
    along[i] = shape[i];
    list.push_back(c.expand(c.reshape(lines[i], std::move(along)), shape));
  }
  return list;
}

Results meshgrid(Call& c) {
  std::vector<ValueId> lines = all_tensors(c);
  bool columns_first = c.args.size() > 1 && c.text(1) == "xy" && lines.size() > 1;
  if (columns_first) std::swap(lines[0], lines[1]);
  std::vector<ValueId> list = grid(c, lines);
  if (columns_first) std::swap(list[0], list[1]);
  return list;
}

ValueId joined_columns(Call& c, std::vector<ValueId> columns) {
  for (ValueId& x : columns) x = c.reshape(x, {element_count(c.shape(x)), 1});
  return c.concat(std::move(columns), 1);
}

Results cartesian_prod(Call& c) {
  std::vector<ValueId> lines = all_tensors(c);
  if (lines.size() == 1) return lines[0];
  return joined_columns(c, grid(c, lines));
}

// Every choice of r elements of a vector, as the rows of a matrix
Results combinations(Call& c) {
  ValueId x = c.tensor(0);
  if (c.rank(x) != 1) malformed("it needs a vector");
  int64_t n = c.dim(x, 0), r = c.integer(1), again = c.flag(2) ? 0 : 1;
  if (r < 1 || r > 8) unsupported("combinations of {} elements", r);
  std::vector<Ints> rows = {{}};
  for (int64_t i = 0; i < r; ++i) {
    std::vector<Ints> longer;
    for (const Ints& row : rows)
      for (int64_t next = row.empty() ? 0 : row.back() + again; next < n; ++next) {
        if (longer.size() > (size_t{1} << 20)) unsupported("more than a million combinations");
        longer.push_back(row);
        longer.back().push_back(next);
      }
    rows = std::move(longer);
  }
  ValueId index = c.filled(DType::I64, {static_cast<int64_t>(rows.size()), r},
                           [&](int64_t i) { return rows[static_cast<size_t>(i / r)][static_cast<size_t>(i % r)]; });
  return c.make(Op::Gather, {x, index}, {{Key::Axis, int64_t{0}}});
}

Results broadcast_tensors(Call& c) {
  std::vector<ValueId> list = all_tensors(c);
  if (list.size() != c.results.size()) malformed("it has {} results for {} tensors", c.results.size(), list.size());
  for (size_t i = 0; i < list.size(); ++i) list[i] = c.expand(list[i], c.result(i).shape);
  return list;
}

// The inverse of broadcasting: axes that are larger than wanted are summed.
Results sum_to_size(Call& c) {
  ValueId x = c.tensor(0);
  const Shape& to = c.result().shape;
  Ints axes;
  for (int64_t d = 0; d < c.rank(x); ++d) {
    int64_t place = d - (c.rank(x) - static_cast<int64_t>(to.size()));
    if (place < 0 || to[static_cast<size_t>(place)] != c.dim(x, d)) axes.push_back(d);
  }
  return c.reshape(axes.empty() ? x : c.reduce(Op::Sum, x, std::move(axes), true), to);
}

ValueId repeated(Call& c, ValueId x, Ints multiples) {
  Shape padded = c.shape(x);
  if (multiples.size() < padded.size()) multiples.insert(multiples.begin(), padded.size() - multiples.size(), 1);
  padded.insert(padded.begin(), multiples.size() - padded.size(), 1);
  x = c.reshape(x, std::move(padded));
  if (std::all_of(multiples.begin(), multiples.end(), [](int64_t m) { return m == 1; })) return x;
  return c.make(Op::Repeat, {x}, {{Key::Multiples, std::move(multiples)}});
}

Results repeat(Call& c) { return repeated(c, c.tensor(0), c.ints(1)); }

// Each element r times in a row: a new axis after the repeated one, expanded.
Results repeat_interleave(Call& c) {
  ValueId x = c.tensor(0);
  int64_t times = c.integer(1);
  if (c.none(2)) x = c.reshape(x, {element_count(c.shape(x))});
  int64_t axis = c.none(2) ? 0 : c.axis(2, c.rank(x));
  if (c.rank(x) == 0) x = c.reshape(x, {1});
  x = c.unsqueeze(x, axis + 1);
  Shape wide = c.shape(x);
  wide[static_cast<size_t>(axis) + 1] = times;
  return c.reshape(c.expand(x, wide), c.result().shape);
}

// -- padding: PyTorch counts pairs from the last axis

ValueId padded(Call& c, ValueId x, const Ints& pad, std::string_view mode, double value) {
  auto rank = static_cast<size_t>(c.rank(x));
  if (pad.size() % 2 != 0 || pad.size() / 2 > rank)
    malformed("it has {} paddings for a tensor with {} dimensions", pad.size(), rank);
  if (c.type(x).quantized() && mode == "constant") {
    const Quant& quant = *c.type(x).quant;  // the exporter pads with a code, the core operator with a real
    if (quant.per_channel()) unsupported("padding of a tensor that is quantized per channel");
    value = (value - static_cast<double>(quant.zero_point[0])) * quant.scale[0];
  }
  Ints pairs(rank * 2, 0);
  // A negative padding cuts off: before the padding, or behind it, where an element that is cut off is repeated.
  bool repeats = mode == "replicate";
  auto cut = [&](bool wanted) {
    if (!wanted) return;
    for (size_t i = 0; i < pad.size() / 2; ++i) {
      auto axis = static_cast<int64_t>(rank - 1 - i);
      int64_t size = c.dim(x, axis);
      x = c.slice(x, axis, std::min(size, std::max<int64_t>(-pad[2 * i], 0)),
                  std::max<int64_t>(0, size - std::max<int64_t>(-pad[2 * i + 1], 0)));
    }
  };
  for (size_t i = 0; i < pad.size(); ++i)
    if (pad[i] < -(int64_t{1} << 40)) malformed("its padding {} makes no sense", pad[i]);
  cut(!repeats);
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    pairs[2 * (rank - 1 - i)] = std::max<int64_t>(pad[2 * i], 0);
    pairs[2 * (rank - 1 - i) + 1] = std::max<int64_t>(pad[2 * i + 1], 0);
  }
  if (!std::all_of(pairs.begin(), pairs.end(), [](int64_t p) { return p == 0; }))
    x = c.make(Op::Pad, {x}, {{Key::Padding, std::move(pairs)}, {Key::Mode, std::string(mode)}, {Key::Value, value}});
  cut(repeats);
  return x;
}

Results pad(Call& c) {
  std::string_view mode = c.text(2);
  double value = c.real_or_none(3).value_or(0);
  if (mode != "constant" && mode != "reflect" && mode != "replicate" && mode != "circular")
    malformed("its mode `{}` does not exist", mode);
  return padded(c, c.tensor(0), c.ints(1), mode, value);
}

Results constant_pad(Call& c) { return padded(c, c.tensor(0), c.ints(1), "constant", c.real(2)); }
Results pad_as_detail(Call& c) { return padded(c, c.tensor(0), c.ints(1), c.detail(), 0); }

// Keeps the elements at and below (above) the diagonal.
Results triangle(Call& c) {
  ValueId x = c.tensor(0);
  if (c.rank(x) < 2) malformed("it needs a matrix");
  int64_t rows = c.dim(x, c.rank(x) - 2);
  int64_t columns = c.dim(x, c.rank(x) - 1);
  int64_t diagonal = std::clamp<int64_t>(c.integer(1), -rows - columns, rows + columns);
  bool lower = c.detail() == "lower";
  ValueId keep = c.filled(DType::Bool, {rows, columns}, [&](int64_t i) {
    int64_t distance = i % columns - i / columns;
    return int64_t{lower ? distance <= diagonal : distance >= diagonal};
  });
  return c.make(Op::Where, {keep, x, c.scalar(0, c.dtype(x))});
}

constexpr std::string_view kToLayout =
    "self, *, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, copy=False, "
    "memory_format=None";

constexpr Row kMoveRows[] = {
    {"aten.view.default", "self, size", to_result_shape, "", RowKind::View},
    {"aten.view_as.default", "self, other", to_result_shape, "", RowKind::View},
    {"aten.reshape.default", "self, shape", to_result_shape, "", RowKind::ViewIfContiguous},
    {"aten.reshape_as.default", "self, other", to_result_shape, "", RowKind::ViewIfContiguous},
    {"aten._unsafe_view.default", "self, size", to_result_shape},
    {"aten.flatten.using_ints", "self, start_dim=0, end_dim=-1", to_result_shape, "", RowKind::ViewIfContiguous},
    {"aten.ravel.default", "self", to_result_shape, "", RowKind::ViewIfContiguous},
    {"aten.unflatten.int", "self, dim, sizes", to_result_shape, "", RowKind::View},
    {"aten.squeeze.default", "self", to_result_shape, "", RowKind::View},
    {"aten.squeeze.dim", "self, dim", to_result_shape, "", RowKind::View},
    {"aten.squeeze.dims", "self, dim", to_result_shape, "", RowKind::View},
    {"aten.unsqueeze.default", "self, dim", to_result_shape, "", RowKind::View},
    {"aten.atleast_1d.default", "self", to_result_shape, "", RowKind::View},
    {"aten.atleast_2d.default", "self", to_result_shape, "", RowKind::View},
    {"aten.atleast_3d.default", "self", to_result_shape, "", RowKind::View},
    {"aten.expand.default", "self, size, *, implicit=False", expand_to_result, "", RowKind::View},
    {"aten.expand_as.default", "self, other", expand_to_result, "", RowKind::View},
    {"aten.broadcast_to.default", "self, size", expand_to_result, "", RowKind::View},
    {"aten.permute.default", "self, dims", permute, "", RowKind::View},
    {"aten.transpose.int", "self, dim0, dim1", transpose, "", RowKind::View},
    {"aten.swapaxes.default", "self, axis0, axis1", transpose, "", RowKind::View},
    {"aten.swapdims.default", "self, dim0, dim1", transpose, "", RowKind::View},
    {"aten.t.default", "self", swap_last, "", RowKind::View},
    {"aten.mT.default", "self", swap_last, "", RowKind::View},
    {"aten.adjoint.default", "self", swap_last, "", RowKind::View},
    {"aten.mH.default", "self", swap_last, "", RowKind::View},
    {"aten.matrix_H.default", "self", swap_last, "", RowKind::View},
    {"aten.numpy_T.default", "self", reverse_axes, "", RowKind::View},
    {"aten.movedim.int", "self, source, destination", movedim, "", RowKind::View},
    {"aten.movedim.intlist", "self, source, destination", movedim, "", RowKind::View},
    {"aten.moveaxis.int", "self, source, destination", movedim, "", RowKind::View},
    {"aten.moveaxis.intlist", "self, source, destination", movedim, "", RowKind::View},
    {"aten.contiguous.default", "self, *, memory_format=0", same, "", RowKind::ViewIfContiguous},
    {"aten.clone.default", "self, *, memory_format=None", same},
    {"aten.alias.default", "self", same, "", RowKind::View},
    {"aten.detach.default", "self", same, "", RowKind::View},
    {"aten.lift_fresh_copy.default", "self", same},
    {"prims.copy_strided.default", "a, stride", same},  // what run_decompositions() makes of some copies
    {"aten.lift_fresh.default", "self", same, "", RowKind::View},
    {"aten.lift.default", "self", same},
    {"aten.resolve_conj.default", "self", same, "", RowKind::View},
    {"aten.conj.default", "self", same, "", RowKind::View},
    {"aten._conj.default", "self", same, "", RowKind::View},
    {"aten.conj_physical.default", "self", same},
    {"aten.resolve_neg.default", "self", same, "", RowKind::View},
    {"aten.dropout.default", "input, p, train", dropout, "", RowKind::View},
    {"aten.feature_dropout.default", "input, p, train", dropout, "", RowKind::View},
    {"aten.alpha_dropout.default", "input, p, train", dropout, "", RowKind::View},
    {"aten.feature_alpha_dropout.default", "input, p, train", dropout, "", RowKind::View},
    {"aten.native_dropout.default", "input, p, train", native_dropout},
    {"aten.to.dtype", "self, dtype, non_blocking=False, copy=False, memory_format=None", cast_to_result, "",
     RowKind::View},
    {"aten.to.dtype_layout", kToLayout, cast_to_result, "", RowKind::View},
    {"aten.to.device", "self, device, dtype, non_blocking=False, copy=False, memory_format=None", cast_to_result, "",
     RowKind::View},
    {"aten.to.other", "self, other, non_blocking=False, copy=False, memory_format=None", cast_to_result, "",
     RowKind::View},
    {"aten._to_copy.default",
     "self, *, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, memory_format=None",
     cast_to_result},
    {"aten.type_as.default", "self, other", cast_to_result, "", RowKind::View},
    {"dim_order_ops._to_dim_order_copy.default",
     "self, *, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, dim_order=None",
     cast_to_result},
    {"dim_order_ops._clone_dim_order.default", "self, *, non_blocking=False, dim_order=None", same},
    {"aten.pixel_shuffle.default", "self, upscale_factor", pixel_shuffle},
    {"aten.pixel_unshuffle.default", "self, downscale_factor", pixel_unshuffle},
    {"aten.channel_shuffle.default", "self, groups", channel_shuffle},
    {"aten.native_channel_shuffle.default", "self, groups", channel_shuffle},
    {"aten.roll.default", "self, shifts, dims=[]", roll},
    {"aten.flip.default", "self, dims", flip},
    {"aten.fliplr.default", "self", flip_axis<1>},
    {"aten.flipud.default", "self", flip_axis<0>},
    {"aten.rot90.default", "self, k=1, dims=[0,1]", rot90},
    {"aten.gradient.scalarint", "self, *, spacing=None, dim=None, edge_order=1", gradient<2>},
    {"aten.gradient.scalararray", "self, *, spacing, dim, edge_order=1", gradient<2>},
    {"aten.gradient.array", "self, *, dim, edge_order=1", gradient<1>},
    {"aten.gradient.scalarrayint", "self, *, spacing, dim=None, edge_order=1", gradient<2>},
    {"aten.gradient.scalarrayarray", "self, *, spacing, dim, edge_order=1", gradient<2>},
    {"aten.diff.default", "self, n=1, dim=-1, prepend=None, append=None", diff},
    {"aten.meshgrid.default", "tensors", meshgrid},
    {"aten.meshgrid.indexing", "tensors, *, indexing", meshgrid},
    {"aten.cartesian_prod.default", "tensors", cartesian_prod},
    {"aten.combinations.default", "self, r=2, with_replacement=False", combinations},
    {"aten.broadcast_tensors.default", "tensors", broadcast_tensors},
    {"aten.sum_to_size.default", "self, size", sum_to_size},
    {"aten.repeat.default", "self, repeats", repeat},
    {"aten.tile.default", "self, dims", repeat},
    {"aten.repeat_interleave.self_int", "self, repeats, dim=None, *, output_size=None", repeat_interleave},
    {"aten.pad.default", "self, pad, mode='constant', value=None", pad},
    {"aten.constant_pad_nd.default", "self, pad, value=0", constant_pad},
    {"aten.reflection_pad1d.default", "self, padding", pad_as_detail, "reflect"},
    {"aten.reflection_pad2d.default", "self, padding", pad_as_detail, "reflect"},
    {"aten.reflection_pad3d.default", "self, padding", pad_as_detail, "reflect"},
    {"aten.replication_pad1d.default", "self, padding", pad_as_detail, "replicate"},
    {"aten.replication_pad2d.default", "self, padding", pad_as_detail, "replicate"},
    {"aten.replication_pad3d.default", "self, padding", pad_as_detail, "replicate"},
    {"aten._pad_circular.default", "self, pad", pad_as_detail, "circular"},
    {"aten.tril.default", "self, diagonal=0", triangle, "lower"},
    {"aten.triu.default", "self, diagonal=0", triangle, "upper"},
};

}  // namespace

std::span<const Row> move_rows() { return kMoveRows; }

}  // namespace swoop
