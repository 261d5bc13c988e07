#include "quantize/rounding.h"

#include <algorithm>
#include <cmath>

#include "support/clones.h"
#include "support/parallel.h"

namespace swoop {

namespace {

// The covariance of a block's columns, full and in double.
std::vector<double> covariance_of(const Block& block, int64_t rows) {
  const auto size = static_cast<size_t>(block.size);
  const auto n = static_cast<double>(rows);
  std::vector<double> c(size * size);
  for (size_t i = 0; i < size; ++i)
    for (size_t j = i; j < size; ++j)
      c[i * size + j] = c[j * size + i] =
          (static_cast<double>(block.products[i * size + j]) - block.sums[i] * block.sums[j] / n) / n;
  return c;
}

// Few windows show chance as well: by how much the columns' covariances are to be believed. (Ledoit and Wolf's
// shrinkage towards the diagonal.)
double belief(const std::vector<double>& c, size_t size, double windows) {
  double errors = 0, squares = 0;
  for (size_t i = 0; i < size; ++i)
    for (size_t j = i + 1; j < size; ++j) {
      const double both = c[i * size + j] * c[i * size + j];
      squares += both;
      errors += (c[i * size + i] * c[j * size + j] + both) / windows;
    }
  return squares > 0 ? std::clamp(1 - errors / squares, 0.0, 1.0) : 0;
}

// c -= d * column * column^T, above and left of `last`.
SWOOP_CLONES void subtract_square(double* c, size_t size, size_t last, const double* column, double d) {
  for (size_t i = 0; i < last; ++i) {
    const double share = d * column[i];
    for (size_t j = i; j < last; ++j) c[i * size + j] -= share * column[j];
  }
}

// P, transposed: row i has what column i gets. From the last column to the first.
std::vector<double> factor(std::vector<double> c, size_t size) {
  constexpr double kLeast = 1e-6;  // of the largest variance: the products are floats
  double largest = 0;
  for (size_t i = 0; i < size; ++i) largest = std::max(largest, c[i * size + i]);
  std::vector<double> passed(size * size);
  for (size_t k = size; k-- > 0;) {
    const double d = std::max(c[k * size + k], kLeast * largest);
    double* column = passed.data() + k * size;
    for (size_t i = 0; i < k; ++i) column[i] = d > 0 ? c[i * size + k] / d : 0;
    subtract_square(c.data(), size, k, column, d);
  }
  return passed;
}

Rounding::Columns columns_of(const Block& block, int64_t rows) {
  const auto size = static_cast<size_t>(block.size);
  std::vector<double> c = covariance_of(block, rows);
  const double believed = belief(c, size, static_cast<double>(rows));
  for (size_t i = 0; i < size; ++i)
    for (size_t j = 0; j < size; ++j)
      if (i != j) c[i * size + j] *= believed;
  const std::vector<double> passed = factor(std::move(c), size);
  return {block.group, block.first, block.size, std::vector<float>(passed.begin(), passed.end())};
}

Rounding rounding_of(const Covariance& covariance) {
  Rounding rounding{covariance.outputs, covariance.depth, {}};
  rounding.columns.resize(covariance.blocks.size());
  parallel_for(rounding.columns.size(), 1, [&](size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) rounding.columns[i] = columns_of(covariance.blocks[i], covariance.rows);
  });
  return rounding;
}

constexpr size_t kSideBySide = 32;  // outputs

// In steps; `weights`, `errors` and `codes` are [size, kSideBySide]. The sums stay in registers while the columns go
// by: they are vectors by name, because the compiler keeps small arrays in memory.
SWOOP_CLONES void round_columns(const float* weights, const float* passed, size_t size, float limit, float* errors,
                                float* codes) {
  using Lanes [[gnu::vector_size(32), gnu::aligned(4), gnu::may_alias]] = float;
  constexpr size_t kVectors = kSideBySide * sizeof(float) / sizeof(Lanes);
  for (size_t i = 0; i < size; ++i) {
    Lanes sums[kVectors] = {};
    for (size_t j = 0; j < i; ++j) {
      const auto* error = reinterpret_cast<const Lanes*>(errors + j * kSideBySide);
      for (size_t v = 0; v < kVectors; ++v) sums[v] += passed[i * size + j] * error[v];
    }
    float wanted[kSideBySide];
    for (size_t v = 0; v < kVectors; ++v) reinterpret_cast<Lanes*>(wanted)[v] = sums[v];
    const float* w = weights + i * kSideBySide;
    for (size_t lane = 0; lane < kSideBySide; ++lane) {
      float code = std::rint(w[lane] + wanted[lane]);
      code = code < -limit ? -limit : code;
      code = code > limit ? limit : code;
      code = w[lane] == 0 ? 0 : code;  // zeros are exact, and take the fewest bits
      codes[i * kSideBySide + lane] = code;
      errors[i * kSideBySide + lane] = w[lane] - code;
    }
  }
}

}  // namespace

Roundings roundings_of(const Covariances& covariances) {
  Roundings roundings;
  for (const auto& [weights, covariance] : covariances.all())
    if (covariance.rows > 0) roundings.emplace(weights, rounding_of(covariance));
  return roundings;
}

Buffer round_weights(std::span<const float> weights, const Type& type, const Rounding& rounding) {
  Buffer codes(weights.size());
  const auto limit = static_cast<float>(type.quant->qmax);
  const auto& scales = type.quant->scale;
  const auto depth = static_cast<size_t>(rounding.depth), outputs = static_cast<size_t>(rounding.outputs);
  parallel_for(rounding.columns.size(), 1, [&](size_t from, size_t to) {
    std::vector<float> steps, errors, rounded;
    for (size_t at = from; at < to; ++at) {
      const Rounding::Columns& columns = rounding.columns[at];
      const auto size = static_cast<size_t>(columns.size);
      const size_t first = static_cast<size_t>(columns.group) * outputs;
      for (size_t output = first; output < first + outputs; output += kSideBySide) {
        const size_t lanes = std::min(kSideBySide, first + outputs - output);
        const size_t corner = output * depth + static_cast<size_t>(columns.first);
        steps.assign(size * kSideBySide, 0);
        errors.resize(size * kSideBySide);
        rounded.resize(size * kSideBySide);
        for (size_t lane = 0; lane < lanes; ++lane) {
          const auto inverse = static_cast<float>(1 / scales[type.quant->per_channel() ? output + lane : 0]);
          for (size_t i = 0; i < size; ++i)
            steps[i * kSideBySide + lane] = weights[corner + lane * depth + i] * inverse;
        }
        round_columns(steps.data(), columns.passed.data(), size, limit, errors.data(), rounded.data());
        for (size_t lane = 0; lane < lanes; ++lane)
          for (size_t i = 0; i < size; ++i)
            codes[corner + lane * depth + i] =
                static_cast<std::byte>(static_cast<int8_t>(rounded[i * kSideBySide + lane]));
      }
    }
  });
  return codes;
}

}  // namespace swoop
