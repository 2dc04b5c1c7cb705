#include "client/retried_call.h"
#include "absl/strings/str_cat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include "client/fake_stub.h"
#include "client/fake_timers.h"
#include "client/serialized_details.h"

namespace attend::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RetriedCallTest : public ::testing::Test {
 protected:
  RetriedCallTest()
      : environment_(new CallEnvironment{.stub = std::make_unique<FakeStub>(),
                                         .timers = &timers_,
                                         .policy = RetryPolicy([] { return 0.0; }),  // 25 ms, 50 ms, ... 1 s
                                         .target = "host:1"}) {}

  FakeStub& stub() { return static_cast<FakeStub&>(*environment_->stub); }

  void StartCall(const CallOptions& options = {.timeout = absl::Seconds(10)}) {
    const grpc::Slice bytes("request");
    call_ = std::make_shared<RetriedCall>(
        environment_, CallAttempt{.method = "/a/B", .metadata = {{"k", "v"}}, .request = grpc::ByteBuffer(&bytes, 1)},
        options);
    call_->Start([this](CallOutcome outcome) {
      EXPECT_FALSE(outcome_.has_value()) << "called twice";
      outcome_ = std::move(outcome);
    });
  }

  // Fails the last attempt.
  void Fail(absl::Status status) { stub().AnswerLast({.status = std::move(status)}); }

  FakeTimers timers_;
  std::shared_ptr<CallEnvironment> environment_;
  std::shared_ptr<RetriedCall> call_;
  std::optional<CallOutcome> outcome_;
};

TEST_F(RetriedCallTest, SucceedsAtTheFirstAttempt) {
  StartCall();
  timers_.Advance(absl::Milliseconds(3));
  stub().AnswerLast({.request_id = "r1"});
  ASSERT_TRUE(outcome_.has_value());
  EXPECT_TRUE(outcome_->last.status.ok());
  EXPECT_EQ(outcome_->last.request_id, "r1");
  EXPECT_EQ(outcome_->attempts, 1);
  EXPECT_EQ(outcome_->duration, absl::Milliseconds(3));
}

TEST_F(RetriedCallTest, RepeatsTheSameRequestWithTheTimeThatIsLeft) {
  StartCall({.timeout = absl::Seconds(10)});
  timers_.Advance(absl::Seconds(1));
  Fail(absl::UnavailableError("gone"));
  EXPECT_EQ(stub().attempts().size(), 1U);
  timers_.Advance(absl::Milliseconds(25));
  ASSERT_EQ(stub().attempts().size(), 2U);
  EXPECT_EQ(stub().attempts()[0].timeout, absl::Seconds(10));
  EXPECT_EQ(stub().attempts()[1].timeout, absl::Seconds(9) - absl::Milliseconds(25));
  EXPECT_EQ(stub().attempts()[1].request.Length(), 7U);
  EXPECT_EQ(stub().attempts()[1].metadata, stub().attempts()[0].metadata);
  stub().AnswerLast({});
  ASSERT_TRUE(outcome_.has_value());
  EXPECT_TRUE(outcome_->last.status.ok());
  EXPECT_EQ(outcome_->attempts, 2);
}

TEST_F(RetriedCallTest, BacksOffUntilTheDeadlineAndThenGivesTheLastReason) {
  StartCall({.timeout = absl::Milliseconds(200)});
  while (!outcome_) {
    Fail(absl::UnavailableError("gone"));
    if (!outcome_) timers_.Advance(timers_.delays().back());
  }
  EXPECT_THAT(timers_.delays(), ElementsAre(absl::Milliseconds(25), absl::Milliseconds(50), absl::Milliseconds(100)));
  EXPECT_EQ(outcome_->last.status, absl::UnavailableError("host:1: gone"));
  EXPECT_EQ(outcome_->attempts, 4);
  EXPECT_LE(outcome_->duration, absl::Milliseconds(200));
}

