// What the NPU does while a program runs, as text: every command, and each operation with its layer.
#pragma once

#include <span>
#include <string>

#include "driver/streams.h"

namespace swoop {

class Tracer final : public NpuObserver {
 public:
  explicit Tracer(std::span<const NpuStream> streams) : streams_(streams) {}  // which must outlive it

  void on_call(int delegate) override;
  void on_step(const NpuStep& step, const std::array<Bytes, kNpuRegionCount>& regions) override;

  const std::string& text() const { return text_; }

 private:
  std::span<const NpuStream> streams_;
  const NpuStream* current_ = nullptr;
  size_t next_ = 0;  // command of current_ that was not printed yet
  size_t calls_ = 0;
  std::string text_;
};

}  // namespace swoop
