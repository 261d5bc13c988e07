// What convolutions and pools share: the same padding on both sides, and inputs without a batch.
#pragma once

#include "import/call.h"

namespace swoop {

inline Ints pairs(const Ints& padding) {
  Ints result;
  for (int64_t p : padding) result.insert(result.end(), {p, p});
  return result;
}

// Calls make(x) with a batch of one when the input has none, and takes it off the result.
template <typename Make>
ValueId batched(Call& c, ValueId x, size_t spatial, Make make) {
  if (c.rank(x) == static_cast<int>(spatial) + 2) return make(x);
  if (c.rank(x) != static_cast<int>(spatial) + 1) malformed("its input has {} dimensions", c.rank(x));
  ValueId y = make(c.unsqueeze(x, 0));
  Shape shape = c.shape(y);
  shape.erase(shape.begin());
  return c.reshape(y, std::move(shape));
}

// aten_window.cpp: of a max pool over x[N, C, spatial...], as indices into each plane; padding: one number per dim.
ValueId positions_of_maxima(Call& c, ValueId x, const Ints& kernel, const Ints& stride, const Ints& padding,
                            const Ints& dilation, const Shape& out);

}  // namespace swoop
