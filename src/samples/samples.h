// Samples: what a model is fed when its ranges are measured, its file is checked and its accuracy is told. They come
// from NumPy files, images, or a seed, and fit the inputs of one graph.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ops/ops.h"
#include "support/result.h"

namespace swoop {

struct Samples {
  std::vector<std::vector<Tensor>>
      inputs;           // per sample, one tensor per input of the graph; state inputs hold their initial value
  std::string source;   // the path, or random:SEED
  bool random = false;  // made up: whatever is quantized with them is uncalibrated
};

struct SampleOptions {
  std::vector<double> mean = {0.0};  // of images, after scaling to 0..1, one value or one per channel
  std::vector<double> std = {1.0};
};

// One .npz (an array per input; exactly the input's shape is one sample, one more leading axis that many), one .npy for
// a model with a single input, a folder of such files or of images (.png, .jpg, .ppm), or random:SEED.
Result<Samples> load_samples(const std::string& path, const Graph& graph, const SampleOptions& options = {});

// The state outputs of one run are the state inputs of the next.
void carry_state(const Graph& graph, std::span<const Tensor> outputs, std::vector<Tensor>& inputs);

}  // namespace swoop
