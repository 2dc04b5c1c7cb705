#include "server/idle_memory.h"

#include "gtest/gtest.h"

namespace attend::server {
namespace {

class IdleMemoryTest : public ::testing::Test {
 protected:
  // A look, one second after the last one.
  bool Look(int64_t idle_bytes, int64_t calls, int64_t in_flight) {
    now_ += absl::Seconds(1);
    return idle_.ShouldTrim({.now = now_, .idle_bytes = idle_bytes, .calls = calls, .in_flight = in_flight});
  }

  absl::Time now_ = absl::UnixEpoch();
  IdleMemory idle_{absl::Seconds(3)};
};

TEST_F(IdleMemoryTest, AServerThatDidNothingIsLeftAlone) {
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(Look(0, 0, 0));
}

TEST_F(IdleMemoryTest, BlocksThatNobodyTookForAWhileGoBackOnce) {
  EXPECT_FALSE(Look(100, 5, 1));
  EXPECT_FALSE(Look(100, 6, 1));
  EXPECT_FALSE(Look(100, 7, 1));
  EXPECT_TRUE(Look(100, 8, 1));
  EXPECT_FALSE(Look(0, 9, 1));
}

TEST_F(IdleMemoryTest, BlocksInUseAreKept) {
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(Look(i % 2 == 0 ? 100 : 0, i, 1));
}

TEST_F(IdleMemoryTest, AfterCallsTheHeapGoesBackOnceAllIsQuiet) {
  EXPECT_FALSE(Look(0, 5, 1));
  EXPECT_FALSE(Look(0, 5, 1));
  EXPECT_FALSE(Look(0, 5, 0));
  EXPECT_FALSE(Look(0, 5, 0));
  EXPECT_FALSE(Look(0, 5, 0));
  EXPECT_TRUE(Look(0, 5, 0));
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(Look(0, 5, 0)) << "nothing was used since";
  EXPECT_FALSE(Look(0, 6, 0));
  EXPECT_FALSE(Look(0, 6, 0));
  EXPECT_FALSE(Look(0, 6, 0));
  EXPECT_FALSE(Look(0, 6, 0));
  EXPECT_TRUE(Look(0, 6, 0));
}

}  // namespace
}  // namespace attend::server