TEST_F(RetriedCallTest, WaitsAsLongAsABusyServerSays) {
  StartCall();
  stub().AnswerLast({.status = absl::ResourceExhaustedError("full"),
                     .details = SerializedRetryDelay(absl::Milliseconds(700)),
                     .request_id = "r1"});
  EXPECT_THAT(timers_.delays(), ElementsAre(absl::Milliseconds(700)));
  timers_.Advance(absl::Milliseconds(700));
  stub().AnswerLast({});
  EXPECT_TRUE(outcome_->last.status.ok());
}

TEST_F(RetriedCallTest, ADelayBeyondTheDeadlineEndsTheCallAtOnceWithTheServersWords) {
  StartCall({.timeout = absl::Seconds(1)});
  stub().AnswerLast({.status = absl::ResourceExhaustedError("full"), .request_id = "r1", .retry_pushback = "1000"});
  ASSERT_TRUE(outcome_.has_value());
  EXPECT_EQ(outcome_->last.status, absl::ResourceExhaustedError("full"));
  EXPECT_EQ(outcome_->last.request_id, "r1");
}

TEST_F(RetriedCallTest, OtherFailuresAreFinal) {
  StartCall();
  stub().AnswerLast({.status = absl::InvalidArgumentError("head_dim is 0"), .request_id = "r1"});
  ASSERT_TRUE(outcome_.has_value());
  EXPECT_EQ(outcome_->last.status, absl::InvalidArgumentError("head_dim is 0"));
  EXPECT_EQ(outcome_->attempts, 1);
}

TEST_F(RetriedCallTest, WithoutRetriesTheFirstFailureIsFinal) {
  StartCall({.timeout = absl::Seconds(10), .retry = false});
  Fail(absl::UnavailableError("gone"));
  ASSERT_TRUE(outcome_.has_value());
  EXPECT_EQ(outcome_->last.status, absl::UnavailableError("host:1: gone"));
}

TEST_F(RetriedCallTest, ACancellationThatNobodyAskedForIsTriedAgain) {
  StartCall();
  Fail(absl::CancelledError("CANCELLED"));
  ASSERT_EQ(timers_.delays().size(), 1U);
  timers_.Advance(timers_.delays()[0]);
  stub().AnswerLast({});
  EXPECT_TRUE(outcome_->last.status.ok());
}

TEST_F(RetriedCallTest, ACancellationThatNobodyAskedForEndsAsUnavailable) {
  StartCall({.timeout = absl::Milliseconds(10)});
  Fail(absl::CancelledError("CANCELLED"));
  ASSERT_TRUE(outcome_.has_value());
  EXPECT_TRUE(absl::IsUnavailable(outcome_->last.status)) << outcome_->last.status;
}

TEST_F(RetriedCallTest, CancelEndsAnAttempt) {
  StartCall();
  call_->Cancel();
  ASSERT_TRUE(outcome_.has_value());
  EXPECT_TRUE(absl::IsCancelled(outcome_->last.status));
  EXPECT_EQ(stub().attempts().size(), 1U);
  call_->Cancel();  // over: nothing more happens
}

TEST_F(RetriedCallTest, CancelEndsAWait) {
  StartCall();
  Fail(absl::UnavailableError("gone"));
  call_->Cancel();
  ASSERT_TRUE(outcome_.has_value());
  EXPECT_TRUE(absl::IsCancelled(outcome_->last.status));
  timers_.Advance(absl::Seconds(10));
  EXPECT_EQ(stub().attempts().size(), 1U);
}

TEST_F(RetriedCallTest, CancelAfterTheEndChangesNothing) {
  StartCall();
  stub().AnswerLast({});
  call_->Cancel();
  EXPECT_TRUE(outcome_->last.status.ok());
}

