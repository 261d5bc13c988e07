// The range of reals that a quantized value should cover, from its statistics, and the type that covers it.
#pragma once

#include <algorithm>

#include "ir/ir.h"
#include "quantize/quantize.h"
#include "quantize/statistics.h"

namespace swoop {

// `levels`: codes that the type has (256, 65536). The result includes zero. Mse leaves room for what few samples have
// not shown, `room` times as far as others are likely to reach, and with 16 bits as much again; the other methods stay
// inside what was measured.
Range choose_range(const Statistics& statistics, Method method, double percentile, int levels, double room = 1);

// The search of PyTorch's HistogramObserver: bounds are moved inwards while the expected square error falls.
Range histogram_range(const Statistics& statistics, int levels);

// Int8: affine over -128..127 with zero exactly representable. Int16: symmetric, zero point 0. Scales hold float32
// values.
Type activation_type(Precision precision, Shape shape, Range range);

// The smallest range that holds both.
inline Range joined(Range a, Range b) { return {std::min(a.min, b.min), std::max(a.max, b.max)}; }

// The smallest and largest of a float constant that are finite.
Range constant_range(const Value& constant);

}  // namespace swoop
