// What the NPU does while a program runs, as text: an observer of the NPU in software that knows the file's command streams.
#pragma once

#include <string>
#include <vector>

#include "run/run.h"
#include "support/bytes.h"
#include "support/result.h"

namespace swoop {

class Tracer final : public NpuObserver {
 public:
  // registers: the register commands in front of each operation too.
  static Result<Tracer> of_program(Bytes pte, bool registers);

  void on_step(const NpuStep& step, const std::array<Bytes, kNpuRegionCount>& regions) override;

  const std::string& text() const { return text_; }
  size_t regions() const { return streams_.size(); }

 private:
  struct Stream {
    std::string npu;
    size_t delegate = 0;
    Buffer weights;
    size_t weight_region = 0;
    std::vector<NpuCommand> commands;
  };

  bool fits(const Stream& stream, const NpuStep& step, const std::array<Bytes, kNpuRegionCount>& regions) const;
  void enter(const NpuStep& step, const std::array<Bytes, kNpuRegionCount>& regions);

  bool registers_ = false;
  std::vector<Stream> streams_;
  const Stream* current_ = nullptr;
  size_t next_ = 0;  // command of current_ that was not printed yet
  size_t calls_ = 0;
  std::string text_;
};

}  // namespace swoop
