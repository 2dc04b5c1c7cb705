#include "core/clock.h"

#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace attend::core {
namespace {

TEST(ClockTest, SteadyNeverGoesBackAndFollowsTheWall) {
  const Clock& clock = Clock::Steady();
  absl::Time last = clock.Now();
  for (int i = 0; i < 1000; ++i) {
    const absl::Time now = clock.Now();
    ASSERT_GE(now, last);
    last = now;
  }
  EXPECT_LT(absl::AbsDuration(absl::Now() - clock.Now()), absl::Hours(1));
  EXPECT_EQ(&clock, &Clock::Steady());
}

}  // namespace
}  // namespace attend::core
