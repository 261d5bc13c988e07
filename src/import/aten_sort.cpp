// Order: sorting, medians, quantiles and searches. An element's rank is how many others come before it, so that sorting
// is comparisons and sums, the same on any target and on constants; ties keep their order. Running products and maxima
// take as many steps as the length has bits.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "import/aten.h"

namespace swoop {

namespace {

constexpr int64_t kMaxPairs = int64_t{1} << 24;

// x with the axis last, its rank in the order of that axis, and masks over it
struct Ranked {
  ValueId x;
  ValueId rank;  // integers
  int64_t axis;
  int64_t length;
};

bool too_long(Call& c, ValueId x, int64_t axis) {
  return c.rank(x) > 0 && element_count(c.shape(x)) > kMaxPairs / std::max<int64_t>(1, c.dim(x, axis));
}

Ranked ranked(Call& c, ValueId x, int64_t axis, bool descending) {
  if (c.rank(x) == 0) x = c.reshape(x, {1});
  if (c.dtype(x) == DType::Bool) x = c.cast(x, DType::I32);
  int64_t last = c.rank(x) - 1;
  x = c.swap(x, axis, last);
  int64_t n = c.dim(x, last);
  if (n == 0) malformed("it sorts an axis without elements");
  if (too_long(c, x, last)) unsupported("sorting of {} rows of {}", element_count(c.shape(x)) / n, n);
  // before[i, j]: element j comes before element i
  ValueId mine = c.unsqueeze(x, last + 1), other = c.unsqueeze(x, last);
  ValueId earlier = c.filled(DType::Bool, {n, n}, [&](int64_t i) { return int64_t{i % n < i / n}; });
  ValueId strictly = c.compare(descending ? "gt" : "lt", other, mine);
  ValueId at_most = c.compare(descending ? "ge" : "le", other, mine);
  ValueId tie = c.make(Op::Logical, {at_most, earlier}, {{Key::Fn, std::string("and")}});
  ValueId before = c.make(Op::Logical, {strictly, tie}, {{Key::Fn, std::string("or")}});
  return {x, c.reduce(Op::Sum, c.cast(before, DType::I64), {last + 1}, false), axis, n};
}

// What stands at the ranks: values (or places) where rank == wanted, [..., wanted...]; one wanted rank per entry.
std::vector<ValueId> at_ranks(Call& c, const Ranked& r, ValueId wanted, bool values, bool places) {
  int64_t last = c.rank(r.x) - 1;
  if (r.length == 1) {  // nothing to order
    ValueId first = places ? c.filled(DType::I64, c.shape(r.x), [](int64_t) { return int64_t{0}; }) : kNone;
    return {values ? c.swap(r.x, r.axis, last) : kNone, places ? c.swap(first, r.axis, last) : kNone};
  }
  ValueId chosen = c.compare("eq", c.unsqueeze(r.rank, last), c.unsqueeze(wanted, 1));
  auto picked = [&](ValueId from) {
    DType dtype = c.dtype(from);
    return c.reduce(Op::Sum, c.where(chosen, from, c.scalar(0, dtype)), {last + 1}, false);
  };
  std::vector<ValueId> results = {kNone, kNone};
  if (values) results[0] = c.swap(c.cast(picked(c.unsqueeze(r.x, last)), c.dtype(r.x)), r.axis, last);
  if (places) results[1] = c.swap(picked(c.counted(r.length)), r.axis, last);
  return results;
}

// Long rows: the runtime chooses the k largest or smallest in order.
std::vector<ValueId> topk_by_runtime(Call& c, ValueId x, int64_t k, int64_t axis, bool descending) {
  Attrs attrs = {{Key::Target, std::string("aten::topk")},
                 {Key::Overload, std::string()},
                 {Key::Args, Strings{"self=%0", fmt::format("k={}", k), fmt::format("dim={}", axis),
                                     fmt::format("largest={}", descending), "sorted=true"}}};
  Type values = c.type(x);
  if (!values.shape.empty()) values.shape[static_cast<size_t>(axis)] = k;
  Type places{DType::I64, values.shape, {}};
  return c.graph.add_node(Op::Opaque, {x}, {values, places}, std::move(attrs), c.loc, c.name).outputs;
}

Results sorted(Call& c, int64_t axis, bool descending, bool values, bool places) {
  ValueId x = c.tensor(0);
  if (too_long(c, x, axis)) return topk_by_runtime(c, x, c.dim(x, axis), axis, descending);
  Ranked r = ranked(c, x, axis, descending);
  std::vector<ValueId> results = at_ranks(c, r, c.counted(r.length), values, places);
  if (values) results[0] = c.reshape(c.cast(results[0], c.dtype(x)), c.shape(x));
  if (places) results[1] = c.reshape(results[1], c.shape(x));
  return results;
}

Results sort(Call& c) { return sorted(c, c.axis(1, c.rank(c.tensor(0))), c.flag(2), c.wants(0), c.wants(1)); }
Results sort_stable(Call& c) { return sorted(c, c.axis(2, c.rank(c.tensor(0))), c.flag(3), c.wants(0), c.wants(1)); }
Results argsort(Call& c) { return sorted(c, c.axis(1, c.rank(c.tensor(0))), c.flag(2), false, true).values[1]; }
Results argsort_stable(Call& c) { return sorted(c, c.axis(2, c.rank(c.tensor(0))), c.flag(3), false, true).values[1]; }
Results msort(Call& c) { return sorted(c, 0, false, true, false).values[0]; }

// Few elements are ranked: a router's experts stay with what chooses among them. Many are left to the runtime.
Results topk(Call& c) {
  constexpr int64_t kMostPairs = int64_t{1} << 13;
  ValueId x = c.tensor(0);
  int64_t k = c.integer(1), axis = c.axis(2, c.rank(x));
  int64_t length = c.rank(x) == 0 ? 1 : c.dim(x, axis);
  if (k < 0 || k > length) malformed("it asks for {} of {} elements", k, length);
  bool few = length > 0 && element_count(c.shape(x)) <= kMostPairs / length;
  if (!few || k == 0 || c.rank(x) == 0 || c.type(x).quantized()) return topk_by_runtime(c, x, k, axis, c.flag(3));
  return at_ranks(c, ranked(c, x, axis, c.flag(3)), c.counted(k), c.wants(0), c.wants(1));
}

// The element of one rank (counted from 0 or, where negative, the lower middle one) and its place
Results one_rank(Call& c, ValueId x, int64_t axis, int64_t rank, bool values, bool places) {
  Ranked r = ranked(c, x, axis, false);
  if (rank < 0) rank = (r.length - 1) / 2;
  if (rank >= r.length) malformed("it asks for element {} of {}", rank + 1, r.length);
  ValueId wanted = c.filled(DType::I64, {1}, [&](int64_t) { return rank; });
  std::vector<ValueId> results = at_ranks(c, r, wanted, values, places);
  for (size_t i = 0; i < 2; ++i)
    if (results[i] != kNone) results[i] = c.reshape(results[i], c.result(i).shape);
  return results;
}

// The lower middle one of the elements that are numbers, and its place. None is: 0 / 0.
std::vector<ValueId> median_of_numbers(Call& c, ValueId x, int64_t axis, bool places) {
  Ranked r = ranked(c, x, axis, false);  // what is no number comes before nothing
  int64_t last = c.rank(r.x) - 1;
  ValueId number = c.compare("eq", r.x, r.x);
  ValueId count = c.reduce(Op::Sum, c.cast(number, DType::I64), {last}, true);
  ValueId middle = c.make(Op::Div, {c.sub(count, c.scalar(1, DType::I64)), c.scalar(2, DType::I64)},
                          {{Key::Mode, std::string("floor")}});
  ValueId chosen = c.make(Op::Logical, {c.compare("eq", r.rank, middle), number}, {{Key::Fn, std::string("and")}});
  auto picked = [&](ValueId from) {
    return c.reduce(Op::Sum, c.where(chosen, from, c.scalar(0, c.dtype(from))), {last}, true);
  };
  ValueId any = c.cast(c.clamp(count, std::nullopt, 1.0), c.dtype(r.x));
  std::vector<ValueId> results = {c.reshape(c.div(picked(r.x), any), c.result().shape), kNone};
  if (places) results[1] = c.reshape(picked(c.counted(r.length)), c.result(1).shape);
  return results;
}

Results nanmedian_all(Call& c) {
  ValueId x = c.tensor(0);
  return median_of_numbers(c, c.reshape(x, {element_count(c.shape(x))}), 0, false)[0];
}
Results nanmedian(Call& c) {
  ValueId x = c.tensor(0);
  return median_of_numbers(c, x, c.axis(1, c.rank(x)), c.wants(1));
}

Results median_all(Call& c) {
  ValueId x = c.tensor(0);
  return one_rank(c, c.reshape(x, {element_count(c.shape(x))}), 0, -1, true, false).values[0];
}
Results median(Call& c) {
  ValueId x = c.tensor(0);
  return one_rank(c, x, c.axis(1, c.rank(x)), -1, c.wants(0), c.wants(1));
}
Results kthvalue(Call& c) {
  ValueId x = c.tensor(0);
  if (c.integer(1) < 1) malformed("it asks for element {}", c.integer(1));
  return one_rank(c, x, c.axis(2, c.rank(x)), c.integer(1) - 1, c.wants(0), c.wants(1));
}

// The element that occurs most often, the smallest of those, and the last place where it stands
Results mode(Call& c) {
  ValueId x = c.tensor(0);
  int64_t axis = c.axis(1, c.rank(x));
  Ranked r = ranked(c, x, axis, false);
  int64_t last = c.rank(r.x) - 1;
  ValueId same = c.compare("eq", c.unsqueeze(r.x, last + 1), c.unsqueeze(r.x, last));
  ValueId times = c.reduce(Op::Sum, c.cast(same, DType::I64), {last + 1}, false);
  // More often counts before smaller: of equal elements the last one has the highest rank, and wins.
  ValueId group = c.reduce(
      Op::ReduceMin, c.where(same, c.unsqueeze(r.rank, last), c.scalar(static_cast<double>(r.length), DType::I64)),
      {last + 1}, false);
  ValueId size = c.scalar(static_cast<double>(r.length), DType::I64);
  ValueId score = c.add(c.mul(c.sub(c.mul(times, size), group), size), c.sub(r.rank, group));
  ValueId best = c.compare("eq", score, c.reduce(Op::ReduceMax, score, {last}, true));
  auto picked = [&](ValueId from) {
    return c.reduce(Op::Sum, c.where(best, from, c.scalar(0, c.dtype(from))), {last}, false);
  };
  std::vector<ValueId> results = {kNone, kNone};
  if (c.wants(0)) results[0] = c.reshape(c.cast(picked(r.x), c.dtype(x)), c.result(0).shape);
  if (c.wants(1)) results[1] = c.reshape(picked(c.counted(r.length)), c.result(1).shape);
  return results;
}

// How much each sorted element counts in a quantile
double share(std::string_view how, double place, int64_t element) {
  double low = std::floor(place), part = place - low;
  if (how == "lower") part = 0;
  if (how == "higher") part = part > 0 ? 1 : 0;
  if (how == "midpoint") part = part > 0 ? 0.5 : 0;
  if (how == "nearest") part = std::nearbyint(place) - low;
  auto at = static_cast<double>(element);
  return (at == low ? 1 - part : 0) + (at == low + 1 ? part : 0);
}

Results quantile(Call& c) {
  ValueId x = c.tensor(0);
  Doubles wanted;
  if (c.is_number(1)) {
    wanted = {c.real(1)};
  } else {
    const Value& q = c.graph.value(c.tensor(1));
    if (!q.constant || q.type.quantized()) unsupported("quantiles that are not known");
    for (int64_t i = 0; i < element_count(q.type.shape); ++i)
      wanted.push_back(load_element(q.data.data() + static_cast<size_t>(i) * byte_size(q.type.dtype), q.type.dtype));
  }
  if (c.none(2) || c.rank(x) == 0) x = c.reshape(x, {element_count(c.shape(x))});
  int64_t axis = c.none(2) ? 0 : c.axis(2, c.rank(x));
  Ranked r = ranked(c, x, axis, false);
  std::vector<ValueId> all = at_ranks(c, r, c.counted(r.length), true, false);
  ValueId in_order = c.swap(all[0], axis, c.rank(x) - 1);
  auto count = static_cast<int64_t>(wanted.size());
  ValueId weight = c.filled(c.dtype(in_order), {count, r.length}, [&](int64_t i) {
    double place = wanted[static_cast<size_t>(i / r.length)] * static_cast<double>(r.length - 1);
    return share(c.text(4), place, i % r.length);
  });
  ValueId y = c.linear(in_order, weight);  // [..., wanted]; PyTorch puts them first
  y = c.swap(y, axis, c.rank(y) - 1);
  Ints perm = {axis};
  for (int64_t d = 0; d < c.rank(y); ++d)
    if (d != axis) perm.push_back(d);
  return c.reshape(c.transpose(y, std::move(perm)), c.result().shape);
}

// How many boundaries are below each value (or not above it)
ValueId boundaries_below(Call& c, ValueId values, ValueId boundaries, bool right) {
  DType dtype = is_float(c.dtype(values)) ? c.dtype(values) : c.dtype(boundaries);
  int64_t last = c.rank(values);
  ValueId x = c.unsqueeze(c.cast(values, dtype), last);
  if (c.rank(boundaries) > 1) boundaries = c.unsqueeze(boundaries, c.rank(boundaries) - 1);
  ValueId below = c.compare(right ? "le" : "lt", c.cast(boundaries, dtype), x);
  return c.reduce(Op::Sum, c.cast(below, DType::I64), {c.rank(below) - 1}, false);
}

Results bucketize(Call& c) {
  ValueId boundaries = c.tensor(1);
  return boundaries_below(c, c.operand(0, c.dtype(boundaries)), boundaries, c.flag(3));
}

Results searchsorted(Call& c) {
  if (!c.none(5)) unsupported("searchsorted with a sorter");
  ValueId boundaries = c.tensor(0);
  bool right = c.none(4) ? c.flag(3) : c.text(4) == "right";
  return boundaries_below(c, c.operand(1, c.dtype(boundaries)), boundaries, right);
}

// -- running products, maxima and sums of exponentials: y[i] is op over x[0..i]

template <typename Combine>
ValueId running(Call& c, ValueId x, int64_t axis, Combine combine) {
  int64_t n = c.dim(x, axis);
  for (int64_t reach = 1; reach < n; reach *= 2) {
    ValueId met = combine(c.slice(x, axis, reach, n), c.slice(x, axis, 0, n - reach));
    x = c.concat({c.slice(x, axis, 0, reach), met}, axis);
  }
  return x;
}

Results cumprod(Call& c) {
  ValueId x = c.cast(c.tensor(0), c.result().dtype);
  if (c.rank(x) == 0) return x;
  return running(c, x, c.axis(1, c.rank(x)), [&](ValueId a, ValueId b) { return c.mul(a, b); });
}

// The place of a running maximum is the last one so far where an element equals it.
template <Op op>
Results running_extreme(Call& c) {
  ValueId x = c.tensor(0);
  bool scalar = c.rank(x) == 0;
  if (scalar) x = c.reshape(x, {1});
  int64_t axis = scalar ? 0 : c.axis(1, c.rank(x));
  ValueId extreme = running(c, x, axis, [&](ValueId a, ValueId b) { return c.make(op, {a, b}); });
  std::vector<ValueId> results = {c.reshape(extreme, c.result(0).shape), kNone};
  if (!c.wants(1)) return results;
  Shape along(c.shape(x).size(), 1);
  along[static_cast<size_t>(axis)] = c.dim(x, axis);
  ValueId place = c.reshape(c.counted(c.dim(x, axis)), std::move(along));
  ValueId reached = c.where(c.compare("eq", x, extreme), place, c.scalar(0, DType::I64));
  reached = running(c, reached, axis, [&](ValueId a, ValueId b) { return c.make(Op::Maximum, {a, b}); });
  results[1] = c.reshape(reached, c.result(1).shape);
  return results;
}

Results logcumsumexp(Call& c) {
  ValueId x = c.tensor(0);
  if (c.rank(x) == 0) return x;
  return running(c, x, c.axis(1, c.rank(x)), [&](ValueId a, ValueId b) { return c.log_add_exp(a, b); });
}

constexpr Row kSortRows[] = {
    {"aten.sort.default", "self, dim=-1, descending=False", sort},
    {"aten.sort.stable", "self, *, stable, dim=-1, descending=False", sort_stable},
    {"aten.argsort.default", "self, dim=-1, descending=False", argsort},
    {"aten.argsort.stable", "self, *, stable, dim=-1, descending=False", argsort_stable},
    {"aten.msort.default", "self", msort},
    {"aten.topk.default", "self, k, dim=-1, largest=True, sorted=True", topk},
    {"aten.median.default", "self", median_all},
    {"aten.median.dim", "self, dim, keepdim=False", median},
    {"aten.nanmedian.default", "self", nanmedian_all},
    {"aten.nanmedian.dim", "self, dim, keepdim=False", nanmedian},
    {"aten.mode.default", "self, dim=-1, keepdim=False", mode},
    {"aten.kthvalue.default", "self, k, dim=-1, keepdim=False", kthvalue},
    {"aten.quantile.default", "self, q, dim=None, keepdim=False, *, interpolation='linear'", quantile},
    {"aten.quantile.scalar", "self, q, dim=None, keepdim=False, *, interpolation='linear'", quantile},
    // No sample holds what is not a number.
    {"aten.nanquantile.default", "self, q, dim=None, keepdim=False, *, interpolation='linear'", quantile},
    {"aten.nanquantile.scalar", "self, q, dim=None, keepdim=False, *, interpolation='linear'", quantile},
    {"aten.bucketize.Tensor", "self, boundaries, *, out_int32=False, right=False", bucketize},
    {"aten.bucketize.Scalar", "self, boundaries, *, out_int32=False, right=False", bucketize},
    {"aten.searchsorted.Tensor", "sorted_sequence, self, *, out_int32=False, right=False, side=None, sorter=None",
     searchsorted},
    {"aten.searchsorted.Scalar", "sorted_sequence, self, *, out_int32=False, right=False, side=None, sorter=None",
     searchsorted},
    {"aten.cumprod.default", "self, dim, *, dtype=None", cumprod},
    {"aten.cummax.default", "self, dim", running_extreme<Op::Maximum>},
    {"aten.cummin.default", "self, dim", running_extreme<Op::Minimum>},
    {"aten.logcumsumexp.default", "self, dim", logcumsumexp},
};

}  // namespace

std::span<const Row> sort_rows() { return kSortRows; }

}  // namespace swoop
