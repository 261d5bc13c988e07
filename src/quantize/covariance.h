// How the numbers that a layer's sums read vary together, over some windows of the samples. Errors of rounded weights
// that meet such numbers can cancel each other out; rounding.h makes use of it.
#pragma once

#include <map>
#include <vector>

#include "quantize/layers.h"
#include "quantize/quantize.h"

namespace swoop {

// Some neighbouring columns of the weights of a layer, seen as a matrix [outputs, depth] per group. Only numbers within
// a block are compared: all pairs of a deep layer would be too many, for time and for the samples.
struct Block {
  int64_t group = 0;
  int64_t first = 0;
  int64_t size = 0;
  std::vector<float> products =
      {};                         // [size, size], of the distances from `about`, summed over the rows; the upper half
  std::vector<double> sums = {};  // of these distances
  std::vector<float> about = {};  // what the first tensor has in the mean: products of small numbers lose few bits
};

struct Covariance {
  int64_t groups = 0, outputs = 0, depth = 0;  // of the weights; outputs per group
  int64_t rows = 0;                            // windows seen
  std::vector<Block> blocks;
};

class Covariances {
 public:
  // Of the layers whose weights make much of the noise.
  Covariances(const Graph& graph, const QuantizeOptions& options);

  // Looks at what the layers that read `id` read.
  void see(ValueId id, const Tensor& tensor);

  // By weights. Layers that share weights share what was seen.
  const std::map<ValueId, Covariance>& all() const { return all_; }

 private:
  const Graph& graph_;
  std::vector<std::vector<NodeId>> readers_;  // layers, by the value that they read
  std::map<ValueId, Covariance> all_;
};

}  // namespace swoop
