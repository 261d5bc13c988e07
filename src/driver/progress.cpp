#include "driver/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "support/check.h"

namespace swoop {

Progress::~Progress() {
  {
    std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Progress::stage(std::string_view what) {
  const auto known = std::find(all_.begin(), all_.end(), what);
  CHECK(known != all_.end(), "{} is not in the list of stages", what);
  show(std::string(what), static_cast<size_t>(known - all_.begin()), all_.size());
}

void Progress::share(double done, std::string what) {
  show(std::move(what), static_cast<size_t>(100 * std::clamp(done, 0.0, 1.0)), 100);
}

void Progress::show(std::string what, size_t place, size_t count) {
  if (!shown_) return;
  {
    std::lock_guard lock(mutex_);
    what_ = std::move(what);
    place_ = place;
    count_ = count;
    ++changes_;
  }
  changed_.notify_all();
  if (!thread_.joinable()) thread_ = std::thread([this] { watch(); });
}

void Progress::watch() {
  const bool terminal = isatty(fileno(stderr)) != 0;
  bool drawn = false;
  size_t said = 0;  // the change that a line was printed for
  std::unique_lock lock(mutex_);
  while (!done_) {
    const size_t before = changes_;
    // A bar counts its seconds, whatever stage it is at; a line is for a stage that lasts.
    const bool moved =
        changed_.wait_for(lock, std::chrono::seconds(1), [&] { return done_ || (!terminal && changes_ != before); });
    if (moved) continue;
    if (terminal) {
      fmt::print(stderr, "\r\033[K{}", progress_bar(what_, place_, count_, since_.milliseconds() / 1000));
      std::fflush(stderr);
      drawn = true;
    } else if (said != changes_) {
      fmt::print(stderr, "swoop: {} ...\n", what_);
      said = changes_;
    }
  }
  if (drawn) fmt::print(stderr, "\r\033[K");
}

std::string progress_bar(std::string_view what, size_t place, size_t count, double seconds) {
  constexpr size_t kWidth = 20;
  const size_t full = place * kWidth / count;
  return fmt::format("[{}{}] {:2} %  {}, {:.0f} s", std::string(full, '#'), std::string(kWidth - full, '.'),
                     place * 100 / count, what, seconds);
}

}  // namespace swoop
