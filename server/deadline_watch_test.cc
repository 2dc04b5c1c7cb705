#include "server/deadline_watch.h"

#include <future>
#include <memory>

#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace attend::server {
namespace {

TEST(DeadlineWatchTest, CallsBackInTheOrderOfDeadlines) {
  std::vector<int> order;
  std::promise<void> last;
  DeadlineWatch watch;
  const absl::Time now = absl::Now();
  watch.Add(now + absl::Milliseconds(30), [&] {
    order.push_back(3);
    last.set_value();
  });
  watch.Add(now + absl::Milliseconds(20), [&] { order.push_back(2); });
  watch.Add(now - absl::Seconds(5), [&] { order.push_back(1); });
  last.get_future().wait();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
  EXPECT_GE(absl::Now(), now + absl::Milliseconds(30));
}

TEST(DeadlineWatchTest, DoesNotCallBackWhatWasRemoved) {
  bool called = false;
  std::promise<void> later;
  DeadlineWatch watch;
  const absl::Time deadline = absl::Now() + absl::Milliseconds(20);
  const DeadlineWatch::Id first = watch.Add(deadline, [&] { called = true; });
  watch.Add(deadline, [&] { later.set_value(); });
  watch.Remove(first);
  watch.Remove(first);
  later.get_future().wait();
  EXPECT_FALSE(called);
}

TEST(DeadlineWatchTest, WhatHasNotExpiredGoesWithTheWatch) {
  const auto held = std::make_shared<int>(1);
  {
    DeadlineWatch watch;
    watch.Add(absl::Now() + absl::Hours(1), [held] { FAIL(); });
    EXPECT_EQ(held.use_count(), 2);
  }
  EXPECT_EQ(held.use_count(), 1);
}

TEST(DeadlineWatchTest, ACallbackMayAddAndRemove) {
  std::promise<void> done;
  DeadlineWatch watch;
  const DeadlineWatch::Id other = watch.Add(absl::Now() + absl::Hours(1), [] { FAIL(); });
  watch.Add(absl::Now(), [&] {
    watch.Remove(other);
    watch.Add(absl::Now(), [&] { done.set_value(); });
  });
  done.get_future().wait();
}

}  // namespace
}  // namespace attend::server
