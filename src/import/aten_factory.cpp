// Tensors made from nothing: constants, of the type and shape that the exporter has worked out.
#include <cmath>
#include <numbers>

#include "import/aten.h"

namespace swoop {

namespace {

Results filled_with(Call& c, double value) {
  return c.filled(c.result().dtype, c.result().shape, [&](int64_t) { return value; });
}

Results zeros(Call& c) { return filled_with(c, 0); }
Results ones(Call& c) { return filled_with(c, 1); }

// The value is the schema's first or second argument.
template <size_t value_at>
Results full(Call& c) {
  if (const int64_t* exact = std::get_if<int64_t>(&c.args[value_at]))
    return c.filled(c.result().dtype, c.result().shape, [&](int64_t) { return *exact; });
  return filled_with(c, c.real(value_at));
}

Results arange(Call& c, double start, double step) {
  DType dtype = c.result().dtype;
  if (c.result().rank() != 1) malformed("its result has {} dimensions", c.result().rank());
  return c.filled(dtype, c.result().shape, [&](int64_t i) { return start + static_cast<double>(i) * step; });
}

Results arange_end(Call& c) { return arange(c, 0, 1); }
Results arange_start(Call& c) { return arange(c, c.real(0), 1); }
Results arange_step(Call& c) { return arange(c, c.real(0), c.real(2)); }

// A number, or a tensor that holds one that is known
double bound(Call& c, size_t index) {
  if (c.is_number(index)) return c.real(index);
  std::optional<double> known = c.known_number(c.tensor(index));
  if (!known) unsupported("a range with bounds that are computed");
  return *known;
}

ValueId evenly(Call& c, double (*of)(double x, double base), double base) {
  int64_t steps = c.integer(2);
  if (c.result().shape != Shape{steps}) malformed("it has {} steps", steps);
  double start = bound(c, 0);
  double end = bound(c, 1);
  double step = steps > 1 ? (end - start) / static_cast<double>(steps - 1) : 0;
  return c.filled(c.result().dtype, {steps}, [&](int64_t i) {  // from both ends, so that both are met exactly
    return of(i < steps / 2 || steps == 1 ? start + step * static_cast<double>(i)
                                          : end - step * static_cast<double>(steps - 1 - i),
              base);
  });
}

// start + (end - start) * how far along, where one of them is computed
ValueId between_computed(Call& c) {
  DType dtype = c.result().dtype;
  int64_t steps = c.integer(2);
  if (!is_float(dtype)) unsupported("a range of integers with bounds that are computed");
  ValueId start = c.operand(0, dtype);
  ValueId part = c.filled(dtype, {steps}, [&](int64_t i) {
    return steps > 1 ? static_cast<double>(i) / static_cast<double>(steps - 1) : 0.0;
  });
  return c.add(c.mul(c.sub(c.operand(1, dtype), start), part), start);
}

bool is_known(Call& c, size_t index) { return c.is_number(index) || c.known_number(c.tensor(index)).has_value(); }

Results linspace(Call& c) {
  if (!is_known(c, 0) || !is_known(c, 1)) return between_computed(c);
  return evenly(
      c, [](double x, double) { return x; }, 0);
}

Results logspace(Call& c) {
  return evenly(
      c, [](double x, double base) { return std::pow(base, x); }, c.real(3));
}

// The places of a triangle of a matrix, row by row: their rows, then their columns
Results triangle_places(Call& c) {
  int64_t rows = c.integer(0), columns = c.integer(1), diagonal = c.integer(2);
  int64_t count = c.result().rank() == 2 ? c.result().shape[1] : -1;
  if (rows > 65536 || columns > 65536) unsupported("so large a matrix");
  Ints places;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      if (c.detail() == "lower" ? j - i <= diagonal : j - i >= diagonal) places.push_back(i * columns + j);
  if (static_cast<int64_t>(places.size()) != count) malformed("its triangle has {} elements", places.size());
  return c.filled(c.result().dtype, {2, count}, [&](int64_t i) {
    int64_t place = places[static_cast<size_t>(i % count)];
    return i < count ? place / columns : place % columns;
  });
}

Results eye(Call& c) {
  if (c.result().rank() != 2) malformed("its result has {} dimensions", c.result().rank());
  int64_t columns = c.result().shape[1];
  return c.filled(c.result().dtype, c.result().shape, [&](int64_t i) { return int64_t{i / columns == i % columns}; });
}

#define OPTIONS "*, dtype=None, layout=None, device=None, pin_memory=None"
#define LIKE_OPTIONS OPTIONS ", memory_format=None"

// sum over k of (-1)^k a[k] cos(2 pi k i / m): periodic windows have m elements, the others one more.
Results cosine_window(Call& c, bool periodic, std::initializer_list<double> factors) {
  if (c.result().rank() != 1) malformed("its result has {} dimensions", c.result().rank());
  const int64_t count = c.result().shape[0];
  const auto m = static_cast<double>(periodic ? count : count - 1);
  return c.filled(c.result().dtype, c.result().shape, [&](int64_t i) {
    double sum = 0, k = 0, sign = 1;
    for (double factor : factors) {
      sum += sign * factor * std::cos(2 * std::numbers::pi * k * static_cast<double>(i) / m);
      sign = -sign;
      k += 1;
    }
    return count == 1 ? 1.0 : sum;
  });
}

bool is_periodic(const Call& c) { return c.names[1] != "periodic" || c.flag(1); }
Results hann_window(Call& c) { return cosine_window(c, is_periodic(c), {0.5, 0.5}); }
Results hamming_window(Call& c) { return cosine_window(c, is_periodic(c), {0.54, 0.46}); }
Results hamming_window_of(Call& c) { return cosine_window(c, c.flag(1), {c.real(2), c.real(3)}); }
Results blackman_window(Call& c) { return cosine_window(c, is_periodic(c), {0.42, 0.5, 0.08}); }

constexpr Row kFactoryRows[] = {
    {"aten.zeros.default", "size, " OPTIONS, zeros},
    {"aten.ones.default", "size, " OPTIONS, ones},
    {"aten.full.default", "size, fill_value, " OPTIONS, full<1>},
    {"aten.empty.memory_format", "size, " LIKE_OPTIONS, zeros},
    {"aten.scalar_tensor.default", "s, " OPTIONS, full<0>},
    {"aten.zeros_like.default", "self, " LIKE_OPTIONS, zeros},
    {"aten.ones_like.default", "self, " LIKE_OPTIONS, ones},
    {"aten.full_like.default", "self, fill_value, " LIKE_OPTIONS, full<1>},
    {"aten.empty_like.default", "self, " LIKE_OPTIONS, zeros},
    {"aten.new_zeros.default", "self, size, " OPTIONS, zeros},
    {"aten.new_ones.default", "self, size, " OPTIONS, ones},
    {"aten.new_full.default", "self, size, fill_value, " OPTIONS, full<2>},
    {"aten.new_empty.default", "self, size, " OPTIONS, zeros},
    {"aten.arange.default", "end, " OPTIONS, arange_end},
    {"aten.arange.start", "start, end, " OPTIONS, arange_start},
    {"aten.arange.start_step", "start, end, step=1, " OPTIONS, arange_step},
    {"aten.hann_window.default", "window_length, " OPTIONS, hann_window},
    {"aten.hann_window.periodic", "window_length, periodic, " OPTIONS, hann_window},
    {"aten.hamming_window.default", "window_length, " OPTIONS, hamming_window},
    {"aten.hamming_window.periodic", "window_length, periodic, " OPTIONS, hamming_window},
    {"aten.hamming_window.periodic_alpha_beta", "window_length, periodic, alpha, beta, " OPTIONS, hamming_window_of},
    {"aten.blackman_window.default", "window_length, " OPTIONS, blackman_window},
    {"aten.blackman_window.periodic", "window_length, periodic, " OPTIONS, blackman_window},
    {"aten.linspace.default", "start, end, steps, " OPTIONS, linspace},
    {"aten.linspace.Tensor_Tensor", "start, end, steps, " OPTIONS, linspace},
    {"aten.linspace.Tensor_Scalar", "start, end, steps, " OPTIONS, linspace},
    {"aten.linspace.Scalar_Tensor", "start, end, steps, " OPTIONS, linspace},
    {"aten.logspace.default", "start, end, steps, base=10.0, " OPTIONS, logspace},
    {"aten.logspace.Tensor_Tensor", "start, end, steps, base=10.0, " OPTIONS, logspace},
    {"aten.logspace.Tensor_Scalar", "start, end, steps, base=10.0, " OPTIONS, logspace},
    {"aten.logspace.Scalar_Tensor", "start, end, steps, base=10.0, " OPTIONS, logspace},
    {"aten.new_empty_strided.default", "self, size, stride, " OPTIONS, zeros},
    {"aten.empty_strided.default", "size, stride, " OPTIONS, zeros},
    {"aten.empty_permuted.default", "size, physical_layout, " OPTIONS, zeros},
    {"aten.tril_indices.default", "row, col, offset=0, *, dtype=4, layout=None, device=None, pin_memory=None",
     triangle_places, "lower"},
    {"aten.triu_indices.default", "row, col, offset=0, *, dtype=4, layout=None, device=None, pin_memory=None",
     triangle_places, "upper"},
    {"aten.eye.default", "n, " OPTIONS, eye},
    {"aten.eye.m", "n, m, " OPTIONS, eye},
};

#undef OPTIONS
#undef LIKE_OPTIONS

}  // namespace

std::span<const Row> factory_rows() { return kFactoryRows; }

}  // namespace swoop
