// The time of a stage. Timers are always compiled in; the driver decides whether anyone sees them.
#pragma once

#include <chrono>
#include <ctime>

namespace swoop {

struct Elapsed {
  double wall_ms = 0;
  double processor_ms = 0;  // of all threads of this process, not of others that it waits for

  Elapsed& operator+=(const Elapsed& more) {
    wall_ms += more.wall_ms;
    processor_ms += more.processor_ms;
    return *this;
  }
  Elapsed operator-(const Elapsed& less) const { return {wall_ms - less.wall_ms, processor_ms - less.processor_ms}; }
};

class Timer {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  double milliseconds() const { return seconds() * 1e3; }
  double microseconds() const { return seconds() * 1e6; }
  Elapsed elapsed() const { return {milliseconds(), processor_now() - processor_start_}; }

 private:
  using Clock = std::chrono::steady_clock;

  static double processor_now() {
    timespec now = {};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
  }

  Clock::time_point start_ = Clock::now();
  double processor_start_ = processor_now();
};

}  // namespace swoop
