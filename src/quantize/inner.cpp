#include <algorithm>
#include <cmath>
#include <mutex>

#include "quantize/calibrate.h"
#include "support/parallel.h"

namespace swoop {

namespace {

void join(Doubles& inner, double min, double max) {
  if (inner.empty()) inner = {min, max};
  inner[0] = std::min(inner[0], min);
  inner[1] = std::max(inner[1], max);
}

// Variance (or mean square) per row of `length` elements.
void measure_rows(std::span<const float> x, size_t length, bool centred, Doubles& inner) {
  if (length == 0 || x.empty()) return;
  std::mutex mutex;
  parallel_for(x.size() / length, (size_t{1} << 15) / length + 1, [&](size_t first, size_t last) {
    double low = INFINITY, high = 0;
    for (size_t r = first; r < last; ++r) {
      const float* row = x.data() + r * length;
      double sum = 0, squares = 0;
      for (size_t i = 0; i < length; ++i) sum += static_cast<double>(row[i]);
      double mean = centred ? sum / static_cast<double>(length) : 0.0;
      for (size_t i = 0; i < length; ++i) {
        double d = static_cast<double>(row[i]) - mean;
        squares += d * d;
      }
      low = std::min(low, squares / static_cast<double>(length));
      high = std::max(high, squares / static_cast<double>(length));
    }
    std::lock_guard lock(mutex);
    join(inner, low, high);
  });
}

Result<Tensor> computed(Op op, Attrs attrs, std::vector<const Tensor*> operands, Shape shape) {
  Node node;
  node.op = op;
  node.attrs = std::move(attrs);
  node.inputs.resize(operands.size());
  std::vector<Tensor> results;
  results.push_back(make_tensor(DType::F32, std::move(shape)));
  TRY(evaluate(node, operands, results));
  return std::move(results[0]);
}

// The extremes of scale * q k^T. Broadcast batches are left to matmul.
Result<void> measure_scores(const Node& node, const Tensor& q, const Tensor& k, Doubles& inner) {
  size_t rank = k.shape.size();
  Ints perm(rank);
  for (size_t i = 0; i < rank; ++i) perm[i] = static_cast<int64_t>(i);
  std::swap(perm[rank - 1], perm[rank - 2]);
  Shape turned = k.shape;
  std::swap(turned[rank - 1], turned[rank - 2]);
  TRY_ASSIGN(Tensor keys, computed(Op::Transpose, {{Key::Perm, perm}}, {&k}, turned));
  Shape shape;
  size_t lead = std::max(q.shape.size(), rank) - 2;
  for (size_t i = 0; i < lead; ++i) {
    auto dim = [&](const Shape& s) { return i + s.size() < lead + 2 ? int64_t{1} : s[i + s.size() - lead - 2]; };
    shape.push_back(std::max(dim(q.shape), dim(k.shape)));
  }
  shape.push_back(q.shape[q.shape.size() - 2]);
  shape.push_back(k.shape[rank - 2]);
  TRY_ASSIGN(Tensor scores, computed(Op::MatMul, {}, {&q, &keys}, shape));
  Statistics statistics;
  statistics.add(scores.as<float>());
  if (statistics.empty()) return {};
  double scale = node.real(Key::Scale);
  double a = static_cast<double>(statistics.min) * scale;
  double b = static_cast<double>(statistics.max) * scale;
  join(inner, std::min(a, b), std::max(a, b));
  return {};
}

}  // namespace

bool has_inner(Op op) { return op == Op::LayerNorm || op == Op::RmsNorm || op == Op::GroupNorm || op == Op::Attention; }

Result<void> measure_inner(const Node& node, std::span<const Tensor* const> operands, Doubles& inner) {
  if (node.op == Op::Attention) return measure_scores(node, *operands[0], *operands[1], inner);
  const Tensor& x = *operands[0];
  auto count = static_cast<size_t>(element_count(x.shape));
  if (count == 0) return {};
  auto length = static_cast<size_t>(norm_row(node, x.shape));
  measure_rows(x.as<float>(), length, node.op != Op::RmsNorm, inner);
  return {};
}

}  // namespace swoop
