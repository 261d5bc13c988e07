// Coarser steps for weights, where the outputs notice it least. The NPU reads weights entropy coded: a step that is k
// times coarser saves log2(k) bits per weight and makes k^2 times the noise. Bits are spent best when every weight adds
// the same noise to the outputs; so there is one such level for the whole network, which gives each layer a step that
// none of its channels goes below.
#pragma once

#include <algorithm>

#include "quantize/types.h"

namespace swoop {

// A least step for the channels of a layer, and what comes of it.
struct Coarseness {
  double least = 0;
  double mean_square = 0;  // of the weights' errors
  double bits = 0;         // of all weights, encoded
};

// For a graph whose activations have their types and whose constants are still float: the steps with which no output's
// SQNR falls by more than the request's dB, by the forecast of noise.h. Bodies get none.
WeightSteps coarser_steps(const Graph& graph, const TypeRequest& request);

// dB: on few samples, chance does 1; or what somebody allows.
constexpr double clearly_worse(double weight_rate) { return std::max(1.5, weight_rate); }

struct Confirmed {
  Graph graph;                            // with types; it reads constants where `prepared` does
  std::optional<SmallerWeights> smaller;  // absent: nothing is gained
  double below_plain = 0;                 // dB by which an output of the graph is below request.plain
};

// A graph on the samples that confirm it.
struct Judged {
  std::vector<Noise> noise;  // of the outputs
  size_t flat = 0;           // parts of outputs, and channels of those, that do not vary as they do in float
};

// What outputs may lose for smaller weights. Little: options.weight_rate, and nothing that is clearly below plain, what
// they have with the finest weights and 8 bits. Gains: what 16 bits have gained over that, three times as much or down
// to where they are good enough; for networks in which smaller weights save much time.
enum class Spending : uint8_t { Little, Gains };

// Sets request.weight_rate so that no output loses more on the first samples. What it is set to already, for other
// types, is tried first.
Result<Confirmed> confirm_weight_rate(const Graph& prepared, const Samples& samples, TypeRequest& request,
                                      Spending spending = Spending::Little);

// Of the outputs on the samples that confirm it. `typed`: as the request has it, with the finest weights.
Result<std::vector<Noise>> noise_to_judge(const Graph& prepared, const Samples& samples, const Graph& typed,
                                          const TypeRequest& request);

// What the NPU's encoding of the layers' 8-bit weights takes, by a forecast.
double encoded_bytes(const Graph& typed, KnownConstants* known = nullptr);

}  // namespace swoop
