// Writing by indices. Plain writes are ScatterElements. Writes that add up, multiply or compare are comparisons of
// every place with every index and a reduction over the indices: no order to depend on, and an index that is a constant
// leaves a matrix product.
#include <algorithm>

#include "import/aten.h"
#include "import/indices.h"

namespace swoop {

namespace {

constexpr int64_t kMaxMeetings = int64_t{1} << 24;  // of places with indices

void refuse_too_many(int64_t places, int64_t indices) {
  if (indices != 0 && places > kMaxMeetings / indices)
    unsupported("writing to {} places by {} indices", places, indices);
}

// Whether so few elements are written that the NPU can ask of every place whether it is the one. An index that is known
// makes slices.
bool few_writes(const NodeBuilder& c, ValueId x, ValueId index, int64_t axis) {
  constexpr int64_t kMostWrites = 16, kMostMeetings = int64_t{1} << 20;
  const int64_t writes = c.dim(index, axis);
  return !c.graph.value(index).constant && writes > 0 && writes <= kMostWrites &&
         element_count(c.shape(x)) <= kMostMeetings / writes;
}

// x with one element of src after the other where index says, along the axis; the last one stays. On the other axes,
// index and src have x's sizes or 1.
ValueId write_one_by_one(NodeBuilder& c, ValueId x, ValueId index, ValueId src, int64_t axis) {
  Shape along(c.shape(x).size(), 1);
  along[static_cast<size_t>(axis)] = c.dim(x, axis);
  ValueId place = c.reshape(c.counted(c.dim(x, axis), c.dtype(index)), std::move(along));
  for (int64_t i = 0; i < c.dim(index, axis); ++i) {
    ValueId here = c.compare("eq", c.slice(index, axis, i, i + 1), place);
    x = c.where(here, c.slice(src, axis, i, i + 1), x);
  }
  return x;
}

ValueId scatter(NodeBuilder& c, ValueId x, ValueId index, ValueId src, int64_t axis) {
  Shape rows = c.shape(x);
  rows[static_cast<size_t>(axis)] = c.dim(index, axis);
  if (c.shape(index) == rows && few_writes(c, x, index, axis))
    return write_one_by_one(c, x, inside(c, as_32_bits(c, index), c.dim(x, axis)), c.cast(src, c.dtype(x)), axis);
  return c.make(Op::ScatterElements, {x, index, c.cast(src, c.dtype(x))}, {{Key::Axis, axis}});
}

// The part of src that index names elements for
ValueId as_large_as(Call& c, ValueId src, const Shape& shape) {
  if (c.rank(src) != static_cast<int>(shape.size())) malformed("its source has {} dimensions", c.rank(src));
  for (int64_t d = 0; d < c.rank(src); ++d) src = c.slice(src, d, 0, shape[static_cast<size_t>(d)]);
  return src;
}

// How values that meet at one place are combined
struct Combining {
  std::string_view name;
  Op reduce;
  Op with_self;
};
constexpr Combining kCombining[] = {
    {"sum", Op::Sum, Op::Add},
    {"add", Op::Sum, Op::Add},
    {"mean", Op::Sum, Op::Add},
    {"prod", Op::Prod, Op::Mul},
    {"multiply", Op::Prod, Op::Mul},
    {"amax", Op::ReduceMax, Op::Maximum},
    {"amin", Op::ReduceMin, Op::Minimum},
};

// What changes nothing: for extremes the other extreme of all that could be brought, because a number out of its range
// would leave it no resolution.
ValueId neutral_for(Call& c, ValueId src, Op reduce) {
  if (reduce == Op::Sum || reduce == Op::Prod) return c.scalar(reduce == Op::Sum ? 0 : 1, c.dtype(src));
  Ints axes;
  for (int64_t d = 0; d < c.rank(src); ++d) axes.push_back(d);
  return c.reduce(reduce == Op::ReduceMax ? Op::ReduceMin : Op::ReduceMax, src, std::move(axes), true);
}

const Combining& combining(std::string_view name) {
  for (const Combining& one : kCombining)
    if (one.name == name) return one;
  malformed("its reduction `{}` does not exist", name);
}

// x combined with what src brings along the axis: meets[..., place, index, ...] says who goes where, src has an axis of
// size 1 for the places. Places that nothing comes to keep x.
ValueId combined(Call& c, ValueId x, ValueId meets, ValueId src, int64_t axis, const Combining& how,
                 bool include_self) {
  DType dtype = c.dtype(x);
  ValueId brought = c.where(meets, src, neutral_for(c, src, how.reduce));
  brought = c.cast(c.reduce(how.reduce, brought, {axis + 1}, false), dtype);
  ValueId touched = c.reduce(Op::Any, meets, {axis + 1}, false);
  ValueId result = include_self ? c.make(how.with_self, {x, brought}) : brought;
  if (how.name == "mean") {
    ValueId count = c.reduce(Op::Sum, c.cast(meets, dtype), {axis + 1}, false);
    count = include_self ? c.add(count, c.scalar(1, dtype)) : c.clamp(count, 1.0, std::nullopt);
    result =
        is_float(dtype) ? c.div(result, count) : c.make(Op::Div, {result, count}, {{Key::Mode, std::string("floor")}});
  }
  bool everywhere = include_self && how.reduce != Op::ReduceMax && how.reduce != Op::ReduceMin;
  return everywhere ? result : c.where(touched, result, x);
}

// A scalar has one place, and the index can only name that.
ValueId onto_scalar(Call& c, ValueId x, ValueId src, const Combining& how, bool include_self) {
  if (element_count(c.shape(src)) != 1) unsupported("writing {} values to a scalar", element_count(c.shape(src)));
  src = c.reshape(c.cast(src, c.dtype(x)), {});
  if (!include_self) return src;
  ValueId both = c.make(how.with_self, {x, src});
  return how.name == "mean" ? c.scaled(both, 0.5) : both;
}

// scatter with a reduction: index has x's rank
ValueId scatter_reduced(Call& c, ValueId x, ValueId index, ValueId src, int64_t axis, std::string_view reduction,
                        bool include_self) {
  if (c.rank(x) == 0) return onto_scalar(c, x, src, combining(reduction), include_self);
  if (c.rank(index) != c.rank(x)) malformed("its index has {} dimensions", c.rank(index));
  int64_t places = c.dim(x, axis);
  refuse_too_many(places, element_count(c.shape(index)));
  if (!c.graph.value(index).constant) index = inside(c, as_32_bits(c, index), places);
  src = as_large_as(c, c.cast(src, c.dtype(x)), c.shape(index));
  for (int64_t d = 0; d < c.rank(x); ++d) {  // x may be larger on the other axes: no index there is -1
    int64_t missing = d == axis ? 0 : std::max<int64_t>(0, c.dim(x, d) - c.dim(index, d));
    index = c.pad(index, d, 0, missing, -1);
    src = c.pad(src, d, 0, missing, 0);
  }
  src = c.unsqueeze(src, axis);
  Shape along(c.shape(src).size(), 1);
  along[static_cast<size_t>(axis)] = places;
  ValueId place = c.reshape(c.counted(places, c.dtype(index)), std::move(along));
  ValueId meets = c.compare("eq", c.unsqueeze(index, axis), place);
  return combined(c, x, meets, src, axis, combining(reduction), include_self);
}

Results scatter_src(Call& c) {
  ValueId x = c.tensor(0);
  ValueId index = c.tensor(2);
  if (c.rank(x) == 0) return scatter_reduced(c, x, index, c.tensor(3), 0, "sum", false);
  return scatter(c, x, index, as_large_as(c, c.tensor(3), c.shape(index)), c.axis(1, c.rank(x)));
}

Results scatter_value(Call& c) {
  ValueId x = c.tensor(0);
  ValueId index = c.tensor(2);
  ValueId value = c.expand(c.operand(3, c.dtype(x)), c.shape(index));
  if (c.rank(x) == 0) return scatter_reduced(c, x, index, value, 0, "sum", false);
  return scatter(c, x, index, value, c.axis(1, c.rank(x)));
}

Results scatter_add(Call& c) {
  ValueId x = c.tensor(0);
  return scatter_reduced(c, x, c.tensor(2), c.tensor(3), c.axis(1, c.rank(x)), "sum", true);
}

Results scatter_reduce(Call& c) {
  ValueId x = c.tensor(0);
  return scatter_reduced(c, x, c.tensor(2), c.tensor(3), c.axis(1, c.rank(x)), c.text(4), c.flag(5));
}

Results scatter_with(Call& c) {
  ValueId x = c.tensor(0);
  ValueId index = c.tensor(2);
  ValueId src = c.is_number(3) ? c.expand(c.operand(3, c.dtype(x)), c.shape(index)) : c.tensor(3);
  return scatter_reduced(c, x, index, src, c.axis(1, c.rank(x)), c.text(4), true);
}

// -- one index along one axis, for whole slices

// meets[place, index], shaped to stand at axis and axis + 1
ValueId meeting(Call& c, ValueId index, int64_t places, int64_t axis, int rank) {
  ValueId flat = c.reshape(index, {1, element_count(c.shape(index))});
  refuse_too_many(places, c.dim(flat, 1));
  ValueId meets = c.compare("eq", flat, c.reshape(c.counted(places, c.dtype(index)), {places, 1}));
  Shape shape(static_cast<size_t>(rank) + 1, 1);
  shape[static_cast<size_t>(axis)] = places;
  shape[static_cast<size_t>(axis) + 1] = c.dim(flat, 1);
  return c.reshape(meets, std::move(shape));
}

ValueId slices_reduced(Call& c, ValueId x, int64_t axis, ValueId index, ValueId source, std::string_view reduction,
                       bool include_self) {
  if (c.rank(x) == 0) return onto_scalar(c, x, source, combining(reduction), include_self);
  int64_t places = c.dim(x, axis), last = c.rank(x) - 1;
  ValueId meets = meeting(c, from_start(c, index, places), places, axis, c.rank(x));
  if (reduction == "sum" && include_self && is_float(c.dtype(x))) {  // a product with the matrix of who goes where
    ValueId matrix = c.cast(c.reshape(meets, {places, element_count(c.shape(index))}), c.dtype(x));
    ValueId rows = c.swap(c.cast(source, c.dtype(x)), axis, last);
    Shape shape = c.shape(rows);
    shape.back() = places;
    if (c.rank(rows) == 1) rows = c.unsqueeze(rows, 0);  // a product needs matrices
    ValueId brought = c.reshape(c.matmul(rows, c.swap(matrix, 0, 1)), std::move(shape));
    return c.add(x, c.swap(brought, axis, last));
  }
  refuse_too_many(places, element_count(c.shape(source)));
  return combined(c, x, meets, c.unsqueeze(c.cast(source, c.dtype(x)), axis), axis, combining(reduction), include_self);
}

Results index_add(Call& c) {
  ValueId x = c.tensor(0);
  ValueId source = c.scaled(c.cast(c.tensor(3), c.dtype(x)), c.real(4));
  return slices_reduced(c, x, c.axis(1, c.rank(x)), c.tensor(2), source, "sum", true);
}

Results index_reduce(Call& c) {
  ValueId x = c.tensor(0);
  return slices_reduced(c, x, c.axis(1, c.rank(x)), c.tensor(2), c.tensor(3), c.text(4), c.flag(5));
}

// x with x[..., index, ...] = value
Results index_fill(Call& c) {
  ValueId x = c.tensor(0);
  if (c.rank(x) == 0) return c.operand(3, c.dtype(x));
  int64_t axis = c.axis(1, c.rank(x));
  ValueId index = from_start(c, c.tensor(2), c.dim(x, axis));
  ValueId filled = c.reduce(Op::Any, meeting(c, index, c.dim(x, axis), axis, c.rank(x)), {axis + 1}, false);
  return c.where(filled, c.operand(3, c.dtype(x)), x);
}

// x with x[start : start + n] replaced by the n of part
ValueId write_run(NodeBuilder& c, ValueId x, int64_t axis, int64_t start, ValueId part) {
  const int64_t end = start + c.dim(part, axis), size = c.dim(x, axis);
  std::vector<ValueId> parts;
  if (start > 0) parts.push_back(c.slice(x, axis, 0, start));
  parts.push_back(part);
  if (end < size) parts.push_back(c.slice(x, axis, end, size));
  return c.concat(std::move(parts), axis);
}

// x with rows of source where the index says, along the axis. Every place asks which index is the last to name it.
ValueId write_last(NodeBuilder& c, ValueId x, int64_t axis, ValueId index, ValueId source) {
  const int64_t places = c.dim(x, axis), writes = c.dim(index, 0);
  ValueId number = c.reshape(c.counted(writes), {1, writes});
  ValueId here =
      c.compare("eq", c.reshape(index, {1, writes}), c.reshape(c.counted(places, c.dtype(index)), {places, 1}));
  ValueId last = c.reduce(Op::ReduceMax, c.where(here, number, c.scalar(-1, DType::I64)), {1}, true);
  ValueId written = c.compare("ge", last, c.scalar(0, DType::I64));
  Shape along(c.shape(x).size(), 1);
  along[static_cast<size_t>(axis)] = places;
  ValueId picked = kNone;
  if (c.rank(x) == 1) {
    ValueId chosen = c.where(c.compare("eq", number, last), source, c.scalar(0, c.dtype(source)));
    picked = c.cast(c.reduce(Op::Sum, chosen, {1}, false), c.dtype(x));
  } else {
    ValueId from = c.cast(c.reshape(c.clamp(last, 0, static_cast<double>(writes - 1)), {places}), DType::I32);
    picked = c.make(Op::Gather, {source, from}, {{Key::Axis, axis}});
  }
  return c.where(c.reshape(written, std::move(along)), picked, x);
}

bool few_meetings(const NodeBuilder& c, ValueId x, int64_t axis, ValueId index) {
  constexpr int64_t kMost = int64_t{1} << 16;
  const int64_t writes = c.dim(index, 0);
  return !c.graph.value(index).constant && writes > 0 && c.dim(x, axis) <= kMost / writes;
}

}  // namespace

// With a step, an axis of n * step is one of n and one of step, and each of n has the same place written.
ValueId write_slice(NodeBuilder& c, ValueId x, int64_t axis, int64_t start, int64_t step, ValueId part) {
  const int64_t count = c.dim(part, axis), size = c.dim(x, axis), first = start - start % step;
  if (count == 0) return x;
  if (step == 1 || count == 1) return write_run(c, x, axis, start, part);
  const int64_t whole = first + count * step <= size ? count : count - 1, end = first + whole * step;
  auto split = [&](ValueId value, int64_t inner) {
    Shape shape = c.shape(value);
    shape[static_cast<size_t>(axis)] = whole;
    shape.insert(shape.begin() + axis + 1, inner);
    return c.reshape(value, std::move(shape));
  };
  ValueId old = c.slice(x, axis, first, end);
  ValueId written = write_run(c, split(old, step), axis + 1, start % step, split(c.slice(part, axis, 0, whole), 1));
  x = write_run(c, x, axis, first, c.reshape(written, c.shape(old)));
  return whole == count ? x : write_run(c, x, axis, start + whole * step, c.slice(part, axis, whole, count));
}

ValueId write_rows(NodeBuilder& c, ValueId x, int64_t axis, ValueId index, ValueId source) {
  Shape rows = c.shape(x);
  rows[static_cast<size_t>(axis)] = c.dim(index, 0);
  Shape along(rows.size(), 1);
  along[static_cast<size_t>(axis)] = c.dim(index, 0);
  index = c.reshape(index, std::move(along));
  if (few_writes(c, x, index, axis))
    return write_one_by_one(c, x, index, c.cast(c.expand(source, rows), c.dtype(x)), axis);
  source = c.cast(c.expand(source, rows), c.dtype(x));
  ValueId flat = c.reshape(index, {c.dim(index, axis)});
  if (few_meetings(c, x, axis, flat)) return write_last(c, x, axis, flat, source);
  return scatter(c, x, c.expand(index, rows), source, axis);
}

namespace {

Results index_copy(Call& c) {
  ValueId x = c.tensor(0);
  if (c.rank(x) == 0) return c.reshape(c.tensor(3), {});
  int64_t axis = c.axis(1, c.rank(x));
  ValueId index = c.tensor(2);
  if (c.rank(index) == 0) index = c.reshape(index, {1});
  return write_rows(c, x, axis, from_start(c, index, c.dim(x, axis)), c.tensor(3));
}

// x[i, :, mask] = values is a choice; x[:, i, j] = values joins neighbouring axes into one, and their indices with
// them.
ValueId put_at(Call& c, ValueId x, const std::vector<ValueId>& indices, ValueId values, bool accumulate) {
  values = c.cast(values, c.dtype(x));
  auto given = [](ValueId index) { return index != kNone; };
  auto first = std::find_if(indices.begin(), indices.end(), given);
  auto last = std::find_if_not(first, indices.end(), given);
  if (first == indices.end() || static_cast<int>(indices.size()) > c.rank(x)) malformed("it has no index");
  if (std::any_of(last, indices.end(), given)) unsupported("writing to axes that are not neighbours");
  int64_t axis = first - indices.begin();
  if (c.dtype(*first) == DType::Bool && last - first == 1 && !accumulate && element_count(c.shape(values)) == 1) {
    Shape mask = c.shape(*first);
    mask.resize(c.shape(x).size() - static_cast<size_t>(axis), 1);
    return c.where(c.reshape(*first, std::move(mask)), c.reshape(values, {}), x);
  }
  Shape joint_shape;  // of the indices after broadcasting
  for (auto at = first; at != last; ++at) {
    const Shape& one = c.shape(*at);
    if (one.size() > joint_shape.size()) joint_shape.insert(joint_shape.begin(), one.size() - joint_shape.size(), 1);
    for (size_t d = 0; d < one.size(); ++d) {
      int64_t& size = joint_shape[joint_shape.size() - one.size() + d];
      if (one[d] != 1) size = one[d];
    }
  }
  ValueId joined = kNone;
  int64_t places = 1;
  const bool known = std::all_of(first, last, [&](ValueId index) { return c.graph.value(index).constant; });
  for (auto at = first; at != last; ++at) {
    int64_t here = c.dim(x, at - indices.begin());
    ValueId index = c.cast(from_start(c, *at, here), known ? DType::I64 : DType::I32);
    joined = joined == kNone ? index : c.add(c.scaled(joined, static_cast<double>(here)), index);
    places *= here;
  }
  const Shape whole = c.shape(x);
  Shape flat = whole, source = whole;
  auto begin = static_cast<std::ptrdiff_t>(axis), end = last - indices.begin();
  flat.erase(flat.begin() + begin, flat.begin() + end);
  source = flat;
  flat.insert(flat.begin() + begin, places);
  source.insert(source.begin() + begin, joint_shape.begin(), joint_shape.end());
  ValueId wide = c.expand(values, source);
  source.erase(source.begin() + begin, source.begin() + begin + static_cast<std::ptrdiff_t>(joint_shape.size()));
  source.insert(source.begin() + begin, element_count(joint_shape));
  wide = c.reshape(wide, source);
  joined = c.reshape(c.expand(joined, joint_shape), {element_count(joint_shape)});
  ValueId from = c.reshape(x, std::move(flat));
  ValueId written =
      accumulate ? slices_reduced(c, from, axis, joined, wide, "sum", true) : write_rows(c, from, axis, joined, wide);
  return c.reshape(written, whole);
}

Results index_put(Call& c) { return put_at(c, c.tensor(0), c.tensors(1), c.tensor(2), c.flag(3)); }

// index_put that adds the values where the mask holds. Where it does not, an index may be anything.
Results masked_put(Call& c) {
  ValueId x = c.tensor(0), mask = c.tensor(1);
  std::vector<ValueId> indices = c.tensors(2);
  for (size_t axis = 0; axis < indices.size(); ++axis)
    if (indices[axis] != kNone) indices[axis] = inside(c, indices[axis], c.dim(x, static_cast<int64_t>(axis)));
  ValueId values = c.tensor(3);
  values = c.where(mask, values, c.scalar(0, c.dtype(values)));
  return put_at(c, x, indices, values, true);
}

// The places of the first elements that are not zero; `fill` where there are fewer
Results nonzero_static(Call& c) {
  ValueId x = c.tensor(0);
  const Shape shape = c.shape(x);
  int64_t count = element_count(shape), wanted = c.integer(1), rank = c.rank(x);
  refuse_too_many(count, std::max<int64_t>(1, wanted * rank));
  ValueId found = c.reshape(c.compare("ne", x, c.scalar(0, c.dtype(x))), {count});
  ValueId number = c.make(Op::CumSum, {c.cast(found, DType::I64)}, {{Key::Axis, int64_t{0}}});
  ValueId nth = c.filled(DType::I64, {wanted, 1}, [](int64_t i) { return i + 1; });
  ValueId meets = c.make(Op::Logical, {c.compare("eq", number, nth), found}, {{Key::Fn, std::string("and")}});
  meets = c.unsqueeze(meets, 2);
  ValueId place = c.filled(DType::I64, {count, rank}, [&](int64_t i) {
    int64_t at = i / rank;
    for (int64_t d = rank - 1; d > i % rank; --d) at /= shape[static_cast<size_t>(d)];
    return at % shape[static_cast<size_t>(i % rank)];
  });
  ValueId places = c.reduce(Op::Sum, c.where(meets, place, c.scalar(0, DType::I64)), {1}, false);
  ValueId fill = c.scalar(static_cast<double>(c.integer(2)), DType::I64);
  return c.where(c.reduce(Op::Any, meets, {1}, false), places, fill);
}

// index_put into all elements in a row
Results put(Call& c) {
  ValueId x = c.tensor(0);
  ValueId index = c.tensor(1);
  ValueId flat = c.reshape(x, {element_count(c.shape(x))});
  int64_t count = element_count(c.shape(index));
  flat = put_at(c, flat, {c.reshape(index, {count})}, c.reshape(c.tensor(2), {count}), c.flag(3));
  return c.reshape(flat, c.shape(x));
}

Results one_hot(Call& c) {
  ValueId x = c.tensor(0);
  if (c.result().shape.empty()) malformed("its result has no dimensions");
  int64_t classes = c.result().shape.back();
  return c.cast(c.compare("eq", c.unsqueeze(x, c.rank(x)), c.counted(classes, c.dtype(x))), DType::I64);
}

// The rows of a table, summed over bags: bag b has the indices from offsets[b] to the next offset.
Results embedding_bag(Call& c) {
  for (size_t i = 1; i < 4; ++i)
    if (c.wants(i)) unsupported("what it keeps for training is used");
  ValueId index = c.tensor(1);
  if (c.rank(index) != 1) unsupported("bags that are not in a row");
  ValueId offsets = c.cast(c.tensor(2), DType::I64);
  int64_t count = c.dim(index, 0), bags = c.result().shape.at(0), mode = c.integer(4);
  ValueId rows = c.make(Op::Gather, {c.tensor(0), index}, {{Key::Axis, int64_t{0}}});
  if (!c.none(6)) rows = c.mul(rows, c.unsqueeze(c.tensor(6), 1));
  ValueId starts = c.slice(offsets, 0, 0, bags);
  ValueId end = c.filled(DType::I64, {1}, [&](int64_t) { return count; });
  ValueId ends = c.concat({c.slice(offsets, 0, 1, bags), end}, 0);
  if (c.flag(7)) ends = c.slice(offsets, 0, 1, bags + 1);
  ValueId place = c.counted(count);
  auto both = [&](ValueId a, ValueId b) { return c.make(Op::Logical, {a, b}, {{Key::Fn, std::string("and")}}); };
  ValueId member = both(c.compare("ge", place, c.unsqueeze(starts, 1)), c.compare("lt", place, c.unsqueeze(ends, 1)));
  int64_t padding = c.args.size() > 8 ? c.integer(8, -1) : -1;
  if (padding >= 0)
    member = both(member, c.compare("ne", index, c.scalar(static_cast<double>(padding), c.dtype(index))));
  DType dtype = c.dtype(rows);
  ValueId result = kNone;
  if (mode == 2) {
    ValueId here = c.unsqueeze(member, 2);
    ValueId all = c.unsqueeze(rows, 0);
    ValueId low = c.where(here, all, neutral_for(c, all, Op::ReduceMax));
    result = c.where(c.reduce(Op::Any, here, {1}, false), c.reduce(Op::ReduceMax, low, {1}, false), c.scalar(0, dtype));
  } else {
    result = c.matmul(c.cast(member, dtype), rows);
    ValueId size = c.clamp(c.reduce(Op::Sum, c.cast(member, dtype), {1}, true), 1.0, std::nullopt);
    if (mode == 1) result = c.div(result, size);
  }
  return std::vector<ValueId>{result, kNone, kNone, kNone};
}

constexpr std::string_view kBag =
    "weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False, per_sample_weights=None, "
    "include_last_offset=False, padding_idx=-1";

constexpr Row kScatterRows[] = {
    {"aten.scatter.src", "self, dim, index, src", scatter_src},
    {"aten.scatter.value", "self, dim, index, value", scatter_value},
    {"aten.scatter.reduce", "self, dim, index, src, *, reduce", scatter_with},
    {"aten.scatter.value_reduce", "self, dim, index, value, *, reduce", scatter_with},
    {"aten.scatter_add.default", "self, dim, index, src", scatter_add},
    {"aten.scatter_reduce.two", "self, dim, index, src, reduce, *, include_self=True", scatter_reduce},
    {"aten.index_add.default", "self, dim, index, source, *, alpha=1", index_add},
    {"aten.index_reduce.default", "self, dim, index, source, reduce, *, include_self=True", index_reduce},
    {"aten.index_fill.int_Scalar", "self, dim, index, value", index_fill},
    {"aten.index_fill.int_Tensor", "self, dim, index, value", index_fill},
    {"aten.index_copy.default", "self, dim, index, source", index_copy},
    {"aten.index_put.default", "self, indices, values, accumulate=False", index_put},
    {"aten._unsafe_index_put.default", "self, indices, values, accumulate=False", index_put},
    {"aten._unsafe_masked_index_put_accumulate.default", "self, mask, indices, values", masked_put},
    {"aten.nonzero_static.default", "self, *, size, fill_value=-1", nonzero_static},
    {"aten.put.default", "self, index, source, accumulate=False", put},
    {"aten.one_hot.default", "self, num_classes=-1", one_hot},
    {"aten.embedding_bag.default",
     "weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False, per_sample_weights=None, "
     "include_last_offset=False",
     embedding_bag},
    {"aten.embedding_bag.padding_idx",
     "weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, padding_idx",
     embedding_bag},
    {"aten._embedding_bag.default", kBag, embedding_bag},
    {"aten._embedding_bag_forward_only.default", kBag, embedding_bag},
};

}  // namespace

std::span<const Row> scatter_rows() { return kScatterRows; }

}  // namespace swoop
