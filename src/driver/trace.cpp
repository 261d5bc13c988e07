#include "driver/trace.h"

#include <algorithm>

#include "emit/emit.h"
#include "stream/stream.h"

namespace swoop {

Result<Tracer> Tracer::of_program(Bytes pte, bool registers) {
  Tracer tracer;
  tracer.registers_ = registers;
  TRY_ASSIGN(ProgramInfo info, read_pte(pte));
  size_t index = 0;
  for (const ProgramMethod& method : info.methods) {
    for (const ProgramDelegate& delegate : method.delegates) {
      size_t number = index++;
      if (delegate.id != kNpuBackend) continue;
      TRY_ASSIGN(NpuProgram program, unpack(delegate.blob));
      TRY_ASSIGN(DriverPayload payload, parse_payload(program.commands));
      TRY_ASSIGN(std::vector<NpuCommand> commands, decode_commands(payload));
      tracer.streams_.push_back({payload.config.name(), number, std::move(program.weights), static_cast<size_t>(program.weight_region),
                                 std::move(commands)});
    }
  }
  return tracer;
}

// A step says where it stands in its stream but not in which: that stream has this operation there and these weights.
bool Tracer::fits(const Stream& stream, const NpuStep& step, const std::array<Bytes, kNpuRegionCount>& regions) const {
  auto at = std::lower_bound(stream.commands.begin(), stream.commands.end(), step.position,
                             [](const NpuCommand& command, uint32_t position) { return command.position < position; });
  if (at == stream.commands.end() || at->position != step.position || at->name() != step.operation) return false;
  if (stream.weight_region >= regions.size()) return true;
  Bytes weights = regions[stream.weight_region];
  return weights.size() == stream.weights.size() && std::equal(weights.begin(), weights.end(), stream.weights.begin());
}

void Tracer::enter(const NpuStep& step, const std::array<Bytes, kNpuRegionCount>& regions) {
  bool behind = current_ != nullptr && next_ > 0 && step.position <= current_->commands[next_ - 1].position;
  if (current_ != nullptr && !behind && fits(*current_, step, regions)) return;
  auto found = std::find_if(streams_.begin(), streams_.end(), [&](const Stream& stream) { return fits(stream, step, regions); });
  current_ = found == streams_.end() ? nullptr : &*found;
  next_ = 0;
  text_ += fmt::format("call {}: region {}{}\n", calls_++, current_ ? fmt::format("{}", current_->delegate) : "?",
                       current_ ? fmt::format(" on {}, {} commands", current_->npu, current_->commands.size()) : "");
}

void Tracer::on_step(const NpuStep& step, const std::array<Bytes, kNpuRegionCount>& regions) {
  enter(step, regions);
  if (current_ != nullptr) {
    for (; next_ < current_->commands.size() && current_->commands[next_].position <= step.position; ++next_)
      if (registers_ && current_->commands[next_].position < step.position) text_ += to_text(current_->commands[next_]) + "\n";
  }
  std::string writes;
  for (const NpuRange& range : step.writes) {
    std::string where = range.region == kInternalRegion ? "internal" : fmt::format("region {}", range.region);
    writes += fmt::format("{} {} [{:#x}, {:#x})", writes.empty() ? "" : ",", where, range.first, range.last);
  }
  text_ += fmt::format("{:6}  {:<18} {}{}{}\n", step.position, step.operation, step.summary, writes.empty() ? "" : "; writes", writes);
}

}  // namespace swoop
