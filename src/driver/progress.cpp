#include "driver/progress.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>

namespace swoop {

Progress::~Progress() {
  {
    std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Progress::stage(std::string what) {
  {
    std::lock_guard lock(mutex_);
    what_ = std::move(what);
    ++stages_;
  }
  changed_.notify_all();
  if (!thread_.joinable()) thread_ = std::thread([this] { watch(); });
}

void Progress::watch() {
  std::unique_lock lock(mutex_);
  while (!done_) {
    size_t current = stages_;
    bool moved = changed_.wait_for(lock, std::chrono::seconds(1), [&] { return done_ || stages_ != current; });
    if (moved) continue;
    fmt::print(stderr, "swoop: {} ...\n", what_);
    changed_.wait(lock, [&] { return done_ || stages_ != current; });
  }
}

}  // namespace swoop