TEST_F(RetriedCallTest, FailFastGivesUpWhereNoServerIsAndSaysWhy) {
  const std::pair<const char*, const char*> messages_and_reasons[] = {
      {"failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: Failed to connect to remote host: "
       "Connection refused",
       "Connection refused"},
      {"failed to connect to all addresses; last error: UNKNOWN: unix:/none: No such file or directory",
       "No such file or directory"},
      {"UNAVAILABLE: ipv4:127.0.0.1:1: recvmsg:Connection reset by peer", "recvmsg:Connection reset by peer"},
      {"DNS resolution failed for none:1: C-ares status is not ARES_SUCCESS name=none: Domain name not found",
       "DNS resolution failed: Domain name not found"},
      {"something new", "something new"},
      {"", ""}};
  stub().set_connectivity(Connectivity::kUnreachable);
  for (const auto& [message, reason] : messages_and_reasons) {
    outcome_.reset();
    StartCall({.timeout = absl::Seconds(10), .fail_fast = true});
    Fail(absl::UnavailableError(message));
    ASSERT_TRUE(outcome_.has_value());
    EXPECT_EQ(outcome_->last.status, absl::UnavailableError(std::string("no server at host:1: ") + reason));
  }
}

TEST_F(RetriedCallTest, SaysWhyAServerMayCloseConnections) {
  environment_->closing_cause = "the server may want TLS";
  stub().set_connectivity(Connectivity::kUnreachable);
  for (const char* reason : {"Socket closed", "recvmsg:Connection reset by peer", "Connection refused"}) {
    outcome_.reset();
    StartCall({.timeout = absl::Seconds(10), .fail_fast = true});
    Fail(absl::UnavailableError(reason));
    ASSERT_TRUE(outcome_.has_value());
    const bool closed = reason != std::string("Connection refused");
    EXPECT_EQ(outcome_->last.status.message(),
              absl::StrCat("no server at host:1: ", reason, closed ? ": the server may want TLS" : ""));
  }
}

TEST_F(RetriedCallTest, FailFastStillRepeatsWhatAServerBrokeOff) {
  StartCall({.timeout = absl::Seconds(10), .fail_fast = true});
  Fail(absl::UnavailableError("Socket closed"));
  EXPECT_FALSE(outcome_.has_value());
  timers_.Advance(absl::Seconds(1));
  EXPECT_EQ(stub().attempts().size(), 2U);
  stub().AnswerLast({});
}

TEST_F(RetriedCallTest, WithoutFailFastAServerMayCome) {
  StartCall();
  stub().set_connectivity(Connectivity::kUnreachable);
  Fail(absl::UnavailableError("refused"));
  EXPECT_FALSE(outcome_.has_value());
  timers_.Advance(absl::Seconds(1));
  stub().AnswerLast({});
  EXPECT_TRUE(outcome_->last.status.ok());
}

TEST_F(RetriedCallTest, TheDeadlineSaysWhatItWaitedFor) {
  StartCall({.timeout = absl::Seconds(2)});
  timers_.Advance(absl::Seconds(2));
  Fail(absl::DeadlineExceededError("Deadline Exceeded"));
  EXPECT_EQ(outcome_->last.status, absl::DeadlineExceededError("no answer from host:1 within 2s"));
}

TEST_F(RetriedCallTest, TheDeadlineSaysThatThereWasNoConnection) {
  StartCall({.timeout = absl::Seconds(2)});
  stub().set_connectivity(Connectivity::kConnecting);
  timers_.Advance(absl::Seconds(2));
  Fail(absl::DeadlineExceededError("Deadline Exceeded"));
  EXPECT_EQ(outcome_->last.status, absl::DeadlineExceededError("no connection to host:1 within 2s"));
}

TEST_F(RetriedCallTest, TheDeadlineOfARetrySaysWhyThereWasOne) {
  StartCall({.timeout = absl::Seconds(2)});
  Fail(absl::UnavailableError("Socket closed"));
  timers_.Advance(absl::Seconds(2));
  Fail(absl::DeadlineExceededError("Deadline Exceeded"));
  EXPECT_TRUE(absl::IsDeadlineExceeded(outcome_->last.status));
  EXPECT_THAT(std::string(outcome_->last.status.message()), HasSubstr("Socket closed"));
}

TEST_F(RetriedCallTest, ADeadlineThatTheServerForeseesIsItsOwn) {
  StartCall({.timeout = absl::Seconds(2)});
  stub().AnswerLast({.status = absl::DeadlineExceededError("sure to pass"), .request_id = "r1"});
  EXPECT_EQ(outcome_->last.status, absl::DeadlineExceededError("sure to pass"));
}

}  // namespace
}  // namespace attend::client
