#include "server/backlog.h"

#include <optional>
#include <string>

#include "core/violation.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_clock.h"

namespace attend::server {
namespace {

using ::attend::testing::FakeClock;
using ::testing::HasSubstr;

class BacklogTest : public ::testing::Test {
 protected:
  // A machine of 1000 multiply-adds per second.
  Backlog::Options Options(int64_t max_queued_requests) {
    return {
        .max_queued_requests = max_queued_requests, .workers = 2, .initial_rate = 1000, .clock = &clock_, .seed = 1};
  }

  FakeClock clock_;
};

TEST_F(BacklogTest, RefusesBeyondTheLimit) {
  Backlog backlog(Options(2));
  EXPECT_TRUE(backlog.JoinQueue().ok());
  EXPECT_TRUE(backlog.CheckRoom().ok());
  EXPECT_TRUE(backlog.JoinQueue().ok());
  EXPECT_EQ(backlog.queued(), 2);
  for (const absl::Status& status : {backlog.CheckRoom(), backlog.JoinQueue()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(status.message()), HasSubstr("max_queued_requests"));
    const auto violation = core::GetViolation(status);
    ASSERT_TRUE(violation.has_value());
    EXPECT_EQ(violation->reason, "QUEUE_FULL");
    EXPECT_EQ(violation->value, "2");
    EXPECT_EQ(violation->limit, "at most 2");
    EXPECT_TRUE(SuggestedRetryDelay(status).has_value());
  }
  EXPECT_EQ(backlog.queued(), 2);
  backlog.LeaveQueue();
  EXPECT_TRUE(backlog.CheckRoom().ok());
  EXPECT_TRUE(backlog.JoinQueue().ok());
}

TEST_F(BacklogTest, WithoutAQueueOnlyThoseThatWouldWaitAreRefused) {
  Backlog backlog(Options(0));
  EXPECT_TRUE(backlog.CheckRoom().ok());
  EXPECT_EQ(backlog.JoinQueue().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(BacklogTest, TheDelayIsThePredictedTimeUntilThereIsRoom) {
  Backlog backlog(Options(0));
  backlog.AddWork(3000);
  backlog.AddWork(1000);  // 4 s for the two of them: one ends every 2 s
  const absl::Duration first = *SuggestedRetryDelay(backlog.JoinQueue());
  EXPECT_GE(first, absl::Seconds(2) * 0.8);
  EXPECT_LE(first, absl::Seconds(2) * 1.2);
  // The next caller is sent to the next place.
  const absl::Duration second = *SuggestedRetryDelay(backlog.JoinQueue());
  EXPECT_GE(second, absl::Seconds(4) * 0.8);
  EXPECT_LE(second, absl::Seconds(4) * 1.2);
  // As time goes by, what was promised comes nearer.
  clock_.Advance(absl::Seconds(100));
  EXPECT_LE(*SuggestedRetryDelay(backlog.JoinQueue()), absl::Seconds(2) * 1.2);
}

TEST_F(BacklogTest, TheDelayStaysWithinItsBounds) {
  Backlog idle(Options(0));
  Backlog busy(Options(0));
  busy.AddWork(int64_t{1} << 60);
  bool differ = false;
  absl::Duration last = absl::ZeroDuration();
  for (int i = 0; i < 100; ++i) {
    clock_.Advance(absl::Seconds(20));
    const absl::Duration least = *SuggestedRetryDelay(idle.JoinQueue());
    EXPECT_GE(least, absl::Milliseconds(40));
    EXPECT_LE(least, absl::Milliseconds(60));
    const absl::Duration most = *SuggestedRetryDelay(busy.JoinQueue());
    EXPECT_GE(most, absl::Seconds(8));
    EXPECT_LE(most, absl::Seconds(12));
    differ = differ || (i > 0 && most != last);
    last = most;
  }
  EXPECT_TRUE(differ);
}

TEST_F(BacklogTest, MeasuredJobsMoveThePrediction) {
  Backlog backlog(Options(0));
  backlog.AddWork(4000);
  // 2 workers that do 5000 per second each: ten times what was believed.
  for (int i = 0; i < 100; ++i) backlog.RecordJob(5000, absl::Seconds(1));
  EXPECT_LE(*SuggestedRetryDelay(backlog.JoinQueue()), absl::Milliseconds(400) * 1.21);
  EXPECT_GE(*SuggestedRetryDelay(backlog.JoinQueue()), absl::Milliseconds(400) * 0.8);
}

TEST_F(BacklogTest, WorkThatIsOverIsForgotten) {
  Backlog backlog(Options(0));
  backlog.AddWork(int64_t{1} << 60);
  backlog.AddWork(1);
  backlog.RemoveWork(int64_t{1} << 60);
  backlog.RemoveWork(1);
  EXPECT_LE(*SuggestedRetryDelay(backlog.JoinQueue()), absl::Milliseconds(60));
}

TEST_F(BacklogTest, OtherStatusesSuggestNothing) {
  EXPECT_EQ(SuggestedRetryDelay(absl::OkStatus()), std::nullopt);
  EXPECT_EQ(SuggestedRetryDelay(absl::ResourceExhaustedError("larger than max")), std::nullopt);
}

TEST_F(BacklogTest, APassedDeadlineIsAlwaysRefused) {
  const Backlog backlog(Options(1));
  EXPECT_TRUE(backlog.CheckDeadline(int64_t{1} << 60, absl::InfiniteFuture()).ok());
  EXPECT_EQ(backlog.CheckDeadline(0, clock_.Now()).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(backlog.CheckDeadline(0, clock_.Now() - absl::Hours(1)).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(backlog.CheckDeadline(0, clock_.Now() + absl::Nanoseconds(1)).ok());
}

TEST_F(BacklogTest, AHopelessDeadlineIsRefusedOnceTwentyJobsWereMeasured) {
  Backlog backlog(Options(1));
  const absl::Time in_a_second = clock_.Now() + absl::Seconds(1);
  for (int i = 0; i < 19; ++i) backlog.RecordJob(500, absl::Seconds(1));  // 1000 per second on 2 workers
  EXPECT_TRUE(backlog.CheckDeadline(1'000'000, in_a_second).ok());
  backlog.RecordJob(500, absl::Seconds(1));
  EXPECT_EQ(backlog.CheckDeadline(1001, in_a_second).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(backlog.CheckDeadline(1000, in_a_second).ok());
}

TEST_F(BacklogTest, TheFastestRateCounts) {
  Backlog backlog(Options(1));
  const absl::Time in_a_second = clock_.Now() + absl::Seconds(1);
  for (int i = 0; i < 40; ++i) backlog.RecordJob(1, absl::Seconds(1));  // slow ones: small problems
  EXPECT_TRUE(backlog.CheckDeadline(1000, in_a_second).ok());           // the machine did more at start
  backlog.RecordJob(50'000, absl::Seconds(1));
  EXPECT_TRUE(backlog.CheckDeadline(100'000, in_a_second).ok());
  EXPECT_FALSE(backlog.CheckDeadline(100'001, in_a_second).ok());
}

TEST_F(BacklogTest, JobsWithoutWorkOrTimeTellNothing) {
  Backlog backlog(Options(1));
  for (int i = 0; i < 40; ++i) {
    backlog.RecordJob(0, absl::Seconds(1));
    backlog.RecordJob(1000, absl::ZeroDuration());
  }
  EXPECT_TRUE(backlog.CheckDeadline(1'000'000, clock_.Now() + absl::Seconds(1)).ok());
}

}  // namespace
}  // namespace attend::server
