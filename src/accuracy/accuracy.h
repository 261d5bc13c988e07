// What quantization costs: signal over noise (SQNR) of tensors against their reference, and of every layer of a
// quantized graph against the float graph that it was made from.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ops/ops.h"
#include "samples/samples.h"
#include "support/result.h"

namespace swoop {

// Signal and noise of values against their reference, summed over tensors.
struct Noise {
  double signal = 0;
  double error = 0;

  void add(const Tensor& reference,
           const Tensor& actual);  // of one type and shape; elements that are not finite are masked by design
  double db() const;               // 999 when they are equal
};

// Of `actual` against `reference`, over all tensors together, in dB.
double sqnr_db(std::span<const Tensor> reference, std::span<const Tensor> actual);

struct LayerAccuracy {
  std::string name;  // of the value
  std::string node;
  std::string op;
  std::string source;  // "net.py:31"
  std::string type;
  double sqnr_db = 0;  // of its value in the quantized graph, with all that went wrong before it
  double own_db = 0;   // of this layer alone, its operands being exact
  double clipped = 0;  // share of float elements outside the type's range
};

struct AccuracyReport {
  size_t samples = 0;
  bool uncalibrated = false;
  double sqnr_db = 0;                 // of the outputs, mean over the samples
  std::vector<double> output_db;      // per output
  std::vector<LayerAccuracy> layers;  // worst own_db first
};

// `reference` is the float graph that `quantized` was made from in place: clone() it before quantize().
Result<AccuracyReport> measure_accuracy(const Graph& reference, const Graph& quantized, const Samples& samples,
                                        OpaqueKernels* opaque = nullptr);
std::string to_text(const AccuracyReport& report);

}  // namespace swoop
