// Quantized graphs on the first samples, against what calibration saw of the float graph that they were made from.
#pragma once

#include <span>
#include <vector>

#include "accuracy/accuracy.h"
#include "quantize/calibrate.h"

namespace swoop {

class Trials {
 public:
  static constexpr size_t kSamples = Measured::kKept;  // a trial runs the whole graph on each

  // With at most `count` samples, and never more than kSamples. `measured` of the same graph and samples.
  Trials(const Graph& prepared, const Samples& samples, const Measured& measured, OpaqueKernels* opaque,
         size_t count = kSamples);

  // Of each output, over all samples together: one without error would lift a mean of dB. `groups`: of the float graph;
  // they see the outputs as well.
  Result<std::vector<Noise>> noise(const Graph& quantized, size_t samples = kSamples,
                                   OutputGroups* groups = nullptr) const;
  bool counts(size_t output) const;     // it is the caller's and float; the others have no ratio
  size_t numbers(size_t output) const;  // that its noise is measured on

 private:
  const Graph& prepared_;
  std::span<const Sample> samples_;
  OpaqueKernels* opaque_;
  std::span<const std::vector<Tensor>> exact_;  // outputs, by sample
};

}  // namespace swoop
