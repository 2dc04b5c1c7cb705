#include "client/retry_policy.h"

#include <gtest/gtest.h>

#include <string>

#include "client/serialized_details.h"

namespace attend::client {
namespace {

AttemptOutcome Failure(absl::StatusCode code) { return {.status = absl::Status(code, "")}; }

RetryPolicy PolicyWith(double random) {
  return RetryPolicy([random] { return random; });
}

TEST(RetryPolicy, TriesNothingAgainButUnavailable) {
  for (int code = 1; code <= 16; ++code) {
    const AttemptOutcome failure = Failure(static_cast<absl::StatusCode>(code));
    EXPECT_EQ(PolicyWith(0.5).DelayBefore(1, failure).has_value(), absl::IsUnavailable(failure.status))
        << failure.status;
  }
}

TEST(RetryPolicy, BacksOffExponentiallyWithJitter) {
  const AttemptOutcome failure = Failure(absl::StatusCode::kUnavailable);
  const std::pair<int, int> attempts_and_milliseconds[] = {{1, 50},   {2, 100},  {3, 200},
                                                           {6, 1600}, {7, 2000}, {1000, 2000}};
  for (const auto& [attempts, milliseconds] : attempts_and_milliseconds) {
    EXPECT_EQ(PolicyWith(0).DelayBefore(attempts, failure), absl::Milliseconds(milliseconds) / 2) << attempts;
    EXPECT_EQ(PolicyWith(0.5).DelayBefore(attempts, failure), absl::Milliseconds(milliseconds) * 0.75) << attempts;
  }
}

TEST(RetryPolicy, TakesTheServersDelayAsItIs) {
  for (const absl::StatusCode code : {absl::StatusCode::kResourceExhausted, absl::StatusCode::kUnavailable}) {
    AttemptOutcome failure = Failure(code);
    failure.details = SerializedRetryDelay(absl::Milliseconds(1234));
    EXPECT_EQ(PolicyWith(0).DelayBefore(3, failure), absl::Milliseconds(1234));
    failure.retry_pushback.emplace("70");  // both are sent; the trailer is gRPC's own word for it
    EXPECT_EQ(PolicyWith(0).DelayBefore(3, failure), absl::Milliseconds(70));
  }
}

TEST(RetryPolicy, TriesNothingElseAgainEvenWithADelay) {
  AttemptOutcome failure = Failure(absl::StatusCode::kInvalidArgument);
  failure.details = SerializedRetryDelay(absl::Milliseconds(1));
  failure.retry_pushback.emplace("1");
  EXPECT_EQ(PolicyWith(0).DelayBefore(1, failure), std::nullopt);
}

TEST(RetryPolicy, APushbackThatIsNegativeOrNoNumberForbidsARetry) {
  AttemptOutcome failure = Failure(absl::StatusCode::kUnavailable);
  for (const std::string pushback : {"-1", "soon", "", "1.5"}) {
    failure.retry_pushback.emplace(pushback);
    EXPECT_EQ(PolicyWith(0).DelayBefore(1, failure), std::nullopt) << pushback;
  }
}

}  // namespace
}  // namespace attend::client
