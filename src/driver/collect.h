// The outputs of layers while a program runs: what operations write is kept under the layer that the map names.
#pragma once

#include <span>
#include <vector>

#include "driver/streams.h"

namespace swoop {

class LayerCollector final : public NpuObserver {
 public:
  explicit LayerCollector(std::span<const NpuStream> streams);  // which must outlive it

  bool wants_blocks() const override { return true; }
  void on_call(int delegate) override;  // what the delegate's last call wrote is forgotten
  void on_step(const NpuStep& step, const std::array<Bytes, kNpuRegionCount>& regions) override;

  // Whether an operation of the layer ran since the last clear().
  bool ran(size_t stream, size_t layer) const { return !pieces_[stream][layer].empty(); }
  // The layer's elements in the order of its shape. The error says what is missing.
  Result<Buffer> output(size_t stream, size_t layer) const;
  void clear();

 private:
  void place_chained(const NpuBlock& end);

  std::span<const NpuStream> streams_;
  size_t current_ = 0;
  std::vector<std::pair<size_t, size_t>> chained_;  // layer and piece of what the chain under way has put out so far
  std::vector<std::vector<std::vector<NpuBlock>>> pieces_;  // by stream and layer
};

}  // namespace swoop
