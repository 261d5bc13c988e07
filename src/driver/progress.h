// A line on the terminal when a stage takes over a second, and nothing otherwise.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace swoop {

class Progress {
 public:
  Progress() = default;
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void stage(std::string what);

 private:
  void watch();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string what_;
  size_t stages_ = 0;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace swoop
