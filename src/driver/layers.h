// `swoop run --layers`: each layer's output on the NPU, beside the value that the model has there.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accuracy/accuracy.h"
#include "driver/collect.h"
#include "driver/opaque_kernels.h"
#include "ir/ir.h"
#include "ops/ops.h"
#include "run/runtime.h"
#include "samples/samples.h"
#include "support/json.h"

namespace swoop {

class LayerReport {
 public:
  explicit LayerReport(std::span<const NpuStream> streams);  // which must outlive it

  // The model that the program was compiled from, to be run on the same inputs (an .npz).
  Result<void> compare_with(const std::string& model, const std::string& inputs);

  NpuObserver& observer() { return collector_; }
  // Takes in what the observer collected, and runs the model on the same sample.
  Result<void> after_run(int64_t run, std::span<const RunTensor> outputs);

  std::string to_text() const;
  void add_to(Json& object) const;  // as "layers" and "output_sqnr_db"
  // Each layer's output of the last run: layer03_conv2d.npy, codes as the NPU has them.
  Result<void> dump(const std::string& directory) const;

 private:
  struct Row {
    size_t stream = 0;
    size_t layer = 0;
    bool ran = false;
    std::string missing;  // why there is no output
    double min = 0, max = 0;
    Noise noise;
    double max_error = 0;
    bool compared = false;
    Buffer codes;  // of the last run
  };

  const MappedLayer& layer_of(const Row& row) const { return streams_[row.stream].map->layers[row.layer]; }
  void take(Row& row);
  void compare(Row& row);
  void compare_outputs(std::span<const Tensor> expected, std::span<const RunTensor> outputs);

  std::span<const NpuStream> streams_;
  LayerCollector collector_;
  std::vector<Row> rows_;  // in execution order
  std::optional<Graph> model_;
  Samples samples_;
  std::unique_ptr<OpaqueKernels> opaque_ = make_opaque_kernels();  // of the model
  std::vector<Tensor> previous_;                                   // outputs of the model's last run
  std::map<std::string, Tensor> values_;  // of the model in this run, by name; those that rows name
  std::vector<Noise> outputs_;
};

}  // namespace swoop
