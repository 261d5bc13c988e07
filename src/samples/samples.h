// Samples: what a model is fed when ranges are measured, the finished file is checked and accuracy is compared. They
// come from NumPy files or images, or are made up from a seed, and fit the inputs of one graph.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ops/ops.h"
#include "support/result.h"

namespace swoop {

// One tensor per input of the graph; state inputs hold their initial value.
using Sample = std::vector<Tensor>;

struct Samples {
  std::vector<Sample> inputs;
  std::string source;   // the path, or random:SEED
  bool random = false;  // made up: whatever is quantized with them is uncalibrated
};

struct SampleOptions {
  std::vector<double> mean = {0.0};  // of images, after scaling to 0..1, one value or one per channel
  std::vector<double> std = {1.0};
};

// `path` is one of these:
//   x.npz        an array per input; exactly the input's shape is one sample, one more axis in front holds several. A
//                model with one input takes the only array that fits, whatever its name
//   x.npy        the same, for a model with one input
//   x.png ...    an image, for a model with one image as its input: see images.h
//   a folder     of such files, in the order of their names
//   random:SEED  made up
Result<Samples> load_samples(const std::string& path, const Graph& graph, const SampleOptions& options = {});

// Held-out samples with what is right for them: labels, or the outputs that are expected.
struct TestSet {
  Samples samples;
  std::vector<int64_t> labels;  // empty: none; else one per row of output 0, sample by sample
  std::vector<std::optional<std::vector<Tensor>>> expected;  // per user output: one tensor per sample, where given
};

// An .npz as load_samples() takes it, which may also hold `labels` (integers, one per sample, or one per row of a
// batch) and `out0`, `out1`, ... (what the model should give, as `swoop run` names its outputs).
Result<TestSet> load_test_set(const std::string& path, const Graph& graph);

// The state outputs of one run are the state inputs of the next.
void carry_state(const Graph& graph, std::span<const Tensor> outputs, Sample& inputs);

}  // namespace swoop
