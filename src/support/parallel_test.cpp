#include "support/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

namespace swoop {
namespace {

TEST(Parallel, what_a_thread_throws_comes_to_the_caller) {
  set_thread_count(4);
  for (size_t bad : {size_t{0}, size_t{500}, size_t{999}}) {
    EXPECT_THROW(parallel_for(1000, 1,
                              [&](size_t first, size_t last) {
                                if (first <= bad && bad < last) throw std::runtime_error("no");
                              }),
                 std::runtime_error);
  }
  std::atomic<size_t> done = 0;  // and the threads work on
  parallel_for(1000, 1, [&](size_t first, size_t last) { done += last - first; });
  set_thread_count(0);
  EXPECT_EQ(done, 1000u);
}

}  // namespace
}  // namespace swoop
