#include "driver/collect.h"

#include <utility>

#include "ir/ir.h"

namespace swoop {

LayerCollector::LayerCollector(std::span<const NpuStream> streams) : streams_(streams) { clear(); }

void LayerCollector::clear() {
  pieces_.clear();
  for (const NpuStream& stream : streams_) pieces_.emplace_back(stream.map ? stream.map->layers.size() : 0);
}

void LayerCollector::on_call(int delegate) {
  current_ = static_cast<size_t>(delegate);
  chained_.clear();
  if (current_ < pieces_.size()) pieces_[current_].assign(pieces_[current_].size(), {});
}

void LayerCollector::on_step(const NpuStep& step, const std::array<Bytes, kNpuRegionCount>& regions) {
  if (current_ >= streams_.size()) return;
  const StreamOperation* operation = streams_[current_].operation_of(step);
  const bool result = operation && operation->result;
  if (step.block) {
    if (step.block->place) place_chained(*step.block);
    if (!result) return;
    std::vector<NpuBlock>& pieces = pieces_[current_][operation->layer];
    if (!step.block->place) chained_.emplace_back(operation->layer, pieces.size());
    pieces.push_back(*step.block);
    return;
  }
  if (!result || step.kernel || operation->position != step.position) return;
  std::vector<NpuBlock>& pieces = pieces_[current_][operation->layer];
  for (const NpuRange& range : step.writes) {  // a transfer that moves a tensor
    if (range.region < 0) continue;
    Bytes written = regions[static_cast<size_t>(range.region)].subspan(range.first, range.last - range.first);
    NpuBlock block{1, 1, static_cast<int>(written.size()), 1, Buffer(written.begin(), written.end()), NpuPlace{}};
    block.place->region = range.region;
    block.place->base[0] = static_cast<int64_t>(range.first);
    pieces.push_back(std::move(block));
  }
}

void LayerCollector::place_chained(const NpuBlock& end) {
  for (auto [layer, piece] : std::exchange(chained_, {})) place_like(pieces_[current_][layer][piece], end);
}

Result<Buffer> LayerCollector::output(size_t stream, size_t layer) const {
  const MappedLayer& mapped = streams_[stream].map->layers[layer];
  const auto size = element_count(mapped.shape) * static_cast<int64_t>(byte_size(*dtype_from(mapped.dtype)));
  return assemble(pieces_[stream][layer], size, mapped.shape.empty() ? 0 : mapped.shape.back());
}

}  // namespace swoop
