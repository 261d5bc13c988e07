#include "driver/progress.h"

#include <gtest/gtest.h>

namespace swoop {
namespace {

TEST(Progress, shows_the_share_of_stages_that_are_done) {
  EXPECT_EQ(progress_bar("reading", 0, 4, 1.2), "[....................]  0 %  reading, 1 s");
  EXPECT_EQ(progress_bar("writing", 3, 4, 61), "[###############.....] 75 %  writing, 61 s");
}

TEST(Progress, takes_stages_in_any_order_and_ends_at_once) {
  constexpr std::string_view kStages[] = {"a", "b"};
  Progress progress(kStages);
  progress.stage("b");
  progress.stage("a");
}

}  // namespace
}  // namespace swoop
