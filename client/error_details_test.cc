#include "client/error_details.h"

#include <gtest/gtest.h>

#include "client/serialized_details.h"
#include "client/status_payload.h"

namespace attend::client {
namespace {

absl::Status StatusWith(const AttemptOutcome& outcome) {
  absl::Status status = absl::InvalidArgumentError("head_dim is 0");
  AttachDetails(outcome, status);
  return status;
}

TEST(ErrorDetails, GivesFieldReasonValueAndLimit) {
  const auto details = GetErrorDetails(StatusWith(
      {.details = SerializedViolation("query.shape[3]", "DIM_OUT_OF_RANGE", "0", "[1, 1024]"), .request_id = "r7"}));
  ASSERT_TRUE(details.has_value());
  EXPECT_EQ(details->field, "query.shape[3]");
  EXPECT_EQ(details->reason, "DIM_OUT_OF_RANGE");
  EXPECT_EQ(details->value, "0");
  EXPECT_EQ(details->limit, "[1, 1024]");
  EXPECT_EQ(details->request_id, "r7");
  EXPECT_EQ(details->retry_delay, std::nullopt);
}

TEST(ErrorDetails, GivesTheRetryDelay) {
  const auto details = GetErrorDetails(StatusWith({.details = SerializedRetryDelay(absl::Milliseconds(2500))}));
  ASSERT_TRUE(details.has_value());
  EXPECT_EQ(details->retry_delay, absl::Milliseconds(2500));
}

TEST(ErrorDetails, AreAbsentWhereTheServerSentNone) {
  EXPECT_EQ(GetErrorDetails(absl::OkStatus()), std::nullopt);
  EXPECT_EQ(GetErrorDetails(StatusWith({})), std::nullopt);
}

TEST(ErrorDetails, SurviveGarbageAndDetailsOfOtherTypes) {
  const auto garbage = GetErrorDetails(StatusWith({.details = "\xff\xff\xff", .request_id = "r8"}));
  ASSERT_TRUE(garbage.has_value());
  EXPECT_EQ(garbage->reason, "");
  EXPECT_EQ(garbage->request_id, "r8");

  attend::client::v1::Status status;
  attend::client::v1::ErrorInfo reason;
  reason.set_reason("RIGHT");
  status.add_details()->set_type_url("type.googleapis.com/google.rpc.Help");
  AddDetail("google.rpc.BadRequest", attend::client::v1::BadRequest(), status);  // names no field
  status.add_details()->set_value("no type at all");
  AddDetail("google.rpc.ErrorInfo", reason, status);
  EXPECT_EQ(GetErrorDetails(StatusWith({.details = status.SerializeAsString()}))->reason, "RIGHT");
}

}  // namespace
}  // namespace attend::client
