// Losses and distances. Networks that are exported with their loss, or that end in a distance, need them.
#include <algorithm>
#include <cmath>

#include "import/aten.h"

namespace swoop {

namespace {

// PyTorch's numbers: 0 leaves the elements, 1 takes the mean, 2 the sum.
ValueId reduced(Call& c, ValueId each, int64_t reduction) {
  if (reduction < 0 || reduction > 2) malformed("its reduction {} does not exist", reduction);
  if (reduction == 0) return each;
  Ints axes;
  for (int64_t d = 0; d < c.rank(each); ++d) axes.push_back(d);
  return c.reduce(reduction == 1 ? Op::Mean : Op::Sum, each, std::move(axes), false);
}

ValueId one_minus(Call& c, ValueId x) { return c.sub(c.scalar(1, c.dtype(x)), x); }
ValueId positive_part(Call& c, ValueId x) { return c.clamp(x, 0.0, std::nullopt); }
ValueId with_weight(Call& c, ValueId each, size_t weight_at) {
  return c.none(weight_at) ? each : c.mul(each, c.tensor(weight_at));
}

ValueId difference(Call& c) { return c.sub(c.tensor(0), c.tensor(1)); }

Results mse_loss(Call& c) { return reduced(c, c.unary("square", difference(c)), c.integer(2)); }
Results l1_loss(Call& c) { return reduced(c, c.unary("abs", difference(c)), c.integer(2)); }

// |d| < edge: d^2 / 2 (over edge for smooth l1), else the line that continues it
Results bent_loss(Call& c) {
  ValueId size = c.unary("abs", difference(c));
  double edge = c.real(3);
  bool huber = c.detail() == "huber";
  if (edge == 0 && !huber) return reduced(c, size, c.integer(2));
  ValueId near = c.scaled(c.unary("square", size), huber ? 0.5 : 0.5 / edge);
  ValueId far = c.scaled(c.sub(size, c.scalar(edge / 2, c.dtype(size))), huber ? edge : 1);
  return reduced(c, c.where(c.compare("lt", size, c.scalar(edge, c.dtype(size))), near, far), c.integer(2));
}

// log(1 + exp(-y * x))
Results soft_margin_loss(Call& c) {
  ValueId x = c.unary("neg", c.mul(c.tensor(0), c.tensor(1)));
  return reduced(c, c.unary("softplus", x, 1, 20), c.integer(2));
}

Results binary_cross_entropy(Call& c) {
  ValueId x = c.tensor(0), y = c.tensor(1);
  auto log_of = [&](ValueId p) { return c.clamp(c.unary("log", p), -100.0, std::nullopt); };
  ValueId likely = c.add(c.mul(y, log_of(x)), c.mul(one_minus(c, y), log_of(one_minus(c, x))));
  return reduced(c, with_weight(c, c.unary("neg", likely), 2), c.integer(3));
}

// -(p * y * log_sigmoid(x) + (1 - y) * log_sigmoid(-x))
Results binary_cross_entropy_with_logits(Call& c) {
  ValueId x = c.tensor(0), y = c.tensor(1);
  ValueId yes = c.mul(y, c.unary("log_sigmoid", x));
  if (!c.none(3)) yes = c.mul(yes, c.tensor(3));
  ValueId no = c.mul(one_minus(c, y), c.unary("log_sigmoid", c.unary("neg", x)));
  return reduced(c, with_weight(c, c.unary("neg", c.add(yes, no)), 2), c.integer(4));
}

// x * log(y), 0 where x is 0
ValueId x_log_y(Call& c, ValueId x, ValueId y) {
  ValueId zero = c.scalar(0, c.dtype(x));
  return c.where(c.compare("eq", x, zero), zero, c.mul(x, c.unary("log", y)));
}

Results kl_div(Call& c) {
  ValueId x = c.tensor(0), y = c.tensor(1);
  ValueId each = c.flag(3) ? c.mul(c.unary("exp", y), c.sub(y, x)) : c.sub(x_log_y(c, y, y), c.mul(y, x));
  return reduced(c, each, c.integer(2));
}

Results poisson_nll_loss(Call& c) {
  ValueId x = c.tensor(0), y = c.tensor(1);
  ValueId eps = c.scalar(c.real(4), c.dtype(x));
  ValueId each = c.flag(2) ? c.sub(c.unary("exp", x), c.mul(y, x)) : c.sub(x, c.mul(y, c.unary("log", c.add(x, eps))));
  if (c.flag(3)) {  // Stirling's term for targets above 1
    ValueId term = c.add(c.sub(c.mul(y, c.unary("log", y)), y), c.scaled(c.unary("log", c.scaled(y, 2 * M_PI)), 0.5));
    each = c.add(each, c.where(c.compare("gt", y, c.scalar(1, c.dtype(y))), term, c.scalar(0, c.dtype(y))));
  }
  return reduced(c, each, c.integer(5));
}

Results margin_ranking_loss(Call& c) {
  ValueId each = c.mul(c.unary("neg", c.tensor(2)), c.sub(c.tensor(0), c.tensor(1)));
  return reduced(c, positive_part(c, c.add(each, c.scalar(c.real(3), c.dtype(each)))), c.integer(4));
}

// a where y is 1, b where y is -1
ValueId by_sign(Call& c, ValueId y, ValueId a, ValueId b) {
  ValueId zero = c.scalar(0, c.dtype(a));
  auto is = [&](double value) { return c.compare("eq", y, c.scalar(value, c.dtype(y))); };
  return c.add(c.where(is(1), a, zero), c.where(is(-1), b, zero));
}

Results hinge_embedding_loss(Call& c) {
  ValueId x = c.tensor(0), y = c.tensor(1);
  ValueId margin = positive_part(c, c.sub(c.scalar(c.real(2), c.dtype(x)), x));
  ValueId zero = c.scalar(0, c.dtype(x));
  auto unless = [&](double value, ValueId v) {
    return c.where(c.compare("ne", y, c.scalar(value, c.dtype(y))), v, zero);
  };
  return reduced(c, c.add(unless(1, margin), unless(-1, x)), c.integer(3));
}

// sum(a * b) / sqrt((sum(a^2) + eps) * (sum(b^2) + eps)) over the last axis
Results cosine_embedding_loss(Call& c) {
  ValueId a = c.tensor(0), b = c.tensor(1), y = c.tensor(2);
  int64_t axis = c.rank(y);
  ValueId eps = c.scalar(1e-12, c.dtype(a));
  auto sum = [&](ValueId x) { return c.reduce(Op::Sum, x, {axis}, false); };
  auto size = [&](ValueId x) { return c.add(sum(c.unary("square", x)), eps); };
  ValueId cosine = c.div(sum(c.mul(a, b)), c.unary("sqrt", c.mul(size(a), size(b))));
  ValueId far = positive_part(c, c.sub(cosine, c.scalar(c.real(3), c.dtype(a))));
  return reduced(c, by_sign(c, y, one_minus(c, cosine), far), c.integer(4));
}

// -- classes

// Which class each target names: [N, C, ...], for targets [N, ...]
ValueId named_class(Call& c, ValueId target, int64_t classes, int rank) {
  Shape along(static_cast<size_t>(rank), 1);
  along[1] = classes;
  return c.compare("eq", c.unsqueeze(target, 1), c.reshape(c.counted(classes, c.dtype(target)), std::move(along)));
}

struct Classes {
  ValueId x;       // [N, C, ...]
  ValueId target;  // [N, ...], or of x's shape where it holds probabilities
  ValueId weight;  // [1, C, 1...] or kNone
};

Classes classes_of(Call& c) {
  ValueId x = c.tensor(0), target = c.tensor(1), weight = c.tensor_or_none(2);
  if (c.rank(x) == 0) malformed("it needs classes");
  if (c.rank(x) == 1) {
    x = c.unsqueeze(x, 0);
    target = c.unsqueeze(target, 0);
  }
  if (weight != kNone) {
    Shape along(static_cast<size_t>(c.rank(x)), 1);
    along[1] = c.dim(x, 1);
    weight = c.reshape(weight, std::move(along));
  }
  return {x, target, weight};
}

// The classes that count, as weights: 0 for all but the target, and for targets to ignore
ValueId counting(Call& c, const Classes& in, int64_t ignored) {
  ValueId here = named_class(c, in.target, c.dim(in.x, 1), c.rank(in.x));
  ValueId kept = c.compare("ne", in.target, c.scalar(static_cast<double>(ignored), c.dtype(in.target)));
  here = c.make(Op::Logical, {here, c.unsqueeze(kept, 1)}, {{Key::Fn, std::string("and")}});
  ValueId counts = c.cast(here, c.dtype(in.x));
  return in.weight == kNone ? counts : c.mul(counts, in.weight);
}

ValueId sum_of_all(Call& c, ValueId x) { return reduced(c, x, 2); }
ValueId over_classes(Call& c, ValueId x) { return c.reduce(Op::Sum, x, {1}, false); }

// The weighted mean divides by the weights that count.
ValueId weighted(Call& c, ValueId each, ValueId counts, int64_t reduction) {
  if (reduction != 1) return reduced(c, each, reduction);
  return c.div(sum_of_all(c, each), sum_of_all(c, counts));
}

ValueId nll(Call& c, const Classes& in, ValueId counts, int64_t reduction) {
  return weighted(c, c.unary("neg", over_classes(c, c.mul(counts, in.x))), counts, reduction);
}

Results nll_loss(Call& c) {
  Classes in = classes_of(c);
  return c.reshape(nll(c, in, counting(c, in, c.integer(4)), c.integer(3)), c.result().shape);
}

Results nll_loss_forward(Call& c) {
  Classes in = classes_of(c);
  ValueId counts = counting(c, in, c.integer(4));
  ValueId total = c.wants(1) ? sum_of_all(c, counts) : kNone;
  return std::vector<ValueId>{c.reshape(nll(c, in, counts, c.integer(3)), c.result().shape), total};
}

// With smoothing every class of a row counts a little; its target the rest.
Results cross_entropy_loss(Call& c) {
  Classes in = classes_of(c);
  int64_t reduction = c.integer(3), classes = c.dim(in.x, 1);
  double smoothing = c.real(5);
  bool probabilities = is_float(c.dtype(in.target));
  in.x = c.make(Op::LogSoftmax, {in.x}, {{Key::Axis, int64_t{1}}});
  if (probabilities) {
    ValueId target = in.target;
    if (smoothing > 0)
      target =
          c.add(c.scaled(target, 1 - smoothing), c.scalar(smoothing / static_cast<double>(classes), c.dtype(target)));
    if (in.weight != kNone) target = c.mul(target, in.weight);
    ValueId each = c.unary("neg", over_classes(c, c.mul(target, in.x)));
    return c.reshape(reduced(c, each, reduction), c.result().shape);
  }
  ValueId counts = counting(c, in, c.integer(4));
  ValueId loss = nll(c, in, counts, reduction);
  if (smoothing > 0) {
    ValueId all = in.weight == kNone ? in.x : c.mul(in.x, in.weight);
    ValueId kept = c.compare("ne", in.target, c.scalar(static_cast<double>(c.integer(4)), c.dtype(in.target)));
    ValueId each = c.mul(c.unary("neg", over_classes(c, all)), c.cast(kept, c.dtype(all)));
    ValueId smooth = weighted(c, each, counts, reduction);
    loss = c.add(c.scaled(loss, 1 - smoothing), c.scaled(smooth, smoothing / static_cast<double>(classes)));
  }
  return c.reshape(loss, c.result().shape);
}

// mean over classes i other than the target t of max(0, margin - x[t] + x[i])^p
Results multi_margin_loss(Call& c) {
  ValueId x = c.tensor(0), target = c.tensor(1);
  if (c.rank(x) < 2) {
    x = c.reshape(x, {1, element_count(c.shape(x))});
    target = c.reshape(target, {1});
  }
  if (c.rank(x) != 2) malformed("it needs classes");
  double p = c.real(2);
  if (p != 1 && p != 2) malformed("its power {} does not exist", p);
  DType dtype = c.dtype(x);
  ValueId here = named_class(c, target, c.dim(x, 1), 2), zero = c.scalar(0, dtype);
  ValueId own = c.reduce(Op::Sum, c.where(here, x, zero), {1}, true);
  ValueId margin = positive_part(c, c.add(c.sub(x, own), c.scalar(c.real(3), dtype)));
  if (p == 2) margin = c.unary("square", margin);
  ValueId each = c.reduce(Op::Mean, c.where(here, zero, margin), {1}, false);
  if (!c.none(4)) each = c.mul(each, c.reduce(Op::Sum, c.where(here, c.tensor(4), zero), {1}, false));
  return c.reshape(reduced(c, each, c.integer(5)), c.result().shape);
}

// mean over classes i that are no target, for each target t, of max(0, 1 - x[t] + x[i]). The targets end at the first
// -1.
ValueId multilabel_margin(Call& c, int64_t reduction) {
  ValueId x = c.tensor(0), target = c.tensor(1);
  if (c.rank(x) < 2) {
    x = c.reshape(x, {1, element_count(c.shape(x))});
    target = c.reshape(target, {1, element_count(c.shape(target))});
  }
  if (c.rank(x) != 2) malformed("it needs classes");
  DType dtype = c.dtype(x);
  int64_t classes = c.dim(x, 1);
  ValueId ends = c.compare("lt", target, c.scalar(0, c.dtype(target)));
  ValueId ended = c.make(Op::CumSum, {c.cast(ends, DType::I64)}, {{Key::Axis, int64_t{1}}});
  ValueId counts = c.compare("eq", ended, c.scalar(0, DType::I64));
  ValueId names = c.compare("eq", c.unsqueeze(target, 2), c.counted(classes, c.dtype(target)));  // [N, place, class]
  names = c.make(Op::Logical, {names, c.unsqueeze(counts, 2)}, {{Key::Fn, std::string("and")}});
  ValueId zero = c.scalar(0, dtype);
  ValueId own = c.reduce(Op::Sum, c.where(names, c.unsqueeze(x, 1), zero), {2}, true);
  ValueId margin = positive_part(c, c.add(c.sub(c.unsqueeze(x, 1), own), c.scalar(1, dtype)));
  ValueId others = c.make(Op::LogicalNot, {c.reduce(Op::Any, names, {1}, true)});
  ValueId wanted = c.make(Op::Logical, {others, c.unsqueeze(counts, 2)}, {{Key::Fn, std::string("and")}});
  ValueId each = c.reduce(Op::Sum, c.where(wanted, margin, zero), {1, 2}, false);
  return c.reshape(reduced(c, c.scaled(each, 1.0 / static_cast<double>(classes)), reduction), c.result().shape);
}

Results multilabel_margin_loss(Call& c) { return multilabel_margin(c, c.integer(2)); }

Results multilabel_margin_loss_forward(Call& c) {
  if (c.wants(1)) unsupported("what it keeps for training is used");
  return std::vector<ValueId>{multilabel_margin(c, c.integer(2)), kNone};
}

// -- distances

ValueId distance(Call& c, ValueId a, ValueId b, double p, double eps, bool keepdim) {
  ValueId apart = c.add(c.sub(a, b), c.scalar(eps, c.dtype(a)));
  return c.norm(apart, p, {c.rank(apart) - 1}, keepdim);
}

Results pairwise_distance(Call& c) { return distance(c, c.tensor(0), c.tensor(1), c.real(2), c.real(3), c.flag(4)); }

Results triplet_margin_loss(Call& c) {
  ValueId anchor = c.tensor(0), positive = c.tensor(1), negative = c.tensor(2);
  double p = c.real(4), eps = c.real(5);
  ValueId near = distance(c, anchor, positive, p, eps, false), far = distance(c, anchor, negative, p, eps, false);
  if (c.flag(6)) far = c.make(Op::Minimum, {far, distance(c, positive, negative, p, eps, false)});
  ValueId margin = c.add(c.sub(near, far), c.scalar(c.real(3), c.dtype(anchor)));
  return reduced(c, positive_part(c, margin), c.integer(7));
}

constexpr int64_t kMaxDistances = int64_t{1} << 26;  // elements of all differences

// [..., P, M], [..., R, M] -> [..., P, R]
ValueId all_distances(Call& c, ValueId a, ValueId b, double p) {
  if (c.rank(a) < 2 || c.rank(b) < 2) malformed("it needs two rows of points");
  if (element_count(c.shape(a)) > kMaxDistances / std::max<int64_t>(1, c.dim(b, c.rank(b) - 2)))
    unsupported("the distances of so many points");
  ValueId apart = c.sub(c.unsqueeze(a, c.rank(a) - 1), c.unsqueeze(b, c.rank(b) - 2));
  return c.norm(apart, p, {c.rank(apart) - 1}, false);
}

Results cdist(Call& c) { return all_distances(c, c.tensor(0), c.tensor(1), c.real(2)); }
Results euclidean_dist(Call& c) { return all_distances(c, c.tensor(0), c.tensor(1), 2); }

// The upper triangle of the distances of n points to each other
Results pdist(Call& c) {
  ValueId x = c.tensor(0);
  if (c.rank(x) != 2) malformed("it needs points");
  int64_t n = c.dim(x, 0);
  ValueId all = all_distances(c, x, x, c.real(1));
  std::vector<ValueId> rows;
  for (int64_t i = 0; i + 1 < n; ++i) rows.push_back(c.slice(c.select(all, 0, i), 0, i + 1, n));
  if (rows.empty()) return c.filled(c.dtype(x), {0}, [](int64_t) { return int64_t{0}; });
  return c.concat(std::move(rows), 0);
}

Results dist(Call& c) {
  ValueId apart = difference(c);
  return c.norm(c.reshape(apart, {element_count(c.shape(apart))}), c.real(2), {0}, false);
}

Results xlogy(Call& c) {
  DType dtype = c.result().dtype;
  ValueId x = c.operand(0, dtype);
  return x_log_y(c, c.expand(x, c.result().shape), c.operand(1, dtype));
}

Results xlog1py(Call& c) {
  DType dtype = c.result().dtype;
  ValueId x = c.operand(0, dtype), y = c.operand(1, dtype);
  return x_log_y(c, c.expand(x, c.result().shape), c.add(y, c.scalar(1, dtype)));
}

constexpr std::string_view kPair = "self, target, reduction=1";
constexpr std::string_view kNll = "self, target, weight=None, reduction=1, ignore_index=-100";
constexpr std::string_view kNllForward = "self, target, weight, reduction, ignore_index";

constexpr Row kLossRows[] = {
    {"aten.mse_loss.default", kPair, mse_loss},
    {"aten.l1_loss.default", kPair, l1_loss},
    {"aten.smooth_l1_loss.default", "self, target, reduction=1, beta=1.0", bent_loss, "smooth"},
    {"aten.huber_loss.default", "self, target, reduction=1, delta=1.0", bent_loss, "huber"},
    {"aten.soft_margin_loss.default", kPair, soft_margin_loss},
    {"aten.binary_cross_entropy.default", "self, target, weight=None, reduction=1", binary_cross_entropy},
    {"aten.binary_cross_entropy_with_logits.default", "self, target, weight=None, pos_weight=None, reduction=1",
     binary_cross_entropy_with_logits},
    {"aten.kl_div.default", "self, target, reduction=1, *, log_target=False", kl_div},
    {"aten.poisson_nll_loss.default", "input, target, log_input, full, eps, reduction", poisson_nll_loss},
    {"aten.margin_ranking_loss.default", "input1, input2, target, margin=0.0, reduction=1", margin_ranking_loss},
    {"aten.hinge_embedding_loss.default", "self, target, margin=1.0, reduction=1", hinge_embedding_loss},
    {"aten.cosine_embedding_loss.default", "input1, input2, target, margin=0.0, reduction=1", cosine_embedding_loss},
    {"aten.triplet_margin_loss.default",
     "anchor, positive, negative, margin=1.0, p=2.0, eps=1e-06, swap=False, reduction=1", triplet_margin_loss},
    {"aten.nll_loss.default", kNll, nll_loss},
    {"aten.nll_loss_nd.default", kNll, nll_loss},
    {"aten.nll_loss2d.default", kNll, nll_loss},
    {"aten.nll_loss_forward.default", kNllForward, nll_loss_forward},
    {"aten.nll_loss2d_forward.default", kNllForward, nll_loss_forward},
    {"aten.cross_entropy_loss.default",
     "self, target, weight=None, reduction=1, ignore_index=-100, label_smoothing=0.0", cross_entropy_loss},
    {"aten.multi_margin_loss.default", "self, target, p=1, margin=1, weight=None, reduction=1", multi_margin_loss},
    {"aten.multilabel_margin_loss.default", kPair, multilabel_margin_loss},
    {"aten.multilabel_margin_loss_forward.default", "self, target, reduction", multilabel_margin_loss_forward},
    {"aten.pairwise_distance.default", "x1, x2, p=2.0, eps=1e-06, keepdim=False", pairwise_distance},
    {"aten.cdist.default", "x1, x2, p=2.0, compute_mode=None", cdist},
    {"aten._cdist_forward.default", "x1, x2, p, compute_mode", cdist},
    {"aten._euclidean_dist.default", "x1, x2", euclidean_dist},
    {"aten.pdist.default", "self, p=2.0", pdist},
    {"aten._pdist_forward.default", "self, p=2.0", pdist},
    {"aten.dist.default", "self, other, p=2", dist},
    {"aten.xlogy.Tensor", "self, other", xlogy},
    {"aten.xlogy.Scalar_Other", "self, other", xlogy},
    {"aten.xlogy.Scalar_Self", "self, other", xlogy},
    {"aten.special_xlog1py.default", "self, other", xlog1py},
    {"aten.special_xlogy.default", "self, other", xlogy},
    {"aten.special_xlogy.other_scalar", "self, other", xlogy},
    {"aten.special_xlogy.self_scalar", "self, other", xlogy},
};

}  // namespace

std::span<const Row> loss_rows() { return kLossRows; }

}  // namespace swoop
