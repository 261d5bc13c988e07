// Elements chosen by indices, in forms that every core takes.
#include <algorithm>

#include "legalize/compose.h"

namespace swoop {

namespace {

// [axis, the others], and what brings the axis back after it became `dims` axes.
Ints axis_first(int rank, int64_t axis) {
  Ints perm{axis};
  for (int64_t i = 0; i < rank; ++i)
    if (i != axis) perm.push_back(i);
  return perm;
}

Ints axes_back(int rank, int64_t axis, int64_t dims) {
  Ints perm;
  for (int64_t i = 0; i < rank; ++i) perm.push_back(i < axis ? dims + i : i < axis + dims ? i - axis : i);
  return perm;
}

bool gathers_codes(const Rewriter& rw, const Node& n) {
  return computes_on_codes(rw, n) && rw.type(n.inputs[0]).quant == rw.type(n.outputs[0]).quant;
}

bool gathers_integers(const Rewriter& rw, const Node& n) {
  return is_plain_integer(rw.type(n.inputs[0])) || gathers_codes(rw, n);
}

bool of_8_or_16_bits(const Type& type) { return type.dtype == DType::I8 || type.dtype == DType::I16; }

struct Run {
  int64_t start, end;
};

std::vector<Run> runs_of(const std::vector<int64_t>& index) {
  std::vector<Run> runs;
  for (int64_t i : index) {
    if (!runs.empty() && runs.back().end == i)
      ++runs.back().end;
    else
      runs.push_back({i, i + 1});
  }
  return runs;
}

constexpr size_t kMostRuns = 64;  // each is a copy of its own

// gather(x, constant)  ->  a slice per run of neighbours, joined
bool gather_runs(Rewriter& rw, const Node& n) {
  if (!rw.value(n.inputs[1]).constant || !gathers_integers(rw, n)) return false;
  std::vector<Run> runs = runs_of(codes_of(rw.value(n.inputs[1])));
  if (runs.empty() || runs.size() > kMostRuns) return false;
  int64_t axis = n.integer(Key::Axis);
  std::vector<ValueId> parts;
  for (Run run : runs) parts.push_back(slice(rw, n.inputs[0], axis, run.start, run.end));
  ValueId joined = parts.size() == 1 ? parts[0] : concat(rw, parts, axis);
  rw.replace(n, reshape(rw, joined, rw.type(n.outputs[0]).shape));
  return true;
}

// gather(x, constant) in many runs, where the core has no gather  ->  a linear layer of zeros and ones
bool gather_by_conv(Rewriter& rw, const Node& n) {
  constexpr int64_t kLongest = 2048;
  if (facts_of(rw).has_gather || !rw.value(n.inputs[1]).constant || !gathers_codes(rw, n)) return false;
  std::vector<int64_t> index = codes_of(rw.value(n.inputs[1]));
  const Type out = rw.type(n.outputs[0]);
  const Shape shape = rw.type(n.inputs[0]).shape;
  int64_t axis = n.integer(Key::Axis), last = static_cast<int64_t>(shape.size()) - 1;
  int64_t length = shape[static_cast<size_t>(axis)], chosen = static_cast<int64_t>(index.size());
  if (runs_of(index).size() <= kMostRuns || length > kLongest || chosen > kLongest) return false;
  std::vector<int64_t> picks(static_cast<size_t>(chosen * length), 0);
  for (int64_t i = 0; i < chosen; ++i) picks[static_cast<size_t>(i * length + index[static_cast<size_t>(i)])] = 1;
  ValueId weight = codes(rw, quantized(DType::I8, {chosen, length}, 1.0, 0), picks, "picks");
  Ints perm = axis_first(static_cast<int>(shape.size()), axis);
  std::rotate(perm.begin(), perm.begin() + 1, perm.end());
  ValueId x = axis == last ? n.inputs[0] : transpose(rw, n.inputs[0], perm);
  Shape taken = rw.type(x).shape;
  taken.back() = chosen;
  ValueId y = rw.make(Op::Linear, {x, weight, kNone}, {}, with_shape(out, taken));
  rw.replace(n, reshape(rw, axis == last ? y : transpose(rw, y, inverse(perm)), out.shape));
  return true;
}

// One row among many, chosen by comparing its number with each: what that costs grows with the product of both. A layer
// reads all of its weights, so larger tables are left to the host (16 indices into 200 x 64 codes: 17 k cycles on
// U55-128; 32 into 2000 x 128: 290 k).
bool fits_one_hot(const Rewriter& rw, const Node& n) {
  constexpr int64_t kMostWeights = 1 << 16, kMostRows = 1 << 15;
  const Value &table = rw.value(n.inputs[0]), &index = rw.value(n.inputs[1]);
  if (facts_of(rw).has_gather || !gathers_codes(rw, n) || index.constant) return false;
  if (!table.constant && !of_8_or_16_bits(table.type)) return false;
  int64_t rows = table.type.shape[static_cast<size_t>(n.integer(Key::Axis))];
  int64_t elements = element_count(table.type.shape), count = element_count(index.type.shape);
  return elements > 0 && elements <= kMostWeights && rows * count <= kMostWeights && rows <= kMostRows;
}

// gather along an inner axis, or by indices of 64 bits  ->  along the first axis by 32 bits, between transposes. Where
// the indices come from outside, their cast stays with the host.
bool gather_first_axis(Rewriter& rw, const Node& n) {
  const Type index = rw.type(n.inputs[1]);
  int64_t axis = n.integer(Key::Axis);
  if (axis == 0 && index.dtype == DType::I32) return false;
  if (facts_of(rw).has_gather ? !gathers_integers(rw, n) : !fits_one_hot(rw, n)) return false;
  const Type out = rw.type(n.outputs[0]);
  ValueId narrow = as_i32(rw, n.inputs[1]);
  int rank = rw.type(n.inputs[0]).rank();
  ValueId x = axis == 0 ? n.inputs[0] : transpose(rw, n.inputs[0], axis_first(rank, axis));
  Shape taken = index.shape;
  taken.insert(taken.end(), rw.type(x).shape.begin() + 1, rw.type(x).shape.end());
  ValueId y = rw.make(Op::Gather, {x, narrow}, {{Key::Axis, int64_t{0}}}, with_shape(out, taken));
  rw.replace(n, axis == 0 ? y : transpose(rw, y, axes_back(out.rank(), axis, index.rank())));
  return true;
}

Type exact(DType dtype, Shape shape) { return quantized(dtype, std::move(shape), 1.0, 0); }

// 0 in the column that each index names, 1 in all others: the first layer gives i - j, cut to 8 bits.
ValueId cold_rows(Rewriter& rw, ValueId index, int64_t count, int64_t rows) {
  std::vector<int64_t> ones(static_cast<size_t>(rows), 1), minus_j;
  for (int64_t j = 0; j < rows; ++j) minus_j.push_back(-j);
  index = reshape(rw, index, {count, 1});
  index = rw.make(Op::Cast, {index}, {{Key::DType, DType::F32}}, exact(DType::I16, {count, 1}));
  ValueId away = rw.make(Op::Linear,
                         {index, codes(rw, exact(DType::I8, {rows, 1}), ones, "ones"),
                          codes(rw, exact(DType::I32, {rows}), minus_j, "minus_j")},
                         {}, exact(DType::I8, {count, rows}));
  return unary(rw, "square", away, exact(DType::I8, {count, rows}), {{Key::ActMax, 1.0}});
}

// The rows of q [rows, width] that h names, as a layer: sum h*(-1 - q) + sum (1 + q) - 1 = q[i] exactly, and -1 - q has
// 8 bits. `added` goes to each result.
ValueId constant_rows(Rewriter& rw, ValueId h, const std::vector<int64_t>& q, int64_t added, double scale, Type out) {
  const int64_t rows = rw.type(h).shape[1], width = static_cast<int64_t>(q.size()) / rows;
  std::vector<int64_t> flipped, sums;
  for (int64_t d = 0; d < width; ++d) {
    int64_t sum = rows - 1 + added;
    for (int64_t j = 0; j < rows; ++j) {
      int64_t code = q[static_cast<size_t>(j * width + d)];
      flipped.push_back(-1 - code);
      sum += code;
    }
    sums.push_back(sum);
  }
  ValueId weight = codes(rw, quantized(DType::I8, {width, rows}, scale, 0), flipped, "rows");
  ValueId bias = codes(rw, quantized(DType::I32, {width}, scale, 0), sums, "sums");
  out.shape = {rw.type(h).shape[0], width};
  return rw.make(Op::Linear, {h, weight, bias}, {}, std::move(out));
}

// gather(x [V,D], i), where the core has no gather  ->  a product with rows that are 0 or 1. A table of 16 bits is one
// of its high bytes and one of its low ones.
bool gather_by_one_hot(Rewriter& rw, const Node& n) {
  if (!fits_one_hot(rw, n) || n.integer(Key::Axis) != 0 || rw.type(n.inputs[1]).dtype != DType::I32) return false;
  const Type out = rw.type(n.outputs[0]), from = rw.type(n.inputs[0]);
  const int64_t rows = from.shape[0], count = element_count(rw.type(n.inputs[1]).shape);
  const int64_t width = element_count(from.shape) / rows;
  ValueId cold = cold_rows(rw, n.inputs[1], count, rows), y = kNone;
  if (!rw.value(n.inputs[0]).constant) {
    ValueId one = scalar(rw, DType::I8, 2, 1, 1.0);
    ValueId hot = rw.make(Op::Sub, {one, cold}, {}, exact(DType::I8, {count, rows}));
    ValueId table = reshape(rw, n.inputs[0], {rows, width});
    y = rw.make(Op::MatMul, {hot, table}, {}, with_shape(out, {count, width}));
  } else if (from.dtype == DType::I8) {
    y = constant_rows(rw, cold, codes_of(rw.value(n.inputs[0])), -from.zero_point(), from.scale(), out);
  } else {
    std::vector<int64_t> high, low;
    for (int64_t q : codes_of(rw.value(n.inputs[0]))) {
      high.push_back(q >> 8);
      low.push_back((q & 255) - 128);
    }
    const double step = from.scale();
    ValueId coarse = constant_rows(rw, cold, high, 0, 256 * step, quantized(DType::I16, {}, 256 * step, 0));
    ValueId fine = constant_rows(rw, cold, low, 128, step, quantized(DType::I16, {}, step, 0));
    y = rw.make(Op::Add, {coarse, fine}, {}, with_shape(out, {count, width}));
  }
  rw.replace(n, reshape(rw, y, out.shape));
  return true;
}

// gather_elements(x, index)  ->  gather of single elements: index along the axis, and where the others stand
bool gather_single_elements(Rewriter& rw, const Node& n) {
  constexpr int64_t kMost = int64_t{1} << 16;  // each is a read of its own
  const Type x = rw.type(n.inputs[0]), out = rw.type(n.outputs[0]);
  const int64_t count = element_count(out.shape);
  if (!gathers_integers(rw, n) || count == 0 || count > kMost) return false;
  const bool small = x.quantized() && of_8_or_16_bits(x) && count * element_count(x.shape) <= kMost;
  if (!facts_of(rw).has_gather && !small) return false;
  auto axis = static_cast<size_t>(n.integer(Key::Axis));
  const std::vector<int64_t> strides = row_major_strides(x.shape), own = row_major_strides(out.shape);
  std::vector<int64_t> others;
  for (int64_t i = 0; i < count; ++i) {
    int64_t place = 0;
    for (size_t d = 0; d < out.shape.size(); ++d)
      if (d != axis) place += i / own[d] % out.shape[d] * strides[d];
    others.push_back(place);
  }
  const Type plain{DType::I32, {count}, {}};
  const int64_t stride = strides[axis];
  ValueId index = reshape(rw, as_i32(rw, n.inputs[1]), {count});
  index = rw.make(Op::Clamp, {index}, {{Key::Min, 0.0}, {Key::Max, static_cast<double>(x.shape[axis] - 1)}});
  if (stride != 1) index = rw.make(Op::Mul, {index, codes(rw, {DType::I32, {1}, {}}, {&stride, 1}, "stride")});
  index = rw.make(Op::Add, {index, codes(rw, plain, others, "others")});
  ValueId row = reshape(rw, n.inputs[0], {element_count(x.shape)});
  rw.replace(n, reshape(rw, rw.make(Op::Gather, {row, index}, {{Key::Axis, int64_t{0}}}), out.shape));
  return true;
}

// gather(booleans)  ->  of bytes: no core gathers booleans
bool gather_as_bytes(Rewriter& rw, const Node& n) {
  if (rw.type(n.outputs[0]).dtype != DType::Bool || !facts_of(rw).has_gather) return false;
  ValueId bytes = rw.make(Op::Cast, {n.inputs[0]}, {{Key::DType, DType::I8}});
  ValueId chosen = rw.make(n.op, {bytes, n.inputs[1]}, n.attrs);
  rw.replace(n, rw.make(Op::Cast, {chosen}, {{Key::DType, DType::Bool}}));
  return true;
}

}  // namespace

std::span<const Rule> gather_rules() {
  static const Rule kRules[] = {
      {"gather-as-bytes", {Op::Gather, Op::GatherElements}, gather_as_bytes},
      {"gather-runs", {Op::Gather}, gather_runs},
      {"gather-by-conv", {Op::Gather}, gather_by_conv},
      {"gather-first-axis", {Op::Gather}, gather_first_axis},
      {"gather-by-one-hot", {Op::Gather}, gather_by_one_hot},
      {"gather-single-elements", {Op::GatherElements}, gather_single_elements},
  };
  return kRules;
}

}  // namespace swoop
