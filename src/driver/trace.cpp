#include "driver/trace.h"

#include <algorithm>

namespace swoop {

void Tracer::on_call(int delegate) {
  current_ = static_cast<size_t>(delegate) < streams_.size() ? &streams_[static_cast<size_t>(delegate)] : nullptr;
  next_ = 0;
  text_ += fmt::format("call {}: region {}", calls_++, delegate);
  if (current_)
    text_ += fmt::format(" on {}, {} commands{}", current_->npu, current_->commands.size(),
                         current_->map ? "" : "; the file does not name its layers");
  text_ += "\n";
}

void Tracer::on_step(const NpuStep& step, const std::array<Bytes, kNpuRegionCount>&) {
  const StreamOperation* operation = nullptr;
  if (current_) {
    if (next_ > 0 && step.position < current_->commands[next_ - 1].position) next_ = 0;  // a branch went back
    for (; next_ < current_->commands.size() && current_->commands[next_].position <= step.position; ++next_)
      if (current_->commands[next_].position < step.position) text_ += to_text(current_->commands[next_]) + "\n";
    operation = current_->operation_of(step);
  }
  std::string writes;
  for (const NpuRange& range : step.writes) {
    std::string where = range.region == kInternalRegion ? "internal" : fmt::format("region {}", range.region);
    writes += fmt::format("{} {} [{:#x}, {:#x})", writes.empty() ? "; writes" : ",", where, range.first, range.last);
  }
  std::string of;
  if (operation) {
    const MappedLayer& layer = current_->map->layers[operation->layer];
    of = fmt::format("; layer {} ({}){}{}", layer.name, layer.op, layer.source.empty() ? "" : " ", layer.source);
  }
  text_ += fmt::format("{:6}  {:<18} {}{}{}\n", step.position, step.operation, step.summary, writes, of);
}

}  // namespace swoop
