#include "support/parallel.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace swoop {

namespace {

std::atomic<int> requested_threads{0};
thread_local bool inside_job = false;

struct Job {
  const std::function<void(size_t, size_t)>& body;
  size_t count;
  size_t chunk;
  std::atomic<size_t> next{0};
  std::mutex fault_mutex = {};
  std::exception_ptr fault = {};  // the first that a thread met; the others stop

  // Takes chunks until none is left. Whoever is free takes the next one, so a thread that the machine does not run
  // delays nobody.
  void work() {
    inside_job = true;
    try {
      for (size_t first = next.fetch_add(chunk); first < count; first = next.fetch_add(chunk))
        body(first, std::min(first + chunk, count));
    } catch (...) {
      std::lock_guard lock(fault_mutex);
      if (!fault) fault = std::current_exception();
      next = count;
    }
    inside_job = false;
  }
};

// Threads that wait for jobs. Made on first use and kept: a thread per call would cost more than most calls.
class Pool {
 public:
  ~Pool() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void run(Job& job, size_t helpers) {
    std::unique_lock<std::mutex> turn(turn_);  // one job at a time
    {
      std::lock_guard lock(mutex_);
      while (threads_.size() < helpers) threads_.emplace_back([this] { serve(); });
      job_ = &job;
      places_ = helpers;
    }
    wake_.notify_all();
    job.work();
    std::unique_lock lock(mutex_);
    job_ = nullptr;  // who has not started yet need not
    idle_.wait(lock, [&] { return busy_ == 0; });
  }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [&] { return stop_ || (job_ && places_ > 0); });
      if (stop_) return;
      Job& job = *job_;
      --places_;
      ++busy_;
      lock.unlock();
      job.work();
      lock.lock();
      if (--busy_ == 0) idle_.notify_all();
    }
  }

  std::mutex turn_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable idle_;
  std::vector<std::thread> threads_;
  Job* job_ = nullptr;
  size_t places_ = 0;
  size_t busy_ = 0;
  bool stop_ = false;
};

}  // namespace

void set_thread_count(int threads) { requested_threads = threads; }

int thread_count() {
  static const int kCores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));  // it reads a file
  const int threads = requested_threads;
  return threads > 0 ? threads : kCores;
}

void parallel_for(size_t count, size_t grain, const std::function<void(size_t, size_t)>& body) {
  grain = std::max<size_t>(grain, 1);
  size_t parts = std::min<size_t>(static_cast<size_t>(thread_count()), count / grain);
  if (parts <= 1 || inside_job) {  // a job inside a job runs where it is
    if (count > 0) body(0, count);
    return;
  }
  static Pool pool;
  size_t chunk = std::max(grain, (count + 4 * parts - 1) / (4 * parts));  // several per thread, to even out
  Job job{body, count, chunk};
  pool.run(job, parts - 1);
  if (job.fault) std::rethrow_exception(job.fault);  // what a body throws comes to the caller
}

}  // namespace swoop
