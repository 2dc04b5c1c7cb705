#include "client/delivery.h"

#include <gtest/gtest.h>

#include "client/fake_timers.h"

namespace attend::client {
namespace {

class DeliveryTest : public ::testing::Test {
 protected:
  FakeTimers timers_;
  std::shared_ptr<Delivery> delivery_ = std::make_shared<Delivery>(timers_);
  int attempts_ = 0;  // of the outcome that was delivered
  std::function<void(CallOutcome)> done_ = [this](const CallOutcome& outcome) { attempts_ += outcome.attempts; };
};

TEST_F(DeliveryTest, DeliversAtOnceWhereTheMemoryIsFree) {
  delivery_->HoldMemory().reset();
  delivery_->SetOutcome({.attempts = 3}, done_);
  EXPECT_EQ(attempts_, 3);
}

TEST_F(DeliveryTest, WaitsUntilTheLastHoldIsGone) {
  std::shared_ptr<const void> hold = delivery_->HoldMemory();
  std::shared_ptr<const void> copy = hold;
  delivery_->SetOutcome({.attempts = 3}, done_);
  hold.reset();
  timers_.Advance(absl::Seconds(1));
  EXPECT_EQ(attempts_, 0);
  copy.reset();
  EXPECT_EQ(attempts_, 0) << "whoever lets go must not run the callback";
  timers_.Advance(absl::ZeroDuration());
  EXPECT_EQ(attempts_, 3);
}

TEST_F(DeliveryTest, LivesAsLongAsItIsHeld) {
  std::shared_ptr<const void> hold = delivery_->HoldMemory();
  delivery_->SetOutcome({.attempts = 3}, done_);
  delivery_.reset();
  hold.reset();
  timers_.Advance(absl::ZeroDuration());
  EXPECT_EQ(attempts_, 3);
}

}  // namespace
}  // namespace attend::client
