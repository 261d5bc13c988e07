// Float execution over the samples with an eye on every value: ranges and histograms, channel means of what layers with
// weights read, and what happens inside composites. Bodies of control flow are measured on what they are given.
#pragma once

#include <map>
#include <optional>

#include "quantize/covariance.h"
#include "quantize/masks.h"
#include "quantize/quantize.h"
#include "quantize/statistics.h"

namespace swoop {

struct Measured {
  std::vector<Statistics> values;  // by value id; empty for constants, integers and the results of data movement
  std::map<std::pair<ValueId, int>, ChannelStatistics> channels;  // of what layers read, along the axis that they read
  std::map<ValueId, ChannelExtents> heads;                        // of parts of outputs that have units_axis()
  std::vector<Doubles> inner;                                     // by node id: attribute `inner` of composites
  std::vector<bool> masked;                                       // by value id: scores of which some are masked
  std::vector<bool> hides;           // by value id: masks that are added to scores at run time
  std::map<ValueId, Depths> depths;  // of possible_masks()
  std::vector<float> lowest_peak;    // by value id, of masked scores: the smallest of the rows' largest elements
  std::map<NodeId, std::vector<Measured>> bodies;
  bool ran = false;
  // Of the whole model, what it gives for the first samples and for the last: quantized graphs are compared with them.
  static constexpr size_t kKept = 4;
  std::vector<std::vector<Tensor>> first_outputs = {};
  std::vector<Tensor> last_outputs = {};
};

// `without_last`, where it is given, gets what all samples but the last one show, or nothing if that says too little.
// `covariances`, of the same graph, see what its layers read.
Result<Measured> calibrate(const Graph& graph, const Samples& samples, OpaqueKernels* opaque = nullptr,
                           std::optional<Measured>* without_last = nullptr, Covariances* covariances = nullptr);

// What all samples but one show, for each of the first `count`: every sample runs once. For models without state. An
// Error where the others say too little.
Result<std::vector<Measured>> calibrate_without_each(const Graph& graph, const Samples& samples, size_t count,
                                                     OpaqueKernels* opaque);

// The value whose elements `id` consists of: back through data movement.
ValueId origin(const Graph& graph, ValueId id);

// The values whose elements an output consists of: back through data movement and concats.
std::vector<ValueId> parts_of_output(const Graph& graph, ValueId id);

// The measured range of what a composite computes inside, as ir/ops.def describes `inner`, for one set of operands;
// joined to `inner`.
Result<void> measure_inner(const Node& node, std::span<const Tensor* const> operands, Doubles& inner);
bool has_inner(Op op);

}  // namespace swoop
