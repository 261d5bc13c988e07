// Tensors made from nothing: constants, of the type and shape that the exporter has worked out.
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

Results linspace(Call& c) {
  int64_t steps = c.integer(2);
  if (c.result().shape != Shape{steps}) malformed("it has {} steps", steps);
  double start = c.real(0);
  double end = c.real(1);
  double step = steps > 1 ? (end - start) / static_cast<double>(steps - 1) : 0;
  return c.filled(c.result().dtype, {steps}, [&](int64_t i) {  // from both ends, so that both are met exactly
    return i < steps / 2 || steps == 1 ? start + step * static_cast<double>(i)
                                       : end - step * static_cast<double>(steps - 1 - i);
  });
}

Results eye(Call& c) {
  if (c.result().rank() != 2) malformed("its result has {} dimensions", c.result().rank());
  int64_t columns = c.result().shape[1];
  return c.filled(c.result().dtype, c.result().shape, [&](int64_t i) { return int64_t{i / columns == i % columns}; });
}

#define OPTIONS "*, dtype=None, layout=None, device=None, pin_memory=None"
#define LIKE_OPTIONS OPTIONS ", memory_format=None"

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
    {"aten.linspace.default", "start, end, steps, " OPTIONS, linspace},
    {"aten.eye.default", "n, " OPTIONS, eye},
    {"aten.eye.m", "n, m, " OPTIONS, eye},
};

#undef OPTIONS
#undef LIKE_OPTIONS

}  // namespace

std::span<const Row> factory_rows() { return kFactoryRows; }

}  // namespace swoop
