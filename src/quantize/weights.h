// Weights and bias of a layer (conv, conv_transpose, linear): weights are symmetric with a scale per output channel,
// the bias has 32 bits in steps of the accumulator. The error that rounded weights make on average is taken off the
// bias.
#pragma once

#include <algorithm>

#include "quantize/quantize.h"
#include "quantize/statistics.h"

namespace swoop {

struct KnownConstants;

struct LayerConstants {
  Type weight;               // chosen; or theirs, where the weights are no float constant
  std::vector<double> bias;  // reals, one per output channel; empty: there is none
};

// At least `least`, but not so coarse that few codes are left.
inline double coarser_step(double step, double least) {
  constexpr double kCoarsest = 8;  // 31 codes are left
  return std::max(step, std::min(least, kCoarsest * step));
}

// `least_step`: of weights with 8 bits, as coarser_step() has it.
LayerConstants choose_layer_constants(const Graph& graph, const Node& layer, const QuantizeOptions& options,
                                      double least_step, KnownConstants* known = nullptr);

// What the results of each output channel lose on average by the rounding of weights to codes. `means`: of the channels
// that the layer reads.
std::vector<double> mean_errors(const Node& layer, const Value& weights, const Value& codes,
                                const ChannelStatistics& means);

Type bias_type(const Type& input, const Type& weight, size_t channels);
Buffer bias_codes(std::span<const double> bias, const Type& type);

}  // namespace swoop
