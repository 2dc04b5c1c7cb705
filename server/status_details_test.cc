#include "server/status_details.h"

#include <gtest/gtest.h>

#include <string>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace attend::server {
namespace {

google::rpc::Status Details(const grpc::Status& status) {
  google::rpc::Status details;
  EXPECT_TRUE(details.ParseFromString(status.error_details()));
  return details;
}

// The first detail of type Detail.
template <typename Detail>
std::optional<Detail> Get(const grpc::Status& status) {
  const google::rpc::Status details = Details(status);
  for (const google::protobuf::Any& any : details.details()) {
    Detail detail;
    if (any.UnpackTo(&detail)) return detail;
  }
  return std::nullopt;
}

const core::Violation kViolation = {"query.shape[3]", "DIM_OUT_OF_RANGE", "0", "in [1, 1024]"};

TEST(ToGrpcStatusTest, OkHasNothing) {
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
  EXPECT_EQ(ToGrpcStatus(absl::OkStatus()).error_details(), "");
}

TEST(ToGrpcStatusTest, KeepsEveryCode) {
  for (int code = 1; code <= 16; ++code) {
    const grpc::Status status = ToGrpcStatus(absl::Status(static_cast<absl::StatusCode>(code), "what went wrong"));
    EXPECT_EQ(static_cast<int>(status.error_code()), code);
  }
}

TEST(ToGrpcStatusTest, InvalidArgumentHasReasonAndField) {
  const grpc::Status status = ToGrpcStatus(core::InvalidArgument(kViolation));
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "query.shape[3] is 0, must be in [1, 1024]");
  EXPECT_EQ(Details(status).code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(Details(status).message(), status.error_message());

  const auto reason = Get<google::rpc::ErrorInfo>(status);
  ASSERT_TRUE(reason.has_value());
  EXPECT_EQ(reason->reason(), "DIM_OUT_OF_RANGE");
  EXPECT_EQ(reason->domain(), "attend.v1");
  EXPECT_EQ(reason->metadata().at("value"), "0");
  EXPECT_EQ(reason->metadata().at("limit"), "in [1, 1024]");

  const auto bad_request = Get<google::rpc::BadRequest>(status);
  ASSERT_TRUE(bad_request.has_value());
  ASSERT_EQ(bad_request->field_violations_size(), 1);
  EXPECT_EQ(bad_request->field_violations(0).field(), "query.shape[3]");
  EXPECT_EQ(bad_request->field_violations(0).description(), status.error_message());
  EXPECT_FALSE(Get<google::rpc::RetryInfo>(status).has_value());
}

TEST(ToGrpcStatusTest, DetailsAreUnderTheTypeUrlsThatEveryLanguageKnows) {
  const google::rpc::Status details = Details(ToGrpcStatus(core::InvalidArgument(kViolation)));
  EXPECT_EQ(details.details(0).type_url(), "type.googleapis.com/google.rpc.ErrorInfo");
  EXPECT_EQ(details.details(1).type_url(), "type.googleapis.com/google.rpc.BadRequest");
}

TEST(ToGrpcStatusTest, EveryInvalidArgumentHasDetails) {
  const grpc::Status status = ToGrpcStatus(absl::InvalidArgumentError("wrong"));
  EXPECT_EQ(Get<google::rpc::ErrorInfo>(status)->reason(), "INVALID_REQUEST");
  EXPECT_EQ(Get<google::rpc::BadRequest>(status)->field_violations(0).description(), "wrong");
}

TEST(ToGrpcStatusTest, OtherCodesCarryAViolationToo) {
  const grpc::Status status =
      ToGrpcStatus(StatusWithViolation(absl::StatusCode::kUnimplemented, kViolation, "not computed"));
  EXPECT_EQ(status.error_code(), grpc::UNIMPLEMENTED);
  EXPECT_EQ(status.error_message(), "not computed");
  EXPECT_EQ(Get<google::rpc::ErrorInfo>(status)->reason(), "DIM_OUT_OF_RANGE");
}

TEST(ToGrpcStatusTest, RetryDelayIsThereExactlyIfGiven) {
  const absl::Status full = absl::ResourceExhaustedError("full");
  const auto retry =
      Get<google::rpc::RetryInfo>(ToGrpcStatus(full, {.request_id = "", .retry_delay = absl::Milliseconds(1250)}));
  ASSERT_TRUE(retry.has_value());
  EXPECT_EQ(retry->retry_delay().seconds(), 1);
  EXPECT_EQ(retry->retry_delay().nanos(), 250'000'000);
  EXPECT_EQ(ToGrpcStatus(full).error_details(), "");
}

TEST(ToGrpcStatusTest, WithholdsWhatIsOurFault) {
  for (const absl::StatusCode code :
       {absl::StatusCode::kInternal, absl::StatusCode::kUnknown, absl::StatusCode::kDataLoss}) {
    const grpc::Status status =
        ToGrpcStatus(absl::Status(code, "secret pointer 0x1234"), {.request_id = "the-id", .retry_delay = {}});
    EXPECT_EQ(status.error_message().find("secret"), std::string::npos);
    EXPECT_NE(status.error_message().find("the-id"), std::string::npos);
    EXPECT_EQ(status.error_details(), "");
  }
}

TEST(ToGrpcStatusTest, HostileTextsStaySmallAndPrintable) {
  const std::string hostile = std::string(100'000, '\xff') + std::string("\0\n\r", 3);
  const core::Violation violation = {hostile, hostile, hostile, hostile};
  const grpc::Status status =
      ToGrpcStatus(core::InvalidArgument(violation, hostile), {.request_id = hostile, .retry_delay = absl::Hours(1)});
  EXPECT_LE(status.error_message().size(), 512U);
  EXPECT_LT(status.error_details().size(), 2048U);
  EXPECT_EQ(status.error_message().substr(status.error_message().size() - 3), "...");
  const google::rpc::Status details = Details(status);  // proto3 strings parse only if they are UTF-8
  EXPECT_EQ(details.details_size(), 3);
  EXPECT_TRUE(Get<google::rpc::ErrorInfo>(status).has_value());
  EXPECT_TRUE(Get<google::rpc::BadRequest>(status).has_value());
  for (const char c : status.error_message()) EXPECT_TRUE(c >= 0x20 && c < 0x7f);
}

TEST(ToGrpcStatusTest, ShortTextsStayWhole) {
  const std::string just_fits(512, 'x');
  EXPECT_EQ(ToGrpcStatus(absl::NotFoundError(just_fits)).error_message(), just_fits);
}

}  // namespace
}  // namespace attend::server
