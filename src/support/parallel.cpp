#include "support/parallel.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace swoop {

namespace {
std::atomic<int> requested_threads{0};
}

void set_thread_count(int threads) { requested_threads = threads; }

int thread_count() {
  int threads = requested_threads;
  return threads > 0 ? threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void parallel_for(size_t count, size_t grain, const std::function<void(size_t, size_t)>& body) {
  size_t parts = std::min<size_t>(static_cast<size_t>(thread_count()), count / std::max<size_t>(grain, 1));
  if (parts <= 1) {
    if (count > 0) body(0, count);
    return;
  }
  std::vector<std::thread> threads;
  for (size_t part = 1; part < parts; ++part)
    threads.emplace_back([&, part] { body(count * part / parts, count * (part + 1) / parts); });
  body(0, count / parts);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace swoop
