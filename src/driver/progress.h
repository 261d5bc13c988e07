// What a long command is at. On a terminal, after a second: a bar that is renewed each second and goes away at the end.
// Elsewhere: a line when a stage takes over a second.
#pragma once

#include <condition_variable>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>

#include "support/timer.h"

namespace swoop {

class Progress {
 public:
  // All stages, in order: the place of a stage among them is the share that is done.
  explicit Progress(std::span<const std::string_view> stages = {}, bool shown = true) : all_(stages), shown_(shown) {}
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void stage(std::string_view what);          // one of them; some may be met again
  void share(double done, std::string what);  // where there are no stages: from 0 to 1

 private:
  void show(std::string what, size_t place, size_t count);
  void watch();

  std::span<const std::string_view> all_;
  bool shown_;
  Timer since_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string what_;
  size_t place_ = 0;
  size_t count_ = 1;  // of places
  size_t changes_ = 0;
  bool done_ = false;
  std::thread thread_;
};

// "[######....] 60 %  generating NPU code, 12 s", of a stage's place and of all.
std::string progress_bar(std::string_view what, size_t place, size_t count, double seconds);

}  // namespace swoop
