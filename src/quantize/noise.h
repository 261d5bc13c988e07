// How much of the outputs' noise comes from rounding each value, to first order and without running anything.
#pragma once

#include <map>
#include <vector>

#include "quantize/calibrate.h"

namespace swoop {

struct KnownConstants;

struct NoiseShares {
  std::vector<double> values;  // by value id: from rounding the value
  double weights = 0;          // from rounding all weights
};

// Noise over signal, of all float outputs together. `typed`: `prepared` with types chosen. Errors of rounding are taken
// as independent of one another: a layer passes them on by the squares of its weights, a sum as they are, a mean over n
// elements by 1 / n, a clamp where it does not cut; what is not linear keeps the ratio of noise to signal.
NoiseShares noise_of_outputs(const Graph& prepared, const Graph& typed, const Measured& measured,
                             KnownConstants* known = nullptr);

// What a mean square error of 1 in the weights of a layer adds to the outputs, over the noise that each of them has; of
// all outputs together. For a graph whose activations have their types and whose weights are still float; `errors`: the
// mean square error that each has now.
std::map<ValueId, double> gains_of_weights(const Graph& graph, const Measured& measured,
                                           const std::map<ValueId, double>& errors, KnownConstants* known = nullptr);

}  // namespace swoop
