#include "server/call_registry.h"

#include <thread>

#include "gtest/gtest.h"

namespace attend::server {
namespace {

TEST(CallRegistryTest, CountsCalls) {
  CallRegistry calls;
  EXPECT_TRUE(calls.Enter());
  EXPECT_TRUE(calls.Enter());
  calls.Leave();
  EXPECT_EQ(calls.in_flight(), 1);
  EXPECT_EQ(calls.entered(), 2);
}

TEST(CallRegistryTest, TakesNoneOnceClosedAndLetsOthersFinish) {
  CallRegistry calls;
  ASSERT_TRUE(calls.Enter());
  calls.Close();
  EXPECT_FALSE(calls.Enter());
  EXPECT_EQ(calls.in_flight(), 1);
  EXPECT_FALSE(calls.AwaitNone(absl::Milliseconds(1)));
  std::thread last([&calls] { calls.Leave(); });
  EXPECT_TRUE(calls.AwaitNone(absl::Seconds(60)));
  last.join();
}

TEST(CallRegistryTest, WithoutCallsThereIsNothingToAwait) {
  CallRegistry calls;
  EXPECT_TRUE(calls.AwaitNone(absl::ZeroDuration()));
}

}  // namespace
}  // namespace attend::server
